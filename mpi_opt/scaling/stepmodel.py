"""Seconds of a mean step: a node's own work, and its messages over a network. Formulas only.

Time to a target is not in it: with more nodes gossip mixes more slowly, and methods take more or fewer steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpi_opt.errors import JobError
from mpi_opt.scaling.cost import NetworkProfile, exchange_seconds, reduction_seconds


@dataclass(frozen=True, slots=True)
class Reduced:
    """A sum or mean over all nodes.

    Parameters
    ----------
    nbytes : float
        Bytes from a node to the master; the answer is taken to be as long.
    per_step : float
        How many a step takes, in the mean.
    """

    nbytes: float
    per_step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a mean step of one node asks for.

    Parameters
    ----------
    nodes : int
        Nodes that these figures belong to.
    compute, compress : float
        Seconds in gradients, losses and Hessians, and in the compressor.
    fixed : float
        Seconds of ``compute`` that do not shrink with a node's rows: all of it where a step takes a mini-batch.
    pack : float
        Other seconds of the node itself: the step's vector arithmetic, packing, the driver.
    unpack : float
        Seconds to read one neighbour's message and add it, besides ``pack``.
    message : float
        Bytes of one message to one neighbour, where the node speaks.
    degree : float
        Neighbours; 0 where the method reduces over all nodes.
    firing : float
        Share of its synchronisations at which a node speaks, 0 to 1.
    syncs : float
        Synchronisations a step, 1/H.
    overlap : bool
        Exchanges are completed one synchronisation later, behind the compute of the steps between.
    reductions : tuple of Reduced
    masters : int
        Nodes that hold no rows, so that the others share them.
    posted : bool
        ``pack`` holds the calls that hand messages over, as it does where it comes from a finished run.

    Raises
    ------
    JobError
        A number out of range.
    """

    nodes: int
    compute: float
    compress: float = 0.0
    fixed: float = 0.0
    pack: float = 0.0
    unpack: float = 0.0
    message: float = 0.0
    degree: float = 0.0
    firing: float = 1.0
    syncs: float = 0.0
    overlap: bool = False
    reductions: tuple[Reduced, ...] = ()
    masters: int = 0
    posted: bool = False

    @property
    def workers(self) -> int:
        """Nodes that hold rows."""
        return self.nodes - self.masters

    def __post_init__(self) -> None:
        names = ("compute", "compress", "fixed", "pack", "unpack", "message", "degree", "firing", "syncs")
        for name in names:
            if not 0 <= getattr(self, name) < float("inf"):
                raise JobError(f"a step's {name} is {getattr(self, name)}; a finite number >= 0 is needed")
        if self.masters < 0 or self.workers < 1 or self.firing > 1 or self.fixed > self.compute:
            raise JobError(
                f"a step on {self.nodes} nodes, {self.masters} without rows, firing {self.firing}, {self.fixed} s of "
                f"{self.compute} s fixed; allowed: at least 1 node with rows, a share up to 1, fixed seconds up to all"
            )


@dataclass(frozen=True, slots=True)
class StepCost:
    """Mean seconds of a step of one node, by phase."""

    compute: float
    compress: float
    pack: float
    network: float

    @property
    def total(self) -> float:
        """Their sum."""
        return self.compute + self.compress + self.pack + self.network


@dataclass(frozen=True, slots=True)
class Point:
    """A prediction: ``nodes``, and the ``cost`` of a step there."""

    nodes: int
    cost: StepCost


def predict_step(
    work: Work,
    profile: NetworkProfile,
    nodes: int | None = None,
    *,
    weak: bool = False,
    degree: float | None = None,
) -> StepCost:
    """Return what a mean step costs on ``nodes`` nodes of a network.

    Parameters
    ----------
    work : Work
    profile : NetworkProfile
    nodes : int, optional
        By default those that ``work`` belongs to.
    weak : bool
        Every node keeps its rows; by default the same rows are dealt to all nodes.
    degree : float, optional
        Neighbours of a node there; by default as in ``work``.

    Raises
    ------
    JobError
        Fewer than one node that holds rows.
    """
    nodes = work.nodes if nodes is None else nodes
    if nodes <= work.masters:
        raise JobError(f"a step on {nodes} nodes: allowed: at least {work.masters + 1}")
    around = 0.0 if nodes == 1 else min(work.degree if degree is None else degree, nodes - 1)
    rows = 1.0 if weak else work.workers / (nodes - work.masters)
    compute = work.fixed + (work.compute - work.fixed) * rows
    pack = work.pack + work.unpack * around * work.firing * work.syncs
    network = work.syncs * _exchange(work, profile, around, compute + work.compress + pack)
    network += sum(each.per_step * reduction_seconds(each.nbytes, nodes, profile) for each in work.reductions)
    return StepCost(compute, work.compress, pack, network)


def _exchange(work: Work, profile: NetworkProfile, degree: float, local: float) -> float:
    """Return the mean seconds that a node waits in one synchronisation; ``local`` is its own work of a step."""
    if not work.syncs or not degree:
        return 0.0
    spoken = exchange_seconds(work.message, degree, profile)
    silent = exchange_seconds(0.0, degree, profile)
    seconds = work.firing * spoken + (1.0 - work.firing) * silent
    if work.posted and profile.curves is not None:
        seconds = max(seconds - profile.curves.posting, 0.0)
    return max(seconds - local / work.syncs, 0.0) if work.overlap else seconds


def extrapolate(
    work: Work,
    profile: NetworkProfile,
    nodes: Sequence[int],
    *,
    weak: bool = False,
    degree: Callable[[int], float] | None = None,
) -> list[Point]:
    """Return the prediction at each number of nodes.

    Strong scaling divides the rows, and the compute that goes with them, by the nodes; weak scaling keeps them.
    Reductions grow with the logarithm of the nodes, an exchange with the neighbours only. How many steps a target
    takes is not in it: on a ring of n nodes gossip mixes about n^2 times more slowly.

    Parameters
    ----------
    work : Work
    profile : NetworkProfile
    nodes : sequence of int
    weak : bool
    degree : callable, optional
        Neighbours of a node by the number of nodes; by default as in ``work`` everywhere.
    """
    return [
        Point(n, predict_step(work, profile, n, weak=weak, degree=None if degree is None else degree(n))) for n in nodes
    ]
