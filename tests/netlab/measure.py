"""``python -m netlab.measure [PAGE]``: the tables of docs/emulated-network.md, on four hosts at 10 ms and 100 Mbit/s.

Root, and the data sets a9a and mnist. With a page its parts are put in place; without, they are printed. Each run that
is timed is made three times, and the time in the middle is shown.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from netlab import courses, edges
from support.netlab import Lab, missing

from mpi_opt.comparing import Request, compare
from mpi_opt.run.progress import size
from mpi_opt.scaling.fitted import read_network
from mpi_opt.studies.common import fill, table

HOSTS, DELAY, RATE = 4, 10.0, 100.0
_JOBS = Path(__file__).resolve().parents[2] / "jobs"
_TIMES = 3
_PARTS = ("network", "steps", "traffic", "overlap", "races")

_PLAIN = ("algorithm.compressor=", "algorithm.consensus_rate=", "algorithm.threshold=")
_D_PSGD = (*_PLAIN, "algorithm.name=d-psgd", "algorithm.sync_every=1")
_A9A = ("data.partition=shuffled", "algorithm.step_size=2.0", "algorithm.consensus_rate=auto")
_SPARQ_A9A = (*_A9A, "algorithm.threshold=0.1")
_MNIST = ("data.rows=12000", "algorithm.batch=64", "algorithm.step_size=0.1", "metrics.nodes=4", "metrics.every=40")
_SPARQ_MNIST = ("algorithm.threshold=1.0",)


@dataclass(frozen=True)
class Job:
    """A file of jobs/ and what is set otherwise."""

    file: str
    settings: tuple[str, ...]

    def on(self, lab: Lab, out: Path, *further: str) -> courses.Ran:
        return courses.run(lab, _JOBS / self.file, out, *self.settings, *further, timeout=150.0)


STEPS: Mapping[str, tuple[Job, int, int]] = {
    "SPARQ-SGD, a9a, H = 5, 12 signs": (Job("a9a-sparq.toml", _SPARQ_A9A), 100, 1100),
    "SPARQ-SGD, MNIST, H = 5, 200 signs": (
        Job("mnist-sparq.toml", (*_MNIST, *_SPARQ_MNIST, "data.partition=shuffled", "algorithm.compressor.k=200")),
        50,
        550,
    ),
    "D-PSGD, a9a": (Job("a9a-sparq.toml", (*_A9A, *_D_PSGD)), 20, 220),
    "D-PSGD, MNIST": (Job("mnist-sparq.toml", (*_MNIST, *_D_PSGD, "data.partition=shuffled")), 10, 110),
    "LocalNewton, a9a, L = 3": (
        Job("a9a-local-newton.toml", ("algorithm.local_steps=3", "algorithm.finish=none", "algorithm.damping=0.1")),
        3,
        23,
    ),
    "GIANT, a9a": (Job("a9a-giant.toml", ("stop.gradient_norm=",)), 3, 18),
}
"""What a step is predicted and timed for: the job, and the steps of a short and of a long run."""

OVERLAP = Job("a9a-sparq.toml", (*_SPARQ_A9A, "algorithm.sync_every=20"))
"""Enough to compute between two exchanges that there is something to hide them behind."""


@dataclass(frozen=True)
class Race:
    """Jobs held against each other: measure and target, evaluations."""

    title: str
    measure: str
    target: float
    places: tuple[str, ...]
    jobs: Mapping[str, Job]
    times: int = _TIMES


def _mnist(partition: str, steps: int, *, k: int | None, every: int = 40) -> Job:
    own = _D_PSGD if k is None else (*_SPARQ_MNIST, f"algorithm.compressor.k={k}")
    further = (f"data.partition={partition}", f"stop.steps={steps}", f"metrics.every={every}")
    return Job("mnist-sparq.toml", (*_MNIST, *own, *further))


RACES = (
    Race(
        "a9a, rows shuffled, full batches, step size 2: gap to F\\* <= 0.002",
        "gap",
        0.002,
        ("average", "worst"),
        {
            "D-PSGD": Job("a9a-sparq.toml", (*_A9A, *_D_PSGD, "stop.steps=250", "metrics.every=25")),
            "SPARQ-SGD, H = 5, 12 signs": Job("a9a-sparq.toml", (*_SPARQ_A9A, "stop.steps=500", "metrics.every=25")),
        },
    ),
    Race(
        "MNIST, 12,000 rows, shuffled, batches of 64, step size 0.1: test error <= 12 %",
        "error",
        0.12,
        ("average", "worst"),
        {"D-PSGD": _mnist("shuffled", 280, k=None), "SPARQ-SGD, H = 5, 200 signs": _mnist("shuffled", 280, k=200)},
    ),
    Race(
        "the same, rows by label; one run each",
        "error",
        0.12,
        ("average", "worst"),
        {
            "D-PSGD": _mnist("by-label", 280, k=None),
            "SPARQ-SGD, H = 5, 200 signs": _mnist("by-label", 1400, k=200, every=100),
            "SPARQ-SGD, H = 5, 2,000 signs": _mnist("by-label", 1400, k=2000, every=100),
        },
        times=1,
    ),
    Race(
        "a9a, rows shuffled: gradient norm <= 1e-6",
        "gradient-norm",
        1e-6,
        ("average",),
        {"GIANT": Job("a9a-giant.toml", ()), "LocalNewton, adaptive": Job("a9a-local-newton.toml", ())},
    ),
)


def network(lab: Lab, folder: Path) -> tuple[Path, str]:
    """Measure between the hosts; return the file of what was found, and its table."""
    path = folder / "network.json"
    lab.mpirun(["mpi-opt", "info", "--network", "--json", path], timeout=150).check()
    found = read_network(path)
    line, rows = found.line, []
    curves = {"message": found.pairs[-1].curve, "ring exchange": found.exchange, "Reduce and Bcast": found.reduction}
    for name, curve in curves.items():
        assert curve is not None
        rows.append([name, *(f"{1e3 * curve.at(nbytes):.1f} ms" for nbytes in (8, 2048, 32768, 262144))])
    head = ["", "8 B", "2 KiB", "32 KiB", "256 KiB"]
    said = f"Fitted to the messages: latency {1e3 * line.latency:.1f} ms, {8e-6 * line.bandwidth:.0f} Mbit/s."
    return path, table(head, rows) + "\n\n" + said


def timed(lab: Lab, folder: Path) -> dict[str, tuple[courses.Ran, list[courses.Ran]]]:
    """Run what steps are predicted for: each job's short run, and its long ones."""
    ran = {}
    for number, (name, (job, few, many)) in enumerate(STEPS.items()):
        short, *long = (
            job.on(lab, folder / f"steps-{number}-{k}", f"stop.steps={count}", f"metrics.every={count}")
            for k, count in enumerate((few, *[many] * _TIMES))
        )
        ran[name] = short, long
    return ran


