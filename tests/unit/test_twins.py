"""The twins against each other, against outside figures, and against mistakes: a reference that cannot fail is none."""

import ast
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
from twins import a9a_anchor, compressors, setting, sgd_matrix, sparq_matrix, sparq_ordered

N_NODES, DIM, STEPS = 8, 12, 60


def logistic_shards(n=N_NODES, rows_per_node=25, dim=DIM, seed=3):
    """Unequal shards whose optima differ, so that the nodes pull apart."""
    rng = np.random.default_rng(seed)
    total = n * rows_per_node + n // 2
    A = rng.normal(size=(total, dim)) * np.geomspace(1, 0.3, dim)
    A[:, 0] += np.linspace(-1, 1, total)
    y = np.where(A @ rng.normal(size=dim) + 0.5 * rng.normal(size=total) > 0, 1.0, -1.0)
    return setting.contiguous(A, y, n)


def batches(size, shards, seed=5):
    """A mini-batch a (node, step), the rows drawn anew each time."""

    def rows(node, t):
        return np.random.default_rng((seed, node, t)).permutation(len(shards[node][1]))[:size]

    return rows


def uniform(d):
    return lambda node, round: np.random.default_rng((11, node, round)).random(d)


def draws(k, d):
    return lambda node, round: np.random.default_rng((13, node, round)).choice(d, k, replace=False)


SHARDS = logistic_shards()
GRAD = setting.gradients("logistic", SHARDS, 0.01)
RING = setting.metropolis(N_NODES, setting.ring(N_NODES))
START = np.random.default_rng(1).normal(size=(N_NODES, DIM)) * 0.1

BASE = {
    "steps": STEPS,
    "step_size": setting.constant(0.2),
    "sync_every": 3,
    "threshold": setting.constant(3.0),
    "compress": compressors.always(compressors.top_k, 3, bits=64),
    "consensus_rate": 0.3,
    "rows": batches(5, SHARDS),
}
NO_THRESHOLD = {"threshold": None, "target_rate": 0.6}
TENSORS = {
    "blocks": [5, 1, DIM - 6],
    "compress": [compressors.always(compressors.sign_top_k, k) for k in (2, 1, 3)],
    "threshold": setting.constant(8.0),
}
SETTINGS = {
    "base": {},
    "decaying step": {"step_size": setting.inverse(50, 12.0)},
    "polynomial threshold": {"threshold": setting.polynomial(1.0, 0.5)},
    "stepwise threshold": {"threshold": setting.stepwise(0.5, 1.5, 10, until=40)},
    "firing rate": NO_THRESHOLD,
    "firing rate, gain 0.2": {**NO_THRESHOLD, "gain": 0.2},
    "longest silence": {"threshold": setting.constant(1e3), "longest_silence": 4},
    "firing rate, longest silence": {**NO_THRESHOLD, "target_rate": 0.1, "longest_silence": 3},
    "momentum": {"momentum": 0.9, "step_size": setting.constant(0.05), "threshold": setting.constant(150.0)},
    "overlap": {"overlap": True, "consensus_rate": 0.15, "threshold": setting.constant(8.0)},
    "overlap, ends between syncs": {"overlap": True, "steps": 61, "consensus_rate": 0.15, "sync_every": 4},
    "overlap, momentum, firing rate": {**NO_THRESHOLD, "overlap": True, "momentum": 0.5, "consensus_rate": 0.1},
    "by tensor": TENSORS,
    "by tensor, longest silence": {**TENSORS, "threshold": setting.constant(60.0), "longest_silence": 4},
    "by tensor, firing rate": {**TENSORS, **NO_THRESHOLD},
    "by tensor, overlap, momentum": {**TENSORS, "overlap": True, "momentum": 0.5, "consensus_rate": 0.1},
    "full batch": {"rows": lambda node, t: None},
    "sign-top-k": {"compress": compressors.always(compressors.sign_top_k, 3)},
    "fp32 top-k": {"compress": compressors.always(compressors.top_k, 3)},
    "scaled sign": {"compress": compressors.always(compressors.scaled_sign)},
    "identity": {"compress": compressors.always(compressors.identity), "threshold": setting.constant(8.0)},
    "random-k": {"compress": lambda v, i, r: compressors.random_k(v, draws(4, DIM)(i, r))},
    "qsgd": {"compress": lambda v, i, r: compressors.qsgd(v, 16, uniform(DIM)(i, r))},
    "qsgd of top-k": {"compress": lambda v, i, r: compressors.qsgd_top_k(v, 4, 4, uniform(4)(i, r))},
}


def matrix_and_ordered(ordered=sparq_ordered.sparq, W=RING, grad=GRAD, start=START, **changes):
    options = BASE | changes
    return sparq_matrix.sparq(grad, W, start, **options), ordered(grad, setting.rows_of(W), start, **options)


