"""A table of finished runs: loss, accuracy and bytes beside each other. ``python -m mpi_opt.report.table RUN...``."""

import sys
from collections.abc import Sequence
from pathlib import Path

from mpi_opt.errors import EXIT_DONE, DataError, JobError, MpiOptError
from mpi_opt.report.course import Course
from mpi_opt.report.formats import aligned
from mpi_opt.report.reading import read_course
from mpi_opt.run.progress import size

_HEAD = ("run", "steps", "objective", "worst node", "accuracy", "worst node", "fired", "sent by all", "x fewer bytes")


def table(folders: Sequence[Path]) -> str:
    """Return the last figures of each run as a table of text.

    "objective" and "accuracy" are the averaged model's, "worst node" that of the worst node's own model. Bytes are
    payload and headers handed to MPI by all nodes, the closing average included; the last column compares them with the
    run that sent most.

    Raises
    ------
    JobError
        A folder holds no run.
    DataError
        A run has no evaluation on disk, or its metrics are damaged.
    """
    runs = [read_course(folder) for folder in folders]
    for run in runs:
        if not run.rows:
            raise DataError(f"{run.path}: no evaluation on disk yet")
    most = max(_sent(run) for run in runs)
    return aligned([_HEAD, *(_row(run, most) for run in runs)])


def _sent(run: Course) -> int:
    return int(run.sent[:, -1].sum())


def _row(run: Course, most: int) -> tuple[str, ...]:
    last = {name: values[-1] for name, values in run.shared.items()}
    sent, syncs = _sent(run), int(run.total("syncs")[-1])
    return (
        run.label,
        str(int(last["step"])),
        f"{last['objective_average']:.5f}",
        f"{last['objective_worst']:.5f}",
        _share(1.0 - last["test_error_average"]),
        _share(1.0 - last["test_error_worst"]),
        _share(run.total("fired")[-1] / syncs) if syncs else "-",
        size(sent),
        f"{most / sent:.1f}" if sent else "-",
    )


def _share(value: float) -> str:
    return "-" if value != value else f"{value:.1%}"


def main(arguments: Sequence[str]) -> int:
    """Print the table of the runs named; return the exit code."""
    try:
        if not arguments:
            raise JobError("no run given: python -m mpi_opt.report.table RUN..., each a result folder")
        sys.stdout.write(table([Path(argument) for argument in arguments]) + "\n")
    except MpiOptError as error:
        sys.stderr.write(f"mpi-opt: error: {error}\n")
        return error.exit_code
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
