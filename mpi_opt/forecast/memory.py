"""Memory of a node: its data, the vectors and matrices that the method works with, and message buffers.

Counts of vectors and matrices were measured (peaks of traced allocations of three steps, one node): estimates, within
a half of what was seen. Beside them a process needs what Python and its libraries take, some 100 MB.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from mpi_opt.algorithms.parts.solver import Cheaper
from mpi_opt.algorithms.registry import NEWTON
from mpi_opt.build import Built
from mpi_opt.datasets.shard import Shard
from mpi_opt.forecast.modulememory import ModuleMemory, module_memory
from mpi_opt.forecast.spread import Spread
from mpi_opt.problems.base import SecondOrder
from mpi_opt.run.progress import size

_VECTORS: Mapping[str, int] = {"giant": 16, "newton": 16, "newton-cg": 22, "lbfgs": 10, "admm": 19, "local-newton": 21}
"""Vectors of length d beside the pairs that L-BFGS keeps."""

_ROW_VECTORS = 7
"""Numbers a row (and column of the model) of methods of whole passes: margins, slopes, those of a line search."""

_CLASSES_HELD = 5
"""Further ones of Newton-CG with several columns: the probabilities that products with the Hessian use."""

_ENTRY: Mapping[str, int] = {"giant": 12, "newton": 12, "newton-cg": 8, "lbfgs": 0, "admm": 12, "local-newton": 12}
"""Bytes an entry of sparse rows, when those of a line search are not held: squares, or scaled rows for a Hessian."""

_NEWTON_MATRICES = 4.5
"""d x d matrices of exact Newton: Hessian, its sum and their triangles in messages, the factor."""

_LOCAL_MATRICES = 2.5
"""d x d matrices of a local Cholesky solve."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of each node: of data, vectors, matrices and message buffers; each a spread over the nodes.

    Of a module of PyTorch also what it takes itself, ``made`` says of what; zero of linear models.
    """

    data: Spread
    vectors: Spread
    matrices: Spread
    buffers: Spread
    total: Spread
    module: Spread
    made: ModuleMemory | None = None


def memory(built: Built) -> Memory:
    """Estimate the bytes of all nodes."""
    data = [shard_bytes(shard) for shard in built.loaded.train]
    vectors = [_vector_bytes(built, problem) for problem in built.timed]
    matrices = [_matrix_bytes(built, problem) for problem in built.timed]
    degree = max(len(around) for around in built.neighbours())
    each = 0 if built.codec is None else 2 * (degree + 1) * built.codec.max_bytes
    buffers = [each] * len(data)
    made = module_memory(built)
    module = [0] * len(data) if made is None else made.of_nodes(len(data))
    return Memory(
        data=Spread.of(data),
        vectors=Spread.of(vectors),
        matrices=Spread.of(matrices),
        buffers=Spread.of(buffers),
        total=Spread.of([sum(node) for node in zip(data, vectors, matrices, buffers, module, strict=True)]),
        module=Spread.of(module),
        made=made,
    )


def shard_bytes(shard: Shard) -> int:
    """Return the bytes of a shard's arrays."""
    features = shard.features
    stored = (
        features.nbytes
        if isinstance(features, np.ndarray)
        else sum(part.nbytes for part in (features.data, features.indices, features.indptr))
    )
    weights = 0 if shard.weights is None else shard.weights.nbytes
    return int(stored) + shard.labels.nbytes + shard.rows.nbytes + weights


def _vector_bytes(built: Built, problem: SecondOrder) -> int:
    dim, name, table = problem.dim, built.job.algorithm.name, built.job.algorithm
    if name in NEWTON:
        pairs = 2 * table.memory if name == "lbfgs" else 0
        entries = _ENTRY[name] * problem.nonzeros if built.loaded.info.sparse else 0
        numbers = _ROW_VECTORS + _CLASSES_HELD * (name == "newton-cg" and problem.columns > 1)
        along = max(8 * problem.rows * problem.columns * numbers, entries)
        return 8 * dim * (_VECTORS[name] + pairs) + along
    # The state, two work vectors and a gradient; margins and slopes of the batch, and the epoch's order of rows.
    state = _array_bytes(built.algorithm.init(problem, np.zeros(dim)))
    batch = problem.rows if built.algorithm.batch is None else min(built.algorithm.batch, problem.rows)
    order = problem.rows if batch < problem.rows else 0
    return state + 8 * (3 * dim + 2 * batch * problem.columns + order)


def _array_bytes(state: Any) -> int:
    """Return the bytes of the arrays in a state, however deep."""
    if isinstance(state, np.ndarray):
        return int(state.nbytes)
    if is_dataclass(state):
        return sum(_array_bytes(getattr(state, field.name)) for field in fields(state))
    if isinstance(state, tuple | list):
        return sum(_array_bytes(part) for part in state)
    return 0


def _matrix_bytes(built: Built, problem: SecondOrder) -> int:
    """Return the bytes of d x d matrices."""
    table = built.job.algorithm
    if table.name not in NEWTON or not problem.rows:
        return 0
    square = 8 * problem.dim**2
    if table.name == "newton" or table.finish == "newton":
        return int(_NEWTON_MATRICES * square)
    if table.name in ("giant", "local-newton", "admm"):
        wanted = table.solver == "cholesky" and table.name != "admm"
        if wanted or (table.solver == "auto" and Cheaper().prefers_cholesky(problem)):
            return int(_LOCAL_MATRICES * square)
    return 0


def lines(built: Built, found: Memory) -> list[str]:
    """Return the forecast's lines on memory."""
    text = [f"dimension    d = {built.problems[0].dim}", f"memory       a node: {found.total.told(size)}, of that"]
    for name, part in (("data", found.data), ("vectors", found.vectors), ("matrices", found.matrices)):
        if part.most:
            text.append(f"             {name} {part.told(size)}")
    if found.buffers.most:
        text.append(f"             message buffers {found.buffers.told(size)}")
    if found.made is not None:
        text += found.made.lines()
    return text
