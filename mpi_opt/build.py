"""From a job to the objects that run it: the one place that knows all rooms.

Set-up happens on all processes together. Whatever can fail on one process alone ends in ``collectives.check``, so that
the error is everybody's and nobody waits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mpi_opt.algorithms.base import Algorithm, Node, check_needs
from mpi_opt.algorithms.registry import EXCHANGES, NEWTON
from mpi_opt.compression.base import Codec, Compressor
from mpi_opt.datasets.load import Loaded
from mpi_opt.datasets.preparation import Preparation
from mpi_opt.datasets.prepare import Rules, prepare
from mpi_opt.datasets.weights import class_weights
from mpi_opt.draws import Batches
from mpi_opt.job import METHODS, Job
from mpi_opt.methods import make_algorithm, with_consensus_rate, with_finish
from mpi_opt.modules import JobModule, job_module
from mpi_opt.network.collectives import Collectives
from mpi_opt.objectives import make_objectives
from mpi_opt.operators import make_operator, with_tensors
from mpi_opt.problems.base import Problem, SecondOrder
from mpi_opt.run.counting import CountedCompressor, counted
from mpi_opt.run.timing import Phases, TimedCompressor, timed
from mpi_opt.scaling.cost import NetworkProfile
from mpi_opt.shards import load_shards
from mpi_opt.topology.graphs import Graph
from mpi_opt.topology.mixing import Mixing, make_mixing
from mpi_opt.topology.registry import make_graph
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A job's objects. Sequences have one entry for each local node.

    Attributes
    ----------
    job : Job
        With what was found before the start, such as the consensus rate.
    mixing : Mixing or None
        Graph and weights; ``None`` for methods that reduce over all nodes.
    compressor, codec : Compressor and Codec, or None
        Operator (untimed) and wire format of the neighbours' messages.
    loaded : Loaded
        The data, prepared.
    preparation : Preparation
        What was done to them.
    class_weights : mapping of float to float, or None
        Label in the file -> what the loss of its rows is multiplied by.
    problems, tests : sequence of Problem
        Training and test shards' problems, untimed; ``tests`` is ``None`` without a test set.
    timed : sequence of Problem
        The training problems that the algorithm sees.
    validation : mapping, or None
        How l2 was chosen, where the job asks for that: JSON values.
    module : JobModule, or None
        What is trained, where it is a module of PyTorch.
    phases : sequence of Phases
        Where the timed proxies count.
    notes : tuple of str
        What a person should know before the run.
    """

    job: Job
    mixing: Mixing | None
    compressor: Compressor | None
    codec: Codec | None
    loaded: Loaded
    preparation: Preparation
    class_weights: Mapping[float, float] | None
    algorithm: Algorithm
    nodes: Sequence[Node]
    problems: Sequence[Problem]
    timed: Sequence[SecondOrder]
    tests: Sequence[Problem] | None
    phases: Sequence[Phases]
    l2: float
    notes: tuple[str, ...]
    validation: Mapping[str, Any] | None = None
    module: JobModule | None = None

    @property
    def start(self) -> Vector:
        """Where all nodes begin, shape ``(d,)``: at the module's own parameters, of linear models at zero."""
        return np.zeros(self.problems[0].dim) if self.module is None else self.module.flat.start

    @property
    def steps_per_epoch(self) -> float:
        """Steps in which all nodes together see as many rows as there are."""
        batch = self.algorithm.batch
        return 1.0 if batch is None else max(1.0, self.loaded.info.rows / (batch * self.nodes[0].count))

    @property
    def averages(self) -> bool:
        """Whether the model put out is the mean over nodes; it is not where all nodes hold the same anyway."""
        table = self.job.algorithm
        return "output" in METHODS[table.name].keys and table.output != "local"

    def neighbours(self) -> list[tuple[int, ...]]:
        """Return every node's neighbours, none where the method reduces."""
        if self.mixing is None:
            return [()] * self.nodes[0].count
        graph = self.mixing.graph
        return [graph.neighbours(i) for i in range(graph.n)]


