"""What a metrics file holds: every series with its name, type, unit and meaning. One place, read by writer and reader.

A file has three parts: ``/series/<name>``, one row per evaluation; ``/syncs/<name>``, one row per synchronisation
index; ``/final``, the model and how the run ended. ``docs/results-folder.md`` is the same for people.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from mpi_opt.network.base import Traffic

VERSION = 1
"""Raised when a series changes its meaning or is taken away; a new series leaves it as it is."""

FORMAT = "mpi_opt metrics"


@dataclass(frozen=True, slots=True)
class Column:
    """One series.

    Attributes
    ----------
    name : str
        Name of the dataset in its group.
    kind : {"i8", "f8", "u1"}
        NumPy type. Integers must be given in every row; a float left out is NaN.
    unit : str
        Unit; ``"1"`` for pure numbers.
    description : str
        What it means.
    """

    name: str
    kind: Literal["i8", "f8", "u1"]
    unit: str
    description: str


SERIES: tuple[Column, ...] = (
    Column("step", "i8", "step", "Steps completed when the row was taken; 0 is the start"),
    Column("round", "i8", "round", "Communication rounds completed: exchanges, averages and sums of vectors"),
    Column("short_rounds", "i8", "round", "Reductions of a few numbers so far (line searches), not among the rounds"),
    Column("epoch", "f8", "epoch", "Passes over the training set so far"),
    Column("nodes_alive", "i8", "1", "Nodes that take part: less than at the start once ranks were lost"),
    Column("seconds", "f8", "s", "Run clock, stopped during evaluation and writing"),
    Column("wall_seconds", "f8", "s", "Time since the start of the run, evaluation and writing included"),
    Column("objective_local", "f8", "1", "Global objective F at this node's own model; NaN where not sampled"),
    Column("train_error", "f8", "1", "Share of all training rows wrong at this node's own model; NaN for regression"),
    Column("test_loss", "f8", "1", "Mean test loss, without penalty, at this node's own model; NaN without test set"),
    Column("test_error", "f8", "1", "Share of all test rows wrong at this node's own model; NaN without test set"),
    Column("objective_mean", "f8", "1", "Mean of objective_local over the nodes evaluated"),
    Column("objective_worst", "f8", "1", "Largest objective_local over the nodes evaluated"),
    Column("test_error_mean", "f8", "1", "Mean of test_error over the nodes evaluated"),
    Column("test_error_worst", "f8", "1", "Largest test_error over the nodes evaluated"),
    Column("objective_average", "f8", "1", "Global objective F at the plain average of all nodes' models"),
    Column("train_error_average", "f8", "1", "Share of all training rows wrong at the averaged model"),
    Column("test_error_average", "f8", "1", "Share of all test rows wrong at the averaged model"),
    Column("consensus_distance", "f8", "1", "(1/n) sum_i |x_i - average|^2"),
    Column("gradient_norm", "f8", "1", "Euclidean norm of the gradient of F at the averaged model"),
    Column("syncs", "i8", "1", "Synchronisation indices (or rounds of master and workers) passed so far"),
    Column("fired", "i8", "1", "Synchronisation indices so far at which this node spoke"),
    Column("messages", "i8", "1", "Non-empty messages handed over so far, counted per receiver"),
    Column("silences", "i8", "1", "Zero-byte messages handed over so far, counted per receiver"),
    Column("payload_bytes", "i8", "byte", "Payload handed to MPI by this node so far, counted per receiver"),
    Column("header_bytes", "i8", "byte", "Message headers handed to MPI by this node so far, counted per receiver"),
    Column("floor_bits", "f8", "bit", "Information-theoretic size of what this node sent so far, per receiver"),
    Column("control_bytes", "i8", "byte", "Stop decisions and other control sent so far, apart from the payload"),
    Column("evaluation_bytes", "i8", "byte", "Models and figures moved for evaluation so far, apart from the payload"),
    Column("compute_seconds", "f8", "s", "Time in gradients, losses and Hessians so far"),
    Column("compress_seconds", "f8", "s", "Time in the compressor so far"),
    Column("communicate_seconds", "f8", "s", "Time packing, unpacking and posting messages so far"),
    Column("wait_seconds", "f8", "s", "Time waiting for other nodes so far"),
    Column("evaluate_seconds", "f8", "s", "Time in evaluation so far; not in seconds"),
    Column("write_seconds", "f8", "s", "Time writing metrics so far; not in seconds"),
)
"""``/series/<name>``: one row per evaluation, all of one length."""

SYNCS: tuple[Column, ...] = (
    Column("step", "i8", "step", "Step whose end was the synchronisation index"),
    Column("fired", "u1", "1", "1 where this node spoke, 0 where it kept silent"),
    Column("drift", "f8", "1", "Squared distance |x_i - xhat_i|^2 at the trigger"),
    Column("threshold", "f8", "1", "Bound c_t eta_t^2 that drift was compared with"),
    Column("payload_bytes", "i8", "byte", "Payload handed to MPI at this index, all receivers together"),
)
"""``/syncs/<name>``: one row per synchronisation index, all of one length."""

BLOCKS: Mapping[str, Column] = {
    "series": Column(
        "blocks_fired", "f8", "1", "Sum of syncs/blocks_fired so far: over syncs it is the mean share of blocks"
    ),
    "syncs": Column("blocks_fired", "f8", "1", "Share of the model's blocks that spoke, 0 to 1"),
}
"""Of each group, the series that only runs with ``algorithm.trigger = "tensor"`` have."""

GROUPS: tuple[tuple[Literal["series", "syncs"], tuple[Column, ...]], ...] = (
    ("series", (*SERIES, BLOCKS["series"])),
    ("syncs", (*SYNCS, BLOCKS["syncs"])),
)
"""The groups that grow by rows, with all that a file may have of them."""


def groups(*, blocks: bool) -> tuple[tuple[Literal["series", "syncs"], tuple[Column, ...]], ...]:
    """Return the groups as a file has them, with what tells of blocks or without."""
    return GROUPS if blocks else (("series", SERIES), ("syncs", SYNCS))


TOTALS: frozenset[str] = frozenset(
    {
        *("step", "round", "short_rounds", "epoch", "seconds", "wall_seconds", "syncs", "fired", "messages"),
        *("silences", "payload_bytes", "header_bytes", "floor_bits", "control_bytes", "evaluation_bytes"),
        *("compute_seconds", "compress_seconds", "communicate_seconds", "wait_seconds", "evaluate_seconds"),
        *("write_seconds", "blocks_fired"),
    }
)
"""Series that count from the start of the run and never fall."""

ATTRIBUTES: dict[str, str] = {
    "job": "the resolved job, TOML text",
    "name": "the job's name",
    "seed": "seed of the run",
    "node": "number of this node, 0..nodes-1",
    "nodes": "number of nodes n",
    "version_mpi_opt": "version of mpi_opt",
    "version_python": "version of Python",
    "version_numpy": "version of NumPy",
    "version_scipy": "version of SciPy",
    "version_h5py": "version of h5py",
    "version_hdf5": "version of the HDF5 library",
    "host": "name of the machine",
    "mpi_library": "the MPI library's own words, or 'lockstep'",
    "threads": "BLAS threads of the process",
    "command": "command line of the run",
    "started": "start of the run, ISO 8601, UTC",
    "graph": "name of the graph, empty where all nodes reduce together",
    "spectral_gap": "1 - max |lambda| of the mixing matrix W beside 1; NaN without a graph",
    "consensus_rate": "gamma as used; NaN without a graph",
    "clock": "how seconds were simulated, in words; empty where they were measured",
}
"""Root attributes that a recorder is given; it adds ``format``, ``schema_version`` and ``units`` itself."""

LATER: frozenset[str] = frozenset({"clock"})
"""Attributes that files of earlier releases lack; they stand for an empty text."""

UNITS_NOTE = "Each dataset names its unit and meaning in its attributes 'unit' and 'description'; 1 is a pure number."

STATUS_BYTES = 256
"""Length of ``/final/status`` in bytes of UTF-8; longer reasons are cut."""

RUNNING = "running"
"""``/final/status`` of a run that goes on, or was killed."""


def traffic_values(traffic: Traffic) -> dict[str, float | int]:
    """Return a node's running counts under the names of ``SERIES`` (``rounds`` is the series ``round``)."""
    values: dict[str, float | int] = asdict(traffic)
    values["round"] = values.pop("rounds")
    return values
