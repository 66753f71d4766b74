"""A view of a run as lines of text: a few on a terminal, or one for a log."""

import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.jobkeys import Stop
from mpi_opt.metrics.lost import told
from mpi_opt.run.progress import figures, size, spoken_seconds
from mpi_opt.status import span
from mpi_opt.watch.bounds import Bound, bounds
from mpi_opt.watch.look import View

_LABEL, _BAR, _SPARKS = 12, 24, 48
_BLOCKS, _LETTERS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
_PHASES = (
    ("compute", ("compute_seconds", "compress_seconds")),
    ("communicate", ("communicate_seconds",)),
    ("wait", ("wait_seconds",)),
)


def block(view: View, *, blocks: bool = True) -> list[str]:
    """Return a view as some ten lines.

    Parameters
    ----------
    view : View
    blocks : bool, optional
        Whether the reader's encoding has block characters.
    """
    lines = [_title(view), _labelled("state", _state(view))]
    lines += [_labelled(label, text) for label, text in _lines(view, blocks)]
    return [plain(line) for line in lines]


def line(view: View) -> str:
    """Return the newest row as one line."""
    row = view.last
    rules = _bounds(view)
    of = f" ({rules[0].share:.1%} of stop.{rules[0].name}{_left(view, rules[0])})" if rules else ""
    return plain(
        f"step {int(row['step'])}  round {int(row['round'])}  "
        f"{spoken_seconds(row['seconds'], simulated=view.simulated)}{of}  {figures(row)}"
        if "seconds" in row
        else "no row yet"
    )


def status(view: View) -> str:
    """Return the state as one line that changes only where the state does."""
    if view.state in ("running", "waiting"):
        return _state(view) if view.state == "waiting" else f"running on {_nodes(view)}"
    return plain(f"{view.state}: {view.words}")


def spark(values: npt.NDArray[Any], blocks: bool = True, width: int = _SPARKS) -> str:
    """Return numbers as a line of small bars, on a log scale where all are positive; blank where one is not finite.

    Parameters
    ----------
    values : ndarray of float64, shape (rows,)
    blocks : bool, optional
        Draw with block characters, else with ASCII.
    width : int, optional
        Longest line; of more rows, evenly spread ones and the last are shown.
    """
    if len(values) > width:
        values = values[np.linspace(0, len(values) - 1, width).round().astype(int)]
    known = np.isfinite(values)
    if not known.any():
        return ""
    if (values[known] > 0).all():
        values = np.log(values, where=known, out=np.full(len(values), np.nan))
    low, high = values[known].min(), values[known].max()
    signs = _BLOCKS if blocks else _LETTERS
    heights = np.where(known, values - low, 0.0) / (high - low if high > low else 1.0)
    return "".join(
        signs[round(height * (len(signs) - 1))] if there else " " for height, there in zip(heights, known, strict=True)
    )


