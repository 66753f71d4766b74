"""Networks as people write them: a name, latency and bandwidth with units, or a file of measurements."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from mpi_opt.errors import JobError
from mpi_opt.scaling.cost import PROFILES, NetworkProfile
from mpi_opt.words import nearest

_SECONDS: Mapping[str, float] = MappingProxyType({"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9})
_PREFIXES: Mapping[str, float] = MappingProxyType({"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9})
_BYTES_A_SECOND: Mapping[str, float] = MappingProxyType(
    {
        f"{prefix}{unit}": size * scale
        for prefix, size in _PREFIXES.items()
        for unit, scale in (("bit", 0.125), ("bit/s", 0.125), ("B/s", 1.0))
    }
)
_UNITS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {"latency": _SECONDS, "bandwidth": _BYTES_A_SECOND, "overhead": _SECONDS}
)
_SPOKEN: Mapping[str, str] = MappingProxyType(
    {"latency": "s, ms, us or ns", "bandwidth": "bit/s or B/s with k, M or G before it", "overhead": "s, ms, us or ns"}
)
_SLOWEST, _LONGEST = 1e-3, 1e9
"""Bytes a second and seconds: what is beyond them makes sums of times that are no numbers."""
_NUMBER = re.compile(r"\s*([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]+)\s*\Z")


def allowed() -> str:
    """Return what a network may be written as, for messages and help."""
    return f"{', '.join(PROFILES)}, latency=20ms,bandwidth=100Mbit, or a .json of mpi-opt info --network --json"


def parse_profile(text: str) -> tuple[str, NetworkProfile]:
    """Return a network's name and its figures.

    Parameters
    ----------
    text : str
        A name of `PROFILES`; the name of a file ending in ``.json`` (`read_network`); or
        ``latency=TIME,bandwidth=RATE`` and, where wanted, ``overhead=TIME``. Times are in s, ms, us or ns; rates in
        bit/s (also written bit) or B/s, with decimal prefixes k, M, G: ``latency=20ms,bandwidth=100Mbit``.

    Returns
    -------
    name : str
        The name; of a file, its own without folder and ending; of figures, the text without blanks.
    profile : NetworkProfile

    Raises
    ------
    JobError
        None of them: names the part and what is allowed. The caller adds the place.
    """
    if text in PROFILES:
        return text, PROFILES[text]
    if text.endswith(".json"):
        from mpi_opt.scaling.fitted import read_network  # with NumPy, which help and job files do without

        return Path(text).stem, read_network(text).profile
    if "=" not in text:
        raise JobError(f"network {text!r} is not known{nearest(text, PROFILES)}; allowed: {allowed()}")
    found: dict[str, float] = {}
    for part in text.split(","):
        key, sign, value = (word.strip() for word in part.partition("="))
        if key not in _UNITS or not sign:
            raise JobError(f"network {text!r}: {part.strip()!r}{nearest(key, _UNITS)}; allowed: {allowed()}")
        if key in found:
            raise JobError(f"network {text!r}: {key} is given twice")
        found[key] = _quantity(text, key, value)
    missing = [key for key in ("latency", "bandwidth") if key not in found]
    if missing:
        raise JobError(f"network {text!r}: {missing[0]} is missing; allowed: {allowed()}")
    profile = NetworkProfile(found["latency"], found["bandwidth"], found.get("overhead", 0.0))
    return "".join(text.split()), profile


def figures_of(profile: NetworkProfile) -> str:
    """Return the text for which `parse_profile` gives the same latency, bandwidth and overhead, to the last bit."""
    text = f"latency={profile.latency!r}s,bandwidth={profile.bandwidth!r}B/s"
    return text + (f",overhead={profile.overhead!r}s" if profile.overhead else "")


def _quantity(text: str, key: str, value: str) -> float:
    """Return ``value`` of ``key`` in seconds or bytes a second."""
    match, units = _NUMBER.match(value), _UNITS[key]
    if match is None or match[2] not in units:
        raise JobError(f"network {text!r}: {key} {value!r}: allowed: a number and its unit, {_SPOKEN[key]}")
    quantity = float(match[1]) * units[match[2]]
    if key == "bandwidth" and not (_SLOWEST <= quantity < math.inf):
        raise JobError(f"network {text!r}: {key} {value!r}: allowed: a finite number, {_SLOWEST:g} B/s or more")
    if key != "bandwidth" and quantity > _LONGEST:
        raise JobError(f"network {text!r}: {key} {value!r}: allowed: a finite number, at most {_LONGEST:g} s")
    return quantity
