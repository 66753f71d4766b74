"""The columns of a comparison, in CSV, JSON and the tables: names stay what they are (``docs/compare.md``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = str | bool | int | float | None
Record: TypeAlias = Mapping[str, Value]
"""One run (or group of runs) under the names of ``COLUMNS``; ``None`` where there is nothing to say."""

SCHEMA = 1
"""Raised when a column changes its meaning or is taken away; a new column leaves it as it is."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes
    ----------
    name, unit, meaning : str
        The unit is empty for text and truth values, ``"1"`` for pure numbers.
    spread : bool
        Whether it differs between seeds of one job: then it has a median, ``NAME_min`` and ``NAME_max`` in groups.
    """

    name: str
    unit: str
    meaning: str
    spread: bool = True


COLUMNS: tuple[Column, ...] = (
    Column("run", "", "The run's folder; of a group, its first run's", False),
    Column("runs", "1", "Runs in the group; 1 without --group-seeds", False),
    Column("method", "", "algorithm.name", False),
    Column("nodes", "1", "Nodes n at the start", False),
    Column("sync_every", "step", "H: steps between synchronisations; empty for methods of whole passes", False),
    Column("compressor", "", "The compressor and its parameters; empty where sums or averages are taken", False),
    Column("seed", "", "Seed, or seeds", False),
    Column("state", "", "done, diverged, paused, failed, closed, or running or killed", False),
    Column("measure", "", "gap, objective, gradient-norm, error or accuracy", False),
    Column("at", "", "average, mean or worst: the model whose measure is held against the target", False),
    Column("target", "1", "The target; empty without one", False),
    Column("reference", "1", "F*, for the measure gap", True),
    Column("evaluations", "1", "Evaluations on disk, the start among them"),
    Column("reached", "1", "Runs that met the target: 1 or 0, more in a group; empty without a target", False),
    Column("row", "1", "First evaluation that meets the target, counted from 0, the start; without a target the last"),
    Column("step", "step", "Steps completed there"),
    Column("round", "round", "Communication rounds by then"),
    Column("round_before", "round", "Rounds at the evaluation before: the target was met after that"),
    Column("short_rounds", "round", "Reductions of a few numbers by then, not among the rounds"),
    Column("epoch", "epoch", "Passes over the training set by then"),
    Column("syncs", "1", "Synchronisation indices by then, all nodes together"),
    Column("fired", "1", "Those at which a node spoke"),
    Column("blocks_fired", "1", "Share of the model's blocks that spoke, where each decides for itself; else empty"),
    Column("messages", "1", "Non-empty messages by then, all nodes together, counted per receiver"),
    Column("silences", "1", "Zero-byte messages, likewise"),
    Column("payload_bytes", "byte", "Payload handed over by then by all nodes"),
    Column("header_bytes", "byte", "Message headers, likewise"),
    Column("sent_bytes", "byte", "Payload and headers"),
    Column("control_bytes", "byte", "Stop decisions and other control, not in sent_bytes"),
    Column("floor_bytes", "byte", "Information-theoretic size of what was sent"),
    Column("busiest_bytes", "byte", "Payload and headers of the node that sent most"),
    Column("seconds", "s", "Run clock by then, without evaluation and writing; the slowest node's"),
    Column("wall_seconds", "s", "Time since the start by then; the slowest node's"),
    Column("compute_seconds", "s", "In gradients, losses and Hessians by then; mean over nodes"),
    Column("compress_seconds", "s", "In the compressor, likewise"),
    Column("communicate_seconds", "s", "Packing, unpacking, posting messages, likewise"),
    Column("wait_seconds", "s", "Waiting for other nodes, likewise"),
    Column("value_average", "1", "The measure there, at the averaged model"),
    Column("value_mean", "1", "The mean of the measure over the nodes' own models"),
    Column("value_worst", "1", "The measure at the worst node's own model"),
    Column("consensus_distance", "1", "(1/n) sum_i |x_i - average|^2 there"),
    Column("round_to_average", "round", "Rounds until the averaged model meets the target"),
    Column("sent_bytes_to_average", "byte", "Payload and headers until then"),
    Column("round_to_mean", "round", "Rounds until the mean over the nodes' own models meets it"),
    Column("sent_bytes_to_mean", "byte", "Payload and headers until then"),
    Column("round_to_worst", "round", "Rounds until every node's own model meets it"),
    Column("sent_bytes_to_worst", "byte", "Payload and headers until then"),
    Column("best", "1", "Best measure at any evaluation, at the model of the column at"),
    Column("best_round", "round", "Rounds by then"),
    Column("last_round", "round", "Rounds at the last evaluation"),
    Column("last_sent_bytes", "byte", "Payload and headers by then"),
    Column("last_seconds", "s", "Run clock by then"),
    Column("rounds_ratio", "1", "Rounds of the baseline through this run's; of groups, of medians", False),
    Column("bytes_ratio", "1", "sent_bytes likewise", False),
    Column("seconds_ratio", "1", "seconds likewise", False),
    Column(
        "ratio_is_bound",
        "",
        "The baseline did not meet the target: its totals are taken, ratios are at least that",
        False,
    ),
)

NAMES = tuple(column.name for column in COLUMNS)
SPREAD = tuple(column.name for column in COLUMNS if column.spread)
