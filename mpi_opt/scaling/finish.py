"""Which method finishes a LocalNewton run soonest: estimates from the sizes, the network and fitted counts.

Counts of rounds are those of the package's own methods to f - f* <= 1e-6, fitted on a9a, w8a and ijcnn1 dealt at random
to 16 and 100 nodes; the message sizes and the operations follow from the methods. They are estimates for a choice, not
forecasts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mpi_opt.scaling.cost import (
    USUAL,
    Machine,
    NetworkProfile,
    Shard,
    factor_seconds,
    hessian_seconds,
    margin_seconds,
    product_seconds,
    reduction_seconds,
    spoken,
)

MEMORY_LIMIT = 2 * 1024**3
"""Bytes that exact Newton's matrices may take on a rank unless the caller says otherwise."""

_MATRICES = 3
"""d x d matrices that exact Newton holds at a time: its Hessian, the summed one with its buffers, the factor."""

_FIRST_STEPS = 3
"""Local Newton steps of the first round."""

_LARGEST_FORMED = 4000
"""Largest d for which the local solver forms its Hessian at all."""

_LOCAL_PRODUCTS = 60
"""Hessian-vector products of a local CG solve."""

_LOCAL_ROUNDS, _LOCAL_STEPS = 3, 9
"""LocalNewton rounds until GIANT takes over, and local steps in all: L = 3 throughout on the sets fitted."""

_OUTER = 7
"""Newton-CG's iterations after one LocalNewton round: 5 to 9; 60 on news20, where the CG steps still cost most."""

_GIANT_DECADES, _GIANT_SLOWEST = 3, 0.97
"""Decades of error left to GIANT, and the slowest rate that it is believed to have."""

_LINE_SEARCH = 11
"""Numbers in a global line search's message."""


@dataclass(frozen=True, slots=True)
class FinishChoice:
    """A finish, and why.

    Attributes
    ----------
    name : str
        ``"newton"``, ``"giant"`` or ``"newton-cg"``.
    reason : str
        One printable line.
    seconds : mapping of str to float
        Estimate by method; infinite for one that was refused.
    """

    name: str
    reason: str
    seconds: Mapping[str, float]


def choose_finish(
    *,
    dim: int,
    nonzeros_per_shard: float,
    rows_per_shard: float,
    nodes: int,
    profile: NetworkProfile,
    columns: int = 1,
    machine: Machine = USUAL,
    memory_limit: float = MEMORY_LIMIT,
) -> FinishChoice:
    """Return the finish with the least estimated time; a pure function, so alike on every rank with alike arguments.

    Parameters
    ----------
    dim : int
        Length d of the model.
    nonzeros_per_shard, rows_per_shard : float
        Stored entries and rows of a shard (means over ranks).
    nodes : int
        Ranks that hold rows, >= 1.
    profile : NetworkProfile
        The network, measured or given.
    columns : int
        Columns of the model: classes of softmax, else 1.
    machine : Machine
        What a rank computes in a second.
    memory_limit : float
        Bytes that exact Newton's three d x d matrices may take on a rank.
    """
    shard = Shard(dim, rows_per_shard, nonzeros_per_shard, columns)
    held = _MATRICES * 8 * dim**2
    refused = held > memory_limit
    seconds = {
        "giant": giant_seconds(shard, nodes, profile, machine),
        "newton": math.inf if refused else newton_seconds(shard, nodes, profile, machine),
        "newton-cg": newton_cg_seconds(shard, nodes, profile, machine),
    }
    name = min(seconds, key=seconds.__getitem__)
    others = [
        f"{other} {spoken(seconds[other], 's')}" for other in seconds if other != name and seconds[other] < math.inf
    ]
    reason = f"finish = {name} (auto: estimated {spoken(seconds[name], 's')} against {', '.join(others)} at {profile}"
    if refused:
        reason += f"; newton refused: its {_MATRICES} matrices of {dim} x {dim} take {spoken(held, 'B')}"
        reason += f", {spoken(memory_limit, 'B')} are allowed"
    return FinishChoice(name, reason + ")", MappingProxyType(seconds))


