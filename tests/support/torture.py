"""Runs that are killed at random times, once and again, until they reach their end; and what survived.

A life is one run: it is begun, hit, resumed, hit, ... until nothing hit it in time and it ends. After every hit all
ranks must be gone soon, every metrics row that was committed must still be there and be the one of a run that nothing
happened to, and every checkpoint that had its name must be whole. The end must be that other run's, to the last bit.
"""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from support.commands import settings
from support.faults import KILL, SEGV, STOP, TERM, Live, alive, hit, wait_for, whole_checkpoints
from support.mpirun import mpirun
from support.resumable import CASES, NEWTON, rows_of, same_runs, write_case

from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.run.checkpoint import found, read_manifest, read_node

WATCHDOG = 4.0
EARLY = 0.15
"""Share of hits while the run only begins: libraries, MPI, data."""
FAULTS = {
    "SIGKILL to a rank": (KILL, "rank", 0.6), "SIGKILL to the launcher": (KILL, "launcher", 0.1),
    "SIGSEGV in a rank": (SEGV, "rank", 0.1), f"SIGSTOP of a rank, watchdog {WATCHDOG:g} s": (STOP, "rank", 0.1),
    "SIGTERM to the launcher": (TERM, "launcher", 0.1),
}  # fmt: skip
"""Signal, to whom, and its share."""
SECONDS_TO_EXIT = 15.0


@dataclass
class Tally:
    """What one kind of fault did."""

    seconds: list[float] = field(default_factory=list)
    rows: int = 0
    checkpoints: int = 0
    late: int = 0


