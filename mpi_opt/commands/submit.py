"""``mpi-opt submit``: a job handed to SLURM."""

import argparse
import os
import re
import sys
from collections.abc import Sequence

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, add_job, add_queue, count, folder, whole
from mpi_opt.errors import EXIT_DONE


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    submit = commands.add_parser("submit", help="hand a job to SLURM: submit JOB --nodes 2 --ntasks 8 --time 1:00:00")
    add_job(submit)
    submit.add_argument("--nodes", type=count, required=True, metavar="N", help="number of hosts")
    submit.add_argument("--ntasks", type=count, required=True, metavar="N", help="number of ranks, on all of them")
    submit.add_argument(
        "--time", required=True, metavar="T", help="time limit as SLURM reads it: 30 or 0:30:00 is half an hour"
    )
    submit.add_argument("--out", type=folder, metavar="DIR", help="folder of the run or the sweep (default: runs/NAME)")
    submit.add_argument(
        "--signal-ahead",
        type=whole,
        metavar="S",
        help="seconds before the time limit at which the run stops with a checkpoint; 0: it does not",
    )
    submit.add_argument(
        "--requeue", type=whole, metavar="N", help="times that the job may go back into the queue and be gone on with"
    )
    submit.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="KEY=A,B,C",
        help="one run for each value, as a job array; repeated: for each combination",
    )
    submit.add_argument("--array-limit", type=count, metavar="M", help="runs of a sweep at once")
    add_queue(submit, "--launcher")
    submit.set_defaults(handler=_submit)


def _submit(options: argparse.Namespace, command: Sequence[str]) -> int:
    launch.check_alone("submit", os.environ)
    from mpi_opt import submitting
    from mpi_opt.slurm import batch_text

    prepared = submitting.prepare(
        submitting.Request(
            job=options.job,
            settings=options.set,
            sweeps=options.sweep,
            nodes=options.nodes,
            ntasks=options.ntasks,
            time=options.time,
            site=options.site,
            out=options.out,
            launcher=options.launcher,
            signal_ahead=options.signal_ahead,
            requeue=options.requeue,
            array_limit=options.array_limit,
            dependency=options.dependency,
            command=command,
        )
    )
    if options.print:
        print(batch_text(prepared.batch), end="")
        return EXIT_DONE
    print(submitting.said(prepared, submitting.submit(prepared)))
    if re.fullmatch(r"\d+:\d+", options.time):
        sys.stderr.write(f"mpi-opt: note: SLURM reads --time {options.time} as minutes:seconds\n")
    return EXIT_DONE
