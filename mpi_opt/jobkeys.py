"""The keys of a job file: frozen structs whose annotations are the types, limits and words of every key.

``docs/job-file.md`` says what each means; ``job.py`` reads and writes them. A value that is wrong is refused by the
struct it would be in, whether it comes from a file or from code that goes through ``msgspec.convert``.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Meta

from mpi_opt import jobtext
from mpi_opt.algorithmkeys import Algorithm
from mpi_opt.datakeys import Data, Prepare
from mpi_opt.errors import JobError
from mpi_opt.keytypes import Count, Positive, Table, says
from mpi_opt.problemkeys import Problem
from mpi_opt.scaling.profiles import allowed as networks
from mpi_opt.scaling.profiles import parse_profile
from mpi_opt.validationkeys import Validation

# --- [graph] --------------------------------------------------------------------------------------------------------


_GRAPH_KEYS: Mapping[str | None, frozenset[str]] = MappingProxyType(
    {
        "random-regular": frozenset({"degree"}),
        "erdos-renyi": frozenset({"p"}),
        "torus": frozenset({"rows", "cols"}),
    }
)


class Graph(Table, frozen=True, kw_only=True):
    """``[graph]``: who talks with whom. ``name`` is ``None`` exactly when ``edges`` is given.

    ``weights = None`` takes the weights that the edges bring, else metropolis.
    """

    name: (
        Annotated[
            Literal[
                "path", "ring", "star", "complete", "torus", "hypercube", "exponential", "random-regular", "erdos-renyi"
            ],
            says("path, ring, star, complete, torus, hypercube, exponential, random-regular, erdos-renyi"),
        ]
        | None
    ) = None
    weights: (
        Annotated[Literal["metropolis", "uniform", "lazy", "edges"], says("metropolis, uniform, lazy, edges")] | None
    ) = None
    edges: Annotated[str | list[list[int | float]], says("an edge file, or a list of [i, j] or [i, j, w]")] | None = (
        None
    )
    degree: Count | None = None
    p: Annotated[float, says("a number above 0 and at most 1", gt=0, le=1)] | None = None
    rows: Count | None = None
    cols: Count | None = None

    def __post_init__(self) -> None:
        if (self.name is None) == (self.edges is None):
            raise ValueError("graph.edges: not together with graph.name; give one of the two")
        if self.edges is not None and not self.edges:
            raise ValueError(f"graph.edges = {jobtext.show(self.edges)}: allowed: an edge file or a list of edges")
        if self.edges is None and self.weights == "edges":
            raise ValueError('graph.weights = "edges": only with graph.edges; allowed: metropolis, uniform, lazy')
        for key in ("degree", "p", "rows", "cols"):
            if getattr(self, key) is not None and key not in _GRAPH_KEYS.get(self.name, frozenset()):
                owner = next(str(name) for name, keys in _GRAPH_KEYS.items() if key in keys)
                raise ValueError(f"graph.{key}: has no meaning for {self.name or 'an edge list'}; taken by {owner}")


# --- [stop], [metrics], [network], the job ----------------------------------------------------------------------------


class Stop(Table, frozen=True, kw_only=True):
    """``[stop]``: the run ends by whichever comes first."""

    steps: Count | None = None
    rounds: Count | None = None
    epochs: Positive | None = None
    seconds: Annotated[Annotated[float, Meta(gt=0)] | Literal["slurm"], says('a number > 0, or "slurm"')] | None = None
    megabytes: Positive | None = None
    gradient_norm: Positive | None = None
    objective: Annotated[float, says("a number")] | None = None
    patience: Count | None = None

    def __post_init__(self) -> None:
        names = self.__struct_fields__
        if all(getattr(self, name) in (None, "slurm") for name in names):
            raise ValueError(f"stop: no rule is given; allowed: at least one of {', '.join(names)}")


class Checkpoint(Table, frozen=True, kw_only=True):
    """``[checkpoint]``: how often the run can be gone back to, whichever comes first."""

    minutes: Annotated[Annotated[float, Meta(gt=0)] | Literal["never"], says('a number > 0, or "never"')] = 10.0
    every: Count | None = None
    keep: Count = 2


class Metrics(Table, frozen=True, kw_only=True):
    """``[metrics]``: how often and on how many nodes the run is evaluated."""

    every: Count = 10
    nodes: Annotated[Annotated[int, Meta(ge=1)] | Literal["all"], says('"all" or an integer >= 1')] = "all"


class Network(Table, frozen=True, kw_only=True):
    """``[network]``: how requests are performed."""

    reductions: Annotated[Literal["mpi", "ordered"], says("mpi, ordered")] = "mpi"
    latency: Annotated[float, says("seconds, a number >= 0", ge=0)] | None = None
    bandwidth: Annotated[float, says("bytes a second, a number > 0", gt=0)] | None = None
    check: Annotated[bool, says("true or false")] = False
    elastic: Annotated[bool, says("true or false")] = False
    watchdog: Annotated[Annotated[float, Meta(gt=0)] | Literal["off"], says('seconds, a number > 0, or "off"')] = 300.0

    def __post_init__(self) -> None:
        if (self.latency is None) != (self.bandwidth is None):
            given, lacking = ("bandwidth", "latency") if self.latency is None else ("latency", "bandwidth")
            raise ValueError(f"network.{lacking}: missing beside network.{given}; give both or none")


class Stragglers(Table, frozen=True, kw_only=True):
    """``clock.stragglers``: nodes that are slow for a step."""

    share: Annotated[float, says("a number from 0 to 1", ge=0, le=1)]
    factor: Annotated[float, says("a number above 0, up to 1e9", gt=0, le=1e9)]


class Clock(Table, frozen=True, kw_only=True):
    """``[clock]``: the network that ``simulate`` puts under its nodes, and how long they compute."""

    network: Annotated[str, says(f"a network: {networks()}")]
    compute: Annotated[
        Literal["counted", "measured"] | Annotated[float, Meta(ge=0, le=1e9)],
        says('"counted", "measured" or seconds a step, a number from 0 to 1e9'),
    ] = "counted"
    speed_spread: Annotated[float, says("a number from 0 to 10", ge=0, le=10)] = 0.0
    stragglers: Stragglers | None = None

    def __post_init__(self) -> None:
        try:
            parse_profile(self.network)
        except JobError as error:
            raise ValueError(f"clock.{error}") from None


class Job(Table, frozen=True, kw_only=True):
    """A whole job."""

    name: Annotated[
        str,
        says(
            "a folder name of letters, digits, '.', '_' and '-', beginning with a letter or digit",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z",
        ),
    ]
    seed: Annotated[int, says("an integer from 0 to 2^63 - 1", ge=0, le=2**63 - 1)] = 0
    data: Data
    prepare: Prepare = Prepare()
    problem: Problem
    validation: Validation | None = None
    graph: Graph = Graph(name="ring", weights="metropolis")
    algorithm: Algorithm
    stop: Stop
    metrics: Metrics = Metrics()
    checkpoint: Checkpoint = Checkpoint()
    network: Network = Network()
    clock: Clock | None = None

    def __post_init__(self) -> None:
        if self.problem.module is not None:
            self._check_module()
        if self.validation is None:
            return
        if self.problem.l2 is not None:
            raise ValueError("problem.l2: not together with [validation], which chooses it; give one of the two")
        if self.validation.choose == "error" and self.problem.loss in ("squared", "huber"):
            raise ValueError(
                f'validation.choose = "error": the loss "{self.problem.loss}" has no errors to count; allowed: "loss"'
            )
        if self.stop.objective is not None:
            raise ValueError("stop.objective: not together with [validation]: every l2 has another least objective")

    def _check_module(self) -> None:
        """Refuse what has no meaning where a module is trained."""
        if self.data.intercept:
            raise ValueError("data.intercept: has no meaning beside problem.module, which has its own")
        if self.validation is not None:
            raise ValueError("[validation]: chooses l2 of linear models; allowed beside problem.module: problem.l2")
        if self.clock is not None and self.clock.compute == "counted":
            raise ValueError(
                'clock.compute = "counted": operations of a module are not known; allowed: "measured" or seconds a step'
            )

    @property
    def folder(self) -> Path:
        """The folder that relative file names start from."""
        return Path(self.data.folder)
