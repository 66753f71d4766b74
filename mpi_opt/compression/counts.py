"""Checks of operator parameters: how many entries to keep, how many bits a value takes."""

from fractions import Fraction

from mpi_opt.errors import JobError


def check_kept(k: object) -> None:
    """Check ``k``: an integer of at least 1, or a share of the dimension such as ``"1%"``.

    Raises
    ------
    JobError
        Anything else.
    """
    if isinstance(k, str):
        _share(k)
    elif isinstance(k, bool) or not isinstance(k, int):
        raise JobError(f'compressor.k = {k!r}: must be an integer of at least 1 or a share such as "1%"')
    elif k < 1:
        raise JobError(f"compressor.k = {k}: must be at least 1")


def kept(k: int | str, dim: int) -> int:
    """Return the number of entries to keep of ``dim``.

    A share is rounded to the nearest integer (half to even) and is at least 1: 1 % of 270,896 is 2,709.

    Raises
    ------
    JobError
        ``k`` is larger than ``dim``.
    """
    if isinstance(k, str):
        return max(1, round(_share(k) * dim))
    if k > dim:
        raise JobError(f"compressor.k = {k}: must be between 1 and the dimension, {dim}")
    return k


def _share(text: str) -> Fraction:
    try:
        share = Fraction(text.strip().removesuffix("%").strip()) / 100
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not text.strip().endswith("%") or not 0 < share <= 1:
        raise JobError(f'compressor.k = {text!r}: a share must be above "0%" and at most "100%", such as "1%"')
    return share


def check_value_bits(value_bits: object) -> None:
    """Check that ``value_bits`` is 32 or 64; raises ``JobError`` otherwise."""
    if isinstance(value_bits, bool) or value_bits not in (32, 64):
        raise JobError(f"compressor.value_bits = {value_bits!r}: must be 32 or 64")


def check_levels(levels: object) -> None:
    """Check that ``levels`` is an integer in 1..65535; raises ``JobError`` otherwise."""
    if isinstance(levels, bool) or not isinstance(levels, int) or not 1 <= levels <= 65535:
        raise JobError(f"compressor.levels = {levels!r}: must be an integer between 1 and 65535")
