"""A step of ResNet-20, batch 32, float32, one node with momentum: against the same step in plain PyTorch.

Both use one thread, the same batches and Nesterov momentum. The package converts between its float64 vectors and the
module's parameters, and steps in NumPy; the target is less than a tenth of overhead. The two alternate, so that what
else runs on the machine is shared, and the least of each is compared.
"""

import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from support.torching import method_of  # noqa: E402

from mpi_opt.algorithms.base import Node  # noqa: E402
from mpi_opt.draws import Batches  # noqa: E402
from mpi_opt.network.lockstep import Lockstep  # noqa: E402
from mpi_opt.problems.torch.flat import FlatModule  # noqa: E402
from mpi_opt.problems.torch.nets import resnet20  # noqa: E402
from mpi_opt.problems.torch.problem import TorchProblem  # noqa: E402
from mpi_opt.problems.torch.setting import steady  # noqa: E402

ROWS, BATCH, STEPS, WARM, ALLOWED = 320, 32, 40, 3, 1.10


@pytest.mark.torch
def test_a_step_costs_little_more_than_plain_pytorch(benchmark):
    steady()
    ours, plain = our_steps(), plain_steps()
    seconds = {ours: [], plain: []}
    for t in range(STEPS + WARM):
        for step in (ours, plain):
            began = time.perf_counter()
            step(t)
            if t >= WARM:
                seconds[step].append(time.perf_counter() - began)
    least = {"mpi_opt": min(seconds[ours]), "pytorch": min(seconds[plain])}
    benchmark.extra_info.update(least, ratio=least["mpi_opt"] / least["pytorch"])
    benchmark.pedantic(ours, args=(STEPS + WARM,), rounds=1)
    assert least["mpi_opt"] <= ALLOWED * least["pytorch"]


def rows():
    draw = np.random.default_rng(0)
    return draw.normal(size=(ROWS, 3072)), draw.integers(0, 10, ROWS).astype(float)


def made():
    torch.manual_seed(0)
    return resnet20((3, 32, 32), 10)


def our_steps():
    problem = TorchProblem(FlatModule(made()), "softmax", *rows(), shape=(3, 32, 32))
    method, network = method_of("local", 0.9, batch=BATCH), Lockstep([()], None)
    scratch = (np.empty(problem.dim), np.empty(problem.dim))
    node = Node(0, 1, 0, {0: 1.0}, Batches(0, 0, ROWS, BATCH), scratch)
    states = [method.init(problem, problem.start)]

    def step(t):
        ((states[0], _),) = network.advance([method.step(states[0], problem, node)])

    return step


def plain_steps():
    module, batches = made().train(), Batches(0, 0, ROWS, BATCH)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    X, y = rows()
    X, y = torch.from_numpy(X.astype(np.float32)).reshape(-1, 3, 32, 32), torch.from_numpy(y).long()

    def step(t):
        some = torch.from_numpy(batches.at(t))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(X[some]), y[some]).backward()
        optimizer.step()

    return step
