"""LocalNewton, GIANT and Newton against their twin, step by step to the end; and the twin against mistakes."""

import functools
import inspect
import types

import numpy as np
import pytest
from support import second_order as so
from twins import newton as twin

from mpi_opt.network.lockstep import Lockstep

SIZES = (1, 2, 3, 4, 5, 8)
ENDS = ("converged", "ended", "stalled")

MUST_HAPPEN = {
    "local 3": {"round"},
    "local 3, far": {"local step shortened"},
    "local 2, huber, lost": {"local search in vain"},
    "adaptive": {"accepted", "rejected", "L lowered"},
    "adaptive, far": {"rejected", "L lowered", "local step shortened"},
    "giant": {"step", "converged"},
    "giant, far": {"shortened", "converged"},
    "giant, huber, lost": {"ended"},
    "newton": {"step", "converged"},
    "newton, far": {"shortened", "converged"},
    "newton, huber, lost": {"ended"},
    "newton, lazy, far": {"shortened", "converged"},
    "adaptive, newton, near": {"accepted", "back", "converged"},
    "adaptive, newton, at the optimum": {"accepted", "shortened", "converged"},
    "adaptive, lazy newton, near": {"back", "converged"},
    "adaptive, giant": {"accepted", "L lowered", "step", "converged"},
    "adaptive, giant, far": {"rejected", "converged"},
    "one class, newton": {"local rounds left out", "converged"},
    "one class, giant": {"local rounds left out", "converged"},
}
"""What a case is there for, seen with five nodes; a comparison that never met it has not tested it."""


def happened(steps):
    seen = {step.event for step in steps}
    if any(after.L < before.L for before, after in zip(steps, steps[1:], strict=False) if after.L):
        seen.add("L lowered")
    if steps[0].short and steps[0].event == "step":
        seen.add("local rounds left out")
    taken = [a for step in steps if step.L for lengths in step.lengths for a in lengths]
    if None in taken:
        seen.add("local search in vain")
    if any(a is not None and a < 1 for a in taken):
        seen.add("local step shortened")
    return seen


@functools.cache
def package(name, n, as_csr=False):
    return so.drive(so.make(name, n, as_csr=as_csr), Lockstep([()] * n, None), so.CASES[name].steps)[0]


def compare(seen, steps):
    """Same number of steps, models, rounds, short rounds and end."""
    assert len(seen) == len(steps)
    n = len(seen[0].w)
    for got, step in zip(seen, steps, strict=True):
        size = np.abs(step.w).max()
        np.testing.assert_allclose(got.w, np.tile(step.w, (n, 1)), rtol=1e-9, atol=1e-11 * size)
        np.testing.assert_array_equal(got.w, np.tile(got.w[0], (n, 1)))
    np.testing.assert_array_equal([got.rounds for got in seen], np.cumsum([step.rounds for step in steps]))
    np.testing.assert_array_equal([got.short for got in seen], np.cumsum([step.short for step in steps]))
    for got, step in zip(seen, steps, strict=True):
        assert got.ended.split(":")[0].split(" ")[0] == (step.event if step.event in ENDS else "")


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", so.CASES)
def test_twin_to_the_end(name, n):
    compare(package(name, n), so.twin_of(name, n))


@pytest.mark.parametrize("name", so.CASES)
def test_twin_with_sparse_features(name):
    compare(package(name, 4, as_csr=True), so.twin_of(name, 4))


@pytest.mark.parametrize("name", MUST_HAPPEN)
def test_every_branch_is_met(name):
    assert MUST_HAPPEN[name] <= happened(so.twin_of(name, 5))


def test_shards_are_awkward():
    """Unequal, one empty, each without a feature, and in one case a feature that nobody has."""
    shards = so.shards_of(so.CASES["local 3"], 5)
    rows = [shard.rows for shard in shards]
    assert 0 in rows
    assert len(set(rows)) == 5
    held = [shard.holds for shard in shards if shard.rows]
    assert not np.all(held, axis=1).any()
    assert np.any(held, axis=0).all()
    assert not so.shards_of(so.CASES["local 3, absent"], 5)[0].holds[-1]
    before = so.start_of(so.CASES["local 3, absent"], 5, so.FEATURES)[-1]
    assert before
    assert not any(seen.w[:, -1].any() for seen in package("local 3, absent", 5)), "the penalty alone takes it to 0"


