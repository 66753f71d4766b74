"""Elastic runs: what is built anew when ranks are lost, and how training goes on behind it (``docs/elastic.md``)."""

import datetime
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from mpi_opt.algorithms.base import Node
from mpi_opt.build import Built, graph_of
from mpi_opt.errors import JobError, MpiOptError, RankFailedError
from mpi_opt.methods import make_algorithm, with_consensus_rate
from mpi_opt.metrics.lost import Lost, write_lost
from mpi_opt.network.base import Network
from mpi_opt.network.collectives import Collectives
from mpi_opt.network.elastic import Crew
from mpi_opt.objectives import make_objectives
from mpi_opt.run.loop import Run
from mpi_opt.run.plan import Outcome, Plan
from mpi_opt.run.progress import Progress
from mpi_opt.run.regroup import Position, position, regroup
from mpi_opt.run.timing import TimedCompressor, timed
from mpi_opt.topology.graphs import Graph
from mpi_opt.topology.mixing import Mixing, make_mixing
from mpi_opt.world import World

_LEFT = "what is left of "


def rebuild(built: Built, survivors: Sequence[int], collectives: Collectives, *, auto: bool) -> tuple[Built, list[str]]:
    """Return the objects of this process's node among the survivors, and what a person should know of them.

    Parameters
    ----------
    built : Built
        Of before; features are shared with it, nothing of it is changed.
    survivors : sequence of int
        Nodes of ``built`` that go on, ascending; they are nodes 0, 1, ... from here on.
    collectives : Collectives
        Among them.
    auto : bool
        Whether the consensus rate is searched anew.

    Raises
    ------
    RankFailedError
        The nodes left are not connected, or could never end; on every process.
    """
    n, i = len(survivors), collectives.rank
    assert built.compressor is not None
    rules = [name for name, value in msgspec.structs.asdict(built.job.stop).items() if value is not None]
    if n == 1 and rules == ["megabytes"]:
        raise _nobody("the last node sends nothing, and stop.megabytes alone would never end it")
    mixing, notes = _mixing(built, survivors)
    test = 0 if built.loaded.test is None else built.loaded.test[0].rows.size
    train = built.loaded.train[0]
    nonzeros = getattr(train.features, "nnz", train.features.size)
    rows, test_rows, entries = (
        int(total) for total in collectives.sum(np.array([train.rows.size, test, nonzeros], dtype=np.int64))
    )
    loaded, info, test_info = built.loaded, built.loaded.info, built.loaded.test_info
    loaded = replace(
        loaded,
        info=replace(info, rows=rows, nonzeros=entries),
        test_info=None if test_info is None else replace(test_info, rows=test_rows),
    )
    notes.append(f"F is over the {rows} rows of these nodes from here on, {info.rows - rows} fewer; l2 stays as it was")
    job, phases = built.job, built.phases[0]
    if auto:
        asked = msgspec.structs.replace(job, algorithm=msgspec.structs.replace(job.algorithm, consensus_rate="auto"))
        dim = built.problems[0].dim
        job, found = with_consensus_rate(asked, mixing, built.compressor, dim, collectives)
        notes.extend(found)
    problems, means, tests = make_objectives(job, loaded, built.class_weights, built.l2, n, built.module)
    old = built.nodes[0]
    return (
        replace(
            built,
            job=job,
            mixing=mixing,
            loaded=loaded,
            algorithm=make_algorithm(job, TimedCompressor(built.compressor, {i: phases})),
            nodes=[
                # Its batches go on as they were: they are drawn by the number it began with.
                Node(index=i, count=n, seed=old.seed, weights=mixing.row(i), batches=old.batches, scratch=old.scratch)
            ],
            problems=problems,
            timed=[timed(problem, phases) for problem in means],
            tests=tests,
        ),
        notes,
    )


def _mixing(built: Built, survivors: Sequence[int]) -> tuple[Mixing, list[str]]:
    """Return graph and weights of the survivors: the job's family, else what is left of the graph, if connected."""
    table, n = built.job.graph, len(survivors)
    assert built.mixing is not None
    why, weights = "", table.weights
    if table.edges is None:
        try:
            mixing = make_mixing(graph_of(built.job, n), weights)
            return mixing, [_words(mixing)]
        except JobError as refused:
            why, weights = f" ({refused})", "metropolis"
    old = built.mixing.graph
    new = {node: k for k, node in enumerate(survivors)}
    kept = [at for at, (a, b) in enumerate(old.edges) if a in new and b in new]
    edges = tuple((new[old.edges[at][0]], new[old.edges[at][1]]) for at in kept)
    name = _LEFT + old.name.removeprefix(_LEFT)
    try:
        graph = Graph(name, n, edges, None if old.weights is None else tuple(old.weights[at] for at in kept))
        mixing = make_mixing(graph, weights)
    except JobError as refused:
        raise _nobody(f"{refused}{why}") from None
    return mixing, [_words(mixing) + why]


