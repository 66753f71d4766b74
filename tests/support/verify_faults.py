"""Faults planted under ``mpi-opt verify``, in one process or as a rank script. ``verify_faults.py DIR RANK FAULT...``.

As a script it runs the command once for each FAULT, planted on RANK alone, with the checks that the fault is about, and
writes what came to ``DIR/FAULT.json`` and the exit code.
"""

import json
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

import mpi_opt.algorithms.sparq_sgd as engine
import mpi_opt.resuming as resuming
from mpi_opt.algorithms.parts.replicas import Replicas
from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.compression.base import Size
from mpi_opt.network.base import Traffic
from mpi_opt.topology.mixing import Mixing
from mpi_opt.verify import checks


def _weight():
    """One node holds a wrong weight of its neighbour."""
    plain = Mixing.row

    def row(self, i):
        weights = plain(self, i)
        return {j: w * (1.01 if (i, j) == (1, 0) else 1.0) for j, w in weights.items()}

    return mock.patch.object(Mixing, "row", row)


def _uneven():
    """As `_weight`, but the row still adds up to 1: only columns do not."""
    plain = Mixing.row

    def row(self, i):
        weights = dict(plain(self, i))
        if i == 1 and len(weights) > 1:
            weights[0] += 0.01
            weights[1] -= 0.01
        return weights

    return mock.patch.object(Mixing, "row", row)


def _byte():
    """A byte too many is counted."""
    plain = Traffic.count
    return mock.patch.object(
        Traffic, "count", lambda self, size, *rest: plain(self, Size(size.header + 1, size.payload), *rest)
    )


def _evaluation():
    """Evaluation forgets a message."""
    plain = Traffic.count_evaluation
    return mock.patch.object(Traffic, "count_evaluation", lambda self, nbytes, *rest: plain(self, nbytes - 1, *rest))


def _stale():
    """A node's copy of a neighbour's estimate misses the third message."""
    plain, calls = Replicas.absorb, []

    def absorb(self, inbox):
        calls.append(1)
        plain(self, inbox[1:] if len(calls) == 9 else inbox)

    return mock.patch.object(Replicas, "absorb", absorb)


def _stale_sum():
    """The running sum now and then misses what the first neighbour said."""
    plain, calls = engine.absorb, []

    def absorb(x_hat, mix, own, inbox, node):
        calls.append(1)
        plain(x_hat, mix, own, inbox[1:] if len(calls) % 4 == 0 else inbox, node)

    return mock.patch.object(engine, "absorb", absorb)


def _momentum():
    """A resumed run has forgotten its momentum."""
    plain = resuming.read_node

    def read_node(*args):
        piece = plain(*args)
        state = piece["state"]
        return {**piece, "state": replace(state, momentum=np.zeros_like(state.momentum))}

    return mock.patch.object(resuming, "read_node", read_node)


def _in_flight():
    """A resumed run has lost the message that was under way."""
    plain = resuming.read_node
    return mock.patch.object(resuming, "read_node", lambda *args: {**plain(*args), "inbox": ()})


def _turned():
    """The trigger fires where it should be silent."""
    plain = Trigger.decide

    def decide(self, *args):
        fired, bound, memory = plain(self, *args)
        return not fired, bound, memory

    return mock.patch.object(Trigger, "decide", decide)


def _lost():
    """A message that came is not applied."""
    from mpi_opt.network.mpi import MpiNetwork  # starts MPI

    plain = MpiNetwork._receive
    return mock.patch.object(MpiNetwork, "_receive", lambda self, round: plain(self, round)[1 if round == 5 else 0 :])


def _raises():
    """One rank fails in the middle of a round, where the others wait for it."""
    plain, calls = engine.absorb, []

    def absorb(*args):
        calls.append(1)
        if len(calls) == 5:
            raise ZeroDivisionError("planted")
        plain(*args)

    return mock.patch.object(engine, "absorb", absorb)


def _hangs():
    """One rank stops in the middle of a round."""
    plain, calls = engine.absorb, []

    def absorb(*args):
        calls.append(1)
        if len(calls) == 5:
            time.sleep(600)
        plain(*args)

    return mock.patch.object(engine, "absorb", absorb)


FAULTS = {
    "weight": (_weight, ("reference", "gossip")),
    "uneven": (_uneven, ("reference", "gossip")),
    "byte": (_byte, ("bytes",)),
    "evaluation": (_evaluation, ("bytes",)),
    "stale": (_stale, ("replicas",)),
    "stale-sum": (_stale_sum, ("reference", "replicas")),
    "momentum": (_momentum, ("resume",)),
    "in-flight": (_in_flight, ("resume",)),
    "turned": (_turned, ("reference",)),
    "lost": (_lost, ("lockstep",)),
    "raises": (_raises, ("reference", "gossip")),
    "hangs": (_hangs, ("reference", "gossip")),
}
"""How it is planted, and which checks must see it."""


@contextmanager
def planted(name, here=True):
    """Plant a fault in this process, if it is ``here``, and leave out the checks it is not about."""
    plant, wanted = FAULTS[name]
    chosen = tuple(check for check in checks.CHECKS if check.name in wanted)
    with mock.patch.object(checks, "CHECKS", chosen):
        if not here:
            yield
            return
        with plant():
            yield


def main(folder, victim, names):
    from mpi4py import MPI

    from mpi_opt.verify.checks import verify

    rank = MPI.COMM_WORLD.rank
    for name in names:
        checks._PATIENCE = 3.0 if name == "raises" else 30.0  # it always lasts where a rank raises
        with planted(name, rank == int(victim)):
            report = verify(os.environ, Path(folder), seconds=4.0 if name == "hangs" else 60.0)
        if rank == 0:
            Path(folder, f"{name}.json").write_text(json.dumps(report.values()))
    sys.exit(report.exit_code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
