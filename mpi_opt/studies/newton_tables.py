"""The tables of LocalNewton's comparison: what every method needed, and which claims held."""

from collections.abc import Mapping, Sequence

from mpi_opt.run.progress import size
from mpi_opt.studies.claims import ROUNDS_SHARE, TIME_SHARE, Verdict, held_in_words, in_words, judge
from mpi_opt.studies.common import table
from mpi_opt.studies.course import Point, least, reach
from mpi_opt.studies.kept import Kept
from mpi_opt.studies.methods import ADAPTIVE, EXACT, FINISHES, METHODS, PLAIN, RIVALS, Method

TARGETS = (1e-2, 1e-3, 1e-6)
"""Distances F - F*, largest first."""

FORMS = (
    (PLAIN[-1].name, "the paper's plain form"),
    (ADAPTIVE.name, "the paper's adaptive form"),
    (FINISHES[-1].name, "the finish chosen by the network"),
)
"""What is held against the claims."""

_OPPONENTS = (
    ("five rivals", RIVALS),
    ("without ADMM", tuple(rival for rival in RIVALS if rival.name != "ADMM")),
    ("with exact Newton too", (*RIVALS, EXACT)),
)
_NETWORKS = {"wan": "20 ms", "10gbe": "10 GbE"}


def power(target: float) -> str:
    """Return ``1e-3`` for 0.001."""
    mantissa, exponent = f"{target:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def reached(kept: Kept, method: str, target: float) -> Point | None:
    """Return where a method came within ``target`` of F*; ``None`` where it did not, or was not run."""
    course = kept.courses.get(method)
    return None if course is None else reach(course.points, kept.setting.optimum + target)


def page(found: Sequence[Kept], networks: Sequence[str]) -> str:
    """Return all tables: the sets, what every method needed set by set, and the claims one by one.

    Where a rival was not run nothing is said of claims.
    """
    parts = [sets(found)]
    for name in dict.fromkeys(kept.setting.name for kept in found):
        here = [kept for kept in found if kept.setting.name == name]
        parts += [f"### {name}", needed(here, networks)]
    whole = [kept for kept in found if all(rival.name in kept.courses for rival in (*RIVALS, EXACT))]
    for method, title in FORMS:
        rows = verdicts(whole, method)
        if rows:
            parts += [f"### Claims, {method}: {title}", rows]
    if whole:
        parts += ["### How often the claims held", tally(whole)]
    return "\n\n".join(parts)


def sets(found: Sequence[Kept]) -> str:
    """Return the table of the sets."""
    settings = {kept.setting.name: kept.setting for kept in found}.values()
    rows = [
        [
            each.name, f"{each.rows:,} x {each.features:,}", f"{each.rows / each.nodes:,.0f}",
            f"{each.stored / each.rows:.3g}", f"{each.optimum:.10f}",
        ]
        for each in settings
    ]  # fmt: skip
    return table(["set", "rows x features", "rows a node", "stored entries a row", "F*"], rows)


def needed(found: Sequence[Kept], networks: Sequence[str]) -> str:
    """Return the table of one set: per target rounds, short reductions, bytes and seconds on each network."""
    head = ["split", "method"]
    for target in TARGETS:
        head += [f"rounds to {power(target)}", "bytes", *(f"s, {_NETWORKS.get(each, each)}" for each in networks)]
    rows = []
    for kept in found:
        for name in (method.name for method in METHODS if method.name in kept.courses):
            course = kept.courses[name]
            cells = [kept.setting.split, f"{name} ({course.note})" if course.note else name]
            for target in TARGETS:
                at = reached(kept, name, target)
                cells += ["–"] + [""] * (1 + len(networks)) if at is None else _cells(at)
            gap = max(least(course.points) - kept.setting.optimum, 0.0)
            rows.append([*cells, "" if gap <= TARGETS[-1] else f"{gap:.1e}"])
    return table([*head, "least gap"], rows)


def _cells(at: Point) -> list[str]:
    rounds = f"{at.rounds} + {at.short}" if at.short else str(at.rounds)
    return [rounds, size(at.sent), *map(seconds, at.seconds)]


