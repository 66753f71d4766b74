"""From a job to the objects that run it: the one place that knows all rooms.

Set-up happens on all processes together. Whatever can fail on one process alone ends in ``collectives.check``, so that
the error is everybody's and nobody waits.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from mpi_opt.algorithms.base import Algorithm, Node, check_needs
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.registry import EXCHANGES, NEWTON, SGD, NewtonSettings, SgdSettings
from mpi_opt.compression.base import Codec, Compressor
from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.compression.registry import make_compressor
from mpi_opt.datasets.load import DataSpec, Loaded, load
from mpi_opt.datasets.shard import DataInfo, Shard
from mpi_opt.datasets.source import search_paths
from mpi_opt.draws import Batches
from mpi_opt.errors import JobError
from mpi_opt.job import Job, spec
from mpi_opt.network.collectives import Collectives
from mpi_opt.problems.base import Problem, SecondOrder
from mpi_opt.problems.registry import label_kind, make_problem
from mpi_opt.run.timing import Phases, TimedCompressor, timed
from mpi_opt.scaling.cost import PROFILES, NetworkProfile
from mpi_opt.scaling.finish import MEMORY_LIMIT, choose_finish
from mpi_opt.schedules import Inverse, WarmUp
from mpi_opt.schedulespecs import make_step_size, make_threshold
from mpi_opt.topology.mixing import Mixing, make_mixing
from mpi_opt.topology.registry import make_graph
from mpi_opt.types import Features


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
    problems, tests : sequence of Problem
        Training and test shards' problems, untimed; ``tests`` is ``None`` without a test set.
    timed : sequence of Problem
        The training problems that the algorithm sees.
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
    algorithm: Algorithm
    nodes: Sequence[Node]
    problems: Sequence[Problem]
    timed: Sequence[SecondOrder]
    tests: Sequence[Problem] | None
    phases: Sequence[Phases]
    l2: float
    notes: tuple[str, ...]

    @property
    def steps_per_epoch(self) -> float:
        """Steps in which all nodes together see as many rows as there are."""
        batch = self.algorithm.batch
        return 1.0 if batch is None else max(1.0, self.loaded.info.rows / (batch * self.nodes[0].count))

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

    Raises
    ------
    JobError, DataError
        Something does not fit; raised on every process.
    """
    name = job.algorithm.name
    mixing = make_mixing(_graph(job, nodes), job.graph.weights) if name in EXCHANGES else None
    loaded = _load(job, collectives, nodes, local)
    info = loaded.info
    l2 = 1.0 / max(info.rows, 1) if job.problem.l2 == "1/N" else float(job.problem.l2)

    def problem_of(shard: Shard, scale: float) -> SecondOrder:
        return make_problem(
            job.problem.loss,
            shard.features,
            shard.labels,
            classes=info.classes,
            l2=l2,
            scale=scale,
            intercept=job.data.intercept,
        )

    problems = [problem_of(shard, nodes / max(info.rows, 1)) for shard in loaded.train]
    tests = None
    if loaded.test is not None and loaded.test_info is not None:
        rows = loaded.test_info.rows
        tests = [problem_of(shard, nodes / max(rows, 1)) for shard in loaded.test]
    # Methods of whole passes work on the mean over the shard; they weight by rows themselves.
    means = [problem_of(shard, 1.0 / max(shard.rows.size, 1)) for shard in loaded.train] if name in NEWTON else problems
    dim = problems[0].dim
    phases = {node: Phases() for node in local}
    notes = list(loaded.warnings)
    compressor = codec = None
    if mixing is not None:
        compressor = _compressor(job, dim)
        codec = compressor.codec(dim, job.seed)
        notes.append(
            f"graph {mixing.graph.name}, {nodes} nodes, {len(mixing.graph.edges)} edges, "
            f"weights {mixing.weights}, spectral gap {mixing.spectral_gap:.4g}"
        )
        job, found = _with_consensus_rate(job, mixing, compressor, dim, collectives)
        notes.extend(found)
    if name in NEWTON:
        job, found = _with_finish(job, info, dim, nodes, measure)
        notes.extend(found)
    algorithm = _algorithm(job, None if compressor is None else TimedCompressor(compressor, phases))
    for problem in means:
        check_needs(algorithm, problem)
    scratch = (np.empty(dim), np.empty(dim))
    return Built(
        job=job,
        mixing=mixing,
        compressor=compressor,
        codec=codec,
        loaded=loaded,
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
        timed=[timed(problem, phases[i]) for i, problem in zip(local, means, strict=True)],
        tests=tests,
        phases=list(phases.values()),
        l2=l2,
        notes=tuple(notes),
    )