def steps(ran: Mapping[str, tuple[courses.Ran, list[courses.Ran]]], network: Path) -> str:
    """Return predicted and measured seconds a step."""
    rows = []
    for name, (short, long) in ran.items():
        took = [courses.seconds_a_step(each, short) for each in long]
        predicted = courses.predicted(long[0].course.path / "job.toml", network)
        measured = statistics.median(took)
        spread = f"{1e3 * measured:.2f} ms ({1e3 * min(took):.2f} to {1e3 * max(took):.2f})"
        rows.append([name, f"{1e3 * predicted:.2f} ms", spread, f"{predicted / measured:.2f}"])
    return table(["job", "predicted", "measured", "ratio"], rows)


def traffic(ran: Mapping[str, tuple[courses.Ran, list[courses.Ran]]]) -> str:
    """Return counted bytes and those seen at the switch, of an edge."""
    rows = []
    for name in ("SPARQ-SGD, a9a, H = 5, 12 signs", "D-PSGD, a9a", "D-PSGD, MNIST"):
        short, (long, *_) = ran[name]
        counted, messages, silent = (
            edges.ring(HOSTS, long.total(*names) - short.total(*names))
            for names in (("payload_bytes", "header_bytes"), ("messages", "silences"), ("silences",))
        )
        stream, seen = long.stream - short.stream, long.bytes - short.bytes
        found = edges.faults(counted, messages, stream, seen, apart=3000.0)
        if found or long.dropped or short.dropped:
            print(f"{name}: {found}, {long.dropped + short.dropped} frames dropped", file=sys.stderr)
        edge, across = (1, 2), (1, 3)
        rows.append([name, f"{messages[edge]:.0f}", f"{silent[edge]:.0f}"])
        rows[-1] += [size(float(each[edge])) for each in (counted, stream, seen)]
        rows[-1].append(size(float(max(seen[across], 0))))
    head = ["job", "messages", "of them empty", "counted", "TCP streams", "frames", "frames across the ring"]
    return table(head, rows)


