"""Where a run begins: at zero, at its last checkpoint, or at the mean model of a run on other nodes."""

from dataclasses import dataclass

from mpi_opt.build import Built
from mpi_opt.errors import JobError
from mpi_opt.network.collectives import Collectives
from mpi_opt.resuming import Kept, Past, mean_model, read_kept
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
        On every process: the job's module has another number of parameters than that of the checkpoint.
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
            _check_module(built, built.algorithm.model(kept.pieces[0]["state"]))
        except JobError as wrong:
            error = wrong
        collectives.check(error)
        return Begin(kept, kept.step, None, (*kept.notes, f"resumed from the checkpoint at step {kept.step}"))
    found = mean_model(past.folder, built.algorithm.model, collectives)
    if found is None:
        return nothing
    step, mean, notes = found
    _check_module(built, mean)
    said = (
        f"begun anew on {nodes} nodes instead of {past.nodes}, at step {step}: every node at the mean of the old "
        "nodes' models, rows dealt anew, estimates of neighbours built up anew"
    )
    return Begin(None, step, mean, (*notes, said))


def _check_module(built: Built, model: Vector) -> None:
    """Check that a module, which is made anew by its factory, still has the parameters of the checkpoint's model."""
    dim = built.problems[0].dim
    if built.module is not None and model.shape != (dim,):
        raise JobError(
            f"problem.module = {built.job.problem.module!r}: has {dim} parameters, that of the checkpoint "
            f"{model.size}; allowed: the factory as it was when the run began"
        )
