"""One address into one file: gone on with where it broke off, tried again where that may help, never hanging."""

import http.client
import re
import ssl
import time
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit
from urllib.request import OpenerDirector, Request

from mpi_opt.datasets.part import Part, State
from mpi_opt.datasets.web import RefusedError, asked_wait, opener, printable, validator

CHUNK = 1 << 18
PROGRESS = 1 << 20
"""Bytes that an attempt must have brought for the count of failures to begin anew."""
LONGEST_WAIT = 30.0
SLOWEST = 1000
"""Bytes that must come within each time-out: an answer that only drips is one that hangs."""
_PASSING = (408, 425, 429)
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)$")


class _PassingError(Exception):
    """May be better next time; ``wait`` is what the server asks for, in seconds."""

    def __init__(self, what: object, wait: float = 0.0) -> None:
        super().__init__(str(what))
        self.wait = wait


class Watch(Protocol):
    """Who is told how it goes."""

    def say(self, text: str) -> None:
        """Show a line."""
        ...

    def begin(self, what: str, done: int, total: int | None) -> None:
        """Start to show the bytes of a file, of which ``done`` are there."""
        ...

    def advance(self, nbytes: int) -> None:
        """Show that so many more have come."""
        ...

    def end(self) -> None:
        """End what `begin` started, if it did."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """When to give up.

    ``timeout`` is in seconds without an answer, ``retries`` in a row, ``wait`` in seconds before the first of them; it
    doubles with each.
    """

    timeout: float = 30.0
    retries: int = 5
    wait: float = 1.0


def download(
    address: str,
    part: Part,
    expected: int | None,
    checked: bool,
    patience: Patience,
    watch: Watch,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Bring the file at ``address`` into ``part``.

    Parameters
    ----------
    address : str
        http, https, or a ``file:`` address, which is copied.
    part : Part
        Open; what an earlier attempt at this address left in it is kept where that is safe.
    expected : int or None
        Bytes that the file must have.
    checked : bool
        Its sum is compared afterwards, so that pieces of two versions cannot pass for the file.
    patience, watch, sleep
        When to give up; who is told; how to wait.

    Returns
    -------
    bool
        Whether a piece that was there before was kept.

    Raises
    ------
    RefusedError
        The address does not give the file.
    DataError
        ``part`` cannot be written.
    """
    if address.startswith("file:"):
        _copy(address, part, expected, watch)
        return False
    web, failures, resumed = opener(), 0, False
    while True:
        before = part.size
        try:
            return _attempt(web, address, part, expected, checked, patience, watch) or resumed
        except _PassingError as error:
            resumed = resumed or part.size > 0
            failures = 1 if part.size - before >= PROGRESS else failures + 1
            if failures > patience.retries:
                raise RefusedError(f"{error}; given up after {failures} attempts in a row") from error
            wait = max(error.wait, min(patience.wait * 2.0 ** (failures - 1), LONGEST_WAIT))
            watch.say(f"{address}: {error}; attempt {failures + 1} in {wait:.3g} s")
            sleep(wait)
        finally:
            watch.end()


def _attempt(
    web: OpenerDirector,
    address: str,
    part: Part,
    expected: int | None,
    checked: bool,
    patience: Patience,
    watch: Watch,
) -> bool:
    """Ask once; return whether a piece was kept."""
    state = part.state
    have = part.size if state is not None and state.address == address and (state.validator or checked) else 0
    if state is not None and have and have == state.total:
        return True  # ended between the last byte and the check
    headers = {"User-Agent": "mpi-opt", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if state is not None and state.validator:
            headers["If-Range"] = state.validator
    try:
        with web.open(Request(address, headers=headers), timeout=patience.timeout) as response:
            kept, total = _begin(response, address, part, have)
            if expected is not None and total not in (None, expected):
                raise RefusedError(f"gives {total} bytes, the card says {expected}")
            watch.begin(part.path.name, part.size, total)
            _pump(response, part, total if expected is None else expected, patience.timeout, watch)
            if total is not None and part.size < total:
                raise _PassingError(f"the answer ended after {part.size} of {total} bytes")
            return kept
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:
            part.restart(None)
            raise _PassingError("there is nothing behind what was kept; it is dropped") from error
        if error.code >= 500 or error.code in _PASSING:
            raise _PassingError(
                f"HTTP {error.code} {printable(error.reason)}", asked_wait(error.headers, LONGEST_WAIT)
            ) from error
        raise RefusedError(f"HTTP {error.code} {printable(error.reason)}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError) or "unknown url type" in str(error.reason):
            raise RefusedError(str(error.reason)) from error
        raise _PassingError(_words(error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise _PassingError(_words(error)) from error


class _Begun(NamedTuple):
    kept: bool
    total: int | None


def _begin(response: Any, address: str, part: Part, have: int) -> _Begun:
    """Bring ``part`` to where the answer goes on, or empty it where that is the start."""
    told = response.headers
    version = validator(told)
    if response.status == 206:
        match = _RANGE.match(told.get("Content-Range", ""))
        asked = part.state
        changed = asked is not None and bool(asked.validator and version) and asked.validator != version
        if match is None or not have or int(match[1]) != have or changed:
            part.restart(None)
            raise _PassingError("the answer does not go on where the file broke off; it is taken from the start")
        return _Begun(True, None if match[3] == "*" else int(match[3]))
    if response.status != 200:
        raise RefusedError(f"HTTP {response.status} {printable(response.reason)}")
    length = told.get("Content-Length", "")
    total = int(length) if length.isdecimal() else None
    part.restart(State(address, version, total))
    return _Begun(False, total)


def _pump(response: Any, part: Part, most: int | None, timeout: float, watch: Watch) -> None:
    """Write what comes, as it comes, ``most`` bytes altogether."""
    since, came = time.monotonic(), 0
    while data := response.read1(CHUNK):
        part.write(data)
        watch.advance(len(data))
        if most is not None and part.size > most:
            part.restart(None)
            raise RefusedError(f"gives more than {most} bytes")
        came += len(data)
        if (now := time.monotonic()) - since > timeout:
            if came < SLOWEST:
                raise _PassingError(f"only {came} bytes came in {timeout:g} s")
            since, came = now, 0


def _copy(address: str, part: Part, expected: int | None, watch: Watch) -> None:
    """Copy a file of this machine."""
    path = unquote(urlsplit(address).path)
    try:
        with open(path, "rb") as source:
            total = source.seek(0, 2)
            source.seek(0)
            if expected is not None and total != expected:
                raise RefusedError(f"has {total} bytes, the card says {expected}")
            part.restart(None)
            watch.begin(part.path.name, 0, total)
            while data := source.read(CHUNK):
                part.write(data)
                watch.advance(len(data))
    except OSError as error:
        raise RefusedError(error.strerror or str(error)) from error
    finally:
        watch.end()


def _words(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return printable(f"{type(error).__name__}: {error}")
