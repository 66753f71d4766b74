"""The tables of the rate page: slopes, gains, and whether (n T)^r times the error has come to rest."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mpi_opt.run.progress import size
from mpi_opt.studies.common import table
from mpi_opt.studies.rate_fit import Estimate, gain, slope
from mpi_opt.studies.rate_grounds import Ground
from mpi_opt.studies.rate_points import Measured, Series

ANY = "any"
"""The method of a run on one node."""

_RATES = {1.0: "-1", 0.5: "-1/2"}


def page(series: Sequence[Series], grounds: Mapping[str, Ground], measured: Measured) -> str:
    """Return all tables in Markdown.

    Parameters
    ----------
    series : sequence of Series
    grounds : mapping of str to Ground
        By name.
    measured : Measured
        Complete: every run of ``series``, for the same seeds.
    """
    parts = [f"Seeds: {len(measured.seeds)}."]
    parts.append(table(["function", "what it is"], [[name, ground.words] for name, ground in grounds.items()]))
    parts += ["### Slopes against T", slopes(series, grounds, measured)]
    for each in series:
        if len(each.nodes) > 1:
            title = f"### Gain from n at T = {each.horizons[-1]}: {each.ground}"
            parts += [title, gains(each, measured)]
    parts += ["### Has it come to rest?", rest(series, measured)]
    return "\n\n".join(parts)


def slopes(series: Sequence[Series], grounds: Mapping[str, Ground], measured: Measured) -> str:
    """Return the table of the slopes of log error against log T, fitted seed by seed."""
    rows = []
    for each in series:
        theorem = expected(each, grounds[each.ground])
        for method, n in _at(each):
            found = slope_of(each, measured, method, n)
            cells = [each.ground, method, str(n), f"{each.horizons[0]} .. {each.horizons[-1]}"]
            rows.append([*cells, _RATES[each.rate], f"{theorem:.2f}", *_cells(found, ".2f"), verdict(found, theorem)])
    head = ["function", "method", "n", "T", "theorem: limit", "at these T", "slope (95 % range)"]
    return table([*head, "median (least .. most)", "theorem in range?"], rows)


def gains(series: Series, measured: Measured) -> str:
    """Return the table of the gains of one ground at the largest T, and of the exponent of n."""
    many = [n for n in series.nodes if n > 1]
    rows = [["theorem", *(f"{n**series.rate:.3g}" for n in many), _RATES[series.rate], ""]]
    for method in series.methods:
        cells = []
        for n in many:
            each = gain_of(series, measured, method, n)
            cells.append(f"{each.mean:.3g} ({each.low:.3g} .. {each.high:.3g})")
        exponent = exponent_of(series, measured, method)
        rows.append([method, *cells, _cells(exponent, ".2f")[0], verdict(exponent, -series.rate)])
    return table(["method", *(f"n = {n}" for n in many), "exponent of n (95 % range)", "theorem in range?"], rows)


def rest(series: Sequence[Series], measured: Measured) -> str:
    """Return (n T)^r times the error at the least, middle and largest T: level where the transient is over."""
    rows = []
    for each in series:
        few = (each.horizons[0], each.horizons[len(each.horizons) // 2], each.horizons[-1])
        for method, n in _at(each, every=True):
            levels = [_level(each, measured, method, n, T) if T in each.horizons_of(n) else "" for T in few]
            last = measured.get(each, method, n, each.horizons[-1])
            fired = "" if n == 1 else f"{np.mean([p.fired for p in last]):.0%}".replace("%", " %")
            sent = "" if n == 1 else size(round(float(np.mean([p.sent for p in last]))))
            own = _level(each, measured, method, n, each.horizons[-1], own=True)
            rows.append([each.ground, method, str(n), *levels, own, fired, sent])
    head = [
        "function",
        "method",
        "n",
        "least T",
        "middle T",
        "largest T",
        "own model, largest T",
        "spoke",
        "sent a node",
    ]
    return table(head, rows)


def expected(series: Series, ground: Ground) -> float:
    """Return the slope of the theorem's leading term at the T of a series.

    With averages of weights ``(a + t)^2`` and S_T their sum the term is ``T (T + 2 a) / S_T``, whose slope is -1 once
    T is far above a; with constant steps it is ``1 / sqrt(T)`` at all T.
    """
    if ground.offset is None:
        return -series.rate
    T, a = np.array(series.horizons, dtype=np.float64), ground.offset
    term = 3.0 * (T + 2.0 * a) / (T**2 + 3.0 * a * T + 3.0 * a**2)
    return slope(T, term[None]).mean


def slope_of(series: Series, measured: Measured, method: str, nodes: int) -> Estimate:
    """Return the slope of log error against log T."""
    errors = np.stack([measured.errors(series, method, nodes, T) for T in series.horizons], axis=1)
    return slope(series.horizons, errors)


def gain_of(series: Series, measured: Measured, method: str, nodes: int) -> Estimate:
    """Return the factor by which so many nodes lower the error of one, at the largest T."""
    T = series.horizons[-1]
    return gain(measured.errors(series, method, 1, T), measured.errors(series, method, nodes, T))


def exponent_of(series: Series, measured: Measured, method: str) -> Estimate:
    """Return the slope of log error against log n, at the largest T."""
    errors = [measured.errors(series, method, n, series.horizons[-1]) for n in series.nodes]
    return slope(series.nodes, np.stack(errors, axis=1))


def verdict(found: Estimate, theorem: float) -> str:
    """Return whether the theorem's exponent is in the range, and if not on which side the measured one is."""
    if found.low <= theorem <= found.high:
        return "yes"
    return "no: faster" if found.high < theorem else "**no**: slower"


