"""Modelled seconds of messages and of counted operations. Formulas only: nothing here measures or sends.

Messages follow the latency-bandwidth model (Hockney 1994): one of m bytes takes ``latency + m / bandwidth``, and a rank
sends one and receives one at a time. Computation is the number of floating-point operations over a rate.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mpi_opt.errors import JobError


@dataclass(frozen=True, slots=True)
class NetworkProfile:
    """A network between two ranks.

    Parameters
    ----------
    latency : float
        Seconds one way, >= 0.
    bandwidth : float
        Bytes a second one way, > 0; infinite where nothing is sent.

    Raises
    ------
    JobError
        A number out of range.
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.latency) and self.latency >= 0):
            raise JobError(f"the network's latency is {self.latency}; a finite number of seconds >= 0 is needed")
        if not self.bandwidth > 0:
            raise JobError(f"the network's bandwidth is {self.bandwidth}; a number of bytes a second > 0 is needed")

    def __str__(self) -> str:
        return f"latency {spoken(self.latency, 's')}, bandwidth {spoken(self.bandwidth, 'B/s')}"


PROFILES: Mapping[str, NetworkProfile] = MappingProxyType(
    {
        "infiniband": NetworkProfile(2e-6, 12.5e9),
        "10gbe": NetworkProfile(30e-6, 1.25e9),
        "wan": NetworkProfile(20e-3, 12.5e6),
    }
)
"""Usual networks: 2 us and 100 Gbit/s; 30 us and 10 Gbit/s; 20 ms and 100 Mbit/s."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What one rank computes in a second.

    Parameters
    ----------
    dense_flops : float
        Operations a second in matrix products and factorisations of dense arrays; about 1e10 on a usual core.
    sparse_flops : float
        Operations a second on stored entries of sparse rows; about 1e9.
    call : float
        Seconds that a pass over the rows costs however few they are.
    """

    dense_flops: float = 1e10
    sparse_flops: float = 1e9
    call: float = 1e-5


USUAL = Machine()
"""One core of a usual machine."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The size of one rank's part.

    Parameters
    ----------
    dim : int
        Length d of the model.
    rows : float
        Rows of the shard (the mean over ranks will do).
    nonzeros : float
        Stored entries of the shard's features.
    columns : int
        Columns C of the model: classes of softmax, else 1.
    """

    dim: int
    rows: float
    nonzeros: float
    columns: int = 1

    @property
    def features(self) -> float:
        """Features a row has room for, an intercept included."""
        return self.dim / self.columns

    @property
    def dense(self) -> bool:
        """Whether every entry is stored; an intercept is not, so one feature may be missing."""
        return self.nonzeros >= self.rows * (self.features - 1) and self.nonzeros > 0


def spoken(number: float, unit: str) -> str:
    """Return ``number`` in ``unit`` with a decimal prefix and two or three digits, as in ``20 ms``."""
    if not math.isfinite(number) or number == 0:
        return f"{number:g} {unit}"
    thousands = min(max(math.floor(math.log10(abs(number)) / 3 + 1e-9), -3), 4)
    prefix = {-3: "n", -2: "u", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T"}[thousands]
    return f"{number / 1000.0**thousands:.3g} {prefix}{unit}"


def message_seconds(nbytes: float, profile: NetworkProfile) -> float:
    """Return the seconds of one message from one rank to another: ``latency + nbytes / bandwidth``."""
    return profile.latency + nbytes / profile.bandwidth


def reduction_seconds(nbytes: float, nodes: int, profile: NetworkProfile) -> float:
    """Return the seconds of a Reduce to the master and the Bcast of its answer, ``nbytes`` each.

    The lesser of what MPI libraries use for short and for long vectors (Thakur, Rabenseifner, Gropp 2005), with
    ``r = ceil(log2 nodes)``:

    - binomial trees there and back, ``2 r (latency + nbytes / bandwidth)``;
    - reduce-scatter and gather, then scatter and allgather by recursive doubling,
      ``4 r latency + 4 (1 - 1 / nodes) nbytes / bandwidth``.
    """
    depth = math.ceil(math.log2(nodes))
    tree = 2 * depth * message_seconds(nbytes, profile)
    scattered = 4 * depth * profile.latency + 4 * (1 - 1 / nodes) * nbytes / profile.bandwidth
    return min(tree, scattered)


def exchange_seconds(nbytes: float, degree: int, profile: NetworkProfile) -> float:
    """Return the seconds of a neighbour exchange: ``latency + degree nbytes / bandwidth``.

    The messages to the neighbours are under way together, but leave through one link.
    """
    return message_seconds(degree * nbytes, profile) if degree else 0.0


def product_seconds(shard: Shard, machine: Machine) -> float:
    """Return the seconds of a gradient or a Hessian-vector product: X v and X^T u, four operations an entry."""
    rate = machine.dense_flops if shard.dense else machine.sparse_flops
    return machine.call + 4 * shard.nonzeros * shard.columns / rate


def margin_seconds(shard: Shard, machine: Machine) -> float:
    """Return the seconds of a loss: X w, two operations an entry."""
    rate = machine.dense_flops if shard.dense else machine.sparse_flops
    return machine.call + 2 * shard.nonzeros * shard.columns / rate


def hessian_seconds(shard: Shard, machine: Machine) -> float:
    """Return the seconds of the dense Hessian: C (C + 1) / 2 weighted Gram matrices of the rows.

    Dense rows: ``rows features^2`` operations each (half of X^T X, for its symmetry); sparse ones
    ``2 nonzeros^2 / rows``, every row's entries with each other.
    """
    if not shard.rows:
        return machine.call
    if shard.dense:
        gram = shard.rows * shard.features**2 / machine.dense_flops
    else:
        gram = 2 * shard.nonzeros**2 / shard.rows / machine.sparse_flops
    return shard.columns * (shard.columns + 1) / 2 * (machine.call + gram)


def factor_seconds(dim: int, machine: Machine) -> float:
    """Return the seconds of a Cholesky factor and its solves: ``d^3 / 3 + 2 d^2`` operations."""
    return machine.call + (dim**3 / 3 + 2 * dim**2) / machine.dense_flops