class Torture:
    """One session of it.

    Parameters
    ----------
    folder : Path
        An empty one.
    seed : int
    n : int
        Ranks.
    say : callable
        Takes lines.
    """

    def __init__(self, folder: Path, seed: int, n: int = 3, say: Callable[[str], object] = print) -> None:
        self.folder, self.n, self.say = folder, n, say
        self.rng = np.random.default_rng(seed)
        self.tally = {name: Tally() for name in FAULTS}
        self.wrong: list[str] = []
        self.kills = 0
        self.spans: dict[str, tuple[float, float]] = {}
        say(f"seed {seed}, {n} ranks")

    def go(self, kills: int) -> None:
        """Live lives until so many were hit."""
        life = 0
        while self.kills < kills:
            case = list(CASES)[int(self.rng.integers(len(CASES)))]
            self._reference(case)
            self._live(case, self.folder / f"life-{life}", kills)
            life += 1

    def table(self) -> str:
        """Return the summary, Markdown."""
        lines = [
            "| fault | tries | lost rows | lost checkpoints | seconds to exit: median, longest |",
            "| --- | ---: | ---: | ---: | ---: |",
        ]
        for name, tally in self.tally.items():
            if tally.seconds:
                spans = f"{statistics.median(tally.seconds):.2f}, {max(tally.seconds):.2f}"
                lines.append(f"| {name} | {len(tally.seconds)} | {tally.rows} | {tally.checkpoints} | {spans} |")
        return "\n".join(lines)

    def _words(self, case: str) -> list[str]:
        sizes = ("stop.steps=1500", "metrics.every=20", "checkpoint.every=80")
        if CASES[case][0] is NEWTON:
            sizes = ("stop.steps=30", "metrics.every=1", "checkpoint.every=2")
        return ["--progress", "none", *settings(*sizes, f"network.watchdog={WATCHDOG}")]

    def _reference(self, case: str) -> None:
        """Run the case once undisturbed, and learn how long that takes."""
        if case in self.spans:
            return
        job, out = write_case(self.folder, case), self.folder / f"{case}-whole"
        result = mpirun(self.n, ["mpi-opt", "run", job, "--out", out, *self._words(case)], timeout=200).check()
        trained = float(read_rank(out / "metrics" / "rank_00000.h5").series["wall_seconds"][-1])
        self.spans[case] = (result.seconds - trained, trained)

    def _live(self, case: str, out: Path, kills: int) -> None:
        while self.kills < kills:
            result = self._hit_once(case, out)
            if result is not None:  # it was over before
                self._ended(case, out, result)
                return
        result = Live(self.n, self._command(case, out), timeout=200).end()
        self._ended(case, out, result)

    def _command(self, case: str, out: Path) -> list[object]:
        if (out / "job.toml").exists():
            return ["mpi-opt", "resume", out, "--progress", "none"]
        return ["mpi-opt", "run", self.folder / f"{case}.toml", "--out", out, "--overwrite", *self._words(case)]

    def _ended(self, case: str, out: Path, result) -> None:
        if result.code != 0:
            self._fail(f"{case}: {result}")
            return
        try:
            same_runs(self.folder / f"{case}-whole", out, self.n)
        except AssertionError as error:
            self._fail(f"{case}: another end than undisturbed: {error}")
        else:
            self.say(f"     {case}: ended as if nothing had happened")

    def _hit_once(self, case: str, out: Path):
        """Start or resume the run and hit it; return its result if it was quicker."""
        shares = [share for _, _, share in FAULTS.values()]
        name = list(FAULTS)[self.rng.choice(len(FAULTS), p=shares)]
        number, whom, _ = FAULTS[name]
        victim = int(self.rng.integers(self.n)) if whom == "rank" else whom
        early = self.rng.random() < EARLY and number != STOP  # a rank that stops before is not watched yet
        after = self.rng.random() * (self.spans[case][0] if early else 1.1 * self.spans[case][1])
        began = time.time()
        live = Live(self.n, self._command(case, out), timeout=200)
        pids = live.all_ranks()
        if not early:
            wait_for(lambda: self._trains(out, began) or not live.going)
        until = time.time() + after
        while time.time() < until and live.going:
            time.sleep(0.002)
        if not live.going or victim not in pids or not alive(pids[victim]):
            return live.end()
        before = self._left(out)
        at = time.time() - began
        hit(pids[victim], number)
        tally = self.tally[name]
        bound = SECONDS_TO_EXIT + (WATCHDOG if number == STOP else 0)
        # Who was stopped when all is done stays so, and the launcher with it: the others must be gone.
        others = [pid for key, pid in pids.items() if type(key) is int and (number != STOP or key != victim)]
        try:
            seconds = live.gone(others, bound)
        except AssertionError:
            tally.late += 1
            seconds = bound
            self._fail(f"{name}, {case}: ranks live after {bound} s")
        if number == STOP:
            hit(pids[victim], KILL)
        result = live.end()
        self.kills += 1
        tally.seconds.append(seconds)
        who = victim if whom == "launcher" else f"rank {victim}"
        said = f"{self.kills:4d} {case}: {number.name} to {who} after {at:.2f} s"
        rows, checkpoints = self._survey(case, out, before)
        tally.rows += rows
        tally.checkpoints += checkpoints
        kept = whole_checkpoints(out)
        self.say(
            f"{said}: gone in {seconds:.2f} s, code {result.code}; left: checkpoints {kept or 'none'}, rows "
            f"{[count for _, count, _ in self._left(out)[0].values()]}; lost: {rows} rows, {checkpoints} checkpoints"
        )
        return None

    def _trains(self, out: Path, began: float) -> bool:
        """Whether every rank has begun its metrics file, or gone on with it, since ``began``."""
        files = [out / "metrics" / f"rank_{node:05d}.h5" for node in range(self.n)]
        return all(file.exists() and file.stat().st_mtime >= began for file in files)

    def _left(self, out: Path):
        """Return of each metrics file its inode and what is committed in it, and the steps of the checkpoints."""
        files = {}
        for node in range(self.n):
            place = out / "metrics" / f"rank_{node:05d}.h5"
            if place.exists():
                inode = os.stat(place).st_ino
                columns = rows_of(place)
                files[node] = (inode, len(columns["series/step"]), len(columns["syncs/step"]))
        steps = [int(path.name.removeprefix("step_")) for path in found(out / "checkpoints")]
        return files, steps

    def _survey(self, case: str, out: Path, before) -> tuple[int, int]:
        """Return how many rows and checkpoints were lost."""
        files, steps = before
        lost_rows = lost_checkpoints = 0
        try:
            whole = whole_checkpoints(out)
        except Exception as error:
            self._fail(f"{case}: a checkpoint is not whole: {error}")
            return 0, 1
        if steps and (not whole or whole[0] < steps[0]):
            lost_checkpoints += 1
        least = self._recorded(out)
        for node in set(files) | set(least):
            place = out / "metrics" / f"rank_{node:05d}.h5"
            inode, *counts = files.get(node, (None, 0, 0))
            if not place.exists():  # begun again: there was no checkpoint
                lost_rows += sum(least.get(node, ()))
                continue
            now = rows_of(place)
            left = len(now["series/step"]), len(now["syncs/step"])
            # A resumed run begins with the rows up to its checkpoint, in a new file: the others are computed again.
            wanted = counts if os.stat(place).st_ino == inode else least.get(node, (0, 0))
            lost_rows += sum(max(0, old - new) for old, new in zip(wanted, left, strict=True))
            reference = rows_of(self.folder / f"{case}-whole" / "metrics" / place.name)
            lost_rows += sum(_strange(now, reference, table) for table in ("series/", "syncs/"))
        return lost_rows, lost_checkpoints

    def _recorded(self, out: Path) -> dict[int, tuple[int, int]]:
        paths = found(out / "checkpoints")
        if not paths:
            return {}
        manifest = read_manifest(paths[0])
        return {node: tuple(read_node(manifest, node)["recorded"]) for node in range(manifest.nodes)}

    def _fail(self, text: str) -> None:
        self.wrong.append(text)
        self.say(f"WRONG: {text}")


def _strange(now, reference, table: str) -> int:
    """Return how many rows of a table are not the reference's."""
    columns = [name for name in now if name.startswith(table)]
    rows = len(now[columns[0]])
    wrong = np.zeros(rows, dtype=bool)
    for name in columns:
        mine, theirs = now[name], reference[name][:rows]
        wrong[len(theirs) :] = True
        nan = np.isnan(mine[: len(theirs)]) & np.isnan(theirs)
        wrong[: len(theirs)] |= (mine[: len(theirs)] != theirs) & ~nan
    return int(wrong.sum())
