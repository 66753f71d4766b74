"""The closing words of a run: what was reached, and what the communication cost."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from mpi_opt.network.base import Network, Traffic
from mpi_opt.run.plan import Outcome
from mpi_opt.run.progress import size, spoken_seconds

_PHASES = (
    ("computing", "compute"),
    ("compressing", "compress"),
    ("in messages", "communicate"),
    ("waiting for others", "wait"),
)


@dataclass(frozen=True, slots=True)
class Totals:
    """What all nodes did together."""

    traffic: Traffic
    syncs: int
    fired: int
    blocks: float | None = None


def totals(network: Network, outcome: Outcome) -> Totals:
    """Return the counts of all nodes together (seconds added up); called by all processes."""
    local = np.array([astuple(traffic) for traffic in network.traffic], dtype=np.float64).sum(axis=0)
    counts = [*local, outcome.syncs, outcome.fired, outcome.blocks or 0.0]
    *summed, syncs, fired, blocks = network.collectives.sum(np.array(counts))
    kinds = [type(value) for value in astuple(Traffic())]
    traffic = Traffic(*(kind(value) for kind, value in zip(kinds, summed, strict=True)))
    return Totals(traffic, int(syncs), int(fired), None if outcome.blocks is None else float(blocks))


def lines(outcome: Outcome, all_nodes: Totals, nodes: int, *, sampled: int | None = None) -> Sequence[str]:
    """Return the summary as lines of text.

    Parameters
    ----------
    outcome : Outcome
    all_nodes : Totals
    nodes : int
    sampled : int, optional
        At how many nodes' own models figures were taken; all unless given.
    """
    own = "nodes' own" if sampled is None or sampled >= nodes else f"own of {sampled} of {nodes} nodes, drawn"
    traffic = all_nodes.traffic
    word = "diverged" if outcome.diverged else "done"
    clock = spoken_seconds(outcome.seconds, simulated=outcome.simulated)
    text = [f"{word}: {outcome.reason} ({outcome.steps} steps, {outcome.rounds} rounds, {clock})"]
    if outcome.rows:
        row = outcome.rows[0]
        text.append(
            f"  objective    averaged model {row['objective_average']:.12g}, "
            f"{own}: mean {row['objective_mean']:.12g}, worst {row['objective_worst']:.12g}"
        )
        if not np.isnan(row["test_error_average"]):
            text.append(
                f"  test error   averaged model {row['test_error_average']:.2%}, "
                f"{own}: mean {row['test_error_mean']:.2%}, worst {row['test_error_worst']:.2%}"
            )
        text.append(
            f"  consensus    mean |x_i - average|^2 = {row['consensus_distance']:.3g}, "
            f"|gradient| at the average = {row['gradient_norm']:.3g}"
        )
    sent = traffic.payload_bytes + traffic.header_bytes
    if traffic.header_bytes and all_nodes.syncs:
        share = all_nodes.fired / all_nodes.syncs
        blocks = all_nodes.blocks
        told = "" if blocks is None else f"; blocks of the model: {blocks / all_nodes.syncs:.1%}"
        text.append(f"  fired        {all_nodes.fired} of {all_nodes.syncs} node-syncs ({share:.1%}){told}")
    closing = "" if outcome.average is None else ", the closing average's among them"
    text.append(
        f"  sent         {size(sent)} by all {nodes} nodes, {size(sent / nodes)} a node in the mean, "
        f"in {traffic.messages} messages{closing}"
    )
    text.append(
        f"               payload {traffic.payload_bytes} B, headers {traffic.header_bytes} B, "
        f"floor for random supports {traffic.floor_bits / 8:.0f} B; "
        f"apart: evaluation {size(traffic.evaluation_bytes)}, control {size(traffic.control_bytes)}"
    )
    if outcome.simulated and outcome.rows:
        text += _phases(outcome)
    return text


def _phases(outcome: Outcome) -> Iterator[str]:
    """Yield where the nodes' simulated seconds went, if that was counted."""
    if not all("compute_seconds" in row for row in outcome.rows):
        return
    means = [
        f"{word} {sum(float(row[f'{name}_seconds']) for row in outcome.rows) / len(outcome.rows):.3g} s"
        for word, name in _PHASES
    ]
    yield f"  simulated    {', '.join(means)} (means over the nodes)"
