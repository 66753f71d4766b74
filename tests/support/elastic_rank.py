"""What one rank of an elastic test runs: ``mpi-opt`` with a death planted in it, and a record of how survivors went on.

Arguments: folder of the records, the deaths as JSON (``{"rank": ["exchange", 7]}``: at the seventh call;
``["time", 0.4]``: so many seconds after training began; a third entry is the signal, 0 an exception), then the words of
the command.
"""

import json
import os
import runpy
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

KEPT = 60
"""Steps after a cut whose models are kept."""


def die(folder, rank, number):
    (folder / f"death_{rank}").write_text(repr(time.time()))
    if not number:
        raise ArithmeticError("a fault in the program")
    os.kill(os.getpid(), number)


def before(owner, name, act):
    """Have ``act`` called before ``owner.name``, with its arguments."""
    inner = getattr(owner, name)

    def outer(*args, **kwargs):
        act(*args, **kwargs)
        return inner(*args, **kwargs)

    setattr(owner, name, outer)


def plant(place, count, dies):
    import mpi_opt.elasticity
    import mpi_opt.ending
    from mpi_opt.algorithms import sparq_sgd
    from mpi_opt.network.elastic import PatientExchange
    from mpi_opt.network.mpi import MpiNetwork
    from mpi_opt.run import checkpoint
    from mpi_opt.run.loop import Run

    if place == "time":
        timer = threading.Timer(count, dies)
        timer.daemon = True
        before(Run, "to_the_end", lambda *_: timer.start())
        return
    left = [count]

    def act(*args, **_):
        left[0] -= 1
        if left[0]:
            return
        if place == "exchange":  # one neighbour hears of it, the others do not
            plan, r, nbytes = args
            first, *_ = plan._neighbours
            plan._comm.Send([plan._outgoing[r % 2], nbytes, plan._mpi.BYTE], first, 1 + r % 2)
        dies()

    owner, name = {
        "step": (sparq_sgd, "descend"),
        "exchange": (PatientExchange, "start"),
        "waiting": (PatientExchange, "finish"),
        "evaluation": (MpiNetwork, "rotate"),
        "mean": (MpiNetwork, "mean"),
        "control": (MpiNetwork, "control_finish"),
        "checkpoint": (checkpoint, "_write_node"),
        "average": (MpiNetwork, "_average"),
        "rebuild": (mpi_opt.elasticity, "rebuild"),
        "conclude": (mpi_opt.ending, "conclude"),
    }[place]
    before(owner, name, act)


def keep(folder, rank):
    """Keep where the survivors go on, and the models of the steps behind it."""
    import mpi_opt.elasticity
    from mpi_opt.network import mpi
    from mpi_opt.run.loop import Run

    kept = {}
    inner, step = mpi_opt.elasticity.regroup, Run._step

    def write():
        if kept:
            np.savez(folder / f"kept_{kept['cut']}_{rank}.npz", **kept)

    def regroup(run, plan, positions):
        inner(run, plan, positions)
        crew = mpi._crew
        kept.clear()
        kept.update(cut=crew.cuts, members=crew.members, node=crew.members[crew.comm.rank], t=run.t)
        kept.update(x=[run.states[0].x.copy()], time=time.time())
        write()

    def stepped(run):
        ended = step(run)
        if kept and len(kept["x"]) <= KEPT:
            kept["x"].append(run.states[0].x.copy())
        return ended

    mpi_opt.elasticity.regroup, Run._step = regroup, stepped
    before(Run, "_end", lambda *_: write())


def main():
    folder, deaths, *words = sys.argv[1:]
    folder = Path(folder)
    rank = os.environ["OMPI_COMM_WORLD_RANK"]
    del sys.path[0]
    from mpi_opt import launch

    launch.start_mpi(os.environ)
    keep(folder, rank)
    if rank in json.loads(deaths):
        place, count, number = [*json.loads(deaths)[rank], signal.SIGKILL][:3]
        plant(place, count, lambda: die(folder, rank, number))
    sys.argv = ["mpi-opt", *words]
    runpy.run_module("mpi_opt", run_name="__main__", alter_sys=True)


main()
