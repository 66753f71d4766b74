"""A table of finished runs: loss, accuracy and bytes beside each other. ``python -m mpi_opt.report.table RUN...``."""

import sys
from collections.abc import Sequence
from pathlib import Path

from mpi_opt.errors import EXIT_DONE, JobError, MpiOptError
from mpi_opt.metrics.joined import JoinedMetrics, read_joined
from mpi_opt.run.progress import size

_HEAD = ("run", "steps", "objective", "worst node", "accuracy", "worst node", "fired", "sent by all", "x fewer bytes")


def table(folders: Sequence[Path]) -> str:
    """Return the last figures of each run as a table of text.

    "objective" and "accuracy" are the averaged model's, "worst node" that of the worst node's own model. Bytes are
    payload and headers handed to MPI by all nodes, the closing average included; the last column compares them with the
    run that sent most.

    Raises
    ------
    DataError
        A folder holds no joined metrics, or they are damaged.
    """
    runs = [(folder, read_joined(folder / "metrics.h5")) for folder in folders]
    most = max(_sent(run) for _, run in runs)
    rows = [_HEAD, *(_row(folder, run, most) for folder, run in runs)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD))]
    lines = [
        "  ".join(
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def _sent(run: JoinedMetrics) -> int:
    return int(run.series["payload_bytes"][:, -1].sum() + run.series["header_bytes"][:, -1].sum())


def _row(folder: Path, run: JoinedMetrics, most: int) -> tuple[str, ...]:
    last = {name: values[:, -1] for name, values in run.series.items()}
    sent = _sent(run)
    syncs = int(last["syncs"].sum())
    return (
        folder.name,
        str(int(last["step"][0])),
        f"{last['objective_average'][0]:.5f}",
        f"{last['objective_worst'][0]:.5f}",
        _share(1.0 - last["test_error_average"][0]),
        _share(1.0 - last["test_error_worst"][0]),
        _share(last["fired"].sum() / syncs) if syncs else "-",
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
