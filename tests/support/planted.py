"""Rank script: the command with a misfortune planted in one rank. ``planted.py WHAT RANK STEP mpi-opt's arguments``."""

import atexit
import os
import resource
import signal
import sys
import time

from mpi4py import MPI

from mpi_opt.cli import main
from mpi_opt.datasets import textfiles
from mpi_opt.network.mpi import MpiNetwork
from mpi_opt.run.loop import Run

what, rank, step, *arguments = sys.argv[1:]


def long_compute():
    """Compute, with no sign but the other thread's."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        sum(range(1000))


def no_room(nbytes):
    """Let no file grow beyond ``nbytes``, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes))


def nothing_left():
    no_room(20_000)


def room_for_metrics():
    no_room(400_000)


def exception():
    raise ZeroDivisionError("planted")


def late_stop():
    """Stop when the run is over, but MPI's end is still to come."""
    atexit.register(os.kill, os.getpid(), signal.SIGSTOP)


def early_stop():
    """Stop when the data are read, but the others still need this rank before they train."""
    plain = MpiNetwork.__init__

    def wrapped(self, *parts, **named):
        os.kill(os.getpid(), signal.SIGSTOP)
        plain(self, *parts, **named)

    MpiNetwork.__init__ = wrapped


def at_step(act):
    plain = Run._step

    def wrapped(self):
        ended = plain(self)
        if self.t == int(step):
            act()
        return ended

    Run._step = wrapped


def vanish():
    """Take the file away once the others have read it."""
    plain = textfiles._read_range

    def wrapped(path, *rest):
        time.sleep(0.5)
        path.unlink()
        return plain(path, *rest)

    textfiles._read_range = wrapped


if MPI.COMM_WORLD.rank == int(rank):
    if what in ("vanish", "early_stop"):
        {"vanish": vanish, "early_stop": early_stop}[what]()
    else:
        at_step({f.__name__: f for f in (long_compute, nothing_left, room_for_metrics, exception, late_stop)}[what])
sys.stderr.flush()
code = main(arguments)
print(f"exit code {code} of process {os.getpid()}", flush=True)
sys.exit(code)