def build(
    job: Job,
    collectives: Collectives,
    nodes: int,
    local: Sequence[int],
    measure: Callable[[], NetworkProfile] | None = None,
    *,
    loaded: Loaded | None = None,
    l2: float | None = None,
    prepared: bool = True,
) -> Built:
    """Make the objects of ``job``; all processes call this.

    Parameters
    ----------
    job : Job
    collectives : Collectives
        Among the processes.
    nodes : int
        n.
    local : sequence of int
        Nodes that this process carries.
    measure : callable, optional
        Measures the network where the job asks for a choice by its speed and does not give it.
    loaded : Loaded, optional
        Data already read, not prepared; by default those that the job names.
    l2 : float, optional
        Instead of the job's.
    prepared : bool, optional
        Whether features are prepared as the job says; without it they are taken as they are.

    Raises
    ------
    JobError, DataError
        Something does not fit; raised on every process.
    """
    name = job.algorithm.name
    mixing = make_mixing(graph_of(job, nodes), job.graph.weights) if name in EXCHANGES else None
    rules = Rules(job.prepare.columns, job.prepare.center, job.prepare.rows) if prepared else Rules()
    raw = [load_shards(job, collectives, nodes, local) if loaded is None else loaded]
    del loaded  # no name here keeps raw features alive until all are prepared
    loaded, preparation, told = prepare(rules, raw.pop(), collectives)
    notes = [*loaded.warnings, *told]
    info, wanted = loaded.info, job.problem.class_weight
    classes = None if wanted is None else class_weights(wanted, loaded.train, info, collectives)
    if l2 is None:
        l2 = 1.0 / max(info.rows, 1) if job.problem.l2 in ("1/N", None) else float(job.problem.l2)
    module = job_module(job, loaded, collectives)
    if module is not None:
        notes.append(module.told(job.problem.module or ""))
    problems, means, tests = make_objectives(job, loaded, classes, l2, nodes, module)
    dim = problems[0].dim
    phases = {node: Phases() for node in local}
    compressor = codec = None
    if mixing is not None:
        job = with_tensors(job, problems[0])
        compressor = make_operator(job, dim)
        codec = compressor.codec(dim, job.seed)
        notes.append(
            f"graph {mixing.graph.name}, {nodes} nodes, {len(mixing.graph.edges)} edges, "
            f"weights {mixing.weights}, spectral gap {mixing.spectral_gap:.4g}"
        )
        job, found = with_consensus_rate(job, mixing, compressor, dim, collectives)
        notes.extend(found)
    if name in NEWTON:
        job, found = with_finish(job, info, dim, nodes, measure)
        notes.extend(found)
    clocked = CountedCompressor if _counts(job) else TimedCompressor
    algorithm = make_algorithm(job, None if compressor is None else clocked(compressor, phases))
    for problem in means:
        check_needs(algorithm, problem)
    scratch = (np.empty(dim), np.empty(dim))
    return Built(
        job=job,
        mixing=mixing,
        compressor=compressor,
        codec=codec,
        loaded=loaded,
        preparation=preparation,
        class_weights=classes,
        algorithm=algorithm,
        nodes=[
            Node(
                index=i,
                count=nodes,
                seed=job.seed,
                weights={i: 1.0} if mixing is None else mixing.row(i),
                batches=Batches(job.seed, i, problem.rows, algorithm.batch),
                scratch=scratch,
            )
            for i, problem in zip(local, problems, strict=True)
        ],
        problems=problems,
        timed=_clocked(job, means, [phases[i] for i in local]),
        tests=tests,
        phases=list(phases.values()),
        l2=l2,
        notes=tuple(notes),
        module=module,
    )


def with_l2(built: Built, l2: float) -> Built:
    """Return the same with another l2; features are shared."""
    n, module = built.nodes[0].count, built.module
    problems, means, tests = make_objectives(built.job, built.loaded, built.class_weights, l2, n, module)
    seen = _clocked(built.job, means, built.phases)
    return replace(built, problems=problems, timed=seen, tests=tests, l2=l2)


def _counts(job: Job) -> bool:
    """Return whether phases are counted by operations instead of measured."""
    return job.clock is not None and job.clock.compute == "counted"


def _clocked(job: Job, problems: Sequence[SecondOrder], phases: Sequence[Phases]) -> list[SecondOrder]:
    """Return the problems as the algorithm sees them."""
    proxy = counted if _counts(job) else timed
    return [proxy(problem, each) for problem, each in zip(problems, phases, strict=True)]


def graph_of(job: Job, nodes: int) -> Graph:
    """Return the graph that the job names, on ``nodes`` nodes.

    Raises
    ------
    JobError
        It does not fit them.
    """
    table = job.graph
    params = {key: getattr(table, key) for key in ("degree", "p", "rows", "cols")}
    if table.edges is not None:
        edges = job.folder / table.edges if isinstance(table.edges, str) else table.edges
        params["edges"] = edges
    return make_graph(table.name or "edges", nodes, params, job.seed)