def claims(series: Sequence[Series], grounds: Mapping[str, Ground], measured: Measured, command: str) -> str:
    """Return the claims in short: one row a theorem, function and method.

    Parameters
    ----------
    series, grounds, measured
        As of `page`.
    command : str
        What makes the figures.
    """
    rows = []
    for each in series:
        for method in each.methods if each.nodes[-1] > 1 else (ANY,):
            found = [(n, slope_of(each, measured, m, n)) for m, n in _at(each) if m == method]
            held = "in T " + _held([verdict(e, expected(each, grounds[each.ground])) for _, e in found])
            span = f"T = {each.horizons[0]} .. {each.horizons[-1]}"
            figures = f"{span}: slope " + ", ".join(f"{e.mean:.2f} at n = {n}" for n, e in found)
            if len(each.nodes) > 1:
                exponent = exponent_of(each, measured, method)
                held += "; in n " + _held([verdict(exponent, -each.rate)])
                most = gain_of(each, measured, method, each.nodes[-1])
                figures += f"; exponent of n {exponent.mean:.2f}, gain {most.mean:.3g} from n = {each.nodes[-1]}"
            form = "O(1/(n T))" if each.rate == 1.0 else "O(1/sqrt(n T))"
            rows.append([f"SPARQ-SGD: {form}", f"{each.ground}, {method}", held, figures, f"`{command}`"])
    return table(["claim", "function and method", "held here?", "figures", "command"], rows)


def _held(judged: Sequence[str]) -> str:
    """Return whether exponents are the theorem's: all, some, or none, and on which side the others are."""
    right = judged.count("yes")
    if right == len(judged):
        return "yes"
    sides = " and ".join(dict.fromkeys(each.split(": ")[1] for each in judged if each != "yes"))
    return f"**no**, {sides}" if not right else f"{right} of {len(judged)}, else **{sides}**"


def _at(series: Series, *, every: bool = False) -> Iterator[tuple[str, int]]:
    """Yield method and n of what was run: with one node once, for there all methods are the same."""
    for n in series.nodes:
        if not every and len(series.horizons_of(n)) < 2:
            continue
        for method in series.methods[:1] if n == 1 else series.methods:
            yield method if n > 1 else ANY, n


def _cells(found: Estimate, form: str) -> tuple[str, str]:
    return (
        f"{found.mean:{form}} ({found.low:{form}} .. {found.high:{form}})",
        f"{found.median:{form}} ({found.least:{form}} .. {found.most:{form}})",
    )


def _level(series: Series, measured: Measured, method: str, n: int, T: int, *, own: bool = False) -> str:
    errors = measured.errors(series, method, n, T, own=own)
    return f"{(n * T) ** series.rate * float(np.exp(np.log(errors).mean())):.3g}"
