"""Rank script: commands one after another, some of which are asked to pause on their way. ``interrupted.py FILE``.

FILE is a JSON list of ``{"argv": [...], "at": step, "ranks": [...], "signal": number}``; the last three may be absent.
Each command's exit code is told behind it, as ``several.py`` does.
"""

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path

from mpi_opt.cli import main
from mpi_opt.run.loop import Run


@contextmanager
def asking(at, number):
    """Have this process signal itself once a training inside has completed ``at`` steps."""
    plain = Run._step

    def step(self):
        ended = plain(self)
        if self.t == at and self.plan.checkpoints is not None:  # none in cross-validation
            os.kill(os.getpid(), number)
        return ended

    Run._step = step
    try:
        yield
    finally:
        Run._step = plain


def follow(orders, rank):
    """Run the commands."""
    for order in orders:
        mine = "at" in order and rank in order["ranks"]
        with asking(order["at"] if mine else -1, order.get("signal", 10)):
            code = main(order["argv"])
        sys.stderr.write(f"\nexit code {code}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    from mpi4py import MPI

    follow(json.loads(Path(sys.argv[1]).read_text()), MPI.COMM_WORLD.rank)
