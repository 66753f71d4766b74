"""What LocalNewton with each finish really sends and computes until f - f* <= 1e-6, in lockstep on real sets.

Run from the folder of the checkout, it prints `tests/support/finish_table.py`:

    PYTHONPATH=.:tests python tests/support/finish_rounds.py data/raw a9a:16 a9a:100 w8a:16 ...
"""

import bz2
import lzma
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from mpi_opt.algorithms.base import Node
from mpi_opt.algorithms.giant import Giant
from mpi_opt.algorithms.local_newton import LocalNewton
from mpi_opt.algorithms.newton import Newton
from mpi_opt.algorithms.newton_cg import NewtonCG
from mpi_opt.draws import Batches
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.problems.linear import LinearProblem
from mpi_opt.problems.losses import Logistic

FILES = {"a9a": "a9a/a9a.bz2", "w8a": "w8a/w8a.bz2", "ijcnn1": "ijcnn1/ijcnn1.xz"}
TARGET = 1e-6
ABOUT = "LocalNewton with each finish, measured; printed by `support/finish_rounds.py`."


@dataclass(frozen=True)
class Size:
    """What `choose_finish` is told: d, and means over the shards."""

    dim: int
    rows: float
    nonzeros: float


@dataclass(frozen=True)
class Setting:
    """One set dealt to K shards after a seeded shuffle; l2 = 1/N, no intercept."""

    full: LinearProblem
    shards: list[LinearProblem]
    optimum: float

    @property
    def size(self):
        """Sizes of a shard."""
        return Size(self.full.dim, self.full.rows / len(self.shards), self.full.nonzeros / len(self.shards))


@dataclass(frozen=True)
class Course:
    """What node 0 handed over and what the busiest node computed until the target.

    ``sums`` are (bytes, how often), short ones included; ``work`` counts calls by name.
    """

    reached: bool
    sums: tuple[tuple[int, int], ...]
    rounds: int
    work: dict[str, int]


class Counting:
    """A problem that counts what is asked of it."""

    def __init__(self, problem):
        self.problem, self.calls = problem, Counter()

    def __getattr__(self, name):
        return getattr(self.problem, name)

    def value(self, x):
        self.calls["value"] += 1
        return self.problem.value(x)

    def gradient(self, x, out=None):
        self.calls["gradient"] += 1
        return self.problem.gradient(x, out)

    def hessian(self, x):
        self.calls["hessian"] += 1
        return self.problem.hessian(x)

    def hessian_diagonal(self, x):
        self.calls["value"] += 1
        return self.problem.hessian_diagonal(x)

    def hvp_at(self, x):
        product = self.problem.hvp_at(x)

        def counted(v):
            self.calls["product"] += 1
            return product(v)

        return counted

    def value_along(self, x, p):
        self.calls["line"] += 1
        return self.problem.value_along(x, p)


def load(folder, name):
    """Return features (CSR) and labels -1/+1 of a set."""
    import scipy.sparse as sp
    from sklearn.datasets import load_svmlight_file

    path = Path(folder) / FILES[name]
    with (bz2.open if path.suffix == ".bz2" else lzma.open)(path) as file:
        A, y = load_svmlight_file(file)
    return sp.csr_array(A), np.where(y > 0, 1.0, -1.0)


def deal(folder, name, nodes, seed=0):
    """Return the setting of a set on K nodes."""
    A, y = load(folder, name)
    order = np.random.default_rng(seed).permutation(y.size)
    A, y = A[order], y[order]
    cut = [y.size * i // nodes for i in range(nodes + 1)]
    l2 = 1 / y.size
    full = LinearProblem(A, y, Logistic(), l2=l2, scale=l2)
    shards = [LinearProblem(A[a:b], y[a:b], Logistic(), l2=l2, scale=1 / (b - a)) for a, b in pairwise(cut)]
    return Setting(full, shards, optimum(full))


def optimum(problem):
    """Return f* by undamped Newton steps from zero; SciPy's solve, none of the package's methods."""
    w, best = np.zeros(problem.dim), np.inf
    for _ in range(30):
        w = w - np.linalg.solve(problem.hessian(w), problem.gradient(w))
        best = min(best, problem.value(w))
    return best


def watched(step, log):
    """Hand a step's requests on, and note the bytes of each sum or average."""
    try:
        request = next(step)
        while True:
            vector = getattr(request, "array", None)
            nbytes = vector.nbytes if vector is not None else request.vector.nbytes + 8
            log.append(nbytes)
            request = step.send((yield request))
    except StopIteration as end:
        return end.value


def course(setting, algorithm, most=600):
    """Drive the algorithm until the target, and return its course."""
    problems = [Counting(problem) for problem in setting.shards]
    n, d = len(problems), setting.full.dim
    scratch = (np.empty(d), np.empty(d))
    nodes = [Node(i, n, 0, {i: 1.0}, Batches(0, i, p.rows, None), scratch) for i, p in enumerate(problems)]
    network = Lockstep([()] * n, None)
    states = [algorithm.init(problem, np.zeros(d)) for problem in problems]
    log = []
    reached = False
    while network.traffic[0].rounds < most:
        steps = [algorithm.step(*each) for each in zip(states, problems, nodes, strict=True)]
        steps[0] = watched(steps[0], log)
        results = network.advance(steps)
        states = [state for state, _ in results]
        reached = setting.full.value(algorithm.model(states[0])) - setting.optimum <= TARGET
        if reached or results[0][1].ended:
            break
    calls = Counter()
    for problem in problems:
        calls |= problem.calls  # the busiest node, kind by kind
    sums = Counter(log)
    return Course(reached, tuple(sorted(sums.items())), network.traffic[0].rounds, dict(sorted(calls.items())))


def finishes():
    """Return LocalNewton with each of the three finishes, all options at their defaults."""
    made = {"giant": Giant(), "newton": Newton(), "newton-cg": NewtonCG()}
    return {name: LocalNewton(adaptive=True, finish=finish) for name, finish in made.items()}


def main():
    """Print the table of the sets and numbers of nodes named."""
    folder, *wanted = sys.argv[1:]
    print(f'"""{ABOUT}"""\n\nfrom support.finish_rounds import Course, Size\n\nSIZES = {{')
    settings = {(name, int(nodes)): deal(folder, name, int(nodes)) for name, nodes in (w.split(":") for w in wanted)}
    for key, setting in settings.items():
        print(f"    {key!r}: {setting.size!r},", flush=True)
    print("}\n\nCOURSES = {")
    for (name, nodes), setting in settings.items():
        for finish, algorithm in finishes().items():
            print(f"    ({name!r}, {nodes}, {finish!r}): {course(setting, algorithm)!r},", flush=True)
    print("}")


if __name__ == "__main__":
    main()
