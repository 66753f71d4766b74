"""What can be wrong with LIBSVM text, by kind and in words."""

from enum import IntEnum

_SHOWN = 60
_LABEL_REMEDY = 'mend it, or leave such rows out with nan = "drop-row"'
_VALUE_REMEDY = 'mend it, leave such rows out with nan = "drop-row", or take 0 for it with nan = "zero"'
_FEATURE = "a feature is index:value, as in 3:0.5"


class Kind(IntEnum):
    """Kinds of fault, the one named first where a field has several; ``slug`` is the word for programs."""

    NONE = 0
    BINARY = 1
    COMMA_SEPARATED = 2
    SEVERAL_LABELS = 3
    LABEL_MISSING = 4
    LABEL_NOT_FINITE = 5
    LABEL_TOO_LARGE = 6
    LABEL_NO_NUMBER = 7
    NO_COLON = 8
    NEGATIVE_INDEX = 9
    INDEX_NO_NUMBER = 10
    INDEX_TOO_LARGE = 11
    INDEX_BELOW_BASE = 12
    INDEX_REPEATED = 13
    INDEX_DESCENDS = 14
    VALUE_NOT_FINITE = 15
    VALUE_TOO_LARGE = 16
    VALUE_NO_NUMBER = 17
    CONFLICTING_BASES = 18
    UNREADABLE = 19
    NO_ROWS = 20

    @property
    def slug(self) -> str:
        """Return the kind as in ``index-below-base``."""
        return self.name.lower().replace("_", "-")


LABELS_NOT_FINITE = (Kind.LABEL_NOT_FINITE, Kind.LABEL_TOO_LARGE)
VALUES_NOT_FINITE = (Kind.VALUE_NOT_FINITE, Kind.VALUE_TOO_LARGE)


def explain(kind: Kind, field: str, previous: str | None, index_base: int) -> str:
    """Return why a field is refused, what it says and what is allowed.

    Parameters
    ----------
    kind : Kind
    field : str
        The malformed field as it stands in the file.
    previous : str or None
        The feature before it in the line.
    index_base : int
        Smallest index allowed.
    """
    shown = _show(field)
    index, _, value = field.partition(":")
    before = "" if previous is None else previous.partition(":")[0]
    match kind:
        case Kind.BINARY:
            return f"{shown} holds bytes that are no text; the file is binary or damaged"
        case Kind.COMMA_SEPARATED:
            return (
                f"{shown}: text parted by commas; allowed is a label, then index:value fields parted by blanks "
                "(a table, CSV, is read as such where the file is called .csv)"
            )
        case Kind.SEVERAL_LABELS:
            return f"label {shown}: several labels; allowed is one number, then index:value fields"
        case Kind.LABEL_MISSING:
            return f"{shown} stands where the label should be; a line begins with its label, a number"
        case Kind.LABEL_NOT_FINITE:
            return f"label {shown} is not finite; {_LABEL_REMEDY}"
        case Kind.LABEL_TOO_LARGE:
            return f"label {shown} is beyond the range of doubles (about 1.8e308); {_LABEL_REMEDY}"
        case Kind.LABEL_NO_NUMBER:
            return f"label {shown} is not a number; allowed are decimals such as 1, -0.5, 2e-3"
        case Kind.NO_COLON:
            return f"{shown} has no colon; {_FEATURE}"
        case Kind.NEGATIVE_INDEX:
            return f"index in {shown} is negative; indices count from {index_base}"
        case Kind.INDEX_NO_NUMBER:
            return f"index in {shown} is not a whole number; {_FEATURE}"
        case Kind.INDEX_TOO_LARGE:
            return f"index in {shown} is too large; the largest allowed is {2**31 - 1}"
        case Kind.INDEX_BELOW_BASE:
            return (
                f"index {index} in {shown}, but indices should count from {index_base}; if they count from 0, "
                'say index_base = 0, or index_base = "auto" to go by the training files'
            )
        case Kind.INDEX_REPEATED:
            return f"{shown} repeats index {before}; indices must ascend within a line"
        case Kind.INDEX_DESCENDS:
            return f"{shown} comes after index {before}; indices must ascend within a line"
        case Kind.VALUE_NOT_FINITE:
            return f"value {_show(value)} in {shown} is not finite; {_VALUE_REMEDY}"
        case Kind.VALUE_TOO_LARGE:
            return f"value {_show(value)} in {shown} is beyond the range of doubles (about 1.8e308); {_VALUE_REMEDY}"
        case _:
            return f"value {_show(value)} in {shown} is not a number; allowed are decimals such as 1, -0.5, 2e-3"


def _show(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