def overlap(lab: Lab, folder: Path) -> str:
    """Return seconds a step with and without overlap."""
    rows = []
    for name, setting in (("as it is", "false"), ("overlapped", "true")):
        clocks, phases = [], []
        for k in range(_TIMES):
            words = (f"algorithm.overlap={setting}", "stop.steps=800", "metrics.every=800")
            ran = OVERLAP.on(lab, folder / f"overlap-{setting}-{k}", *words)
            clocks.append(float(ran.total("seconds").mean()) / ran.steps)
            phases.append([float(ran.total(f"{p}_seconds").mean()) / ran.steps for p in ("compute", "wait")])
        compute, wait = np.median(phases, axis=0)
        objective = float(ran.course.shared["objective_worst"][-1])
        rows.append([name, *(f"{1e3 * each:.2f} ms" for each in (statistics.median(clocks), compute, wait))])
        rows[-1].append(f"{objective:.5f}")
    return table(
        ["SPARQ-SGD, a9a, H = 20", "a step", "of it computing", "waiting", "F at the worst node in the end"], rows
    )


def races(lab: Lab, folder: Path) -> str:
    """Return seconds to the target."""
    parts = []
    for number, race in enumerate(RACES):
        rows: list[list[str]] = []
        runs = {
            name: [job.on(lab, folder / f"race-{number}-{k}-{place}").course.path for place in range(race.times)]
            for k, (name, job) in enumerate(race.jobs.items())
        }
        for place in race.places:
            for name, paths in runs.items():
                asked = Request(runs=paths, measure=race.measure, place=place, target=race.target)
                rows.append(
                    [name, {"average": "averaged", "worst": "worst node's"}[place], *_told(compare(asked).records)]
                )
        head = ["method", "model", "rounds", "bytes sent", "seconds (least to most)"]
        parts.append(f"{race.title}\n\n" + table(head, rows))
    return "\n\n".join(parts)


def _told(records: Sequence[Mapping[str, object]]) -> list[str]:
    """Return rounds, bytes and seconds to the target of runs of one job."""
    if not all(record["reached"] for record in records):
        whole = max(float(str(record["last_round"])) for record in records)
        return [f"not reached in {whole:.0f}", "", ""]
    rounds, sent, seconds = (
        [float(str(each[name])) for each in records] for name in ("round", "sent_bytes", "seconds")
    )
    if len(seconds) == 1:
        return [f"{rounds[0]:.0f}", size(sent[0]), f"{seconds[0]:.2f}"]
    times = f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
    return [f"{statistics.median(rounds):.0f}", size(statistics.median(sent)), times]


def main(words: Sequence[str]) -> int:
    """Measure, and print the parts or put them into the page."""
    parser = argparse.ArgumentParser(prog="netlab.measure", description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, help="where the parts are put in place")
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS)
    options = parser.parse_args(words)
    reason = missing()
    if reason:
        print(reason, file=sys.stderr)
        return 1
    root = Path(__file__).resolve().parents[2]
    places = [root / "data" / "raw", root.parent / "shared" / "datasets"]
    os.environ.setdefault("MPI_OPT_DATASETS", str(next((place for place in places if place.is_dir()), places[0])))
    with tempfile.TemporaryDirectory(prefix="netlab-") as name, Lab(HOSTS, DELAY, RATE) as lab:
        folder, wanted = Path(name), set(options.parts)

        def show(part: str, text: str) -> None:
            print(f"{part}\n\n{text}\n", flush=True)
            if options.page is not None:
                fill(options.page.resolve(), part, text)

        if wanted & {"network", "steps"}:
            path, text = network(lab, folder)
            show("network", text)
        if wanted & {"steps", "traffic"}:
            ran = timed(lab, folder)
            if "steps" in wanted:
                show("steps", steps(ran, path))
            show("traffic", traffic(ran))
        if "overlap" in wanted:
            show("overlap", overlap(lab, folder))
        if "races" in wanted:
            show("races", races(lab, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
