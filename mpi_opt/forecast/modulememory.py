"""Memory of a module of PyTorch: what it is made of, and the activations of its largest batch.

In one process there is one module, whatever the number of its virtual nodes, which take turns.
"""

from dataclasses import dataclass

from mpi_opt.build import Built
from mpi_opt.errors import JobError
from mpi_opt.run.progress import size

_SEEN_ROWS = 8
"""Rows of the larger of two batches from which larger ones are concluded."""

_BACK = 2
"""Largest tensors beside those that are kept, on the way back: the gradients into and out of an operation."""

_FORWARD = 3
"""Largest tensors of a pass without gradients: what goes in, what comes out, and what another branch waits with."""


@dataclass(frozen=True, slots=True)
class ModuleMemory:
    """Bytes of a module.

    Attributes
    ----------
    made : int
        Parameters, their gradients, frozen ones and buffers.
    activations : tuple of int, or None
        Of each node at most; ``None`` where they could not be seen: ``trouble`` says why.
    rows : int
        Of the largest batch: a step's, or a piece of the pass that evaluations make over the shard.
    """

    made: int
    activations: tuple[int, ...] | None
    rows: int
    trouble: str = ""

    def of_nodes(self, nodes: int) -> list[int]:
        """Return the bytes at each node."""
        return [self.made + each for each in self.activations or (0,) * nodes]

    def lines(self) -> list[str]:
        """Return the forecast's lines."""
        told = f"activations not known: {self.trouble}"
        if self.activations is not None:
            told = f"activations of {self.rows} rows about {size(max(self.activations))}"
        return [
            f"             module {size(self.made)}, {told}",
            "             (of the module there is one in a process, also for all virtual nodes)",
        ]


def module_memory(built: Built) -> ModuleMemory | None:
    """Return what the job's module takes, by two gradients of few rows; ``None`` where the model is linear.

    Work space of PyTorch's own routines, which is theirs, is not in it.
    """
    if built.module is None:
        return None
    from mpi_opt.problems.torch.activations import kept_of, module_bytes
    from mpi_opt.problems.torch.norms import CALIBRATED_AT_ONCE
    from mpi_opt.problems.torch.problem import TorchProblem, largest_piece

    flat, batch = built.module.flat, built.algorithm.batch
    trained, passed = [], []
    for k, problem in enumerate(built.problems):
        whole = largest_piece(problem.rows)
        trained.append(max(whole, 0 if batch is None else min(batch, problem.rows)))
        test = 0 if built.tests is None else largest_piece(built.tests[k].rows)
        passed.append(max(whole, test, CALIBRATED_AT_ONCE if flat.normalised else 0))
    rows = max(trained)
    largest = next(problem for problem, count in zip(built.problems, trained, strict=True) if count == rows)
    assert isinstance(largest, TorchProblem)
    if not rows:
        return ModuleMemory(module_bytes(flat), (0,) * len(trained), 0)
    try:
        kept = kept_of(largest, rows, _SEEN_ROWS)
    except JobError as error:
        return ModuleMemory(module_bytes(flat), None, rows, str(error))
    numbers = 8.0 * built.loaded.info.features  # a row as the shard has it, before it is converted
    back = kept.total + _BACK * kept.largest
    activations = tuple(
        int(max((back / rows + numbers) * here, (_FORWARD * kept.largest / rows + numbers) * there))
        for here, there in zip(trained, passed, strict=True)
    )
    return ModuleMemory(module_bytes(flat), activations, rows)