def _load(job: Job, collectives: Collectives, nodes: int, local: Sequence[int]) -> Loaded:
    """Read the data; a dedicated master, node 0, holds no rows."""
    if job.algorithm.master != "dedicated":
        return load(_data_spec(job), collectives, nodes, local)
    if nodes < 2:
        raise JobError('algorithm.master = "dedicated" on 1 node; allowed: 2 nodes or more, or master = "working"')
    loaded = load(_data_spec(job), collectives, nodes - 1, [i - 1 for i in local if i])
    if 0 not in local:
        return loaded
    return replace(
        loaded,
        train=(_no_rows(loaded.info), *loaded.train),
        test=None if loaded.test is None else (_no_rows(loaded.info), *loaded.test),
    )


def _no_rows(info: DataInfo) -> Shard:
    features: Features = np.zeros((0, info.features))
    if info.sparse:
        from scipy.sparse import csr_array

        features = csr_array((0, info.features))
    return Shard(features, np.zeros(0), np.zeros(0, dtype=np.int64))


def _graph(job: Job, nodes: int) -> Any:
    table = job.graph
    params = {key: getattr(table, key) for key in ("degree", "p", "rows", "cols")}
    if table.edges is not None:
        edges = job.folder / table.edges if isinstance(table.edges, str) else table.edges
        params["edges"] = edges
    return make_graph(table.name or "edges", nodes, params, job.seed)


def _data_spec(job: Job) -> DataSpec:
    data = job.data
    return DataSpec(
        train=_words(data.train),
        test=None if data.test is None else _words(data.test),
        holdout=data.holdout,
        partition=data.partition.name,
        alpha=data.partition.alpha,
        label_kind=label_kind(job.problem.loss),
        features=data.features,
        # Counted from 1 unless told: a stray index 0 is then an error, not a silent shift of all columns.
        index_base=1 if data.index_base is None else data.index_base,
        seed=job.seed,
        search=search_paths(job.folder),
    )


def _words(files: str | list[str]) -> str | tuple[str, ...]:
    return files if isinstance(files, str) else tuple(files)


def _compressor(job: Job, dim: int) -> Compressor:
    """Return the operator at dimension ``dim``; a block length cuts it into blocks, the last one shorter."""
    params = spec(job.algorithm.compressor)
    name, block = params.pop("name"), params.pop("block", None)
    inner = make_compressor(name, params)
    if block is None or block >= dim:
        return inner
    whole, rest = divmod(dim, block)
    return Blockwise(inner, (block,) * whole + ((rest,) if rest else ()))


def _with_consensus_rate(
    job: Job, mixing: Mixing, compressor: Compressor, dim: int, collectives: Collectives
) -> tuple[Job, Sequence[str]]:
    """Replace ``consensus_rate = "auto"`` by the rate that pure gossip finds; searched once, told to all."""
    if job.algorithm.consensus_rate != "auto":
        return job, ()
    from mpi_opt.topology.consensus_rate import consensus_rate

    found, error = None, None
    began = time.perf_counter()
    if collectives.rank == 0:
        try:
            found = consensus_rate(mixing, compressor, dim, job.seed)
        except Exception as failed:
            error = failed
    collectives.check(error)
    rate, reason = collectives.broadcast(
        None if found is None else (found.gamma, f"{found.reason}; found in {time.perf_counter() - began:.1f} s")
    )
    algorithm = msgspec.structs.replace(job.algorithm, consensus_rate=rate)
    return msgspec.structs.replace(job, algorithm=algorithm), (reason,)


