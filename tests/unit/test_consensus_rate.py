"""consensus_rate = "auto": part of its bar, and what it promises whatever the graph, operator and dimension."""

import dataclasses
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from mpi_opt.compression.registry import make_compressor
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import DivergedError, JobError
from mpi_opt.topology import consensus_rate as module
from mpi_opt.topology.consensus_rate import consensus_rate
from mpi_opt.topology.edges import from_edges
from mpi_opt.topology.gossip import Gossip, exact_rounds
from mpi_opt.topology.mixing import make_mixing
from mpi_opt.topology.rate_search import MOST_WORK
from mpi_opt.topology.registry import make_graph
from mpi_opt.topology.trial import PIECE_NODES, trial_mixing, trial_operator


def load_bar():
    place = Path(__file__).parents[1] / "bench" / "consensus_rate_bar.py"
    spec = importlib.util.spec_from_file_location("consensus_rate_bar", place)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


bar = load_bar()


def on(name, n, **params):
    return make_mixing(make_graph(name, n, params, 1))


@pytest.mark.parametrize(
    ("graph", "compressor"),
    [
        ("ring-8", "sign"),
        ("ring-4", "sign-top-1%"),
        ("complete-8", "qsgd-16"),
        ("star-8", "top-10%"),
        ("torus-4x4", "sign"),
    ],
)
def test_never_diverges_and_needs_at_most_twice_the_rounds_of_the_best(graph, compressor):
    passed, text, _ = bar.line(graph, compressor, seed=11)
    assert passed, text


def test_the_bar_can_be_missed():
    # The simulator that judges does see a rate that is too large, and late.
    w = bar.metropolis(make_graph("star", 8, {}, 1))
    reached, worst, last = bar.gossip(w, bar.top(100, False), 0.294, 800, 7, go_on=True)
    assert reached is not None
    assert worst > 1.0
    assert last > 1.0


def test_pure_function_of_its_arguments():
    sparse = make_compressor("sign-top-k", {"k": 30})
    first = consensus_rate(on("ring", 4), sparse, 300, 5)
    assert consensus_rate(on("ring", 4), sparse, 300, 5) == first
    other = consensus_rate(on("ring", 4), sparse, 300, 6)
    assert other.gamma == pytest.approx(first.gamma, rel=0.25)
    random = make_compressor("random-k", {"k": 30})
    assert consensus_rate(on("ring", 4), random, 300, 5) == consensus_rate(on("ring", 4), random, 300, 5)


def test_nothing_to_try():
    sign = make_compressor("sign", {})
    alone = consensus_rate(on("ring", 1), sign, 100, 0)
    assert (alone.gamma, alone.work) == (1.0, 0)
    assert "single node" in alone.reason
    for exact in (make_compressor("identity", {}), make_compressor("top-k", {"k": 50})):
        found = consensus_rate(on("ring", 8), exact, 50, 0)
        assert (found.gamma, found.work) == (1.0, 0)
    assert consensus_rate(on("ring", 8), sign, 1, 0).gamma == 1.0


@pytest.mark.parametrize("dim", [2, 7, 40])
@pytest.mark.parametrize("name", ["sign", "top-k", "qsgd"])
def test_small_dimensions(dim, name):
    params = {"top-k": {"k": 1}, "qsgd": {"levels": 2}}.get(name, {})
    found = consensus_rate(on("ring", 3), make_compressor(name, params), dim, 0)
    assert 0.0 < found.gamma <= found.fastest <= 1.0
    assert 0.0 < found.contraction < 1.0
    assert f"{found.gamma:.3g}" in found.reason


def test_two_nodes():
    found = consensus_rate(on("ring", 2), make_compressor("sign-top-k", {"k": "10%"}), 500, 0)
    assert 0.02 < found.gamma < 0.3


@pytest.mark.parametrize(("name", "n"), [("ring", 60), ("star", 200), ("complete", 40)])
def test_work_is_bounded_on_large_graphs(name, n):
    found = consensus_rate(on(name, n), make_compressor("top-k", {"k": "10%"}), 50, 0)
    assert 0 < found.work <= MOST_WORK + n
    assert 0.0 < found.gamma < 0.5


def test_rate_follows_the_share_of_entries():
    mixing = on("ring", 4)
    rates = [consensus_rate(mixing, make_compressor("sign-top-k", {"k": k}), 7850, 0).gamma for k in (10, 100, 1000)]
    assert rates[0] < rates[1] / 5 < rates[2] / 20
    # 10 to 16 times k/d was seen to be stable in training; the rate is well below.
    assert 0.5 * 10 / 7850 < rates[0] < 5 * 10 / 7850


@pytest.mark.parametrize(
    ("dim", "seed", "least", "most"), [(11, 0, 0.03, 0.07), (11, 1, 0.03, 0.07), (100, 0, 0.003, 0.008)]
)
def test_one_random_entry_is_no_matter_of_luck(dim, seed, least, most):
    # Rates of about k/d were seen to diverge, half of that to be fast.
    found = consensus_rate(on("ring", 8), make_compressor("random-k", {"k": 1}), dim, seed)
    assert least < found.gamma < most
    assert "guess" not in found.reason
    trial = trial_operator(make_compressor("random-k", {"k": 1}), dim, seed)
    assert trial.omega == pytest.approx(max(1 / dim, 0.02), rel=0.5)
    # The rate gets there in gossip of its own, on all of the graph.
    w = on("ring", 8).matrix()
    whole = Gossip(w, make_compressor("random-k", {"k": 1}), dim, seed + 100, 0.0, 10**6)
    assert whole.rounds(found.gamma, 1, 2 * found.rounds) is not None


