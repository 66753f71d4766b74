"""The keys of ``[algorithm]`` in a job file: the method, its schedules and its compressor. See ``jobkeys.py``."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from mpi_opt import jobtext
from mpi_opt.keytypes import Count, Fraction, NotNegative, Positive, Table, says

_SCHEDULE = says("a number > 0, or a table { schedule = ... }")
_THRESHOLD = says("a number >= 0, or a table { schedule = ... }")
Levels: TypeAlias = Annotated[int, says("an integer from 1 to 65535", ge=1, le=65535)]
Kept: TypeAlias = Annotated[
    Annotated[int, Meta(ge=1)] | Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?%\Z")],
    says('an integer >= 1, or a share of the dimension such as "1%", above 0 and at most 100'),
]

# --- schedules --------------------------------------------------------------------------------------------------------


class _StepSize(Table, frozen=True, kw_only=True, tag_field="schedule"):
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
    milestones: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], says("a list of ascending steps")] | None = None

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


class _Threshold(Table, frozen=True, kw_only=True, tag_field="schedule"):
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
    until: Annotated[int, says("an integer >= 0", ge=0)] | None = None


class FiringRate(_Threshold, frozen=True, kw_only=True, tag="firing-rate"):
    """A controller that moves each node's c_t until the node speaks at the share ``target`` of its syncs."""

    target: Annotated[float, says("a number above 0 and at most 1", gt=0, le=1)]
    gain: Positive = 0.5
    initial: Positive | None = None


Threshold: TypeAlias = ConstantThreshold | PolynomialThreshold | StepwiseThreshold | FiringRate


# --- compressors ------------------------------------------------------------------------------------------------------


def check_share(k: int | str, key: str) -> None:
    """Check a share such as ``"1%"``; raises ``ValueError``."""
    if isinstance(k, str) and not 0.0 < float(k.removesuffix("%")) <= 100.0:
        raise ValueError(f"{key} = {jobtext.show(k)}: allowed: above 0% and at most 100%")


class _Compressor(Table, frozen=True, kw_only=True, tag_field="name"):
    """An operator C(v)."""


class _Valued(_Compressor, frozen=True, kw_only=True):
    """An operator whose values (or scale) travel in ``value_bits`` bits."""

    value_bits: Annotated[Literal[32, 64], says("32 or 64")] = 32


class _Cut(_Valued, frozen=True, kw_only=True):
    """An operator that may be applied to consecutive blocks of ``block`` entries, the last one shorter."""

    block: Count | None = None


class _Sparse(_Cut, frozen=True, kw_only=True):
    """An operator that keeps ``k`` entries (of each block)."""

    k: Kept

    def __post_init__(self) -> None:
        check_share(self.k, "algorithm.compressor.k")


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
    """``inner`` on each of consecutive blocks of ``sizes`` entries, or on each tensor; ``kept`` is k of each."""

    sizes: Annotated[
        Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] | Literal["tensors"],
        says('"tensors" or a list of integers >= 1 that add up to the dimension'),
    ]
    inner: Annotated[Plain, says("a compressor's name, or a table { name = ... }")]
    kept: (
        Annotated[
            Annotated[tuple[Kept, ...], Meta(min_length=1)] | dict[str, Kept],
            says('a list of one k a block, or a table { "tensor" = k }'),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        if self.kept is None:
            return
        if not isinstance(self.inner, _Sparse):
            raise ValueError(f"algorithm.compressor.kept: has no meaning for {self.inner.__struct_config__.tag}")
        if isinstance(self.kept, dict) and self.sizes != "tensors":
            raise ValueError('algorithm.compressor.kept: a table names tensors; allowed with sizes = "tensors" only')
        if not isinstance(self.kept, dict) and self.sizes != "tensors" and len(self.kept) != len(self.sizes):
            raise ValueError(
                f"algorithm.compressor.kept: {len(self.kept)} entries; allowed: one a block, {len(self.sizes)}"
            )
        for k in self.kept.values() if isinstance(self.kept, dict) else self.kept:
            check_share(k, "algorithm.compressor.kept")


Compressor: TypeAlias = Plain | Blockwise


# --- [algorithm] ------------------------------------------------------------------------------------------------------


class Algorithm(Table, frozen=True, kw_only=True):
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
    batch: Annotated[Annotated[int, Meta(ge=1)] | Literal["full"], says('"full" or an integer >= 1')] = "full"
    step_size: Annotated[StepSize, _SCHEDULE] | None = None
    sync_every: Count = 1
    threshold: Annotated[Threshold, _THRESHOLD] = ConstantThreshold(value=0.0)
    compressor: Annotated[Compressor, says("a compressor's name, or a table { name = ... }")] = Identity()
    consensus_rate: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | Literal["auto"], says('"auto" or a number above 0 and at most 1')
    ] = 1.0
    momentum: Annotated[float, says("a number >= 0 and below 1", ge=0, lt=1)] = 0.0
    longest_silence: Count | None = None
    trigger: Annotated[Literal["model", "tensor"], says("model, tensor")] = "model"
    overlap: Annotated[bool, says("true or false")] = False
    output: Annotated[Literal["average", "weighted", "local"], says("average, weighted, local")] = "average"
    local_steps: Annotated[Annotated[int, Meta(ge=1)] | Literal["adaptive"], says('"adaptive" or an integer >= 1')] = (
        "adaptive"
    )
    finish: Annotated[
        Literal["none", "giant", "newton", "newton-cg", "auto"], says("none, giant, newton, newton-cg, auto")
    ] = "none"
    solver: Annotated[Literal["auto", "cholesky", "cg"], says("auto, cholesky, cg")] = "auto"
    damping: Annotated[Annotated[float, Meta(ge=0)] | Literal["auto"], says('"auto" or a number >= 0')] = "auto"
    averaging: Annotated[Literal["support", "plain"], says("support, plain")] = "support"
    hessian_every: Count = 1
    memory: Count = 10
    master: Annotated[Literal["working", "dedicated"], says("working, dedicated")] = "working"

    def __post_init__(self) -> None:
        if self.trigger == "tensor" and not isinstance(self.compressor, Blockwise):
            raise ValueError(
                'algorithm.trigger = "tensor": needs a compressor of blocks that are silent one by one; allowed with '
                'compressor = { name = "blockwise", sizes = "tensors", inner = ... }'
            )
        if self.output == "weighted" and self.name == "local-sgd":
            raise ValueError('algorithm.output = "weighted": not for local-sgd; allowed: average, local')
