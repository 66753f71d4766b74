"""``consensus_rate = "auto"``: the gossip step gamma found before step 0, from the graph and the compressor alone.

Symbols: gamma consensus rate; W mixing matrix with eigenvalues lambda_k; C compression operator; x_i models, xhat_i
what the neighbours know of them; T(gamma) rounds of pure gossip ``xhat += C(x - xhat); x += gamma (W xhat - xhat)``,
from x ~ N(0, 1) and xhat = 0, to a 100-fold smaller squared consensus error.

The rates of the convergence proofs (Koloskova, Stich, Jaggi 2019, arXiv 1902.00340; SPARQ-SGD, arXiv 1910.14280) are
some hundred times too small in practice; a rate tuned for speed is at the edge of divergence. ``rate_search`` looks for
the fastest rate in trials and steps back from it.
"""

from dataclasses import dataclass

import numpy as np

from mpi_opt.compression.base import Compressor
from mpi_opt.topology.gossip import TARGET, Gossip, exact_rounds
from mpi_opt.topology.mixing import DENSE_NODES, Mixing
from mpi_opt.topology.rate_search import MOST_WORK, Search
from mpi_opt.topology.trial import decay, trial_mixing, trial_operator
from mpi_opt.types import Vector

SLOWEST_MODE = 0.1
"""Modes of a slower graph are tried at this rate (see ``Gossip``), or at their own where a trial stays short."""

TRIAL_WORK = 5000
"""Compressions that a first trial may take for the sake of the slow modes."""


@dataclass(frozen=True, slots=True)
class ConsensusRate:
    """A rate and where it comes from.

    Attributes
    ----------
    gamma : float
        The consensus rate, in (0, 1].
    rounds : int
        Estimate of T(gamma) on the real graph; 0 where nothing had to be tried.
    contraction : float
        Factor by which the squared consensus error falls in a round, on average over these.
    fastest : float
        The rate of least T.
    work : int
        Compressions simulated to find it, each of a vector of length 1000 at most.
    reason : str
        The line to print.
    """

    gamma: float
    rounds: int
    contraction: float
    fastest: float
    work: int
    reason: str


def consensus_rate(mixing: Mixing, compressor: Compressor, dim: int, seed: int) -> ConsensusRate:
    """Return the rate for gossip over ``mixing`` of vectors of length ``dim`` compressed by ``compressor``.

    A pure function of its arguments, the same on every rank. Its work is bounded: at most ``rate_search.MOST_WORK``
    (1e5, mostly a tenth to a half of it) compressions of vectors of length 1000 or less, on the graph itself up to
    ``trial.MOST_NODES`` nodes, on a piece of it beyond.

    Parameters
    ----------
    mixing : Mixing
        W.
    compressor : Compressor
        C, at dimension ``dim``.
    dim : int
        d, at least 1.
    seed : int
        Seed of the trials.

    Raises
    ------
    JobError
        The operator does not fit ``dim``.
    """
    if mixing.n == 1:
        return ConsensusRate(1.0, 0, 0.0, 1.0, 0, "consensus_rate = 1 (auto: a single node)")
    trial = trial_operator(compressor, dim, seed)
    if trial.lossless:
        return ConsensusRate(1.0, 0, 0.0, 1.0, 0, "consensus_rate = 1 (auto: the compressor loses nothing)")
    piece = trial_mixing(mixing)
    start = 0.25 * trial.omega
    gossip = Gossip(piece.matrix(), trial.operator, trial.dim, seed, _floor(decay(piece), start), MOST_WORK)
    search = Search(gossip, decay(mixing if mixing.n <= DENSE_NODES else piece))
    found = search.run(start)
    # A piece may lack the highest frequencies of its graph, on which the steps are largest.
    factor = trial.factor * min(1.0, piece.beta / mixing.beta)
    gamma, fastest, rounds = factor * found.gamma, factor * found.fastest, max(found.rounds / factor, 1.0)
    told = (
        f"pure gossip needs about {rounds:.0f} rounds for a 100-fold smaller consensus error; "
        f"the fastest rate, {fastest:.3g}, is too near divergence"
        if found.reached
        else "a guess from the compressor's accuracy, as no trial got to a 100-fold smaller consensus error"
    )
    reason = f"consensus_rate = {gamma:.3g} (auto: {told})"
    return ConsensusRate(gamma, round(rounds), TARGET ** (1.0 / rounds), fastest, gossip.work, reason)


def _floor(rates: Vector, gamma: float) -> float:
    """Return the rate to which slower modes are raised: SLOWEST_MODE, halved as long as trials stay short."""
    floor, nodes = SLOWEST_MODE, rates.size + 1
    while floor > rates[0] and nodes * exact_rounds(np.maximum(rates, 0.5 * floor), gamma) <= TRIAL_WORK:
        floor *= 0.5
    return floor