def test_trial_operators_keep_share_and_accuracy():
    rng = np.random.default_rng(0)
    v = rng.standard_normal(1000)
    key = Key(0, 0, Purpose.GOSSIP, 0)
    for params, kept, factor in (({"k": 785}, 100, 1.0), ({"k": "10%"}, 100, 1.0), ({"k": 10}, 20, 10 / 7850 / 0.02)):
        trial = trial_operator(make_compressor("top-k", params), 7850, 0)
        assert trial.dim == 1000
        assert trial.operator.compress(v, key).count == kept
        assert trial.factor == pytest.approx(factor, rel=0.05)
    # Quantization is coarser in higher dimensions: the norm is spread over more entries.
    assert trial_operator(make_compressor("qsgd", {"levels": 16}), 7850, 0).factor < 0.6
    assert trial_operator(make_compressor("sign", {}), 7850, 0).factor == pytest.approx(1.0, abs=0.05)
    # Five entries of a block of 500 are the same share as ten of 1000.
    inner = {"name": "top-k", "k": 5}
    blocks = trial_operator(make_compressor("blockwise", {"inner": inner, "sizes": [100, 500]}), 600, 0)
    assert blocks.factor == pytest.approx(0.5, rel=0.05)
    with pytest.raises(JobError):
        trial_operator(make_compressor("top-k", {"k": 11}), 10, 0)


def test_pieces_of_large_graphs():
    small = on("torus", 16)
    assert trial_mixing(small) is small
    for name in ("ring", "star", "torus", "complete", "exponential", "random-regular"):
        whole = on(name, 60)
        piece = trial_mixing(whole)
        assert piece.n == PIECE_NODES
        assert piece.beta == pytest.approx(whole.beta, rel=0.15)
    lazy = make_mixing(make_graph("ring", 60, {}, 0), "lazy")
    assert trial_mixing(lazy).beta == pytest.approx(lazy.beta, rel=0.05)
    own = make_mixing(from_edges([[i, (i + 1) % 60, 0.25 + 0.2 * (i % 2)] for i in range(60)], 60))
    piece = trial_mixing(own)
    assert set(np.round(piece.matrix()[np.triu_indices(PIECE_NODES, 1)], 12)) == {0.0, 0.25, 0.45}


@pytest.mark.parametrize("gamma", [0.01, 0.3, 1.0])
def test_exact_rounds_by_brute_force(gamma):
    rates = np.array([0.05, 0.3, 1.0, 1.5])
    energy, rounds = np.ones(4), 0
    while energy.mean() > 0.01:
        energy *= (1.0 - gamma * rates) ** 2
        rounds += 1
    assert rounds - 1 < exact_rounds(rates, gamma) <= rounds


def test_gossip_is_the_matrix_form():
    mixing = on("path", 5)
    w, dim, gamma = mixing.matrix(), 200, 0.2
    trial = Gossip(w, make_compressor("sign", {"value_bits": 64}), dim, 3, 0.0, 10**6)
    x = Key(3, 1, Purpose.GOSSIP, 2).generator().standard_normal((5, dim))
    xhat, start, rounds = np.zeros_like(x), None, 0
    while start is None or ((x - x.mean(0)) ** 2).sum() > 0.01 * start:
        start = ((x - x.mean(0)) ** 2).sum() if start is None else start
        xhat += bar.signs(x - xhat, None)
        x += gamma * (w @ xhat - xhat)
        rounds += 1
    assert trial.rounds(gamma, 1, 1000) == rounds
    assert trial.work == 5 * rounds
    assert trial.rounds(gamma, 1, rounds - 1) is None
    assert np.allclose(trial.rates, np.sort(1.0 - np.linalg.eigvalsh(w))[1:], atol=1e-12)
    faster = Gossip(w, make_compressor("sign", {}), dim, 3, 0.5, 10**6)
    assert faster.rates.min() == 0.5
    assert faster.rounds(gamma, 1, 1000) < rounds


@dataclasses.dataclass(frozen=True)
class Silent:
    """An operator that never sends anything."""

    def compress(self, v, key):
        return make_compressor("top-k", {"k": 1}).compress(np.zeros_like(v), key)


class Overflowing(Silent):
    """An operator that cannot represent what it is given once gossip has begun."""

    def compress(self, v, key):
        if key.step > 2:
            raise DivergedError("too large")
        return super().compress(v, key)


@pytest.mark.parametrize("operator", [Silent(), Overflowing()])
def test_an_operator_that_cannot_work_ends_in_a_small_guess(operator, monkeypatch):
    monkeypatch.setattr(module, "MOST_WORK", 5_000)
    found = consensus_rate(on("ring", 4), operator, 20, 0)
    assert 0.0 < found.gamma < 1e-3
    assert "guess" in found.reason
    assert found.work <= 5_000 + 4
    assert math.isfinite(found.contraction)