def agree(matrix, ordered):
    return (
        np.array_equal(matrix.fired, ordered.fired)
        and np.array_equal(matrix.spoke, ordered.spoke)
        and np.allclose(matrix.X, ordered.X, rtol=1e-10, atol=1e-12)
        and np.allclose(matrix.final, ordered.final, rtol=1e-10, atol=1e-12)
    )


def both_seen(fired):
    return fired.any() and not fired.all()


@pytest.mark.parametrize("changes", SETTINGS.values(), ids=SETTINGS.keys())
def test_matrix_and_ordered_forms_agree(changes):
    matrix, ordered = matrix_and_ordered(**changes)
    assert both_seen(ordered.fired)
    assert np.isfinite(matrix.X).all()
    assert agree(matrix, ordered)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("graph", [setting.ring, setting.path, setting.star, setting.complete])
def test_forms_agree_on_graphs(graph, n):
    shards = logistic_shards(n)
    grad = setting.gradients("logistic", shards, 0.01)
    matrix, ordered = matrix_and_ordered(
        W=setting.metropolis(n, graph(n)), grad=grad, start=START[:n], rows=batches(5, shards)
    )
    assert both_seen(ordered.fired)
    assert agree(matrix, ordered)


def test_forms_agree_on_softmax_with_intercept_and_an_empty_shard():
    rng = np.random.default_rng(8)
    A, y = rng.normal(size=(31, 4)), rng.integers(0, 3, 31)
    shards = [(A[:20], y[:20]), (A[20:20], y[20:20]), (A[20:], y[20:])]
    grad = setting.gradients("softmax", shards, 0.1, intercept=True, classes=3)
    start = rng.normal(size=(3, 15))
    matrix, ordered = matrix_and_ordered(
        W=setting.metropolis(3, setting.ring(3)), grad=grad, start=start, rows=lambda i, t: None
    )
    assert both_seen(ordered.fired)
    assert agree(matrix, ordered)


