"""What in the data or the job is likely to disappoint, and the key that mends it."""

from collections.abc import Sequence

import numpy as np

from mpi_opt.algorithms.registry import NEWTON
from mpi_opt.build import Built
from mpi_opt.datasets.memory import machine_memory
from mpi_opt.datasets.survey import column_largest
from mpi_opt.forecast.holdings import Holdings
from mpi_opt.forecast.memory import Memory
from mpi_opt.run.progress import size
from mpi_opt.scaling.cost import spoken
from mpi_opt.scaling.finish import MEMORY_LIMIT
from mpi_opt.words import number_text

_UNLIKE = 1000.0
"""Ratio of the columns' largest magnitudes from which scaling is advised."""

_UNEQUAL = 5.0
"""Ratio of the classes' rows from which weights or an intercept are advised."""

_SPARSE, _DENSE = 1 / 3, 2 / 3
"""Shares of non-zero entries: below, CSR takes less than half of the memory of a dense table; above, more than it."""


def cautions(built: Built, held: Holdings, needed: Memory) -> Sequence[str]:
    """Return the warnings, one line each."""
    return [*_storage(built), *_scales(built), *_classes(built, held), *_sizes(built, needed)]


def _storage(built: Built) -> list[str]:
    info = built.loaded.info
    cells = info.rows * info.features
    if not cells or built.preparation.shift is not None:
        return []
    share, dense, csr = info.nonzeros / cells, 8 * cells, 12 * info.nonzeros
    if info.sparse and share > _DENSE:
        return [
            f"stored as CSR, but {share:.0%} of the entries are there: {size(csr)}, as a dense table {size(dense)}; "
            "mpi-opt data convert --dense makes one"
        ]
    if not info.sparse and share < _SPARSE:
        return [
            f"stored dense, but {1 - share:.0%} of the entries are 0: {size(dense)}, as CSR {size(csr)}; "
            "mpi-opt data convert --sparse makes it"
        ]
    return []


def _scales(built: Built) -> list[str]:
    if built.job.prepare.columns != "none":
        return []
    largest = column_largest(built.loaded.train, built.loaded.info.features)
    there = np.flatnonzero(largest)
    if not there.size:
        return []
    low, high = (int(there[at]) for at in (largest[there].argmin(), largest[there].argmax()))
    ratio, base = largest[high] / largest[low], built.loaded.info.index_base
    if ratio < _UNLIKE:
        return []
    return [
        f"columns are scaled unlike: largest magnitudes from {largest[low]:.3g} (column {low + base}) to "
        f"{largest[high]:.3g} (column {high + base}), a factor of {ratio:.3g}; "
        '[prepare] columns = "standard" or "max-abs" evens them'
    ]


def _classes(built: Built, held: Holdings) -> list[str]:
    job = built.job
    if held.counts is None or len(held.counts) < 2:
        return []
    few, many = min(held.counts, key=held.counts.__getitem__), max(held.counts, key=held.counts.__getitem__)
    if held.counts[many] < _UNEQUAL * held.counts[few]:
        return []
    rows = sum(held.counts.values())
    shares = [f"{held.counts[label] / rows:.2%}" for label in (few, many)]
    told = f"{shares[0]} of the rows have the label {number_text(few)}, {shares[1]} {number_text(many)}"
    said = []
    if job.problem.class_weight is None:
        said.append(f'{told}: problem.class_weight = "balanced" gives all classes the same weight')
    if not job.data.intercept and job.problem.module is None:
        said.append(f"{told}, and there is no intercept to take that up: data.intercept = true adds one")
    return said


def _sizes(built: Built, needed: Memory) -> list[str]:
    said, table, dim = [], built.job.algorithm, built.problems[0].dim
    held = 3 * 8 * dim**2
    if table.name in NEWTON and held > MEMORY_LIMIT:
        remedy = "directions come from conjugate gradients"
        if table.solver == "cholesky":
            remedy = 'algorithm.solver = "cholesky" makes them all the same; "cg" does without'
        said.append(f"d = {dim} is too large for a Hessian (three matrices take {spoken(held, 'B')}): {remedy}")
    memory = machine_memory()
    if needed.total.most > memory:
        said.append(f"a node needs {size(needed.total.most)}, and this machine has {size(memory)}")
    return said
