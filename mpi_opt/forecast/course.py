"""How long a run is by its stop rules, and how many rounds it is likely to need where that is known."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mpi_opt.algorithms.registry import NEWTON
from mpi_opt.build import Built
from mpi_opt.forecast.holdings import Holdings
from mpi_opt.forecast.traffic import Traffic
from mpi_opt.run.progress import size
from mpi_opt.scaling.cost import Shard
from mpi_opt.scaling.finish import giant_iterations, newton_cg_rounds, newton_sums
from mpi_opt.topology.gossip import exact_rounds
from mpi_opt.topology.mixing import DENSE_NODES
from mpi_opt.topology.trial import decay

_PLANNED = ("steps", "rounds", "epochs")

_MEASURED: Mapping[str, str] = MappingProxyType(
    {
        "newton": "6 on a9a and ijcnn1, 9 on w8a",
        "giant": "10 to 30 on a9a, 10 to 12 on ijcnn1, 22 on w8a with 16 nodes, not within 120 with 100",
        "newton-cg": "110 on a9a, 25 on ijcnn1, 47 on w8a",
        "lbfgs": "17 on ijcnn1, 44 on w8a, not within 120 on a9a",
        "admm": "16 to 26 on ijcnn1, 67 to 109 on w8a, 111 on a9a with 16 nodes, not within 120 with 100",
    }
)
"""Rounds to f - f* <= 1e-6 from zero: logistic loss, l2 = 1/N, rows shuffled, 16 and 100 nodes.

The counts of docs/compare-newton.md.
"""


@dataclass(frozen=True, slots=True)
class Length:
    """The most that the stop rules allow.

    Attributes
    ----------
    steps, rounds : int or None
        ``None``: no rule bounds them.
    epochs : float or None
        Passes over the rows, of ``steps``.
    by : str
        The rule that comes first; empty where none bounds the run.
    others : tuple of str
        Rules that may end it before.
    sent : int or None
        Bytes that the busiest node hands over in so many steps, at most; ``None`` where not known.
    """

    steps: int | None
    rounds: int | None
    epochs: float | None
    by: str
    others: tuple[str, ...]
    sent: int | None


def length(built: Built, sends: Traffic) -> Length:
    """Return how long the run is."""
    stop, per_step = built.job.stop, sends.rounds_per_step
    bounds: dict[str, int] = {}
    if stop.steps is not None:
        bounds["steps"] = stop.steps
    if stop.epochs is not None:
        bounds["epochs"] = math.ceil(stop.epochs * built.steps_per_epoch)
    if stop.rounds is not None and per_step:
        bounds["rounds"] = math.ceil(stop.rounds / per_step)
    given = [name for name in stop.__struct_fields__ if getattr(stop, name) is not None]
    if not bounds:
        by = "rounds" if stop.rounds is not None else ""
        return Length(None, stop.rounds, None, by, tuple(name for name in given if name != by), None)
    by = min(bounds, key=bounds.__getitem__)
    steps = bounds[by]
    rounds = stop.rounds if per_step is None else int(steps * per_step)
    others = tuple(name for name in given if name not in _PLANNED or (name == "rounds" and per_step is None))
    return Length(steps, rounds, steps / built.steps_per_epoch, by, others, sends.run_bytes(steps))


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds that the job is likely to need.

    Attributes
    ----------
    about : int or None
        To f - f* <= 1e-6; ``None``: not known.
    mixing : int or None
        Of gossip methods, rounds after which what one node knows has spread: gossip without training or compression
        has a 100-fold smaller squared consensus error; ``None``: not known, or no such method.
    basis : str
        Where the figure comes from, or why there is none.
    """

    about: int | None
    mixing: int | None
    basis: str


def rounds(built: Built, held: Holdings) -> Rounds:
    """Return what is known; nothing is invented."""
    if built.mixing is not None:
        return _gossip(built)
    name, loss = built.job.algorithm.name, built.job.problem.loss
    if name not in NEWTON:
        return Rounds(None, None, "it depends on the step size and the data")
    if loss != "logistic":
        return Rounds(None, None, f"counts were taken with the logistic loss only, not with {loss}")
    if name != "local-newton":
        return Rounds(None, None, f"on other sets, to f - f* <= 1e-6 on 16 and 100 nodes: {_MEASURED[name]}")
    finish = built.job.algorithm.finish
    if finish == "none":
        return Rounds(None, None, "without a finish the method ends in a ball round the optimum")
    if held.one_class > 0.5:
        return Rounds(
            None,
            None,
            f"most rows lie on nodes of one class, so the local rounds are left out: {finish} from zero; on other "
            f"sets, to f - f* <= 1e-6 on 16 and 100 nodes: {_MEASURED[finish]}",
        )
    but = ", but for w8a on 100 nodes" if finish == "giant" else ""
    return Rounds(
        round(_finished(built, finish)),
        None,
        "fitted to f - f* <= 1e-6 on a9a, ijcnn1 and w8a, shuffled over 16 and 100 nodes; within a factor of 2 there"
        + but,
    )


def _finished(built: Built, finish: str) -> float:
    """Return the rounds of LocalNewton and its finish by the cost model's fits."""
    info, dim = built.loaded.info, built.problems[0].dim
    workers = built.nodes[0].count - (built.job.algorithm.master == "dedicated")
    if finish == "newton":
        return 1 + newton_sums(dim)
    if finish == "newton-cg":
        return 1 + newton_cg_rounds(dim)
    shard = Shard(dim, info.rows / workers, info.nonzeros / workers)
    return 3 + 2 * giant_iterations(shard)


def _gossip(built: Built) -> Rounds:
    """Return the rounds in which gossip alone brings the models together; those of training are not known."""
    mixing, rate = built.mixing, built.job.algorithm.consensus_rate
    assert mixing is not None
    assert rate != "auto"
    unknown = "it depends on the step size and the data"
    if mixing.n == 1 or mixing.n > DENSE_NODES:
        return Rounds(None, None, unknown)
    mixing_rounds = math.ceil(exact_rounds(decay(mixing), rate))
    return Rounds(None, mixing_rounds, unknown)


def lines(long: Length, needed: Rounds) -> Sequence[str]:
    """Return the forecast's lines on the run's length and rounds."""
    if long.steps is None:
        bound = f"at most {long.rounds} rounds" if long.rounds is not None else "no rule bounds the steps"
    else:
        least = "at most " if long.others else ""
        bound = f"{least}{long.steps} steps ({long.by}), {long.epochs:.4g} epochs"
        if long.rounds is not None:
            bound += f", {long.rounds} rounds"
    ends = f"; may end before by {', '.join(long.others)}" if long.others else ""
    text = [f"length       {bound}{ends}"]
    if long.sent is not None:
        text.append(f"             the busiest node hands over at most {size(long.sent)} in all")
    if needed.about is not None:
        text.append(f"rounds       about {needed.about} ({needed.basis})")
    else:
        text.append(f"rounds       not known: {needed.basis}")
    if needed.mixing is not None:
        text.append(f"mixing       about {needed.mixing} rounds to a 100-fold smaller consensus error, uncompressed")
    return text
