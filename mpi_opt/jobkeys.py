"""The keys of a job file: frozen structs whose annotations are the types, limits and words of every key.

``docs/job-file.md`` says what each means; ``job.py`` reads and writes them. A value that is wrong is refused by the
struct it would be in, whether it comes from a file or from code that goes through ``msgspec.convert``.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from mpi_opt import jobtext


def _says(text: str, **limits: Any) -> Meta:
    """Return limits on a value together with the words an error uses for them."""
    return Meta(description=text, **limits)


_COUNT = _says("an integer >= 1", ge=1)
_POSITIVE = _says("a number > 0", gt=0)
_NOT_NEGATIVE = _says("a number >= 0", ge=0)
_PARTITION = _says('contiguous, shuffled, by-label, or { name = "dirichlet", alpha = 0.1 }')
_SCHEDULE = _says("a number > 0, or a table { schedule = ... }")
_THRESHOLD = _says("a number >= 0, or a table { schedule = ... }")
Count: TypeAlias = Annotated[int, _COUNT]
Positive: TypeAlias = Annotated[float, _POSITIVE]
NotNegative: TypeAlias = Annotated[float, _NOT_NEGATIVE]
Fraction: TypeAlias = Annotated[float, _says("a number between 0 and 1, both excluded", gt=0, lt=1)]
Files: TypeAlias = Annotated[
    str | list[str],
    _says("a file, a glob, a list of them, or 'builtin:digits'"),
]
Levels: TypeAlias = Annotated[int, _says("an integer from 1 to 65535", ge=1, le=65535)]
Kept: TypeAlias = Annotated[
    Annotated[int, Meta(ge=1)] | Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?%\Z")],
    _says('an integer >= 1, or a share of the dimension such as "1%", above 0 and at most 100'),
]


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tables."""


# --- [data], [problem], [graph] ---------------------------------------------------------------------------------------


class Partition(_Table, frozen=True, kw_only=True):
    """Which rows a node holds; ``alpha`` belongs to ``dirichlet``."""

    name: Annotated[
        Literal["contiguous", "shuffled", "by-label", "dirichlet"],
        _PARTITION,
    ]
    alpha: Positive | None = None

    def __post_init__(self) -> None:
        if (self.name == "dirichlet") != (self.alpha is not None):
            word = "missing; allowed: a number > 0" if self.alpha is None else "only for the partition 'dirichlet'"
            raise ValueError(f"data.partition.alpha: {word}")


class Data(_Table, frozen=True, kw_only=True):
    """``[data]``: what is learned from, and how it is split."""

    train: Files
    test: Files | None = None
    holdout: Fraction | None = None
    partition: Annotated[Partition, _PARTITION] = Partition(name="shuffled")
    intercept: Annotated[bool, _says("true or false")] = False
    features: Count | None = None
    index_base: Annotated[Literal[0, 1], _says("0 or 1")] | None = None
    folder: Annotated[str, _says("the folder that relative file names start from")] = ""

    def __post_init__(self) -> None:
        if self.test is not None and self.holdout is not None:
            raise ValueError("data.holdout: not together with data.test; give one of the two")
        for key, files in (("train", self.train), ("test", self.test)):
            if files is not None and (not files or (isinstance(files, list) and "" in files)):
                raise ValueError(f"data.{key} = {jobtext.show(files)}: allowed: a file, a glob or a list of them")


class Problem(_Table, frozen=True, kw_only=True):
    """``[problem]``: what is minimised."""

    loss: Annotated[
        Literal["logistic", "squared", "squared-hinge", "huber", "softmax"],
        _says("logistic, squared, squared-hinge, huber, softmax"),
    ]
    l2: Annotated[Literal["1/N"] | Annotated[float, Meta(ge=0)], _says('"1/N" or a number >= 0')] = "1/N"


