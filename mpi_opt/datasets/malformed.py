"""What is wrong with a field of a LIBSVM line, in words."""

import re

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_SHOWN = 60


def explain(field: str, is_label: bool, previous: str | None, index_base: int) -> str:
    """Return why a field is refused, what it says and what is allowed.

    Parameters
    ----------
    field : str
        The malformed field as it stands in the file.
    is_label : bool
        Whether it is the line's first.
    previous : str or None
        The feature before it in the line.
    index_base : int
        Smallest index allowed.
    """
    shown = repr(field if len(field) <= _SHOWN else field[:_SHOWN] + "...")
    if is_label:
        return _explain_label(field, shown)
    index, colon, value = field.partition(":")
    if not colon:
        return f"{shown} has no colon; a feature is index:value, as in 3:0.5"
    if re.fullmatch(r"-\d+", index, re.ASCII):
        return f"index in {shown} is negative; indices count from {index_base}"
    if not re.fullmatch(r"\d+", index, re.ASCII):
        return f"index in {shown} is not a whole number; a feature is index:value, as in 3:0.5"
    if len(index) > 19 or int(index) > 2**31 - 1:
        return f"index in {shown} is too large; the largest allowed is {2**31 - 1}"
    if int(index) < index_base:
        return (
            f"index {index} in {shown} in a file whose indices should count from {index_base}; "
            "if this file counts from 0, say index_base = 0"
        )
    before = None if previous is None else previous.partition(":")[0]
    if before is not None and before.isdecimal() and int(index) <= int(before):
        how = "repeats index" if int(index) == int(before) else "comes after index"
        return f"{shown} {how} {before}; indices must ascend within a line"
    return f"value {_explain_number(value)} in {shown}"


def _explain_label(field: str, shown: str) -> str:
    if "," in field:
        return (
            f"label {shown}: several labels, or text parted by commas; allowed is one number, then index:value fields"
        )
    if ":" in field:
        return f"{shown} stands where the label should be; a line begins with its label, a number"
    return f"label {_explain_number(field)}"


def _explain_number(text: str) -> str:
    shown = repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
    if _NOT_FINITE.fullmatch(text):
        return f"{shown} is not finite; missing and infinite values are not allowed, leave them out or repair them"
    if _NUMBER.fullmatch(text):
        return f"{shown} is beyond the range of doubles (about 1.8e308)"
    return f"{shown} is not a number; allowed are decimals such as 1, -0.5, 2e-3"
