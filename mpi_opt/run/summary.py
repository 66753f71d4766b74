"""The closing words of a run: what was reached, and what the communication cost."""

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from mpi_opt.network.base import Network, Traffic
from mpi_opt.run.loop import Outcome
from mpi_opt.run.progress import size


def totals(network: Network) -> Traffic:
    """Return the traffic of all nodes together (seconds added up); called by all processes."""
    local = np.array([astuple(traffic) for traffic in network.traffic], dtype=np.float64).sum(axis=0)
    summed = network.collectives.sum(local)
    kinds = [type(value) for value in astuple(Traffic())]
    return Traffic(*(kind(value) for kind, value in zip(kinds, summed, strict=True)))


def lines(outcome: Outcome, traffic: Traffic, nodes: int) -> Sequence[str]:
    """Return the summary as lines of text.

    Parameters
    ----------
    outcome : Outcome
    traffic : Traffic
        That of all nodes together.
    nodes : int
    """
    word = "diverged" if outcome.diverged else "done"
    text = [f"{word}: {outcome.reason}; {outcome.steps} steps, {outcome.rounds} rounds in {outcome.seconds:.2f} s"]
    if outcome.rows:
        row = outcome.rows[0]
        text.append(
            f"  objective    averaged model {row['objective_average']:.12g}, "
            f"nodes' own: mean {row['objective_mean']:.12g}, worst {row['objective_worst']:.12g}"
        )
        if not np.isnan(row["test_error_average"]):
            text.append(
                f"  test error   averaged model {row['test_error_average']:.2%}, "
                f"nodes' own: mean {row['test_error_mean']:.2%}, worst {row['test_error_worst']:.2%}"
            )
        text.append(
            f"  consensus    mean |x_i - average|^2 = {row['consensus_distance']:.3g}, "
            f"|gradient| at the average = {row['gradient_norm']:.3g}"
        )
    sent = traffic.payload_bytes + traffic.header_bytes
    spoken = traffic.messages + traffic.silences
    share = f" ({traffic.messages / spoken:.1%} of {spoken} occasions)" if spoken else ""
    text.append(
        f"  sent         {size(sent)} by all {nodes} nodes, {size(sent / nodes)} each, "
        f"in {traffic.messages} messages{share}"
    )
    text.append(
        f"               payload {traffic.payload_bytes} B, headers {traffic.header_bytes} B, "
        f"floor {traffic.floor_bits / 8:.0f} B; apart: evaluation {size(traffic.evaluation_bytes)}, "
        f"control {size(traffic.control_bytes)}"
    )
    return text