_GRAPH_KEYS: Mapping[str | None, frozenset[str]] = MappingProxyType(
    {
        "random-regular": frozenset({"degree"}),
        "erdos-renyi": frozenset({"p"}),
        "torus": frozenset({"rows", "cols"}),
    }
)


class Graph(_Table, frozen=True, kw_only=True):
    """``[graph]``: who talks with whom. ``name`` is ``None`` exactly when ``edges`` is given.

    ``weights = None`` takes the weights that the edges bring, else metropolis.
    """

    name: (
        Annotated[
            Literal[
                "path", "ring", "star", "complete", "torus", "hypercube", "exponential", "random-regular", "erdos-renyi"
            ],
            _says("path, ring, star, complete, torus, hypercube, exponential, random-regular, erdos-renyi"),
        ]
        | None
    ) = None
    weights: (
        Annotated[Literal["metropolis", "uniform", "lazy", "edges"], _says("metropolis, uniform, lazy, edges")] | None
    ) = None
    edges: Annotated[str | list[list[int | float]], _says("an edge file, or a list of [i, j] or [i, j, w]")] | None = (
        None
    )
    degree: Count | None = None
    p: Annotated[float, _says("a number above 0 and at most 1", gt=0, le=1)] | None = None
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


# --- schedules --------------------------------------------------------------------------------------------------------


class _StepSize(_Table, frozen=True, kw_only=True, tag_field="schedule"):
    """A step size eta_t; ``warm_up`` multiplies the first steps by (t + 1) / warm_up."""

    warm_up: Count | None = None


class ConstantStep(_StepSize, frozen=True, kw_only=True, tag="constant"):
    """eta_t = value."""

    value: Positive


class InverseStep(_StepSize, frozen=True, kw_only=True, tag="inverse"):
    """eta_t = b / (a + t)."""

    a: Positive
    b: Positive


class StagedStep(_StepSize, frozen=True, kw_only=True, tag="step"):
    """eta_t = initial * factor^k, where k grows every ``every`` steps or at each of ``milestones``."""

    initial: Positive
    factor: Positive
    every: Count | None = None
    milestones: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], _says("a list of ascending steps")] | None = None

    def __post_init__(self) -> None:
        if (self.every is None) == (self.milestones is None):
            raise ValueError("algorithm.step_size.every: give either every or milestones")
        steps = self.milestones
        if steps is not None and (not steps or list(steps) != sorted(set(steps))):
            raise ValueError(
                f"algorithm.step_size.milestones = {jobtext.show(steps)}: allowed: a list of ascending steps"
            )


class CosineStep(_StepSize, frozen=True, kw_only=True, tag="cosine"):
    """From ``initial`` to ``final`` along half a cosine over ``steps`` steps, then ``final``."""

    initial: Positive
    final: NotNegative
    steps: Count


StepSize: TypeAlias = ConstantStep | InverseStep | StagedStep | CosineStep


class _Threshold(_Table, frozen=True, kw_only=True, tag_field="schedule"):
    """A threshold c_t of the event trigger."""


class ConstantThreshold(_Threshold, frozen=True, kw_only=True, tag="constant"):
    """c_t = value."""

    value: NotNegative


class PolynomialThreshold(_Threshold, frozen=True, kw_only=True, tag="polynomial"):
    """c_t = c0 * (t + 1)^(1 - eps)."""

    c0: NotNegative
    eps: Fraction


class StepwiseThreshold(_Threshold, frozen=True, kw_only=True, tag="stepwise"):
    """c_t = initial + increase * (t // every), not raised further after step ``until``."""

    initial: NotNegative
    increase: NotNegative
    every: Count
    until: Annotated[int, _says("an integer >= 0", ge=0)] | None = None


class FiringRate(_Threshold, frozen=True, kw_only=True, tag="firing-rate"):
    """A controller that moves each node's c_t until the node speaks at the share ``target`` of its syncs."""

    target: Annotated[float, _says("a number above 0 and at most 1", gt=0, le=1)]
    gain: Positive = 0.5
    initial: Positive | None = None


