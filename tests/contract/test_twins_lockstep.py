"""Every part of the SPARQ-SGD engine, and its rivals, against their independent twins, in lockstep."""

import dataclasses
import inspect
import types

import numpy as np
import pytest
from support import cases
from twins import setting, sgd_matrix, sgd_ordered, sparq_matrix, sparq_ordered

from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.compression.identity import Identity
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.schedules import Constant

SIZES = (1, 2, 3, 4, 5, 8)


def package(name, n, steps, **changes):
    made = cases.make(name, n, **changes)
    return made, *cases.drive(made, Lockstep(made.neighbours, made.codec), steps)


def twin_arguments(name, made):
    case = cases.CASES[name]
    return {
        "step_size": case.step_size,
        "sync_every": case.sync_every,
        "compress": case.compress,
        "consensus_rate": case.gamma,
        "rows": lambda i, t: made.nodes[i].batches.at(t),
        **case.twin,
    }


@pytest.mark.parametrize("name", cases.CASES)
def test_matrix_twin(name):
    made, X, fired, final, _ = package(name, 8, 75)
    grad = setting.gradients("logistic", cases.shards(8), cases.L2)
    twin = sparq_matrix.sparq(grad, made.W, np.tile(made.x0, (8, 1)), steps=75, **twin_arguments(name, made))
    np.testing.assert_array_equal(fired, twin.fired)
    np.testing.assert_allclose(X, twin.X, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(final, twin.final, rtol=1e-10, atol=1e-12)
    if name != "always":
        assert fired.any(), "the trigger never fired"
        assert not fired.all(), "the trigger was never silent"
    if "by tensor" in name:
        some = twin.spoke.any(axis=2) & ~twin.spoke.all(axis=2)
        assert some.any(), "never did some blocks speak and some not"
        assert twin.spoke.any(axis=(0, 1)).all(), "a block never fired"


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", cases.CASES)
def test_ordered_twin(name, n):
    made, X, fired, final, states = package(name, n, 100)
    twin = sparq_ordered.sparq(
        lambda i, x, rows: made.problems[i].sampled_gradient(x, rows),
        setting.rows_of(made.W),
        [made.x0] * n,
        steps=100,
        **twin_arguments(name, made),
    )
    np.testing.assert_array_equal(fired, twin.fired)
    if cases.CASES[name].exact:
        np.testing.assert_array_equal(X, twin.X)
        np.testing.assert_array_equal(final, twin.final)
        np.testing.assert_array_equal([state.x_hat for state in states], twin.xhat)
        np.testing.assert_array_equal([state.mix for state in states], twin.mix)
    else:
        np.testing.assert_allclose(X, twin.X, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["base", "overlap", "firing rate"])
def test_ordered_twin_for_thousands_of_steps(name):
    made, X, fired, _, _ = package(name, 5, 3000)
    twin = sparq_ordered.sparq(
        lambda i, x, rows: made.problems[i].sampled_gradient(x, rows),
        setting.rows_of(made.W),
        [made.x0] * 5,
        steps=3000,
        **twin_arguments(name, made),
    )
    np.testing.assert_array_equal(X, twin.X)
    np.testing.assert_array_equal(fired, twin.fired)


# --- identities ---


def gradients(n):
    return setting.gradients("logistic", cases.shards(n), cases.L2)


def rows_at(made):
    return lambda i, t: made.nodes[i].batches.at(t)


@pytest.mark.parametrize("n", SIZES)
def test_choco(n):
    """H = 1 and c = 0 is CHOCO-SGD."""
    made, X, _, _, _ = package("always", n, 60)
    case = cases.CASES["always"]
    twin = sgd_matrix.choco_sgd(
        gradients(n), made.W, np.tile(made.x0, (n, 1)), steps=60, step_size=case.step_size,
        compress=case.compress, consensus_rate=case.gamma, rows=rows_at(made),
    )  # fmt: skip
    np.testing.assert_allclose(X, twin, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_d_psgd(n):
    """Identity, c = 0 and gamma = 1 is D-PSGD."""
    made, X, _, _, _ = package("always", n, 60, compressor=Identity(value_bits=64), consensus_rate=1.0)
    twin = sgd_matrix.d_psgd(
        gradients(n), made.W, np.tile(made.x0, (n, 1)), steps=60, step_size=Constant(0.2), rows=rows_at(made)
    )
    np.testing.assert_allclose(X, twin, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_complete_graph_is_allreduce(n):
    exact = {"compressor": Identity(value_bits=64), "consensus_rate": 1.0}
    _, X, _, _, _ = package("always", n, 60, edges=setting.complete(n), **exact)
    _, Y, _, _, _ = package("allreduce", n, 60)
    np.testing.assert_allclose(X.mean(axis=1), Y.mean(axis=1), rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(Y, np.repeat(Y[:, :1], n, axis=1))


def test_one_node_is_plain_sgd():
    made, X, _, _, _ = package("base", 1, 60)
    grad, x = gradients(1), made.x0.copy()
    for t in range(60):
        x = x - 0.2 * grad(0, x, made.nodes[0].batches.at(t))
        np.testing.assert_allclose(X[t + 1, 0], x, rtol=1e-11, atol=1e-13)


REDUCING = {
    "allreduce": {"step_size": Constant(0.2)},
    "allreduce, momentum": {"step_size": Constant(0.05), "momentum": 0.9},
    "local": {"step_size": Constant(0.2), "sync_every": 3},
    "local, momentum": {"step_size": Constant(0.05), "sync_every": 4, "momentum": 0.9},
}
"""The twins' arguments for the cases of methods that reduce."""


def reducing_twin(twins, name, made, grad, steps):
    """Return the iterates of a twin, (steps + 1, n, d)."""
    n = len(made.nodes)
    arguments = {"steps": steps, "rows": rows_at(made), **REDUCING[name]}
    if name.startswith("local"):
        return twins.local_sgd(grad, np.tile(made.x0, (n, 1)), **arguments)
    return np.repeat(twins.allreduce_sgd(grad, n, made.x0, **arguments)[:, None], n, axis=1)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", cases.REDUCING)
def test_allreduce_and_local_twins(name, n):
    made, X, _, final, _ = package(name, n, 60)
    twin = reducing_twin(sgd_matrix, name, made, gradients(n), 60)
    np.testing.assert_allclose(X, twin, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(final, X[-1])


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("name", cases.REDUCING)
def test_allreduce_and_local_for_thousands_of_steps(name, n):
    steps = 3000 if n == 5 else 300
    made, X, _, _, _ = package(name, n, steps)
    twin = reducing_twin(sgd_ordered, name, made, lambda i, x, rows: made.problems[i].sampled_gradient(x, rows), steps)
    np.testing.assert_array_equal(X, twin)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("allreduce, momentum", "(g + momentum * v)", "v"),
        ("allreduce, momentum", "v = momentum * v + g", "v = momentum * v + (1 - momentum) * g"),
        ("local, momentum", "(G + momentum * V)", "V"),
        ("local, momentum", "(len(new), 1))\n", "(len(new), 1))\n            V = np.tile(V.mean(0), (len(V), 1))\n"),
        ("local, momentum", "(len(new), 1))\n", "(len(new), 1))\n            V = 0 * V\n"),
        ("local", "(t + 1) % sync_every", "t % sync_every"),
    ],
)
def test_twins_of_reducing_methods_see_mistakes(name, old, new):
    source = inspect.getsource(sgd_matrix)
    assert source.count(old) == 1, "the twin was rewritten: bring the mistake up to date"
    wrong = types.ModuleType("wrong")
    exec(compile(source.replace(old, new), "wrong", "exec"), wrong.__dict__)
    made, X, _, _, _ = package(name, 5, 60)
    assert np.abs(reducing_twin(wrong, name, made, gradients(5), 60) - X).max() > 1e-6


@pytest.mark.parametrize("overlap", [False, True])
def test_gossip_keeps_the_mean(overlap):
    """Without gradients the network mean stays, triggered and compressed as the messages are."""
    made = cases.make("base", 5, overlap=overlap, step_size=lambda t: 0.0, trigger=Trigger(Constant(0.0), None))
    starts = np.random.default_rng(5).normal(size=(5, cases.DIM))
    network, algorithm = Lockstep(made.neighbours, made.codec), made.algorithm
    states = [algorithm.init(problem, start) for problem, start in zip(made.problems, starts, strict=True)]
    for _ in range(60):
        results = network.advance(
            [algorithm.step(*each) for each in zip(states, made.problems, made.nodes, strict=True)]
        )
        states = [state for state, _ in results]
    x = np.array([state.x for state in states])
    np.testing.assert_allclose(x.mean(axis=0), starts.mean(axis=0), rtol=0, atol=1e-13)
    assert np.abs(x - starts).max() > 0.1


def test_weighted_output_is_the_theorems_average():
    made, X, _, final, _ = package("base", 4, 75, weighted_offset=50.0)
    weights = (50.0 + np.arange(75)) ** 2
    expected = np.tensordot(weights, X[:-1], axes=1) / weights.sum()
    np.testing.assert_allclose(final, expected, rtol=1e-12)
    plain = package("base", 4, 75)
    np.testing.assert_array_equal(X, plain[1])


def test_check_mode_keeps_what_the_owners_have():
    for name in ("base", "overlap", "random-k", "by tensor", "by tensor, overlap, momentum"):
        made, _, _, _, states = package(name, 5, 80, check=True)
        for i, state in enumerate(states):
            assert set(state.replicas.estimates) <= set(made.neighbours[i])
            for j, replica in state.replicas.estimates.items():
                np.testing.assert_array_equal(replica, states[j].x_hat)


def test_states_hold_all_that_the_next_step_needs():
    """A deep copy of the states, taken at any step, goes on alike: nothing hides elsewhere."""
    import copy

    for name in cases.CASES:
        if cases.CASES[name].package.get("overlap"):
            continue  # what is in flight is the network's
        made, network = (m := cases.make(name, 4)), Lockstep(m.neighbours, m.codec)
        states = [made.algorithm.init(problem, made.x0) for problem in made.problems]

        def go(states, steps, made=made, network=network):
            for _ in range(steps):
                each = zip(states, made.problems, made.nodes, strict=True)
                states = [state for state, _ in network.advance([made.algorithm.step(*item) for item in each])]
            return states

        kept = copy.deepcopy(go(states, 20))
        direct = [state.x.copy() for state in go(go(copy.deepcopy(kept), 7), 20)]
        again = [state.x for state in go(kept, 27)]
        np.testing.assert_array_equal(direct, again)


def test_dataclasses_are_frozen():
    for algorithm in (cases.algorithm_of("base"), *cases.REDUCING.values()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            algorithm.batch = 3
