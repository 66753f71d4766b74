"""Checks of what nodes know of each other: estimates alike on both ends of an edge, and gossip that keeps the mean."""

from collections.abc import Sequence

import numpy as np

from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.algorithms.sparq_sgd import SparqSGD
from mpi_opt.compression.base import Compressor
from mpi_opt.compression.identity import Identity
from mpi_opt.compression.sign import SignTopK
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import RankFailedError
from mpi_opt.network.base import Network
from mpi_opt.run.check import replica_check
from mpi_opt.schedules import Constant
from mpi_opt.types import Vector
from mpi_opt.verify import cases
from mpi_opt.verify.findings import Outcome
from mpi_opt.verify.setting import Setting

ROUNDS = 30
ROUNDING = 1e-12


def replicas(setting: Setting) -> Outcome:
    """Compare every neighbour's copy of an estimate with its owner's, and the running sums with the estimates."""
    if setting.nodes == 1:
        return Outcome(left_out="one node has no neighbours: start more ranks")
    faults: list[str] = []
    for name, overlap in (("SPARQ-SGD", False), ("SPARQ-SGD overlapped", True)):
        case = cases.make(cases.sparq(overlap=overlap, check=True), setting.nodes)
        network = setting.connect(case.neighbours, case.codec)
        look, drive = replica_check(network), cases.Drive(case, network)
        found: list[str] = []
        for t in range(1, cases.STEPS + 1):
            drive.step()
            if t % cases.SYNC_EVERY:
                continue
            try:  # it compares after all messages have come: who finds nothing is not left waiting
                look(t, drive.states)
            except RankFailedError as error:
                found.append(str(error))
            found += _sums(t, network, drive)
        drive.settle()
        network.close()
        faults += [f"{name}: {fault}" for fault in found[:1]]
    syncs = cases.STEPS // cases.SYNC_EVERY
    return Outcome(
        f"every neighbour's estimate is its owner's, to the last bit, at 2 x {syncs} synchronisations", faults
    )


def _sums(t: int, network: Network, drive: cases.Drive) -> list[str]:
    """Hold each node's running sum against the estimates that its neighbours hold of themselves."""
    shared = network.share([state.x_hat for state in drive.states])
    for i, state, theirs in zip(network.local, drive.states, shared, strict=True):
        weights = drive.case.nodes[i].weights
        total = weights[i] * state.x_hat + sum(weights[j] * x_hat for j, x_hat in theirs.items())
        off = float(np.abs(total - state.mix).max())
        if not off <= ROUNDING * max(1.0, float(np.abs(total).max())):
            return [f"step {t}: node {i}'s running sum of its neighbours' estimates is off by {off:.3g}"]
    return []


def gossip(setting: Setting) -> Outcome:
    """Run gossip alone from models that differ, and look at the mean, the spread and the weights."""
    n, faults = setting.nodes, list[str]()
    draws = Key(cases.SEED, 0, Purpose.GOSSIP, 0).generator()
    starts = draws.normal(size=(n, cases.DIM))
    worst = 0.0
    runs: Sequence[tuple[str, Compressor, float, int]] = (
        ("uncompressed", Identity(value_bits=64), 1.0, ROUNDS),
        ("sign-top-k", SignTopK(cases.K), cases.CONSENSUS_RATE, ROUNDS),
    )
    for name, compressor, rate, rounds in runs:
        algorithm = SparqSGD(
            step_size=Constant(0.0), trigger=Trigger(Constant(0.0)), compressor=compressor, consensus_rate=rate
        )
        case = cases.make(algorithm, n)
        network = setting.connect(case.neighbours, case.codec)
        drive = cases.Drive(case, network, starts)
        for _ in range(rounds):
            drive.step()
        models = np.concatenate(setting.collectives.gather(drive.models()))
        rows = setting.collectives.gather([dict(case.nodes[i].weights) for i in network.local])
        network.close()
        if setting.first:
            W = _matrix(n, [row for part in rows for row in part])
            off = float(np.abs(models.mean(axis=0) - starts.mean(axis=0)).max())
            worst = max(worst, off)
            faults += [*_stochastic(W), *_course(name, W, models, starts, off, rounds if rate == 1.0 else None)]
    moved = f"the mean of {n} node{'s' * (n > 1)} moved by {worst:.1e} in {len(runs)} x {ROUNDS} rounds"
    return Outcome(f"{moved}; W is doubly stochastic", list(dict.fromkeys(faults)))


def _matrix(n: int, rows: Sequence[dict[int, float]]) -> Vector:
    W = np.zeros((n, n))
    for i, row in enumerate(rows):
        W[i, list(row)] = list(row.values())
    return W


def _stochastic(W: Vector) -> list[str]:
    """Say what is wrong with the weights that the nodes hold."""
    worst = [float(np.abs(W.sum(axis=axis) - 1.0).max()) for axis in (0, 1)]
    faults = [
        f"the weights of a {what} of W add up to 1 only within {off:.3g}"
        for what, off in zip(("column", "row"), worst, strict=True)
        if not off <= ROUNDING
    ]
    return faults if W.min() >= 0 else [*faults, f"W has the negative weight {float(W.min()):.3g}"]


def _course(name: str, W: Vector, models: Vector, starts: Vector, off: float, rounds: int | None) -> list[str]:
    """Say how gossip has gone wrong; after ``rounds`` uncompressed ones the models must be W^rounds times the start."""
    faults = []
    if not off <= ROUNDING:
        faults.append(f"gossip, {name}: the network's mean moved by {off:.3g}, which is more than rounding")
    if rounds is not None:
        away = float(np.abs(models - np.linalg.matrix_power(W, rounds) @ starts).max())
        if not away <= 100 * ROUNDING:
            faults.append(f"gossip, {name}: after {rounds} rounds the models are {away:.3g} from W^{rounds} x")
    before, after = (float(((x - x.mean(axis=0)) ** 2).sum()) for x in (starts, models))
    if len(models) > 1 and not after < before:
        faults.append(f"gossip, {name}: the nodes' spread went from {before:.3g} to {after:.3g}")
    return faults