def plain(text: str) -> str:
    """Return text without what could steer a terminal: names and reasons come out of files."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _labelled(label: str, text: str) -> str:
    return f"{label:<{_LABEL}}{text}"


def _title(view: View) -> str:
    where = os.path.relpath(view.folder)
    if not view.tails:
        return where
    facts = view.tails[0].attributes
    name, graph = facts.get("name", ""), facts.get("graph", "")
    method = f"{view.job.algorithm.name} on " if view.job else ""
    # What is long comes last: a narrow terminal cuts it off.
    at = "" if name == where else f"  ({where})"
    return f"{name}: {method}{_nodes(view)}{f', {graph}' if graph else ''}{at}"


def _nodes(view: View) -> str:
    started, here = int(view.tails[0].attributes["nodes"]), len(view.tails)
    return f"{started} nodes" if here == started else f"{here} of {started} nodes"


def _state(view: View) -> str:
    if view.state == "waiting":
        return "waiting: no metrics yet"
    if view.state == "running":
        return f"running, last flush {span(view.flushed or 0.0)} ago"
    hint = ""
    if view.state == "killed":
        kept = "" if view.checkpoint is None else f" from step {view.checkpoint}"
        hint = f"; mpi-opt resume goes on{kept}"
    return f"{view.state}: {view.words}{hint}"


def _lines(view: View, blocks: bool) -> Iterator[tuple[str, str]]:
    """Yield label and text of what is known."""
    row = view.last
    if row:
        yield from _progress(view, blocks)
        yield from _losses(view, blocks)
        yield from _traffic(view)
        yield from _phases(view)
    if view.checkpoint is not None:
        yield "checkpoint", f"step {view.checkpoint}, {span(view.checkpoint_age or 0.0)} ago"
    if view.lost:
        yield "lost", told(view.lost)
    if view.trouble:
        yield "unreadable", view.trouble


def _progress(view: View, blocks: bool) -> Iterator[tuple[str, str]]:
    row, rules = view.last, _bounds(view)
    yield "at", f"step {int(row['step'])}, round {int(row['round'])}, {row.get('epoch', math.nan):.4g} epochs"
    for index, rule in enumerate(rules):
        filled = int(rule.share * _BAR)
        bar = ("█" if blocks else "#") * filled + ("░" if blocks else ".") * (_BAR - filled)
        text = f"{bar} {rule.share:6.1%} of {rule.limit:g}"
        yield rule.name, text + (_left(view, rule) if index == 0 else "")
    if view.simulated:
        yield "clock", f"{row['seconds']:.4g} simulated s, which took {row['wall_seconds']:.1f} s"
    else:
        yield "clock", f"{row['seconds']:.1f} s, with evaluation and writing {row['wall_seconds']:.1f} s"


def _losses(view: View, blocks: bool) -> Iterator[tuple[str, str]]:
    row, stop = view.last, _stop(view)
    average, mean, worst = (row.get(f"objective_{kind}", math.nan) for kind in ("average", "mean", "worst"))
    goal = "" if stop is None or stop.objective is None else f"; stops at {stop.objective:g}"
    yield "objective", f"{average:.8g} at the average model; nodes: mean {mean:.8g}, worst {worst:.8g}{goal}"
    drawn = spark(view.history.get("objective_average", np.zeros(0)), blocks)
    if len(drawn) > 1:
        yield "", drawn
    for kind in ("test", "train"):
        share = row.get(f"{kind}_error_average", math.nan)
        if math.isfinite(share):
            worst = row.get(f"{kind}_error_worst", math.nan)
            nodes = f"; nodes: mean {row['test_error_mean']:.2%}, worst {worst:.2%}" if math.isfinite(worst) else ""
            yield f"{kind} error", f"{share:.2%} at the average model{nodes}"
            break
    gradient = row.get("gradient_norm", math.nan)
    goal = "" if stop is None or stop.gradient_norm is None else f"; stops at {stop.gradient_norm:g}"
    if math.isfinite(gradient):
        yield "gradient", f"norm {gradient:.4g}{goal}"
    if math.isfinite(row.get("consensus_distance", math.nan)):
        yield "consensus", f"distance {row['consensus_distance']:.4g}"


def _traffic(view: View) -> Iterator[tuple[str, str]]:
    payload, header, control = (view.each(f"{kind}_bytes") for kind in ("payload", "header", "control"))
    busiest = int(np.argmax(payload + header))
    number = _with_rows(view)[busiest]
    yield (
        "sent",
        f"payload {size(payload.sum())}, headers {size(header.sum())}, control {size(control.sum())} by all; "
        f"most by node {number}: {size(payload[busiest] + header[busiest])}",
    )
    asked = [(tail.fired / tail.syncs, tail.node) for tail in view.tails if tail.syncs]
    if asked:
        (least, low), (most, high) = min(asked), max(asked)
        syncs = max(tail.syncs for tail in view.tails)
        mean = sum(share for share, _ in asked) / len(asked)
        shares = [tail.blocks for tail in view.tails if tail.blocks is not None]
        blocks = f"; blocks of the model {sum(shares) / len(shares):.0%}" if shares else ""
        nodes = f"(node {low}: {least:.0%}, node {high}: {most:.0%})"
        yield "firing", f"{mean:.0%} over the last {syncs} syncs {nodes}{blocks}"


def _phases(view: View) -> Iterator[tuple[str, str]]:
    clock = view.each("seconds")
    if not clock.size or not clock.min() > 0:
        return
    parts = []
    for word, names in _PHASES:
        share = sum(view.each(name) for name in names) / clock
        parts.append(f"{word} {_percent(share.min())}/{_percent(share.mean())}/{_percent(share.max())} %")
    yield "phases", ", ".join(parts) + "  (min/mean/max over nodes)"
    if clock.size > 1:
        # Others wait for whoever computes longest, so that its own clock says nothing.
        busy = (view.each("compute_seconds") + view.each("compress_seconds")) / np.maximum(view.each("step"), 1.0)
        slowest, mean = int(np.argmax(busy)), float(busy.mean())
        more = f", {busy[slowest] / mean:.2f} x the mean" if mean > 0 else ""
        tail = [tail for tail in view.tails if tail.rows][slowest]
        host = tail.attributes.get("host", "?")
        yield "slowest", f"node {tail.node} on {host}: computes {1e3 * busy[slowest]:.3g} ms a step{more}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _with_rows(view: View) -> Sequence[int]:
    return [tail.node for tail in view.tails if tail.rows]


def _stop(view: View) -> Stop | None:
    return None if view.job is None else view.job.stop


def _bounds(view: View) -> list[Bound]:
    stop = _stop(view)
    if stop is None or not view.last:
        return []
    return bounds(stop, view.history, float((view.each("payload_bytes") + view.each("header_bytes")).max()))


def _left(view: View, rule: Bound) -> str:
    """Say how long the run may still take; what went by since the last row is taken off."""
    if view.state != "running" or rule.left is None:
        return ""
    since = view.flushed or 0.0
    return f", about {span(max(0.0, rule.left - since))} left"
