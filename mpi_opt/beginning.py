"""Where a run begins: at zero, at its last checkpoint, or at the mean model of a run on other nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpi_opt.build import Built
from mpi_opt.errors import JobError
from mpi_opt.network.collectives import Collectives
from mpi_opt.past import Past
from mpi_opt.problems.torch.tensors import difference
from mpi_opt.resuming import Kept, mean_model, read_kept
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class Begin:
    """The beginning of a run.

    Attributes
    ----------
    kept : Kept or None
        The checkpoint that it goes on from.
    step : int
        Steps that it has behind it.
    x0 : ndarray, shape (d,), or None
        Where all nodes begin, if not at zero or at the checkpoint.
    notes : tuple of str
        What a person should know of it.
    again : bool
        At zero, though the run had begun before: it had no checkpoint yet.
    """

    kept: Kept | None = None
    step: int = 0
    x0: Vector | None = None
    notes: tuple[str, ...] = ()
    again: bool = False


def find_begin(built: Built, collectives: Collectives, past: Past | None, *, anew: bool) -> Begin:
    """Return where the run begins; called by all processes together.

    Parameters
    ----------
    built : Built
    collectives : Collectives
    past : Past or None
        The run that it goes on with.
    anew : bool
        From the mean of that run's models, on other nodes.

    Raises
    ------
    DataError
        On every process: there are checkpoints, and none is whole.
    JobError
        On every process: the job's module has other tensors than that of the checkpoint.
    """
    nothing = Begin(notes=("no checkpoint was written yet: the run begins again",), again=not anew)
    if past is None:
        return Begin()
    nodes = built.nodes[0].count
    if not anew:
        kept = read_kept(past.folder, [node.index for node in built.nodes], nodes, collectives)
        if kept is None:
            return nothing
        error = None
        try:
            _check_module(built, built.algorithm.model(kept.pieces[0]["state"]), kept.tensors)
        except JobError as wrong:
            error = wrong
        collectives.check(error)
        return Begin(kept, kept.step, None, (*kept.notes, f"resumed from the checkpoint at step {kept.step}"))
    found = mean_model(past.folder, built.algorithm.model, collectives)
    if found is None:
        return nothing
    _check_module(built, found.model, found.tensors)
    said = (
        f"begun anew on {nodes} nodes instead of {past.nodes}, at step {found.step}: every node at the mean of the old "
        "nodes' models, rows dealt anew, estimates of neighbours built up anew"
    )
    return Begin(None, found.step, found.model, (*found.notes, said))


def _check_module(built: Built, model: Vector, tensors: Sequence[Mapping[str, Any]] | None) -> None:
    """Check that a module, which is made anew by its factory, is still that of the checkpoint.

    Checkpoints of earlier releases do not say of which tensors it is: of these parameters are counted.
    """
    if built.module is None:
        return
    other, dim = None if tensors is None else difference(built.module.tensors, tensors), built.problems[0].dim
    if other is None and model.shape != (dim,):
        other = f"has {dim} parameters, that of the checkpoint {model.size}"
    if other is not None:
        raise JobError(
            f"problem.module = {built.job.problem.module!r}: {other}; allowed: the factory as it was when the run began"
        )
