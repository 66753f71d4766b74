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
    """``X[t]`` before step t, (steps + 1, n, d); ``fired`` (syncs, n); ``final``, ``xhat`` and ``mix``, each (n, d)."""

    X: np.ndarray
    fired: np.ndarray
    final: np.ndarray
    xhat: np.ndarray
    mix: np.ndarray


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
    rows=lambda node, t: None,
):
    """Run ``steps`` steps; ``x0`` holds one vector a node."""
    nodes = range(len(x0))
    gamma, beta = consensus_rate, momentum
    x = [np.array(start, dtype=float) for start in x0]
    v, xhat, mix = ([np.zeros_like(start) for start in x] for _ in range(3))
    log_c = [None for _ in nodes]
    silence = [0 for _ in nodes]
    flight = {}
    X, record = [np.array(x)], []

    def exceeds(i, drift, eta, t):
        size = drift @ drift
        if target_rate is None:
            return bool(size > threshold(t) * eta**2)
        if log_c[i] is None:
            if size > 0:
                log_c[i] = math.log(size / eta**2)
            return bool(size > 0)
        return bool(size > math.exp(log_c[i]) * eta**2)

    def speak(eta, t):
        """Return the messages {j: q_j} of the nodes that fire."""
        messages, fired = {}, []
        for i in nodes:
            drift = x[i] - xhat[i]
            fires = exceeds(i, drift, eta, t)
            if longest_silence is not None and silence[i] >= longest_silence - 1:
                fires = True
            silence[i] = 0 if fires else silence[i] + 1
            if target_rate is not None and log_c[i] is not None:
                log_c[i] += gain * (fires - target_rate)
            if fires:
                messages[i] = compress(drift, i, len(record))
            fired.append(fires)
        record.append(fired)
        return messages

    def deliver(messages):
        for i in nodes:
            if i in messages:
                xhat[i] = xhat[i] + 1.0 * messages[i]
            for j, w in weights[i].items():
                if j in messages:
                    q = messages[j]
                    kept = np.flatnonzero(q)
                    mix[i][kept] += w * q[kept]

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
    return Run(
        np.array(X), np.array(record, dtype=bool).reshape(-1, len(x)), np.array(x), np.array(xhat), np.array(mix)
    )