def seconds(value: float) -> str:
    """Return seconds with three digits."""
    return f"{value:.3g}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def judged(kept: Kept, method: str, target: float, rivals: Sequence[Method] = RIVALS) -> tuple[Verdict, Verdict]:
    """Return the verdicts on rounds and on the seconds of the first network."""
    points = {rival.name: reached(kept, rival.name, target) for rival in rivals}
    ours = reached(kept, method, target)
    return (
        judge(_rounds(ours), {name: _rounds(at) for name, at in points.items()}, ROUNDS_SHARE),
        judge(_time(ours), {name: _time(at) for name, at in points.items()}, TIME_SHARE),
    )


def _rounds(at: Point | None) -> float | None:
    return None if at is None else float(at.rounds)


def _time(at: Point | None) -> float | None:
    return None if at is None else at.seconds[0]


def verdicts(found: Sequence[Kept], method: str) -> str:
    """Return the table of the claims, one row a set, split and target; empty where the method was not run."""
    rows = []
    for kept in found:
        if method not in kept.courses:
            continue
        for target in TARGETS:
            rounds, time = judged(kept, method, target)
            exact = reached(kept, EXACT.name, target)
            rows.append([
                kept.setting.name, kept.setting.split, power(target),
                in_words(rounds, _whole), held_in_words(rounds.held),
                in_words(time, seconds), held_in_words(time.held),
                "–" if exact is None else f"{exact.rounds}; {seconds(exact.seconds[0])} s",
            ])  # fmt: skip
    if not rows:
        return ""
    head = ["set", "split", "target", "rounds", "< 60 %?", "seconds", "< 40 %?", "exact Newton"]
    return table(head, rows)


def tally(found: Sequence[Kept]) -> str:
    """Return the table of how often the claims on rounds and on time held, by form, split and who is a rival."""
    rows = []
    for form, _ in FORMS:
        for split in dict.fromkeys(kept.setting.split for kept in found):
            here = [kept for kept in found if kept.setting.split == split]
            if not all(form in kept.courses for kept in here):
                continue
            cells = [form, split, str(len(here) * len(TARGETS))]
            for _, rivals in _OPPONENTS:
                pairs = [judged(kept, form, target, rivals) for kept in here for target in TARGETS]
                cells.append(" and ".join(str(sum(pair[which].held is True for pair in pairs)) for which in (0, 1)))
            rows.append(cells)
    heads = [f"rounds and time held, {words}" for words, _ in _OPPONENTS]
    return table(["form", "split", "rows", *heads], rows)


def claims(found: Sequence[Kept], command: str) -> str:
    """Return the claims in short: one row a claim, set and split, with the targets side by side.

    Parameters
    ----------
    found : sequence of Kept
    command : str
        What makes the figures.
    """
    rows = []
    for which, (words, show) in enumerate((("< 60 % of the rounds", _whole), ("< 40 % of the time", seconds))):
        for kept in found:
            each = {power(target): judged(kept, ADAPTIVE.name, target)[which] for target in TARGETS}
            figures = "; ".join(f"{target}: {in_words(verdict, show)}" for target, verdict in each.items())
            where = f"{kept.setting.name}, {kept.setting.nodes} nodes, {kept.setting.split}"
            rows.append([f"LocalNewton: {words}", where, _held_at(each), figures, f"`{command}`"])
    head = ["claim", "setting and split", "held here?", "figures", "command"]
    return table(head, rows) + "\n\nHow often, for all forms and by who counts as a rival:\n\n" + tally(found)


def _held_at(verdicts: Mapping[str, Verdict]) -> str:
    """Return at which targets a claim held."""
    held = [target for target, verdict in verdicts.items() if verdict.held]
    if len(held) == len(verdicts):
        return "yes"
    return (
        "**no**"
        if not held
        else f"at {', '.join(held)}; **not** at "
        + ", ".join(target for target, verdict in verdicts.items() if not verdict.held)
    )
