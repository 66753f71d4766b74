"""Where views are shown: redrawn in place on a terminal, appended as lines elsewhere."""

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol, Self, TextIO

from mpi_opt.watch.draw import block, line, status
from mpi_opt.watch.look import View

_COLOURS = {"running": "32", "waiting": "33", "silent": "33", "killed": "31", "ended": "1"}


class Display(Protocol):
    """Shows views while it is entered."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        ...

    def show(self, views: Sequence[View]) -> None:
        """Show the views, one a run."""
        ...


def display(out: TextIO, environ: Mapping[str, str]) -> Display:
    """Return the display for a stream: in place only on a terminal that can, and where colours are not refused."""
    dumb = environ.get("TERM", "") in ("", "dumb") or bool(environ.get("NO_COLOR"))
    return Lines(out) if dumb or not out.isatty() else Screen(out)


def draws_blocks(out: TextIO) -> bool:
    """Return whether a stream's encoding has block characters."""
    try:
        "▁█░".encode(out.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def write(out: TextIO, text: str) -> None:
    """Write text at once; what the encoding lacks becomes a question mark."""
    encoding = out.encoding or "ascii"
    out.write(text.encode(encoding, errors="replace").decode(encoding))
    out.flush()


class Lines:
    """Plain lines, appended: one for each new row, one for each change of state."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._said: dict[Any, Any] = {}

    def __enter__(self) -> Self:
        """Return the display."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""

    def show(self, views: Sequence[View]) -> None:
        """Write what is new."""
        for view in views:
            begin = f"{os.path.relpath(view.folder)}: " if len(views) > 1 else ""
            step = int(view.last.get("step", -1))
            before = self._said.get((view.folder, "step"), -1)
            if step < before and view.last:
                self._say(begin + f"taken up again at step {step}, or begun anew")
            new = [("step", step, line)] if view.last else []
            kind = view.state if view.state != "running" else status(view)
            for key, value, words in [*new, ("state", kind, status), ("trouble", view.trouble, _trouble)]:
                if self._said.get((view.folder, key), "") != value:
                    self._said[view.folder, key] = value
                    text = words(view)
                    if text:
                        self._say(begin + text)

    def _say(self, text: str) -> None:
        write(self._out, text + "\n")


def _trouble(view: View) -> str:
    return f"cannot be read now: {view.trouble}" if view.trouble else ""


class Screen:
    """Some lines of a terminal, drawn anew in place by the few ANSI sequences that every terminal knows."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._blocks = out, draws_blocks(out)
        self._drawn, self._size = 0, shutil.get_terminal_size()
        self._before: Any = None

    def __enter__(self) -> Self:
        """Hide the cursor; a SIGTERM from now on brings it back before it ends us."""

        def end(number: int, _frame: FrameType | None) -> NoReturn:
            raise SystemExit(128 + number)

        self._before = signal.signal(signal.SIGTERM, end)
        write(self._out, "\x1b[?25l")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show the cursor below what was drawn."""
        write(self._out, "\x1b[?7h\x1b[?25h")
        signal.signal(signal.SIGTERM, self._before)

    def show(self, views: Sequence[View]) -> None:
        """Draw over what was drawn before."""
        size = shutil.get_terminal_size()
        lines: list[tuple[str, str]] = []
        for view in views:
            if lines:
                lines.append(("", ""))
            told = block(view, blocks=self._blocks)
            lines += [(text, _COLOURS[view.state] if index == 1 else "") for index, text in enumerate(told)]
        room = max(1, size.lines - 1)
        if len(lines) > room:
            lines = [*lines[: room - 1], ("...", "")]
        # A terminal that was made narrower has broken the old lines anew: how many they are now is not known.
        start = "\x1b[2J\x1b[H" if size != self._size else f"\x1b[{self._drawn}F" if self._drawn else ""
        body = "".join(f"{_coloured(text[: size.columns], colour)}\x1b[K\n" for text, colour in lines)
        write(self._out, f"{start}\x1b[?7l{body}\x1b[?7h\x1b[J")
        self._drawn, self._size = len(lines), size


def _coloured(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text