def _with_finish(
    job: Job, info: DataInfo, dim: int, nodes: int, measure: Callable[[], NetworkProfile] | None
) -> tuple[Job, Sequence[str]]:
    """Replace ``finish = "auto"`` by what the cost model finds cheapest, and refuse a Hessian that does not fit."""
    table, network = job.algorithm, job.network
    notes: list[str] = []
    if table.name == "local-newton" and table.finish == "auto":
        if network.latency is not None and network.bandwidth is not None:
            profile = NetworkProfile(network.latency, network.bandwidth)
        else:
            profile = PROFILES["10gbe"] if measure is None else measure()
        workers = nodes - (table.master == "dedicated")
        choice = choose_finish(
            dim=dim,
            nonzeros_per_shard=info.nonzeros / workers,
            rows_per_shard=info.rows / workers,
            nodes=workers,
            profile=profile,
            columns=dim // max(info.features, 1),
        )
        notes.append(choice.reason)
        table = msgspec.structs.replace(table, finish=choice.name)
        job = msgspec.structs.replace(job, algorithm=table)
    if table.name == "newton" or table.finish == "newton":
        held = 3 * 8 * dim**2
        if held > MEMORY_LIMIT:
            key = "algorithm.name" if table.name == "newton" else "algorithm.finish"
            raise JobError(
                f'{key} = "newton": three matrices of d = {dim} take {held / 2**30:.1f} GiB a rank; allowed: at most '
                f'{MEMORY_LIMIT / 2**30:.0f} GiB; take "newton-cg" or "giant"'
            )
        notes.append(f"exact Newton holds 3 matrices of {dim} x {dim}: {held / 1e6:.3g} MB a rank")
    return job, notes


def _algorithm(job: Job, compressor: Compressor | None) -> Algorithm:
    return _newton(job) if job.algorithm.name in NEWTON else _sgd(job, compressor)


def _newton(job: Job) -> Algorithm:
    table = job.algorithm
    adaptive = table.local_steps == "adaptive"
    return NEWTON[table.name](
        NewtonSettings(
            tolerance=Tolerance(job.stop.gradient_norm or 0.0),
            solver=table.solver,
            damping=None if table.damping == "auto" else table.damping,
            by_support=table.averaging == "support",
            local_steps=3 if table.local_steps == "adaptive" else table.local_steps,
            # A finish needs to know when its turn has come, which only the adaptive form does.
            adaptive=adaptive or table.finish != "none",
            finish=table.finish,
            hessian_every=table.hessian_every,
            memory=table.memory,
        )
    )


def _sgd(job: Job, compressor: Compressor | None) -> Algorithm:
    table = job.algorithm
    assert table.step_size is not None
    step_size = make_step_size(spec(table.step_size), "algorithm.step_size")
    offset = None
    if table.output == "weighted":
        # The theorem's offset is that of its own step size; any other schedule starts its weights at 1.
        plain = step_size.schedule if isinstance(step_size, WarmUp) else step_size
        offset = plain.a if isinstance(plain, Inverse) else 1.0
    if table.consensus_rate == "auto":
        raise RuntimeError("the consensus rate is not found yet")
    return SGD[table.name](
        SgdSettings(
            step_size=step_size,
            batch=None if table.batch == "full" else table.batch,
            sync_every=table.sync_every,
            beta=table.momentum,
            threshold=make_threshold(spec(table.threshold), "algorithm.threshold"),
            longest_silence=table.longest_silence,
            compressor=compressor,
            consensus_rate=table.consensus_rate,
            overlap=table.overlap,
            weighted_offset=offset,
            check=job.network.check,
        )
    )
