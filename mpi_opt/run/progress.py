"""What a person sees while a run goes on: a bar on a terminal, plain flushed lines elsewhere; only from one process."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TextIO

from mpi_opt.errors import MpiOptError
from mpi_opt.run.stop import StopRules


class Progress(Protocol):
    """Shown progress."""

    def show(self, row: Mapping[str, float]) -> None:
        """Show the figures of one evaluation (names of ``metrics.schema.SERIES``)."""
        ...

    def say(self, text: str) -> None:
        """Show one line of text."""
        ...

    def close(self) -> None:
        """End the display."""
        ...


class Silent:
    """Shows nothing: all processes but the first, and library use."""

    def show(self, row: Mapping[str, float]) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


def figures(row: Mapping[str, float]) -> str:
    """Return the figures of an evaluation in one line; what is unknown (NaN) is left out."""
    mean, worst = row["objective_mean"], row["objective_worst"]
    parts = [f"objective {row['objective_average']:.6g} (mean {mean:.6g}, worst {worst:.6g})"]
    if row["test_error_average"] == row["test_error_average"]:
        parts.append(f"test error {row['test_error_average']:.2%} (worst {row['test_error_worst']:.2%})")
    elif row["train_error_average"] == row["train_error_average"]:
        parts.append(f"train error {row['train_error_average']:.2%}")
    parts.append(f"node 0 sent {size(row['payload_bytes'] + row['header_bytes'])}")
    return "  ".join(parts)


def size(nbytes: float) -> str:
    """Return a number of bytes for people, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000 or unit == "GB":
            break
        nbytes /= 1000
    return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.3g} {unit}"


def spoken_seconds(seconds: float, *, simulated: bool = False) -> str:
    """Return seconds for people; simulated ones may be very few or very many."""
    return f"{seconds:.4g} simulated s" if simulated else f"{seconds:.2f} s"


class Lines:
    """Plain lines, flushed one by one: a batch log is never empty for hours."""

    def __init__(self, write: Callable[[str], None], *, simulated: bool = False) -> None:
        self._write, self._simulated = write, simulated

    def show(self, row: Mapping[str, float]) -> None:
        """Write one line."""
        clock = spoken_seconds(row["seconds"], simulated=self._simulated)
        width = 21 if self._simulated else 10
        self._write(f"step {int(row['step']):>7}  round {int(row['round']):>6}  {clock:>{width}}  {figures(row)}")

    def say(self, text: str) -> None:
        """Write ``text``."""
        self._write(text)

    def close(self) -> None:
        """Nothing is held."""


class Bar:
    """A bar on a terminal; figures stand behind it."""

    def __init__(self, rules: StopRules, log: Callable[[str], None], *, simulated: bool = False) -> None:
        from tqdm import tqdm

        self._bar: Any = tqdm(total=rules.steps, unit="step", file=sys.stderr, dynamic_ncols=True, leave=True)
        self._lines = Lines(log, simulated=simulated)

    def show(self, row: Mapping[str, float]) -> None:
        """Move the bar on."""
        self._bar.set_postfix_str(figures(row), refresh=False)
        self._bar.update(int(row["step"]) - self._bar.n)
        self._lines.show(row)

    def say(self, text: str) -> None:
        """Write ``text`` above the bar."""
        self._bar.write(text, file=sys.stdout)
        self._lines.say(text)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.close()


def progress(kind: str, rules: StopRules, log: TextIO | None, *, simulated: bool = False) -> Progress:
    """Return how progress is shown; it is written to ``log`` too.

    Parameters
    ----------
    kind : {"auto", "bar", "lines", "none"}
        "auto" is a bar where standard error is a terminal, else lines. Launchers put a pipe between a rank and the
        terminal, so that under ``mpiexec`` a bar has to be asked for.
    rules : StopRules
        For the bar's length.
    log : text stream or None
        Given up, and closed, by the first line that it cannot take: this raises `MpiOptError`, later ones are left out.
    simulated : bool, optional
        The run's seconds are simulated ones.
    """

    def to_log(text: str) -> None:
        if log is None or log.closed:  # closed: given up below, which was told then
            return
        try:
            log.write(text + "\n")
            log.flush()
        except OSError as error:
            with suppress(OSError):
                log.close()  # now: what it could not write would fail it again wherever it is closed
            raise MpiOptError(f"{log.name} cannot be written: {error.strerror or error}; is the disk full?") from error

    def to_both(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        to_log(text)

    if kind == "bar" or (kind == "auto" and sys.stderr.isatty()):
        return Bar(rules, to_log, simulated=simulated)
    return Lines(to_log if kind == "none" else to_both, simulated=simulated)