def newton_seconds(shard: Shard, nodes: int, profile: NetworkProfile, machine: Machine) -> float:
    """Return the estimate for one LocalNewton round and exact Newton after it."""
    d = shard.dim
    message = reduction_seconds(8 * (d * (d + 1) // 2 + d + 2), nodes, profile)
    work = hessian_seconds(shard, machine) + product_seconds(shard, machine) + margin_seconds(shard, machine)
    work += factor_seconds(d, machine)
    local = _local_rounds_seconds(1, _FIRST_STEPS, shard, nodes, profile, machine)
    return local + newton_sums(d) * (message + work)


def newton_sums(dim: int) -> float:
    """Return the sums of gradient, loss and Hessian that exact Newton is expected to take: ``1.1 ln d - 0.9``.

    Measured: 2 to 3 at d = 22, 2 at 54, 5 at 112, 3 at 123, 6 at 300; not dependent on the number of nodes.
    """
    return max(1.1 * math.log(dim) - 0.9, 1.0)


def newton_cg_seconds(shard: Shard, nodes: int, profile: NetworkProfile, machine: Machine) -> float:
    """Return the estimate for one LocalNewton round and Newton-CG after it.

    An iteration sums gradient, loss and diagonal of the Hessian, 2d + 2 numbers; a CG step d numbers.
    """
    product, margin = product_seconds(shard, machine), margin_seconds(shard, machine)
    iteration = reduction_seconds(8 * (2 * shard.dim + 2), nodes, profile) + product + 2 * margin
    step = reduction_seconds(8 * shard.dim, nodes, profile) + product
    local = _local_rounds_seconds(1, _FIRST_STEPS, shard, nodes, profile, machine)
    return local + _OUTER * iteration + cg_steps(shard.dim) * step


def newton_cg_rounds(dim: int) -> float:
    """Return the sums of d numbers or more that Newton-CG is expected to take: of its iterations and CG steps."""
    return _OUTER + cg_steps(dim)


def cg_steps(dim: int) -> float:
    """Return the CG steps that Newton-CG is expected to take in all: ``9 d^0.28``.

    Measured: 21 at d = 22, 20 to 54 at 54, 33 at 112, 50 at 123, 26 at 300, 153 at 7840, some 200 at 62061; hardly
    dependent on the number of nodes.
    """
    return float(9 * dim**0.28)


def giant_seconds(shard: Shard, nodes: int, profile: NetworkProfile, machine: Machine) -> float:
    """Return the estimate for LocalNewton and GIANT after it: two sums and a short one an iteration."""
    message = 2 * reduction_seconds(8 * (shard.dim + 2), nodes, profile)
    message += reduction_seconds(8 * _LINE_SEARCH, nodes, profile)
    work = product_seconds(shard, machine) + 3 * margin_seconds(shard, machine) + _direction_seconds(shard, machine)
    local = _local_rounds_seconds(_LOCAL_ROUNDS, _LOCAL_STEPS, shard, nodes, profile, machine)
    return local + giant_iterations(shard) * (message + work)


def giant_iterations(shard: Shard) -> float:
    """Return the iterations that GIANT is expected to take; they grow as shards get smaller, and so with the nodes.

    The error is taken to shrink by ``sqrt(d / rows)`` an iteration (GIANT's theorem has this form, with constants of
    the data). Measured: 1 at d / rows = 0.007, 2 at 0.015, 3 to 9 at 0.02 to 0.06, 8 to 15 at 0.1, 7 at 0.22, 9 to 11
    at 0.38, 27 at 0.45, 39 at 0.6, 41 at 0.76.
    """
    rate = min(math.sqrt(shard.dim / max(shard.rows, 1.0)), _GIANT_SLOWEST)
    return max(1.0, _GIANT_DECADES * math.log(10) / -math.log(rate))


def _local_rounds_seconds(
    rounds: int, steps: int, shard: Shard, nodes: int, profile: NetworkProfile, machine: Machine
) -> float:
    """Return the seconds of LocalNewton rounds with ``steps`` local steps in all."""
    margin = margin_seconds(shard, machine)
    # A step: gradient, direction, and the margins of point and direction for the line search.
    step = product_seconds(shard, machine) + _direction_seconds(shard, machine) + 2 * margin
    return rounds * (reduction_seconds(8 * (2 * shard.dim + 2), nodes, profile) + margin) + steps * step


def _direction_seconds(shard: Shard, machine: Machine) -> float:
    """Return the seconds of a local Newton direction, by the cheaper of its two ways."""
    cg = _LOCAL_PRODUCTS * product_seconds(shard, machine)
    if shard.dim > _LARGEST_FORMED:
        return cg
    return min(cg, hessian_seconds(shard, machine) + factor_seconds(shard.dim, machine))