Threshold: TypeAlias = ConstantThreshold | PolynomialThreshold | StepwiseThreshold | FiringRate


# --- compressors ------------------------------------------------------------------------------------------------------


class _Compressor(_Table, frozen=True, kw_only=True, tag_field="name"):
    """An operator C(v)."""


class _Valued(_Compressor, frozen=True, kw_only=True):
    """An operator whose values (or scale) travel in ``value_bits`` bits."""

    value_bits: Annotated[Literal[32, 64], _says("32 or 64")] = 32


class _Cut(_Valued, frozen=True, kw_only=True):
    """An operator that may be applied to consecutive blocks of ``block`` entries, the last one shorter."""

    block: Count | None = None


class _Sparse(_Cut, frozen=True, kw_only=True):
    """An operator that keeps ``k`` entries (of each block)."""

    k: Kept

    def __post_init__(self) -> None:
        if isinstance(self.k, str) and not 0.0 < float(self.k.removesuffix("%")) <= 100.0:
            raise ValueError(f"algorithm.compressor.k = {jobtext.show(self.k)}: allowed: above 0% and at most 100%")


class Identity(_Valued, frozen=True, kw_only=True, tag="identity"):
    """Everything is sent."""


class TopK(_Sparse, frozen=True, kw_only=True, tag="top-k"):
    """The k entries of largest magnitude."""


class RandomK(_Sparse, frozen=True, kw_only=True, tag="random-k"):
    """k entries drawn from the shared seed."""


class Sign(_Cut, frozen=True, kw_only=True, tag="sign"):
    """All signs and one scale."""


class SignTopK(_Sparse, frozen=True, kw_only=True, tag="sign-top-k"):
    """The signs of the k entries of largest magnitude, and one scale."""


class Qsgd(_Cut, frozen=True, kw_only=True, tag="qsgd"):
    """Stochastic rounding to ``levels`` levels."""

    levels: Levels


class QsgdTopK(_Sparse, frozen=True, kw_only=True, tag="qsgd-top-k"):
    """Stochastic rounding of the k entries of largest magnitude."""

    levels: Levels


Plain: TypeAlias = Identity | TopK | RandomK | Sign | SignTopK | Qsgd | QsgdTopK


class Blockwise(_Compressor, frozen=True, kw_only=True, tag="blockwise"):
    """``inner`` on each of consecutive blocks of ``sizes`` entries."""

    sizes: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...],
        _says("a list of integers >= 1 that add up to the dimension", min_length=1),
    ]
    inner: Annotated[Plain, _says("a compressor's name, or a table { name = ... }")]


Compressor: TypeAlias = Plain | Blockwise


# --- [algorithm] ------------------------------------------------------------------------------------------------------


