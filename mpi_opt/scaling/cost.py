"""Modelled seconds of messages and of counted operations. Formulas only: nothing here measures or sends.

Messages follow the latency-bandwidth model (Hockney 1994): one of m bytes takes ``latency + m / bandwidth``, and a rank
sends one and receives one at a time; every further message that a node has under way at once costs it ``overhead`` of
its processor (the o of LogP, Culler et al. 1993). Where a network was measured, its own curves stand for the formulas.
Computation is the number of floating-point operations over a rate.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mpi_opt.errors import JobError
from mpi_opt.scaling.curves import Curves


@dataclass(frozen=True, slots=True)
class NetworkProfile:
    """A network between two ranks.

    Parameters
    ----------
    latency : float
        Seconds one way, >= 0; of a short message from call to arrival, so both ends' first overhead is in it.
    bandwidth : float
        Bytes a second one way, > 0; infinite where nothing is sent.
    overhead : float
        Seconds of processor for each further message that a node sends and receives at once, >= 0.
    curves : Curves or None
        What was measured on the ranks themselves: where it reaches it stands for the formulas.

    Raises
    ------
    JobError
        A number out of range.
    """

    latency: float
    bandwidth: float
    overhead: float = 0.0
    curves: Curves | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.latency) and self.latency >= 0):
            raise JobError(f"the network's latency is {self.latency}; a finite number of seconds >= 0 is needed")
        if not self.bandwidth > 0:
            raise JobError(f"the network's bandwidth is {self.bandwidth}; a number of bytes a second > 0 is needed")
        if not (math.isfinite(self.overhead) and self.overhead >= 0):
            raise JobError(f"the network's overhead is {self.overhead}; a finite number of seconds >= 0 is needed")

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
    """Return the seconds of one message from one rank to another: ``latency + nbytes / bandwidth``, or as measured."""
    if profile.curves is not None and profile.curves.message is not None:
        return profile.curves.message.at(nbytes)
    return profile.latency + nbytes / profile.bandwidth


def reduction_seconds(nbytes: float, nodes: int, profile: NetworkProfile) -> float:
    """Return the seconds of a Reduce to the master and the Bcast of its answer, ``nbytes`` each.

    The lesser of what MPI libraries use for short and for long vectors (Thakur, Rabenseifner, Gropp 2005), with
    ``r = ceil(log2 nodes)``:

    - binomial trees there and back, ``2 r (latency + nbytes / bandwidth)``;
    - reduce-scatter and gather, then scatter and allgather by recursive doubling,
      ``4 r latency + 4 (1 - 1 / nodes) nbytes / bandwidth``.

    Where reductions were measured, this grows and shrinks from those of as many nodes as were measured.
    """
    if nodes == 1:
        return 0.0
    by_formula = _reduced(nbytes, nodes, profile)
    curves = profile.curves
    if curves is None or curves.reduction is None:
        return by_formula
    measured = curves.reduction.at(nbytes)
    there = _reduced(nbytes, curves.nodes, profile)
    return measured if nodes == curves.nodes or not there else measured * by_formula / there


def _reduced(nbytes: float, nodes: int, profile: NetworkProfile) -> float:
    """Return the lesser of the two formulas."""
    depth = math.ceil(math.log2(nodes))
    tree = 2 * depth * (profile.latency + nbytes / profile.bandwidth)
    scattered = 4 * depth * profile.latency + 4 * (1 - 1 / nodes) * nbytes / profile.bandwidth
    return min(tree, scattered)


def exchange_seconds(nbytes: float, degree: float, profile: NetworkProfile) -> float:
    """Return the seconds of a neighbour exchange: ``latency + degree nbytes / bandwidth + (degree - 1) overhead``.

    The messages to the neighbours are under way together, but leave through one link. Where exchanges were measured,
    the bytes that leave are those of a measured one, and each neighbour more or less costs an overhead.
    """
    if not degree:
        return 0.0
    curves = profile.curves
    if curves is not None and curves.exchange is not None:
        measured = curves.exchange.at(nbytes * degree / curves.degree)
        return max(measured + (degree - curves.degree) * profile.overhead, 0.0)
    wire = profile.latency + degree * nbytes / profile.bandwidth
    return wire + max(degree - 1.0, 0.0) * profile.overhead


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