def test_softmax_intercepts_without_damping_agree_but_for_their_common_shift():
    """The Hessian is singular along a shift of all intercepts, which changes no probability."""
    case = so.Case(
        algorithm=so.LocalNewton(local_steps=2, solver=so.Cholesky()),
        twin=None,
        loss="softmax", intercept=True,
    )  # fmt: skip
    shards = so.shards_of(case, 3)
    problems = so.problems_of("softmax", so.parts_of(case, 3), case.l2, intercept=True)
    x0 = so.start_of(case, 3, problems[0].dim)
    seen, _ = so.drive(so.made_of(case.algorithm, problems, x0), Lockstep([()] * 3, None), 6)

    def without_shift(w):
        w = np.array(w).reshape(-1, so.CLASSES)
        w[-1] -= w[-1].mean()
        return w

    for got, step in zip(seen, twin.run(twin.local_newton(shards, x0, L=2, mu=1e-9), 6), strict=True):
        np.testing.assert_allclose(without_shift(got.w[0]), without_shift(step.w), rtol=1e-6, atol=1e-6)
        assert np.abs(got.w).max() < 100


# --- a reference that cannot fail is none ---

MISTAKES = [
    ("rows ignored in means", "s.rows * (s.holds if by_support", "(s.rows > 0) * (s.holds if by_support", "local 3"),
    ("support ignored", "s.holds if by_support else", "s.holds * 0 + 1 if by_support else", "local 3"),
    ("missing coordinates kept", "by_support, np.zeros_like(w))", "by_support, w)", "local 3, absent"),
    ("damping forgotten", "shard.H(w) + mu *", "shard.H(w) + 0 *", "local 2, damped"),
    ("directions forgotten", "w = w - a * p\n    return w, lengths", "w = w - a * g\n    return w, lengths", "local 3"),
    ("no line search", "a * BETA * slope + SLACK", "0 * slope + 1e9", "local 3, far"),
    ("halves for quarters", "4.0**-i", "2.0**-i", "local 3, far"),
    ("beta of 0.4", "BETA, SLACK = 0.1", "BETA, SLACK = 0.4", "local 2, huber"),
    ("shortest step in vain", "            break\n", "            a = LENGTHS[-1]\n", "local 2, huber, lost"),
    ("never rejected", "here <= good_loss + SLACK * abs(good_loss):", "True:", "adaptive"),
    ("rejected keeps L", 'event = good, "rejected"\n            L -= 1', 'event = good, "rejected"', "adaptive"),
    ("L never falls", "L = min(L, int(np.ceil(", "L = max(L, int(np.ceil(", "adaptive, far"),
    ("one class ignored", "> N / 2", "> N", "one class, newton"),
    ("gradient of the average", "gradient(shards, good)", "gradient(shards, average)", "adaptive, giant"),
    ("local gradients in GIANT", "direction(s, w, g, mu) if s.rows", "direction(s, w, s.g(w), mu) if s.rows", "giant"),
    ("take-over kept", "good is not None and not enough", "not taken_over and not enough", "adaptive, newton, near"),
    ("stale Hessian kept after a step back", "good = H = None", "good = None", "newton, lazy, far"),
    ("Hessian never renewed", "t % hessian_every == 0:", "t == 0:", "newton, lazy"),
    ("a candidate left out", "LENGTHS[1:], good_loss", "LENGTHS[2:], good_loss", "newton, far"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "name"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistakes_are_noticed(old, new, name):
    source = inspect.getsource(twin)
    if "w0" in new:
        source = source.replace(
            "    lengths = []\n    for _ in range(L)", "    lengths, w0 = [], w\n    for _ in range(L)"
        )
    assert source.count(old) == 1, "the twin was rewritten: bring the mistake up to date"
    wrong = types.ModuleType("wrong")
    exec(compile(source.replace(old, new), "wrong", "exec"), wrong.__dict__)
    steps = so.twin_of(name, 5, wrong)
    with pytest.raises(AssertionError):
        compare(package(name, 5), steps)
