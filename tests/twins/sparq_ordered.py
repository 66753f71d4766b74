"""SPARQ-SGD node by node, adding in the order the package promises: the same bits, for thousands of steps.

The order: the local step is ``x - eta g`` (with momentum ``v = beta v + g``, then ``x - eta (beta v + g)``); the
trigger compares the dot product of the drift with itself with ``c eta**2``; a node's own message is added to its xhat;
messages are added to ``mix_i = sum_j w_ij xhat_j`` in ascending sender order, one's own in its place; then
``x + gamma (mix - xhat)``. Arguments are those of `sparq_matrix.sparq`, with ``weights`` (one dict a node, ascending)
for W.
"""

import math
from typing import NamedTuple

import numpy as np


class Run(NamedTuple):
    """``X[t]`` before step t, (steps + 1, n, d); ``fired`` (syncs, n); ``final``, ``xhat`` and ``mix``, each (n, d).

    ``spoke`` is that of the matrix form.
    """

    X: np.ndarray
    fired: np.ndarray
    final: np.ndarray
    xhat: np.ndarray
    mix: np.ndarray
    spoke: np.ndarray


def sparq(
    grad,
    weights,
    x0,
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
    """Run ``steps`` steps; ``x0`` holds one vector a node."""
    nodes = range(len(x0))
    d = len(x0[0])
    ends = [sum((blocks or [d])[: b + 1]) for b in range(len(blocks or [d]))]
    pieces = [slice(end - size, end) for end, size in zip(ends, blocks or [d], strict=True)]
    operators = [compress] if blocks is None else compress
    each = [(i, b) for i in nodes for b in range(len(pieces))]
    gamma, beta = consensus_rate, momentum
    x = [np.array(start, dtype=float) for start in x0]
    v, xhat, mix = ([np.zeros_like(start) for start in x] for _ in range(3))
    log_c = dict.fromkeys(each)
    silence = dict.fromkeys(each, 0)
    flight = {}
    X, record = [np.array(x)], []

    def exceeds(at, drift, eta, t):
        size = drift @ drift
        share = len(drift) / d
        if target_rate is None:
            return bool(size > threshold(t) * eta**2 * share)
        if log_c[at] is None:
            if size > 0:
                log_c[at] = math.log(size / share / eta**2)
            return bool(size > 0)
        return bool(size > math.exp(log_c[at]) * eta**2 * share)

    def speak(eta, t):
        """Return the messages {(j, b): q_jb} of the blocks that fire."""
        messages, fired = {}, []
        for at in each:
            i, b = at
            drift = x[i][pieces[b]] - xhat[i][pieces[b]]
            fires = exceeds(at, drift, eta, t)
            if longest_silence is not None and silence[at] >= longest_silence - 1:
                fires = True
            silence[at] = 0 if fires else silence[at] + 1
            if target_rate is not None and log_c[at] is not None:
                log_c[at] += gain * (fires - target_rate)
            if fires:
                messages[at] = operators[b](drift, i, len(record))
            fired.append(fires)
        record.append(fired)
        return messages

    def deliver(messages):
        for i, b in each:
            piece = pieces[b]
            if (i, b) in messages:
                xhat[i][piece] = xhat[i][piece] + 1.0 * messages[i, b]
            for j, w in weights[i].items():
                if (j, b) in messages:
                    q = messages[j, b]
                    kept = np.flatnonzero(q)
                    mix[i][piece][kept] += w * q[kept]

    def gossip():
        for i in nodes:
            x[i] = x[i] + gamma * (mix[i] - xhat[i])

    for t in range(steps):
        eta = step_size(t)
        for i in nodes:
            g = grad(i, x[i], rows(i, t))
            if beta:
                v[i] = beta * v[i] + g
                g = beta * v[i] + g
            x[i] = x[i] - eta * g
        if (t + 1) % sync_every == 0:
            if overlap:
                deliver(flight)
                gossip()
                flight = speak(eta, t)
            else:
                deliver(speak(eta, t))
                gossip()
        X.append(np.array(x))
    if overlap:
        deliver(flight)
        gossip()
    spoke = np.array(record, dtype=bool).reshape(-1, len(x), len(pieces))
    return Run(np.array(X), spoke.any(axis=2), np.array(x), np.array(xhat), np.array(mix), spoke)