@pytest.mark.parametrize("path", sorted(Path(a9a_anchor.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_twins_import_nothing_they_check(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module.split(".")[0])
    assert imported <= sys.stdlib_module_names | {"numpy", "scipy", "sklearn", "twins"}
    assert "importlib" not in imported


# Gradients and compressors of the twins


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", ["logistic", "squared", "softmax"])
def test_mean_of_node_gradients_is_the_gradient_of_F(name, intercept):
    from scipy.optimize import approx_fprime

    rng = np.random.default_rng(2)
    classes = 3 if name == "softmax" else None
    A = rng.normal(size=(23, 4))
    y = rng.integers(0, 3, 23) if classes else np.where(rng.random(23) < 0.5, 1.0, -1.0)
    shards = setting.contiguous(A, y, 3)
    assert sorted(len(s[1]) for s in shards) == [7, 8, 8]
    x = rng.normal(size=(4 + intercept) * (classes or 1))
    options = {"l2": 0.3, "intercept": intercept, "classes": classes}
    grad, F = (make(name, shards, **options) for make in (setting.gradients, setting.objective))
    mean = np.mean([grad(i, x) for i in range(3)], axis=0)
    np.testing.assert_allclose(mean, approx_fprime(x, F, 1e-7), rtol=1e-5, atol=1e-6)


def test_batches_are_unbiased():
    x = START[0]
    rows = np.arange(len(SHARDS[2][1]))
    each = [GRAD(2, x, rows[j : j + 1]) for j in rows]
    np.testing.assert_allclose(np.mean(each, axis=0), GRAD(2, x), rtol=1e-12)


def test_compressors_by_hand():
    v = np.array([0.0, -3.0, 1.0, 3.0, -1.0, 0.5])
    c = compressors
    np.testing.assert_array_equal(c.top_k(v, 3), [0, -3, 1, 3, 0, 0])  # the tie of 1 and -1 goes to the lower index
    np.testing.assert_array_equal(c.sign_top_k(v, 2), [0, -3, 0, 3, 0, 0])
    np.testing.assert_array_equal(c.sign_top_k(v, 6), np.sign(v) * np.float32(8.5 / 5))  # the zero is not kept
    np.testing.assert_array_equal(c.scaled_sign(v), np.float32(8.5 / 6) * np.array([1, -1, 1, 1, -1, 1]))
    np.testing.assert_array_equal(c.random_k(v, [0, 3]), [0, 0, 0, 3, 0, 0])
    np.testing.assert_array_equal(c.identity(np.array([0.1])), [float(np.float32(0.1))])
    np.testing.assert_array_equal(c.qsgd(np.array([3.0, -4.0, 0.0]), 5, np.zeros(3)), [3, -4, 0])
    np.testing.assert_array_equal(c.qsgd(np.array([3.0, -4.0]), 1, np.array([0.5, 0.1])), [5, 0])
    np.testing.assert_allclose(c.qsgd_top_k(np.array([1.0, 3.0, -4.0]), 2, 5, np.zeros(2)), np.array([0, 3, -4]) / 1.08)
    for operator in (c.sign_top_k, c.top_k):
        assert not operator(np.zeros(4), 2).any()


def test_qsgd_is_unbiased():
    v = np.random.default_rng(4).normal(size=6)
    grid = (np.arange(2000) + 0.5) / 2000
    mean = np.mean([compressors.qsgd(v, 3, np.full(6, u), bits=64) for u in grid], axis=0)
    np.testing.assert_allclose(mean, v, atol=2e-3)


def test_metropolis_ring():
    np.testing.assert_allclose(setting.metropolis(2, setting.ring(2)), [[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(setting.metropolis(3, setting.path(3)), np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3)


# Identities, which need no literature

CHOCO = {"sync_every": 1, "threshold": setting.constant(0.0)}
EXACT = {"compress": compressors.always(compressors.identity, bits=64), "consensus_rate": 1.0}
STEP = {name: BASE[name] for name in ("steps", "step_size", "rows")}


def same(first, second):
    np.testing.assert_allclose(first, second, rtol=1e-10, atol=1e-12)


def test_every_sync_and_no_threshold_is_choco_sgd():
    gossip = {name: BASE[name] for name in ("compress", "consensus_rate")}
    choco = sgd_matrix.choco_sgd(GRAD, RING, START, **STEP, **gossip)
    for run in matrix_and_ordered(**CHOCO):
        same(run.X, choco)


def test_exact_messages_and_full_consensus_rate_are_d_psgd():
    d_psgd = sgd_matrix.d_psgd(GRAD, RING, START, **STEP)
    for run in matrix_and_ordered(**CHOCO, **EXACT):
        same(run.X, d_psgd)


def test_complete_graph_is_allreduce():
    W = setting.metropolis(N_NODES, setting.complete(N_NODES))
    start = np.tile(START[0], (N_NODES, 1))
    allreduce = sgd_matrix.allreduce_sgd(GRAD, N_NODES, START[0], **STEP)
    for run in matrix_and_ordered(W=W, start=start, **CHOCO, **EXACT):
        same(run.X, np.repeat(allreduce[:, None], N_NODES, axis=1))
    same(sgd_matrix.local_sgd(GRAD, start, sync_every=1, **STEP)[:, 3], allreduce)


def test_complete_graph_with_local_steps_is_local_sgd():
    W = setting.metropolis(N_NODES, setting.complete(N_NODES))
    local = sgd_matrix.local_sgd(GRAD, START, sync_every=3, **STEP)
    for run in matrix_and_ordered(W=W, **EXACT, threshold=setting.constant(0.0)):
        same(run.X, local)


def test_one_node_is_plain_sgd():
    shards = logistic_shards(1)
    grad = setting.gradients("logistic", shards, 0.01)
    step = STEP | {"rows": batches(5, shards)}
    plain = sgd_matrix.allreduce_sgd(grad, 1, START[0], **step)
    for run in matrix_and_ordered(W=np.ones((1, 1)), grad=grad, start=START[:1], rows=step["rows"]):
        assert both_seen(run.fired)
        same(run.X[:, 0], plain)


def still(i, x, rows):
    return np.zeros_like(x)


@pytest.mark.parametrize("overlap", [False, True])
def test_gossip_keeps_the_mean(overlap):
    """With W doubly stochastic only gradients move the mean; late messages do not, since own ones are late as well."""
    for run in matrix_and_ordered(grad=still, threshold=setting.constant(1.0), overlap=overlap):
        assert both_seen(run.fired)
        same(run.X.mean(axis=1), np.tile(START.mean(axis=0), (STEPS + 1, 1)))
        assert np.ptp(run.final, axis=0).max() < np.ptp(START, axis=0).max()


def test_overlap_hides_one_sync_and_loses_no_message():
    """Without gradients, round r of the overlapped form knows what round r - 1 of the plain one sent."""
    silent = {"grad": still, "sync_every": 1, "threshold": setting.constant(0.0)}
    plain, _ = matrix_and_ordered(**silent, steps=1)
    late, ordered = matrix_and_ordered(**silent, steps=1, overlap=True)
    same(late.X[1], START)
    same(late.final, plain.final)
    same(ordered.xhat, plain.Xhat)
    same(ordered.mix, RING @ plain.Xhat)


def test_running_sum_is_the_weighted_sum_of_estimates():
    _, ordered = matrix_and_ordered()
    same(ordered.mix, RING @ ordered.xhat)


# The trigger


def test_longest_silence_bounds_the_gaps():
    matrix, _ = matrix_and_ordered(threshold=setting.constant(1e9), longest_silence=4)
    expected = np.zeros((STEPS // 3, N_NODES), dtype=bool)
    expected[3::4] = True  # silent for three syncs, then heard at the fourth
    np.testing.assert_array_equal(matrix.fired, expected)


@pytest.mark.parametrize("target", [0.2, 0.5, 0.8])
def test_controller_meets_its_target(target):
    matrix, _ = matrix_and_ordered(threshold=None, target_rate=target, steps=600, sync_every=1, consensus_rate=0.1)
    assert matrix.fired[0].all()
    assert abs(matrix.fired.mean() - target) < 0.05


def test_controller_stays_unset_while_nothing_moves():
    start = np.zeros((N_NODES, DIM))

    def late(i, x, rows):
        return np.ones(DIM) if rows >= 6 else np.zeros(DIM)

    for run in matrix_and_ordered(
        grad=late, start=start, threshold=None, target_rate=0.5, rows=lambda i, t: t, steps=30
    ):
        assert not run.fired[:2].any()
        assert run.fired[2].all()


# Outputs


def test_outputs():
    matrix, _ = matrix_and_ordered(overlap=True, consensus_rate=0.15)
    same(sparq_matrix.local(matrix), matrix.final)
    same(sparq_matrix.average(matrix), matrix.final.sum(axis=0) / N_NODES)
    a, total, weight = 7, np.zeros(DIM), 0.0
    for t in range(STEPS):
        total += (a + t) ** 2 * matrix.X[t].mean(axis=0)
        weight += (a + t) ** 2
    same(sparq_matrix.weighted(matrix, a), total / weight)


# What the comparison can see: eight mistakes that a test of convergence lets pass

DELIVER_GOSSIP = "deliver(speak(eta, t))\n                gossip()"
MISTAKES = {
    "stale estimates in the gossip": (
        DELIVER_GOSSIP,
        "late = speak(eta, t)\n                gossip()\n                deliver(late)",
    ),
    "step size unsquared in the trigger": ("threshold(t) * eta**2", "threshold(t) * eta"),
    "step size missing in the trigger": ("threshold(t) * eta**2", "threshold(t)"),
    "step size of the next step": ("exceeds(at, drift, eta, t)\n", "exceeds(at, drift, step_size(t + 1), t)\n"),
    "sync at t instead of t + 1": ("(t + 1) % sync_every", "t % sync_every"),
    "norm unsquared": ("size = drift @ drift", "size = (drift @ drift) ** 0.5"),
    "float32 on the wire": (
        "operators[b](drift, i, len(record))",
        "operators[b](drift, i, len(record)).astype(np.float32).astype(float)",
    ),
    "gossip on the iterates": (
        "for i in nodes:\n            x[i] = x[i] + gamma * (mix[i] - xhat[i])",
        "x[:] = [x[i] + gamma * sum(w * (x[j] - x[i]) for j, w in weights[i].items()) for i in nodes]",
    ),
}
DECAYING = {"step_size": setting.inverse(50, 12.0), "sync_every": 3, "steps": STEPS}


def mutant(old, new):
    """Return the ordered twin with one piece of its source replaced."""
    source = inspect.getsource(sparq_ordered.sparq)
    assert source.count(old) == 1, f"the twin no longer holds {old!r}"
    namespace = dict(vars(sparq_ordered))
    exec(source.replace(old, new), namespace)
    return namespace["sparq"]


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_comparison_sees_the_mistake(mistake):
    matrix, right = matrix_and_ordered(**DECAYING)
    assert agree(matrix, right)
    assert both_seen(right.fired)
    matrix, wrong = matrix_and_ordered(mutant(*mistake), **DECAYING)
    assert not agree(matrix, wrong)
    assert np.abs(matrix.X - wrong.X).max() > 1e-9  # 10 times what the comparison allows, and not by the record alone


# An implementation outside this repository


@pytest.mark.data
@pytest.mark.parametrize("form", ["ordered", "matrix"])
def test_a9a_anchor(datasets, form):
    from sklearn.datasets import load_svmlight_file

    path = next(p for p in (datasets / "a9a" / "a9a.bz2", datasets / "a9a.bz2", datasets / "a9a") if p.is_file())
    A, y = load_svmlight_file(str(path))
    for c, (figures, firings) in a9a_anchor.EXPECTED.items():
        got, fired = a9a_anchor.anchor(A, y, c, form)
        np.testing.assert_allclose(got, figures, rtol=0, atol=1e-10)
        assert fired == firings
