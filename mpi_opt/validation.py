"""k-fold cross-validation over l2, before a run: the job's own method, fold by fold, from the largest l2 down."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mpi_opt.build import Built, build, with_l2
from mpi_opt.datasets.folds import without_fold
from mpi_opt.datasets.load import Loaded
from mpi_opt.errors import DivergedError, PausedError
from mpi_opt.metrics.evaluate import Evaluator
from mpi_opt.network.base import Network
from mpi_opt.network.collectives import Collectives
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.progress import size
from mpi_opt.run.stop import StopRules
from mpi_opt.run.summary import totals
from mpi_opt.types import Indices, Vector


class Course(NamedTuple):
    """What every training of the validation shares with the run itself.

    Attributes
    ----------
    collectives : Collectives
        Among the processes.
    connect : callable
        Makes a network for what was built.
    rules : StopRules
        When each training ends.
    control_every : int
        See `run.plan.Plan`.
    say : callable
        Takes a line for the log.
    asked : callable
        Returns who asks the run to pause, the same on every process; empty where nobody does. Called by all together.
    """

    collectives: Collectives
    connect: Callable[[Built], Network]
    rules: StopRules
    control_every: int
    say: Callable[[str], None]
    asked: Callable[[], str]


class Trained(NamedTuple):
    """One training: mean loss and share of errors of the rows left out, rounds, and bytes of all nodes."""

    loss: float
    error: float
    rounds: int
    sent: int


def cross_validate(
    built: Built,
    raw: Loaded,
    fold_of: Indices,
    course: Course,
    trained: list[list[Trained]],
    kept: Callable[[Sequence[Sequence[Trained]]], None],
) -> Mapping[str, Any]:
    """Train on all folds but one, for each fold and each l2; choose an l2. Called by all processes together.

    Parameters
    ----------
    built : Built
        The job's objects, for its resolved job and its nodes.
    raw : Loaded
        The training rows, not prepared.
    fold_of : ndarray of int64
        As `datasets.folds.deal_folds` returns it.
    course : Course
    trained : list of list of Trained
        What an earlier attempt found: for each of the first folds one for each l2. The others are added.
    kept : callable
        Takes ``trained`` after every fold, to be gone on with should this attempt be cut off.

    Returns
    -------
    mapping
        JSON values: ``folds``, ``choose``, ``rule``, ``chosen`` (the l2) and ``table``, a list of mappings with ``l2``,
        ``loss_mean``, ``loss_sd``, ``losses`` (one a fold), for classification ``error_mean``, ``error_sd`` and
        ``errors``, and ``rounds`` (of all folds together). The same on every process.

    Raises
    ------
    DivergedError
        On every process: a training diverged; names fold and l2.
    PausedError
        On every process: the run is asked to pause.
    """
    validation = built.job.validation
    assert validation is not None
    grid, began = validation.l2, time.perf_counter()
    if trained:
        course.say(f"validation: {len(trained)} of {validation.folds} folds were done before")
    kept(trained)
    for fold in range(len(trained), validation.folds):
        trained.append(_fold(built, raw, fold_of, fold, course))
        course.say(
            f"validation: fold {fold + 1} of {validation.folds}, {len(grid)} values of l2, "
            f"{time.perf_counter() - began:.1f} s so far"
        )
        kept(trained)
    classes = raw.info.labels is not None
    table = [_line(l2, [fold[k] for fold in trained], classes) for k, l2 in enumerate(grid)]
    chosen = choose(table, validation.choose, validation.rule)
    for line in table:
        course.say(_shown(line))
    sent = sum(one.sent for fold in trained for one in fold)
    course.say(
        f"validation: l2 = {grid[chosen]:g} ({validation.rule} of {validation.choose}); all nodes handed over "
        f"{size(sent)} for it, not counted below"
    )
    if chosen in (0, len(grid) - 1) and len(grid) > 1:
        end, way = ("largest", "larger") if chosen == 0 else ("smallest", "smaller")
        course.say(f"validation: this is the {end} l2 tried; perhaps {way} ones are better")
    return {
        "folds": validation.folds,
        "choose": validation.choose,
        "rule": validation.rule,
        "chosen": grid[chosen],
        "table": table,
    }


def choose(table: Sequence[Mapping[str, Any]], what: str, rule: str) -> int:
    """Return the number of the chosen line; of equals the first, which has the largest l2.

    Parameters
    ----------
    table : sequence of mapping
        As in `cross_validate`, largest l2 first.
    what : {"loss", "error"}
    rule : {"best", "one-standard-error"}
        The least mean; or the largest l2 whose mean is within sd / sqrt(folds) of it, both those of the least.
    """
    means = np.array([line[f"{what}_mean"] for line in table])
    best = int(means.argmin())
    if rule == "best":
        return best
    folds = len(table[best]["losses"])
    return int(np.flatnonzero(means <= means[best] + table[best][f"{what}_sd"] / np.sqrt(folds))[0])


def _fold(built: Built, raw: Loaded, fold_of: Indices, fold: int, course: Course) -> list[Trained]:
    """Train on all rows but those of ``fold`` with every l2, each from the model of the one before."""
    job, validation = built.job, built.job.validation
    assert validation is not None
    local = [node.index for node in built.nodes]
    grid, nodes = validation.l2, built.nodes[0].count
    everyone = course.collectives
    now = build(job, everyone, nodes, local, loaded=without_fold(raw, fold_of, fold, everyone), l2=grid[0])
    x0, result = np.zeros(now.problems[0].dim), []
    for l2 in grid:
        now = with_l2(now, l2)
        if reason := course.asked():
            paused = PausedError(f"{reason}; validation has done {fold} of {validation.folds} folds")
            paused.everywhere = True
            raise paused
        x0, trained = _train(now, x0, f"validation, fold {fold + 1}, l2 = {l2:g}", course)
        result.append(trained)
    return result


def _train(built: Built, x0: Vector, where: str, course: Course) -> tuple[Vector, Trained]:
    """Return the model of one training, the same on every process, and its figures."""
    job, rules = built.job, course.rules
    network = course.connect(built)
    # Evaluation only serves the rules that read it.
    evaluator = None
    if rules.gradient_norm is not None or rules.patience is not None:
        evaluator = Evaluator(network, built.problems, None, classification=False, seed=job.seed, nodes=1)
    outcome = run(
        Plan(
            network=network,
            algorithm=built.algorithm,
            nodes=built.nodes,
            problems=built.timed,
            x0=x0,
            rules=rules,
            evaluator=evaluator,
            evaluate_every=job.metrics.every,
            control_every=course.control_every,
            steps_per_epoch=built.steps_per_epoch,
            average_output=built.averages,
        )
    )
    traffic = totals(network, outcome).traffic
    network.close()
    if outcome.diverged:
        diverged = DivergedError(f"{where}: {outcome.reason}")
        diverged.everywhere = True
        raise diverged
    model = outcome.average
    if model is None:
        model = course.collectives.broadcast(outcome.models[0])
    assert built.tests is not None
    # Folded in the order of the nodes: the same bits over MPI and in lockstep.
    mine = np.array([problem.figures(model) for problem in built.tests], dtype=np.float64)
    loss, wrong, rows = np.concatenate(course.collectives.gather(mine)).sum(axis=0)
    sent = traffic.payload_bytes + traffic.header_bytes + traffic.control_bytes + traffic.evaluation_bytes
    return model, Trained(float(loss / rows), float(wrong / rows), outcome.rounds, sent)


def _line(l2: float, folds: Sequence[Trained], classes: bool) -> dict[str, Any]:
    """Return what the folds say about one l2."""
    losses, errors = ([getattr(one, name) for one in folds] for name in ("loss", "error"))
    line = {"l2": l2, "loss_mean": float(np.mean(losses)), "loss_sd": float(np.std(losses, ddof=1)), "losses": losses}
    if classes:
        line |= {"error_mean": float(np.mean(errors)), "error_sd": float(np.std(errors, ddof=1)), "errors": errors}
    return line | {"rounds": sum(one.rounds for one in folds)}


def _shown(line: Mapping[str, Any]) -> str:
    parts = [f"validation: l2 {line['l2']:<10.4g} loss {line['loss_mean']:.6g} (sd {line['loss_sd']:.2g})"]
    if "error_mean" in line:
        parts.append(f"error {line['error_mean']:.2%} (sd {line['error_sd']:.2%})")
    return "  ".join([*parts, f"{line['rounds']} rounds"])
