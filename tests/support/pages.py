"""Pages that are run: their blocks in order, commands as a reader types them, and output held against what is shown.

- A block whose first line is ``# NAME.toml`` or ``# NAME.py`` is the file NAME, saved as the reader would.
- A ``sh`` block is run in a folder that the page's blocks share.
- A block without a language right behind it is what it prints. ``...`` alone stands for any lines, at the end of a line
  for the rest of it. Numbers agree to 1e-4, words to the letter; seconds and norms of gradients are not compared.
"""

import math
import os
import re
import shlex
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path

from support.mpirun import Result, find_launcher, run_command

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\S+\.(?:toml|py))\n")
_VARIES = re.compile(r"\d\S* s\b|(?<=gradient norm )\S+")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page: its language ("" for output) and its text."""

    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page, in order."""
    return [Block(*found) for found in _BLOCK.findall(page.read_text())]


def agree(shown: str, printed: str) -> bool:
    """Return whether a line is as shown: same words, numbers within 1e-4 of each other."""
    shown, printed = (_VARIES.sub("#", line) for line in (shown, printed))
    ours, theirs = shown.split(), printed.split()
    if ours and ours[-1] == "...":
        ours.pop()
        theirs = theirs[: len(ours)]
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(shown: str, printed: str) -> bool:
    if shown == printed:
        return True
    numbers = [re.fullmatch(r"\W*?([-+]?[\d.,]+(?:e[-+]?\d+)?)(\D*)", word) for word in (shown, printed)]
    if None in numbers or numbers[0][2] != numbers[1][2]:
        return False
    try:
        first, second = (float(found[1].rstrip(".,").replace(",", "")) for found in numbers)
    except ValueError:
        return False
    return math.isclose(first, second, rel_tol=1e-4)


def missing(shown: str, printed: str) -> str | None:
    """Return the first line that is shown and was not printed where it is shown, or None."""
    lines, at, loose = printed.splitlines(), 0, False
    for line in shown.splitlines():
        if line == "...":
            loose = True
            continue
        end = len(lines) if loose else min(at + 1, len(lines))
        found = next((i for i in range(at, end) if agree(line, lines[i])), None)
        if found is None:
            return line
        at, loose = found + 1, False
    return None if loose or at == len(lines) else f"(nothing more, but printed was: {lines[at]})"


@dataclass(frozen=True, slots=True)
class Reader:
    """Someone who types commands in a folder.

    Attributes
    ----------
    folder : Path
        Where the commands run.
    tools : Path
        An empty folder, for ``mpi-opt``, ``mpiexec`` and ``python`` of this environment.
    env : dict
        Added to the environment.
    """

    folder: Path
    tools: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        launcher, own = find_launcher(), Path(sys.executable).with_name("mpi-opt")
        assert launcher is not None
        self.tools.mkdir(exist_ok=True)
        self._tool("python", sys.executable)
        self._tool("mpi-opt", *([str(own)] if own.exists() else [sys.executable, "-m", "mpi_opt"]))
        self._tool("mpiexec", launcher.path, *launcher.flags())

    def _tool(self, name: str, *command: str) -> None:
        path = self.tools / name
        path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def types(self, text: str, timeout: float = 200, ranks: int = 4) -> str:
        """Run ``text`` in a shell and return what it printed; an AssertionError where a command fails or warns."""
        launcher = find_launcher()
        assert launcher is not None
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        env = {**os.environ, **threads, "PYTHONWARNINGS": "error", **launcher.environment(ranks), **self.env}
        env["PATH"] = f"{self.tools}{os.pathsep}{env['PATH']}"
        done: Result = run_command(["sh", "-e", "-c", text], env, self.folder, timeout)
        return done.check().output

    def follow(self, page: list[Block], stand_ins: dict[str, str], timeout: float = 200) -> int:
        """Do what the blocks say, with ``stand_ins`` for commands that reach the web; return how many commands ran."""
        ran = 0
        for block, behind in zip(page, [*page[1:], None], strict=True):
            named = _FILE.match(block.text)
            if named:
                (self.folder / named[1]).write_text(block.text)
            elif block.language == "sh":
                text = block.text
                for command, instead in stand_ins.items():
                    text = text.replace(command, instead)
                printed = self.types(text, timeout)
                ran += len(text.splitlines())
                if behind is not None and not behind.language:
                    gone = missing(behind.text, printed)
                    assert gone is None, f"not as shown: {gone}\n--- printed by\n{text}---\n{printed}"
        return ran
