"""The bar for ``consensus_rate = "auto"``, as a table.

Pure gossip from N(0, 1) at d = 1000; error is sum_i |x_i - mean|^2. On every graph and with every compressor below, the
rate chosen must not diverge within 5,000 rounds, and must need at most twice the rounds that the best of a 20-point
log grid on [0.003, 1] needs for a 100-fold smaller error. Where no rate of the grid gets there within 5,000 rounds, the
second half of the bar says nothing and the table shows a dash.

The simulator is in matrix form and shares nothing with the package but the graph's edges: W, the operators and the
gossip are written anew, over all nodes at once.

    python tests/bench/consensus_rate_bar.py [--graphs ring-8,star-8] [--compressors sign,top-1%] [--seed 7]

One core takes about a quarter of an hour for the whole table; exit code 1 if a line misses the bar.
"""

import argparse
import math
import sys
import time

import numpy as np

from mpi_opt.compression.registry import make_compressor
from mpi_opt.topology.consensus_rate import consensus_rate
from mpi_opt.topology.mixing import make_mixing
from mpi_opt.topology.registry import make_graph

D = 1000
ROUNDS = 5000
GRID = np.geomspace(0.003, 1.0, 20)
GRAPHS = {
    "ring-4": ("ring", 4, {}),
    "ring-8": ("ring", 8, {}),
    "ring-16": ("ring", 16, {}),
    "ring-60": ("ring", 60, {}),
    "torus-4x4": ("torus", 16, {}),
    "complete-8": ("complete", 8, {}),
    "star-8": ("star", 8, {}),
    "path-8": ("path", 8, {}),
    "random-regular-16": ("random-regular", 16, {"degree": 4}),
}


def signs(v, rng):
    return np.where(v < 0.0, -1.0, 1.0) * np.abs(v).mean(axis=1, keepdims=True)


def top(k, one_scale):
    def operator(v, rng):
        at = np.argpartition(np.abs(v), v.shape[1] - k, axis=1)[:, -k:]
        values = np.take_along_axis(v, at, axis=1)
        if one_scale:
            values = np.sign(values) * np.abs(values).mean(axis=1, keepdims=True)
        out = np.zeros_like(v)
        np.put_along_axis(out, at, values, axis=1)
        return out

    return operator


def qsgd(s):
    def operator(v, rng):
        d = v.shape[1]
        norm = np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-300)
        level = np.floor(s * np.abs(v) / norm + rng.random(v.shape))
        return np.sign(v) * level * norm / s / (1.0 + min(d / s**2, math.sqrt(d) / s))

    return operator


COMPRESSORS = {"sign": (("sign", {}), signs), "qsgd-16": (("qsgd", {"levels": 16}), qsgd(16))}
for percent in ("0.5%", "1%", "10%"):
    kept = round(float(percent[:-1]) * D / 100)
    COMPRESSORS[f"top-{percent}"] = (("top-k", {"k": kept}), top(kept, False))
    COMPRESSORS[f"sign-top-{percent}"] = (("sign-top-k", {"k": kept}), top(kept, True))


def metropolis(graph):
    w = np.zeros((graph.n, graph.n))
    degree = np.bincount(np.ravel(graph.edges), minlength=graph.n)
    for i, j in graph.edges:
        w[i, j] = w[j, i] = 1.0 / (1.0 + max(degree[i], degree[j]))
    return w + np.diag(1.0 - w.sum(axis=1))


def gossip(w, operator, gamma, rounds, seed, go_on=False):
    """Return (rounds to a 100-fold smaller error or None, largest error after it, last error), errors relative."""
    n, rng = len(w), np.random.default_rng(seed)
    x = rng.standard_normal((n, D))
    xhat = np.zeros_like(x)
    pull = w - np.eye(n)
    if n > 30:
        from scipy.sparse import csr_array

        pull = csr_array(pull)
    start, reached, worst, error = float(((x - x.mean(0)) ** 2).sum()), None, 0.0, 1.0
    for t in range(1, rounds + 1):
        xhat += operator(x - xhat, rng)
        x += gamma * (pull @ xhat)
        error = float(((x - x.mean(0)) ** 2).sum()) / start
        if not error < 1e3:
            return reached, math.inf, math.inf
        if reached is not None:
            worst = max(worst, error)
        elif error <= 0.01:
            reached = t
            if not go_on:
                break
    return reached, worst, error


def best_of_grid(w, operator, near, seed):
    """Return (rounds, gamma) of the fastest rate of the grid; (None, None) if none gets there."""
    rounds, best = ROUNDS, None
    # Rates near the fastest first: the others are cut short by it.
    for gamma in sorted(GRID, key=lambda g: abs(math.log(g / near))):
        reached, _, _ = gossip(w, operator, gamma, rounds, seed)
        if reached is not None and (reached < rounds or best is None):
            rounds, best = reached, gamma
    return (None, None) if best is None else (rounds, best)


def line(graph_name, compressor_name, seed):
    """Return (passed, text, seconds of the search) for one line of the table."""
    name, n, params = GRAPHS[graph_name]
    recipe, operator = COMPRESSORS[compressor_name]
    graph = make_graph(name, n, params, 1)
    began = time.process_time()
    found = consensus_rate(make_mixing(graph), make_compressor(*recipe), D, 0)
    seconds = time.process_time() - began
    w = metropolis(graph)
    best, at = best_of_grid(w, operator, found.fastest, seed)
    enough = max(ROUNDS, 2 * best if best else 0)
    reached, worst, last = gossip(w, operator, found.gamma, enough, seed, go_on=True)
    stable = last < 1.0 and worst < 1.0
    passed = stable and (best is None or (reached is not None and reached <= 2 * best))
    ratio = "-" if best is None or reached is None else f"{reached / best:.2f}"
    text = (
        f"{graph_name:18s} {compressor_name:13s} {found.gamma:8.4f} {reached or '-':>6} {best or '-':>6} "
        f"{f'{at:.3f}' if best else '-':>6} {ratio:>6} {worst:9.1e} {last:9.1e} {seconds:6.2f} "
        f"{'ok' if passed else 'MISSED'}"
    )
    return passed, text, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--compressors", default=",".join(COMPRESSORS))
    parser.add_argument("--seed", type=int, default=7, help="of the gossip; the search always has seed 0")
    args = parser.parse_args()
    print("graph              compressor       gamma rounds   best     at  ratio     worst      last search")
    missed = lines = 0
    for graph in args.graphs.split(","):
        for compressor in args.compressors.split(","):
            passed, text, _ = line(graph, compressor, args.seed)
            print(text, flush=True)
            missed, lines = missed + (not passed), lines + 1
    print(f"{lines - missed} of {lines} lines pass")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
