"""Signals: the first is remembered, those right after it are the same wish, a later one ends the process."""

import os
import signal
import subprocess
import sys

import pytest

from mpi_opt.run.signals import ASKING, Signals


@pytest.mark.parametrize("number", ASKING)
def test_the_first_is_remembered_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with Signals() as seen:
        assert seen.came == 0
        os.kill(os.getpid(), number)
        assert seen.came == number
    assert signal.getsignal(number) == before


def test_those_right_after_it_are_the_same_wish():
    """SLURM tells the ranks and their mpirun, which tells the ranks again: nobody asked twice."""
    with Signals() as seen:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert seen.came == signal.SIGTERM


def test_a_later_one_ends_the_process():
    code = """
import os, signal, time
from mpi_opt.run import signals
signals._TOGETHER = 0.1
with signals.Signals():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)
    print("still here", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)  # as in a library that does not come back
    print("and now?", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "still here\n")
