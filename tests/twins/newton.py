"""LocalNewton (arXiv 2105.07320), GIANT (arXiv 1709.03528) and exact Newton, all nodes at once, by dense solves.

``shards`` are objects with ``f``, ``g``, ``H``, ``rows``, ``holds``, ``one_label`` (see second_order_shards.py); the
global function is ``F = sum N_k f_k / N``. A method is a generator of `Step`, one for each step of the package, and
stops where the method ends. As a finish it starts at ``w`` with the point to fall back to, ``good``, and its loss.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import linalg

BETA, SLACK = 0.1, 1e-12
LENGTHS = [4.0**-i for i in range(10)]


class Step(NamedTuple):
    """After a step: the point, what happened in words, rounds and short rounds of this step, L, lengths tried out.

    ``event``: round, accepted, rejected, back (to the good point), step, shortened,
    ended (nothing found) or converged. ``lengths``: for local rounds one list a shard, None for a search in vain.
    """

    w: np.ndarray
    event: str
    rounds: int
    short: int = 0
    L: int = 0
    lengths: tuple = ()


def total(shards, of, w):
    """Return sum N_k of(shard, w) / N."""
    N = sum(s.rows for s in shards)
    return sum(s.rows / N * of(s, w) for s in shards if s.rows)


def loss(shards, w):
    return total(shards, lambda s, w: s.f(w), w)


def gradient(shards, w):
    return total(shards, lambda s, w: s.g(w), w)


def hessian(shards, w):
    return total(shards, lambda s, w: s.H(w), w)


def enough(here, there, a, slope):
    """Armijo: ``there <= here - a beta slope``, but for rounding."""
    return there <= here - a * BETA * slope + SLACK * abs(here)


def search(f, w, p, slope, lengths=LENGTHS, here=None):
    """Return the first length that is good enough, or None."""
    here = f(w) if here is None else here
    return next((a for a in lengths if enough(here, f(w - a * p), a, slope)), None)


def direction(shard, w, g, mu):
    return linalg.solve(shard.H(w) + mu * np.eye(len(w)), g, assume_a="sym")


def mean(shards, vectors, by_support, missing):
    """Return the mean weighted by rows; by support each coordinate over its holders, where none ``missing``."""
    weights = np.array([s.rows * (s.holds if by_support else np.ones(len(missing))) for s in shards], dtype=float)
    held = weights.sum(axis=0)
    return np.where(held > 0, (weights * vectors).sum(axis=0) / np.where(held > 0, held, 1), missing)


def local_steps(shard, w, L, mu):
    """Return w_k after at most L local steps from w, and the lengths taken."""
    lengths = []
    for _ in range(L):
        g = shard.g(w)
        p = direction(shard, w, g, mu)
        a = search(shard.f, w, p, p @ g)
        lengths.append(a)
        if a is None:
            break
        w = w - a * p
    return w, lengths


def local_round(shards, w, L, mu, by_support):
    ends, lengths = [], []
    for shard in shards:
        end, taken = local_steps(shard, w, L, mu) if shard.rows else (w, [])
        ends.append(end)
        lengths.append(taken)
    return mean(shards, ends, by_support, np.zeros_like(w)), tuple(map(tuple, lengths))


def local_newton(shards, w, *, L=3, mu=0.0, by_support=True):
    """The plain method: it never ends."""
    while True:
        w, lengths = local_round(shards, w, L, mu, by_support)
        yield Step(w, "round", 1, L=L, lengths=lengths)


def adaptive(shards, w, *, L=3, mu=0.0, by_support=True, bound=0.02, finish=None, at_once=False):
    """Lower L as progress slows, reject rounds that raised F, then finish.

    Accepting or rejecting is about the point the round STARTED from, whose loss arrives with the round. ``at_once``:
    ``finish(w, good, loss)`` after the first round, at the new average. Else ``finish(good)`` with loss and gradient
    known, at the last good point, after a rejection or once L is 1.
    """
    most, first = L, 0
    if finish:
        first = 1
        N = sum(s.rows for s in shards)
        if sum(s.rows for s in shards if s.one_label) > N / 2:
            yield from (s._replace(short=s.short + (i == 0)) for i, s in enumerate(finish(w)))
            return
    good, good_loss = None, None
    while True:
        here = loss(shards, w)
        average, lengths = local_round(shards, w, L, mu, by_support)
        if good is None or here <= good_loss + SLACK * abs(good_loss):
            if good is not None:
                L = min(L, int(np.ceil(most * (good_loss - here) / abs(good_loss) / bound)))
            good, good_loss, w, event = w, here, average, "accepted"
        else:
            w, event = good, "rejected"
            L -= 1
        if finish is None and event == "rejected" and L < 1:
            yield Step(w, "stalled", 1, first, 1, lengths)
            return
        over = finish is not None and (at_once or event == "rejected" or L < 2)
        if not over:
            L = max(L, 1)
        elif not at_once:
            w = good
        yield Step(w, event, 1, first, L, lengths)
        first = 0
        if over:
            yield from (
                finish(w, good, good_loss) if at_once else finish(good, known=(good_loss, gradient(shards, good)))
            )
            return


def giant(shards, w, *, known=None, mu=0.0, by_support=True, tolerance=0.0):
    while True:
        here, g = (loss(shards, w), gradient(shards, w)) if known is None else known
        asked, known = int(known is None), None
        if np.linalg.norm(g) <= tolerance:
            yield Step(w, "converged", asked)
            return
        alone = g / np.where(shards[0].penalty > 0, shards[0].penalty, 1)
        p = mean(shards, [direction(s, w, g, mu) if s.rows else g for s in shards], by_support, alone)
        a = search(partial(loss, shards), w, p, p @ g)
        if a is None:
            yield Step(w, "ended", asked + 1, 1)
            return
        w = w - a * p
        yield Step(w, "step" if a == 1 else "shortened", asked + 1, 1, lengths=(a,))


def newton(shards, w, good=None, good_loss=None, *, tolerance=0.0, hessian_every=1):
    """``p`` and ``slope`` belong to the full step taken from ``good``; after a take-over the slope counts as 0.

    The Hessian of a round t with t % hessian_every == 0 serves until the next such round; after a step back, where the
    last one belongs to a point given up, the next round's is taken whatever t is.
    """
    taken_over = good is not None
    p, slope = (good - w, 0.0) if taken_over else (None, None)
    t, H = 0, None
    while True:
        here, g = loss(shards, w), gradient(shards, w)
        if H is None or t % hessian_every == 0:
            H = hessian(shards, w)
        t += 1
        if good is not None and not enough(good_loss, here, 1.0, slope):
            a = search(partial(loss, shards), good, p, slope, LENGTHS[1:], good_loss)
            w = good if a is None else good - a * p
            good = H = None  # the point found is known to be good enough
            if a is None and not taken_over:
                yield Step(w, "ended", 1, 1)
                return
            taken_over = False
            yield Step(w, "back" if a is None else "shortened", 1, 1, lengths=(a,))
            continue
        taken_over = False
        if np.linalg.norm(g) <= tolerance:
            yield Step(w, "converged", 1)
            return
        good, good_loss, p = w, here, linalg.solve(H, g, assume_a="sym")
        slope = p @ g
        w = w - p
        yield Step(w, "step", 1)


def run(method, steps):
    """Return the first ``steps`` steps of a method, fewer where it ends."""
    return [step for step, _ in zip(method, range(steps), strict=False)]
