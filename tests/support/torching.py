"""Training of modules by hand: PyTorch's own optimizer, and averaged gradients as DistributedDataParallel has them."""

import numpy as np
import torch

from mpi_opt.algorithms.allreduce_sgd import AllreduceSGD
from mpi_opt.algorithms.base import Node
from mpi_opt.algorithms.local_sgd import LocalSGD
from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.algorithms.sparq_sgd import SparqSGD
from mpi_opt.compression.identity import Identity
from mpi_opt.draws import Batches
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.schedules import Constant
from mpi_opt.topology.mixing import make_mixing
from mpi_opt.topology.registry import make_graph

ETA, SEED = 0.1, 7


def method_of(name, beta, *, batch):
    """Return a method whose messages lose nothing."""
    common = {"step_size": Constant(ETA), "batch": batch, "beta": beta}
    if name == "allreduce":
        return AllreduceSGD(**common)
    if name == "local":
        return LocalSGD(**common, sync_every=3)
    return SparqSGD(
        **common,
        trigger=Trigger(Constant(0.0)),
        compressor=Identity(value_bits=64),
        consensus_rate=1.0,
        sync_every=1 if name == "d-psgd" else 3,
    )


def train(problems, method, *, steps, graph="ring"):
    """Train in lockstep and return each node's model."""
    n, dim = len(problems), problems[0].dim
    mixing = make_mixing(make_graph(graph, n, {}, 0), "metropolis")
    codec = Identity(value_bits=64).codec(dim, SEED) if isinstance(method, SparqSGD) else None
    plan = Plan(
        network=Lockstep([mixing.graph.neighbours(i) for i in range(n)], codec),
        algorithm=method,
        nodes=[
            Node(i, n, SEED, mixing.row(i), Batches(SEED, i, p.rows, method.batch), (np.empty(dim), np.empty(dim)))
            for i, p in enumerate(problems)
        ],
        problems=problems,
        x0=problems[0].start,
        rules=StopRules(steps=steps),
        average_output=False,
    )
    return run(plan).models


def plain_sgd(module, X, y, *, batch, beta, l2, steps):
    """Return the parameters after ``steps`` of torch.optim.SGD on the first node's batches, side by side."""
    optimizer = torch.optim.SGD(module.parameters(), lr=ETA, momentum=beta, nesterov=beta > 0, weight_decay=l2)
    batches, X, y = Batches(SEED, 0, len(y), batch), torch.from_numpy(X), torch.from_numpy(y).long()
    for step in range(steps):
        rows = batches.at(step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(X[rows]), y[rows]).backward()
        optimizer.step()
    return _flat(module)


def averaged_sgd(module, shards, *, batch, beta, steps):
    """Return the parameters after ``steps`` of torch.optim.SGD on the mean of all nodes' gradients."""
    optimizer = torch.optim.SGD(module.parameters(), lr=ETA, momentum=beta, nesterov=beta > 0)
    batches = [Batches(SEED, i, len(y), batch) for i, (_, y) in enumerate(shards)]
    for step in range(steps):
        optimizer.zero_grad()
        for each, (X, y) in zip(batches, shards, strict=True):
            rows = each.at(step)
            output = module(torch.from_numpy(X[rows]))
            loss = torch.nn.functional.cross_entropy(output, torch.from_numpy(y[rows]).long())
            (loss / len(shards)).backward()
        optimizer.step()
    return _flat(module)


def _flat(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()]).numpy()