class Algorithm(_Table, frozen=True, kw_only=True):
    """``[algorithm]``: the method and its parameters.

    A key that the method does not take holds the value that switches it off (or that the method fixes), so that every
    method of a family can be built from the same fields; ``step_size`` is then ``None``.
    """

    name: Literal[
        "sparq-sgd",
        "choco-sgd",
        "d-psgd",
        "squarm-sgd",
        "allreduce-sgd",
        "local-sgd",
        "local-newton",
        "giant",
        "newton",
        "newton-cg",
        "lbfgs",
        "admm",
    ]
    batch: Annotated[Annotated[int, Meta(ge=1)] | Literal["full"], _says('"full" or an integer >= 1')] = "full"
    step_size: Annotated[StepSize, _SCHEDULE] | None = None
    sync_every: Count = 1
    threshold: Annotated[Threshold, _THRESHOLD] = ConstantThreshold(value=0.0)
    compressor: Annotated[Compressor, _says("a compressor's name, or a table { name = ... }")] = Identity()
    consensus_rate: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | Literal["auto"], _says('"auto" or a number above 0 and at most 1')
    ] = 1.0
    momentum: Annotated[float, _says("a number >= 0 and below 1", ge=0, lt=1)] = 0.0
    longest_silence: Count | None = None
    overlap: Annotated[bool, _says("true or false")] = False
    output: Annotated[Literal["average", "weighted", "local"], _says("average, weighted, local")] = "average"
    local_steps: Annotated[Annotated[int, Meta(ge=1)] | Literal["adaptive"], _says('"adaptive" or an integer >= 1')] = (
        "adaptive"
    )
    finish: Annotated[
        Literal["none", "giant", "newton", "newton-cg", "auto"], _says("none, giant, newton, newton-cg, auto")
    ] = "none"
    solver: Annotated[Literal["auto", "cholesky", "cg"], _says("auto, cholesky, cg")] = "auto"
    damping: Annotated[Annotated[float, Meta(ge=0)] | Literal["auto"], _says('"auto" or a number >= 0')] = "auto"
    averaging: Annotated[Literal["support", "plain"], _says("support, plain")] = "support"
    hessian_every: Count = 1
    memory: Count = 10
    master: Annotated[Literal["working", "dedicated"], _says("working, dedicated")] = "working"

    def __post_init__(self) -> None:
        if self.output == "weighted" and self.name == "local-sgd":
            raise ValueError('algorithm.output = "weighted": not for local-sgd; allowed: average, local')


# --- [stop], [metrics], [network], the job ----------------------------------------------------------------------------


class Stop(_Table, frozen=True, kw_only=True):
    """``[stop]``: the run ends by whichever comes first."""

    steps: Count | None = None
    rounds: Count | None = None
    epochs: Positive | None = None
    seconds: Positive | None = None
    megabytes: Positive | None = None
    gradient_norm: Positive | None = None
    objective: Annotated[float, _says("a number")] | None = None
    patience: Count | None = None

    def __post_init__(self) -> None:
        names = self.__struct_fields__
        if all(getattr(self, name) is None for name in names):
            raise ValueError(f"stop: no rule is given; allowed: at least one of {', '.join(names)}")


class Metrics(_Table, frozen=True, kw_only=True):
    """``[metrics]``: how often and on how many nodes the run is evaluated."""

    every: Count = 10
    nodes: Annotated[Annotated[int, Meta(ge=1)] | Literal["all"], _says('"all" or an integer >= 1')] = "all"


class Network(_Table, frozen=True, kw_only=True):
    """``[network]``: how requests are performed."""

    reductions: Annotated[Literal["mpi", "ordered"], _says("mpi, ordered")] = "mpi"
    latency: Annotated[float, _says("seconds, a number >= 0", ge=0)] | None = None
    bandwidth: Annotated[float, _says("bytes a second, a number > 0", gt=0)] | None = None
    check: Annotated[bool, _says("true or false")] = False

    def __post_init__(self) -> None:
        if (self.latency is None) != (self.bandwidth is None):
            given, lacking = ("bandwidth", "latency") if self.latency is None else ("latency", "bandwidth")
            raise ValueError(f"network.{lacking}: missing beside network.{given}; give both or none")


class Job(_Table, frozen=True, kw_only=True):
    """A whole job."""

    name: Annotated[
        str,
        _says(
            "a folder name of letters, digits, '.', '_' and '-', beginning with a letter or digit",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z",
        ),
    ]
    seed: Annotated[int, _says("an integer from 0 to 2^63 - 1", ge=0, le=2**63 - 1)] = 0
    data: Data
    problem: Problem
    graph: Graph = Graph(name="ring", weights="metropolis")
    algorithm: Algorithm
    stop: Stop
    metrics: Metrics = Metrics()
    network: Network = Network()

    @property
    def folder(self) -> Path:
        """The folder that relative file names start from."""
        return Path(self.data.folder)