def _nobody(why: str) -> RankFailedError:
    error = RankFailedError(f"ranks were lost, and those left cannot go on: {why}")
    error.everywhere = True
    return error


def _words(mixing: Mixing) -> str:
    graph = mixing.graph
    return (
        f"graph {graph.name}, {graph.n} nodes, {len(graph.edges)} edges, weights {mixing.weights}, "
        f"spectral gap {mixing.spectral_gap:.4g}"
    )


@dataclass(kw_only=True)
class Stage:
    """What training works with; a cut puts the survivors' in its place.

    Attributes
    ----------
    world : World
    built : Built
    network : Network
    shown : Progress
    folder : Path
        The run's.
    auto : bool
        Whether the job left the consensus rate to us.
    plan : callable
        Makes a plan of this stage.
    watch : ExitStack
        Holds what watches the other processes.
    guard : callable
        Has them watched, given the world, the folder of the signs and the stack.
    reopen : callable
        Makes the log and the display of a process that was not the first before.
    hosts : sequence of str
        Of all nodes at the start.
    lost : list of Lost
        Nodes that died.
    """

    world: World
    built: Built
    network: Network
    shown: Progress
    folder: Path
    auto: bool
    plan: Callable[["Stage"], Plan]
    watch: ExitStack
    guard: Callable[[World, Path, ExitStack], None]
    reopen: Callable[[], Progress]
    hosts: Sequence[str]
    lost: list[Lost]

    def run(self) -> Outcome:
        """Train to the end, without ranks that die on the way."""
        run, crew = Run(self.plan(self)), self.world.crew
        if crew is None:
            return run.to_the_end()
        go = run.to_the_end
        error: Exception | None = None
        members = crew.members
        while True:
            try:
                if error is not None:
                    members = self._regroup(run, crew, members, error)
                    go, error = run.go_on, None
                outcome = go()
                if crew.agree(True):
                    return outcome
                error = RankFailedError("a rank was lost at the end of training")
            except crew.faults as caught:
                error = caught

    def finish(self, act: Callable[[], None]) -> None:
        """Call ``act``, which ends the run on all processes together, until no rank is lost in it."""
        crew = self.world.crew
        if crew is None:
            act()
            return
        while True:
            try:
                act()
                return
            except crew.faults as error:
                members = crew.members
                cut = crew.cut(None)
                if not cut.lost:
                    raise
                self._change(crew)
                self._tell(members, crew, -1, error)

    def _change(self, crew: Crew) -> None:
        """Take the survivors' world, and have them watched; the lowest keeps the log from here on."""
        assert self.world.again is not None
        self.watch.close()
        self.world = self.world.again()
        self.guard(self.world, self.folder / f".alive-{crew.cuts}", self.watch)
        if crew.comm.rank == 0:
            for old in self.folder.glob(".alive*"):
                if old.name != f".alive-{crew.cuts}":
                    shutil.rmtree(old, ignore_errors=True)

    def _regroup(self, run: Run, crew: Crew, members: tuple[int, ...], error: Exception) -> tuple[int, ...]:
        """Agree with the other survivors, build their objects, and set ``run`` to where they go on.

        Nothing of the run is changed before all is built: another death on the way leads here again.
        """
        began = time.perf_counter()
        cut = crew.cut(position(run))
        if not cut.lost:
            raise error  # nobody died: an error of its own
        positions: list[Position] = cut.items
        self._change(crew)
        survivors = [members.index(node) for node in crew.members]
        built, notes = rebuild(self.built, survivors, self.world.collectives, auto=self.auto)
        network = self.world.connect(built)
        step = max(each.steps for each in positions)
        plan = self.plan(replace(self, built=built, network=network))
        self.world.collectives.check(None)
        self.built, self.network = built, network
        self._tell(members, crew, step, error)
        plan = replace(plan, progress=self.shown)
        regroup(run, plan, positions)
        behind = step - min(each.steps for each in positions)
        if self.world.collectives.rank == 0:
            late = f", up to {behind} ahead of where some were" if behind else ""
            self.shown.say(f"going on at step {step}{late}; estimates of neighbours are built up anew")
            for note in notes:
                self.shown.say(note)
            self.shown.say(f"built anew in {time.perf_counter() - began:.3f} s after the death was noticed")
        return crew.members

    def _tell(self, members: tuple[int, ...], crew: Crew, step: int, error: Exception) -> None:
        """Keep and tell who was lost; whoever is the first process now takes up log and display."""
        gone = [node for node in members if node not in crew.members]
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        self.lost.extend(Lost(node, step, self.hosts[node], now) for node in gone)
        me = crew.comm.rank
        if me:
            return
        if members[0] != crew.members[me]:
            self.shown = self.reopen()
        with suppress(MpiOptError):  # a full disk: the log may still tell
            write_lost(self.folder, self.lost)
        words = ", ".join(f"node {node} on {self.hosts[node]}" for node in gone)
        self.shown.say(f"lost {words}: {len(crew.members)} of {len(self.hosts)} nodes go on ({_line(error)})")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
