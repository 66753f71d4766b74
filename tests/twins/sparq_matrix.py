"""SPARQ-SGD in matrix form (arXiv 1910.14280; with momentum SQuARM-SGD, arXiv 2005.07041).

All nodes are one array: row i of ``X`` is x_i, row i of ``Xhat`` what the neighbours believe x_i to be, ``W`` the
mixing matrix. Gossip is ``X + gamma (W Xhat - Xhat)``: no running sums, no messages. It agrees with a correct
implementation to rounding, which gossip amplifies: compare over some 100 steps.
"""

from typing import NamedTuple

import numpy as np


class Run(NamedTuple):
    """What happened: ``X[t]`` the iterates before step t, (steps + 1, n, d); ``fired`` (syncs, n); ``final`` (n, d).

    ``final`` differs from ``X[-1]`` only in the overlapped form, where what is in flight arrives before the model is
    read. ``Xhat`` belongs to ``final``. ``spoke`` (syncs, n, blocks) says which blocks fired.
    """

    X: np.ndarray
    fired: np.ndarray
    final: np.ndarray
    Xhat: np.ndarray
    spoke: np.ndarray


class Scheduled:
    """Block b of node i fires when |x_b - xhat_b|^2 > c_t eta_t^2 d_b / d; the whole model is one block."""

    def __init__(self, threshold, n, share):
        self.threshold, self.share = threshold, share

    def wants(self, drift, eta, t):
        return drift > self.threshold(t) * eta**2 * self.share

    def learn(self, fired):
        pass


class FiringRate:
    """Fire when |x_b - xhat_b|^2 > c_ib eta_t^2 d_b / d; log c_ib moves by gain (fired - target) after every sync.

    c_ib begins as the first non-zero ratio |x_b - xhat_b|^2 / (eta_t^2 d_b / d), at which the block fires.
    """

    def __init__(self, target, gain, n, share):
        self.target, self.gain, self.share = target, gain, share
        self.log_c = np.full((n, len(share)), np.nan)

    def wants(self, drift, eta, t):
        first = np.isnan(self.log_c) & (drift > 0)
        self.log_c[first] = np.log((drift / self.share)[first] / eta**2)
        return first | (drift > np.exp(self.log_c) * eta**2 * self.share)  # an unset c is NaN and compares as False

    def learn(self, fired):
        self.log_c += self.gain * (fired - self.target)


def sparq(
    grad,
    W,
    X0,
    *,
    steps,
    step_size,
    sync_every,
    compress,
    consensus_rate,
    threshold=None,
    target_rate=None,
    gain=0.5,
    longest_silence=None,
    momentum=0.0,
    overlap=False,
    blocks=None,
    rows=lambda node, t: None,
):
    """Run ``steps`` steps from ``X0`` (n, d) and return the `Run`.

    Parameters
    ----------
    grad : callable (i, x, rows) -> (d,)
    W : (n, n), symmetric and doubly stochastic
    step_size, threshold : callables of t; ``target_rate`` in place of ``threshold`` selects the controller
    sync_every : H; t is a sync step when (t + 1) % H == 0
    compress : callable (v, node, round) -> (d,), round counting the syncs from 0
    consensus_rate : gamma
    longest_silence : a node silent for this many syncs less one fires at the next
    momentum : beta of v = beta v + g, x -= eta (beta v + g)
    overlap : messages arrive one sync later, own ones too
    blocks : lengths of blocks that fire, are silent and are compressed each by itself; ``compress`` then is a list
    rows : callable (node, t) -> rows of the batch
    """
    n, d = np.shape(X0)
    cut = np.cumsum([0, *(blocks or [d])])
    pieces = [slice(a, b) for a, b in zip(cut[:-1], cut[1:], strict=True)]
    share = np.diff(cut) / d
    operators = [compress] if blocks is None else compress
    X = np.array(X0, dtype=float)
    Xhat, V, Q = np.zeros_like(X), np.zeros_like(X), np.zeros_like(X)
    trigger = Scheduled(threshold, n, share) if target_rate is None else FiringRate(target_rate, gain, n, share)
    silent = np.zeros((n, len(share)))
    trajectory, record = [X], []

    def gossip(X):
        return X + consensus_rate * (W @ Xhat - Xhat)

    def speak(X, eta, t):
        D = X - Xhat
        drift = np.stack([(D[:, piece] ** 2).sum(axis=1) for piece in pieces], axis=1)
        fired = trigger.wants(drift, eta, t)
        if longest_silence is not None:
            fired = fired | (silent >= longest_silence - 1)
        trigger.learn(fired)
        silent[:] = np.where(fired, 0, silent + 1)
        Q = np.zeros_like(X)
        for i, b in np.argwhere(fired):
            Q[i, pieces[b]] = operators[b](D[i, pieces[b]], i, len(record))
        record.append(fired)
        return Q

    for t in range(steps):
        eta = step_size(t)
        G = np.array([grad(i, X[i], rows(i, t)) for i in range(n)])
        V = momentum * V + G
        X = X - eta * (momentum * V + G)
        if (t + 1) % sync_every == 0:
            if overlap:
                Xhat = Xhat + Q
                X = gossip(X)
                Q = speak(X, eta, t)
            else:
                Xhat = Xhat + speak(X, eta, t)
                X = gossip(X)
        trajectory.append(X)
    if overlap:
        Xhat = Xhat + Q
        X = gossip(X)
    spoke = np.array(record, dtype=bool).reshape(-1, n, len(share))
    return Run(np.array(trajectory), spoke.any(axis=2), X, Xhat, spoke)


def average(run):
    """Return the model of ``output = "average"``: the mean over nodes of the final iterates."""
    return run.final.mean(axis=0)


def weighted(run, a):
    """Return the model of ``output = "weighted"``: weights (a + t)^2 on the mean iterate before step t < T."""
    weights = (a + np.arange(len(run.X) - 1.0)) ** 2
    return np.tensordot(weights, run.X[:-1].mean(axis=1), axes=1) / weights.sum()


def local(run):
    """Return the models of ``output = "local"``, (n, d)."""
    return run.final
