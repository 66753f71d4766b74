"""What a job would need, said without training: shards, memory, graph, bytes a round."""

from collections.abc import Sequence

import numpy as np

from mpi_opt.algorithms.parts.preconditioner import Shared
from mpi_opt.build import Built, build
from mpi_opt.datasets.shard import Shard
from mpi_opt.draws import Key, Purpose
from mpi_opt.job import METHODS, Job
from mpi_opt.network.collectives import Solo
from mpi_opt.problems.base import SecondOrder
from mpi_opt.run.progress import size


def plan_job(job: Job, *, nodes: int) -> str:
    """Return the dry run of ``job`` on ``nodes`` nodes as text.

    The data are read (in this one process) and the consensus rate is searched where it is "auto"; nothing is trained
    and nothing is written.

    Raises
    ------
    JobError, DataError
        Whatever a run would refuse at its start.
    """
    built = build(job, Solo(), nodes, range(nodes))
    text = [f"{job.name}: {job.algorithm.name} on {nodes} nodes", *_data(built), *_memory(built), *_traffic(built)]
    text.extend(f"note         {note}" for note in built.notes)
    return "\n".join(text)


def _data(built: Built) -> Sequence[str]:
    info, shards = built.loaded.info, built.loaded.train
    rows = [shard.rows.size for shard in shards]
    kind = "CSR" if info.sparse else "dense"
    text = [
        f"data         {info.name}: {info.rows} rows x {info.features} features, {info.nonzeros} stored entries, {kind}"
    ]
    if built.loaded.test_info is not None:
        text.append(f"test         {built.loaded.test_info.name}: {built.loaded.test_info.rows} rows")
    text.append(f"rows a node  {_range(rows)}")
    if info.labels is not None:
        text.append(f"labels       {', '.join(f'{key:g} -> {value:g}' for key, value in info.labels.items())}")
        kinds = [len(np.unique(shard.labels)) for shard in shards]
        text.append(f"             distinct labels a node: {_range(kinds)} of {info.classes}")
    return text


def _memory(built: Built) -> Sequence[str]:
    """Return the memory of data, vectors and message buffers a node."""
    dim = built.problems[0].dim
    data = [_nbytes(shard) for shard in built.loaded.train]
    state = built.algorithm.init(built.problems[0], np.zeros(dim))
    fields = [getattr(state, name) for name in state.__dataclass_fields__]
    vectors = sum(field.nbytes for field in fields if isinstance(field, np.ndarray)) + 16 * dim
    degree = max(len(around) for around in built.neighbours())
    buffers = 0 if built.codec is None else 2 * (degree + 1) * built.codec.max_bytes
    return (
        f"dimension    d = {dim}",
        f"memory       a node: data {size(min(data))} to {size(max(data))}, vectors {size(vectors)}, "
        f"message buffers {size(buffers)}",
    )


def _nbytes(shard: Shard) -> int:
    features = shard.features
    stored = (
        features.nbytes
        if isinstance(features, np.ndarray)
        else sum(part.nbytes for part in (features.data, features.indices, features.indptr))
    )
    return int(stored) + shard.labels.nbytes + shard.rows.nbytes


def _traffic(built: Built) -> Sequence[str]:
    """Return the bytes a round; those of a compressed message are an encoded one's, of a normal random vector."""
    dim = built.problems[0].dim
    sync = built.job.algorithm.sync_every
    if built.codec is None or built.mixing is None or built.compressor is None:
        table = built.job.algorithm
        each = [
            f"{size(8 * numbers)} from each worker, as much back to each ({what})"
            for numbers, what in _reductions(table.name, built.timed[0])
        ]
        when = f"every {sync} steps" if "sync_every" in METHODS[table.name].keys else "an iteration"
        return tuple(f"traffic      {when}: {text}" for text in each)
    graph, buffer = built.mixing.graph, np.empty(built.codec.max_bytes, dtype=np.uint8)
    drawn = Key(built.job.seed, 0, Purpose.GOSSIP, 0).generator().normal(size=dim)
    message = built.compressor.compress(drawn, Key(built.job.seed, 0, Purpose.COMPRESSION, 0))
    one = sum(built.codec.encode(message, buffer))
    degrees = [len(around) for around in built.neighbours()]
    return (
        f"graph        {graph.name}, weights {built.mixing.weights}: {len(graph.edges)} edges, "
        f"neighbours {_range(degrees)}, spectral gap {built.mixing.spectral_gap:.4g}",
        f"traffic      every {sync} steps at most one message a neighbour, about {one} B "
        f"(floor {message.floor_bits() / 8:.0f}, dense fp32 {4 * dim}), {size(one * max(degrees))} a node and round",
    )


def _reductions(name: str, problem: SecondOrder) -> Sequence[tuple[int, str]]:
    """Return numbers and meaning of the reductions of one iteration of a method that reduces over all nodes."""
    dim, conditioner = problem.dim, Shared().numbers(problem)
    triangle = dim * (dim + 1) // 2
    return {
        "allreduce-sgd": [(dim + 1, "the gradient and its weight")],
        "local-sgd": [(dim + 1, "the model and its weight")],
        "local-newton": [(dim + 1, "the model and its loss; the finish comes after")],
        "newton": [(dim + 2 + triangle, "gradient, loss and the Hessian's upper triangle")],
        "giant": [(dim + 2, "gradient and loss"), (dim, "direction"), (11, "losses of the line search, short")],
        "newton-cg": [
            (dim + 2 + conditioner, "gradient, loss and preconditioner"),
            (dim, "each product of the inner iteration"),
        ],
        "lbfgs": [(dim + 2, "gradient and loss")],
        "admm": [(dim, "the model and its residuals")],
    }[name]


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"
