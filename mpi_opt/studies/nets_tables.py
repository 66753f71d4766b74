"""The tables of trials of modules in Markdown, and what is claimed of them held against what was found."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from mpi_opt.errors import JobError
from mpi_opt.run.progress import size
from mpi_opt.studies.claims import held_in_words
from mpi_opt.studies.common import table

OURS = "sparq-sgd"

ACCURACY = {"average": 0.98, "worst": 0.975}
"""Test accuracy that SPARQ-SGD's averaged model and worst node are to reach."""

SAVINGS = {"d-psgd": 100.0, "choco-sgd": 3.0}
"""How many times fewer bytes than these rivals."""

PLACES = {"average": "averaged model", "mean": "nodes' mean", "worst": "worst node"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Test errors after some steps.

    Attributes
    ----------
    step : int
    sent : int
        Bytes that all nodes have handed over, payload and headers.
    average, mean, worst : float
        Errors of the averaged model, and of the nodes' own, in the mean and of the worst.
    """

    step: int
    sent: int
    average: float
    mean: float
    worst: float

    def told(self) -> str:
        """Return it as a line."""
        errors = ", ".join(f"{words} {getattr(self, place):.2%}" for place, words in PLACES.items())
        return f"step {self.step}, {size(self.sent)} sent, test error: {errors}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run.

    Attributes
    ----------
    job, method : str
    sync_every : int
        H.
    compressor : str or None
    seed : int
    fired : float
        Share of the synchronisations at which a node spoke.
    diverged : bool
    looks : tuple of Look
        From the start to the end.
    """

    job: str
    method: str
    sync_every: int
    compressor: str | None
    seed: int
    fired: float
    diverged: bool
    looks: tuple[Look, ...]

    def reached(self, target: float, place: str) -> Look | None:
        """Return the first look at which the error of ``place`` was at most ``target``."""
        return next((look for look in self.looks if getattr(look, place) <= target), None)


def page(trials: Sequence[Trial], target: float) -> str:
    """Return the tables of a page."""
    groups = _groups(trials)
    ours = groups.get(OURS, [])
    head = ["method", "H", "compressor", "seeds", "fired", "sent by all"]
    head += [f"test accuracy, {words}" for words in PLACES.values()]
    ends = [
        [
            *_named(group),
            str(len(group)),
            _spread([trial.fired for trial in group], "{:.0%}".format),
            _spread([trial.looks[-1].sent for trial in group], size),
            *(_spread([1.0 - getattr(t.looks[-1], place) for t in group], "{:.2%}".format) for place in PLACES),
        ]
        for group in groups.values()
    ]
    head_to = ["method", "H"]
    for words in PLACES.values():
        head_to += [f"{words}: step", "sent by all", "x SPARQ's"]
    to = [
        [*_named(group)[:2], *(cell for place in PLACES for cell in _to(group, ours, target, place))]
        for group in groups.values()
    ]
    return "\n\n".join(
        [
            "#### At the end of the runs",
            table(head, ends),
            f"#### Until {1.0 - target:.0%} of the test images",
            table(head_to, to),
        ]
    )


def claims(trials: Sequence[Trial], target: float) -> str:
    """Return what was to be shown against what was found; a claim holds if it does with every seed.

    Raises
    ------
    JobError
        There is no trial of SPARQ-SGD.
    """
    groups = _groups(trials)
    ours = groups.get(OURS, [])
    if not ours:
        raise JobError(f"no trial of {OURS} is there")
    lines = []
    for place, wanted in ACCURACY.items():
        found = [1.0 - getattr(trial.looks[-1], place) for trial in ours]
        words = f"at least {wanted:.1%} of the test images, {PLACES[place]}"
        lines.append([words, _spread(found, "{:.2%}".format), str(len(found)), held_in_words(min(found) >= wanted)])
    for method, wanted in SAVINGS.items():
        for place, named in PLACES.items():
            factors = savings(ours, groups.get(method, []), target, place)
            held = None if not factors else min(factors) >= wanted
            lines.append(
                [
                    f"{wanted:.0f} times fewer bytes than {method} to {1.0 - target:.0%}, {named}",
                    _spread(factors, _factor),
                    str(len(factors)),
                    held_in_words(held),
                ]
            )
    return table(["claim", "found", "seeds", "held"], lines)


def savings(ours: Sequence[Trial], theirs: Sequence[Trial], target: float, place: str) -> list[float]:
    """Return what rivals sent until the target through what SPARQ-SGD sent, seed by seed.

    Where the rival did not get there, all that it sent counts; where SPARQ-SGD did not, the factor is 0.
    """
    by_seed, found = {trial.seed: trial for trial in ours}, []
    for trial in theirs:
        if (mine := by_seed.get(trial.seed)) is None:
            continue
        there, here = trial.reached(target, place), mine.reached(target, place)
        if here is None:
            found.append(0.0)
        else:
            found.append((trial.looks[-1] if there is None else there).sent / here.sent if here.sent else math.inf)
    return found


def _groups(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.method, []).append(trial)
    return dict(sorted(found.items(), key=lambda item: item[0] != OURS))


def _named(group: Sequence[Trial]) -> list[str]:
    first = group[0]
    return [first.method, str(first.sync_every), first.compressor or "–"]


def _to(group: Sequence[Trial], ours: Sequence[Trial], target: float, place: str) -> list[str]:
    found = [look for trial in group if (look := trial.reached(target, place)) is not None]
    if len(found) < len(group):
        return [f"{len(found)} of {len(group)} runs", "–", "–"]
    return [
        _spread([look.step for look in found], "{:.0f}".format),
        _spread([look.sent for look in found], size),
        "1" if group[0].method == OURS else _spread(savings(ours, group, target, place), _factor),
    ]


def _factor(value: float) -> str:
    if not value:
        return "–"
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _spread(values: Sequence[float], show: Callable[[float], str]) -> str:
    """Return the median, with least and most where they differ."""
    if not values:
        return "–"
    middle, least, most = show(median(values)), show(min(values)), show(max(values))
    return middle if least == most else f"{middle} ({least} to {most})"
