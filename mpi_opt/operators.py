"""From a job's compressor to the operator at the problem's dimension; tensors are looked up in the problem."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mpi_opt.algorithmkeys import Algorithm
from mpi_opt.algorithmkeys import Blockwise as BlockwiseTable
from mpi_opt.compression.base import Compressor
from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.compression.registry import make_compressor
from mpi_opt.errors import JobError
from mpi_opt.job import Job, spec
from mpi_opt.problems.base import Problem
from mpi_opt.words import nearest


class Tensor(NamedTuple):
    """A named block of the model: ``size`` coordinates."""

    name: str
    size: int


def tensors_of(problem: Any) -> list[Tensor]:
    """Return the model's tensors in order: a module's, but empty ones; of linear models weights and intercepts."""
    blocks = getattr(problem, "blocks", None)
    if blocks is not None:
        return [Tensor(block.name, block.size) for block in blocks if block.size]
    if not getattr(problem, "intercept", False):
        return [Tensor("weights", problem.dim)]
    return [Tensor("weights", problem.dim - problem.columns), Tensor("intercepts", problem.columns)]


def with_tensors(job: Job, problem: Problem) -> Job:
    """Replace ``sizes = "tensors"`` by the lengths of the problem's tensors, and k by name by a list.

    Raises
    ------
    JobError
        A name is no tensor's, or a list has another length: names it and what is allowed.
    """
    table = job.algorithm.compressor
    if not isinstance(table, BlockwiseTable) or table.sizes != "tensors":
        return job
    tensors = tensors_of(problem)
    names, kept = [each.name for each in tensors], table.kept
    if isinstance(kept, Mapping):
        wrong = next((name for name in kept if name not in names), None)
        if wrong is not None:
            hint = nearest(wrong, names) or "; allowed: " + ", ".join(names)
            raise JobError(f"algorithm.compressor.kept.{wrong}: no tensor of the model{hint}")
        usual = spec(table.inner)["k"]
        kept = tuple(kept.get(name, usual) for name in names)
    elif kept is not None and len(kept) != len(names):
        raise JobError(f"algorithm.compressor.kept: {len(kept)} entries; allowed: one a tensor, {len(names)}")
    table = msgspec.structs.replace(table, sizes=tuple(each.size for each in tensors), kept=kept)
    return msgspec.structs.replace(job, algorithm=msgspec.structs.replace(job.algorithm, compressor=table))


def blocks_of(table: Algorithm) -> Sequence[int] | None:
    """Return the lengths of the blocks that the trigger looks at one by one; ``None`` where it looks at the model."""
    if table.trigger != "tensor":
        return None
    assert isinstance(table.compressor, BlockwiseTable)
    assert table.compressor.sizes != "tensors"
    return table.compressor.sizes


def make_operator(job: Job, dim: int) -> Compressor:
    """Return the operator at dimension ``dim``; a block length cuts it into blocks, the last one shorter.

    Raises
    ------
    JobError
        It does not fit: k above the dimension or a block, sizes that do not add up.
    """
    params = spec(job.algorithm.compressor)
    name, block = params.pop("name"), params.pop("block", None)
    if job.algorithm.trigger == "tensor":
        params["partial"] = True
    try:
        made = make_compressor(name, params) if block is None else _cut(name, params, block, dim)
        made.omega(dim)
    except JobError as error:
        raise JobError(f"algorithm.{error}{_of_module(job, dim)}") from None
    return made


def _of_module(job: Job, dim: int) -> str:
    """Say that the module may be another than the one whose tensors gave the sizes, as of a resumed run."""
    table, module = job.algorithm.compressor, job.problem.module
    if module is None or not isinstance(table, BlockwiseTable) or sum(table.sizes) == dim:  # type: ignore[arg-type]
        return ""
    return f", of problem.module = {module!r}; a resumed run needs the factory as it was when the run began"


def _cut(name: str, params: dict[str, Any], block: int, dim: int) -> Compressor:
    """Return the operator on blocks of ``block`` entries; the last, shorter one sends all it has where k is more."""
    k = params.get("k")
    if isinstance(k, int) and k > block:
        raise JobError(f"compressor.k = {k}: must be between 1 and the length of a block, {block}")
    whole, rest = divmod(dim, block)
    if not whole:
        return make_compressor(name, {**params, "k": min(k, rest)} if isinstance(k, int) else params)
    inner = make_compressor(name, params)
    return inner if dim == block else Blockwise(inner, (block,) * whole + ((rest,) if rest else ()))
