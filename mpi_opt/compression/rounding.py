"""Rounding of values to what travels, before anybody adds them; numbers that do not fit end the run."""

import numpy as np

from mpi_opt.draws import Key
from mpi_opt.errors import DivergedError
from mpi_opt.types import Vector

_TO_INFINITY = 2.0**128 - 2.0**103
"""The least double that rounds to infinity in fp32."""


def _diverged(value: float, value_bits: int, key: Key) -> DivergedError:
    remedy = "lower algorithm.step_size or algorithm.consensus_rate"
    if value_bits == 32 and np.isfinite(value):
        remedy += ", or set value_bits = 64 of the compressor"
    return DivergedError(
        f"node {key.node}, exchange {key.step}: the difference to be sent holds {value!r}, which is no finite "
        f"number of {value_bits} bits; {remedy}"
    )


def round_values(values: Vector, value_bits: int, key: Key) -> Vector:
    """Return ``values`` rounded to ``value_bits``, as a new float64 array of the same shape.

    Magnitudes below half the smallest fp32 number (7.0e-46) become zero.

    Raises
    ------
    DivergedError
        A value is NaN, infinite, or beyond the largest number of ``value_bits``; names it, the node and the exchange.
    """
    if value_bits == 64:
        rounded = values.copy()
        finite = np.isfinite(rounded)
    else:
        with np.errstate(over="ignore", under="ignore"):
            single = values.astype(np.float32)
        finite = np.isfinite(single)
        rounded = single.astype(np.float64)
    if not finite.all():
        raise _diverged(float(values[np.argmin(finite)]), value_bits, key)
    return rounded


def round_scale(scale: float, value_bits: int, key: Key) -> float:
    """Return the non-negative ``scale`` rounded to ``value_bits``; raises like `round_values`."""
    if not scale < (_TO_INFINITY if value_bits == 32 else np.inf):
        raise _diverged(scale, value_bits, key)
    return float(np.float32(scale)) if value_bits == 32 else float(scale)
