"""``mpi-opt metrics ...``: the metrics of runs as tables, as one file, made clean after a kill, and checked."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, add_group, file, folder, quiet_pipes
from mpi_opt.errors import EXIT_DONE, DataError, JobError

_FORMS = ("csv", "json", "parquet")


def add_to(commands: Commands) -> None:
    """Add the group and its subcommands."""
    group = add_group(commands, "metrics", "a run's metrics as tables or as one file; salvage them; check them")
    export = group.add_parser("export", help="one tidy table of runs: CSV, JSON or Parquet")
    export.add_argument("runs", metavar="RUN", type=folder, nargs="+", help="a run's folder, finished or not")
    export.add_argument("--format", choices=_FORMS, help="default: by the ending of --out, else csv")
    kinds = export.add_mutually_exclusive_group()
    for kind, about in (
        ("series", "a row for each node and evaluation (default)"),
        ("syncs", "a row for each node and synchronisation index"),
        ("final", "a row for each node: how it ended, and its last evaluation"),
    ):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default="series", help=about)
    export.add_argument("--nodes", metavar="LIST", type=_numbers, help="only these nodes, e.g. 0,4-7; default: all")
    export.add_argument("--out", metavar="FILE", type=file, help="where to write; default: standard output")
    export.set_defaults(handler=_export)

    merge = group.add_parser("merge", help="all nodes' metrics copied into one file that needs no other")
    merge.add_argument("run", metavar="RUN", type=folder, help="the run's folder")
    merge.add_argument("--out", metavar="FILE", type=file, required=True, help="the HDF5 file to write")
    merge.set_defaults(handler=_merge)

    salvage = group.add_parser("salvage", help="clean files out of those that a killed run left")
    salvage.add_argument("source", metavar="RUN|FILE", type=Path, help="the run's folder, or one of its rank_*.h5")
    salvage.add_argument("--out", metavar="OUT", type=file, required=True, help="a new folder, or file")
    salvage.set_defaults(handler=_salvage)

    check = group.add_parser("check", help="see that a run's metrics are whole, and metrics.h5 what the nodes say")
    check.add_argument("run", metavar="RUN", type=folder, help="the run's folder")
    check.set_defaults(handler=_check)


def _numbers(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise argparse.ArgumentTypeError(f"{text!r}: allowed: numbers and ranges, e.g. 0,4-7")
        if int(last or first) >= 1_000_000:
            raise argparse.ArgumentTypeError(f"{text!r}: allowed: numbers below 1000000")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _export(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("metrics export", os.environ)
    quiet_pipes()
    from mpi_opt.metrics.export import STREAMS, write_table
    from mpi_opt.metrics.tables import table

    form = options.format or _form(options.out)
    found = table(options.runs, options.kind, options.nodes)
    if options.out is None:
        if form not in STREAMS:
            raise JobError(f"--format {form}: needs --out FILE; to standard output go {' and '.join(STREAMS)}")
        STREAMS[form](found, sys.stdout)
        return EXIT_DONE
    rows = write_table(found, form, options.out)
    print(f"{options.out}: {rows} rows, {len(found.columns)} columns")
    return EXIT_DONE


def _form(out: Path | None) -> str:
    """Return the form that a file's ending asks for."""
    if out is None:
        return "csv"
    ending = out.suffix.lower().removeprefix(".")
    if ending not in _FORMS:
        raise JobError(f"--out {out}: the ending says no form; allowed: {', '.join(_FORMS)}, or --format")
    return ending


def _merge(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("metrics merge", os.environ)
    from mpi_opt.metrics.read import merge, read_joined

    merged = read_joined(merge(options.run, options.out))
    nodes, rows = merged.series["step"].shape
    print(f"{options.out}: {nodes} nodes, {rows} evaluations, {merged.syncs['step'].shape[1]} synchronisations")
    for note in filter(None, (merged.attributes["cut"], merged.attributes["lost"])):
        sys.stderr.write(f"mpi-opt: note: {note}\n")
    return EXIT_DONE


def _salvage(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("metrics salvage", os.environ)
    quiet_pipes()
    from mpi_opt.metrics.salvage import salvage

    for each in salvage(options.source, options.out):
        kept = f"{each.rows} evaluations, {each.syncs} synchronisations" if each.out.exists() else "nothing"
        print(f"{each.path.name}: {kept} salvaged" + "".join(f"\n  lost: {what}" for what in each.lost))
    print(f"written to {options.out}")
    return EXIT_DONE


def _check(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("metrics check", os.environ)
    quiet_pipes()
    from mpi_opt.metrics.checking import check

    found = check(options.run)
    for note in found.notes:
        sys.stderr.write(f"mpi-opt: note: {note}\n")
    for fault in found.wrong:
        print(f"wrong: {fault}")
    if found.wrong:
        raise DataError(f"{options.run}: faults of its metrics found: {len(found.wrong)}")
    print(
        f"{options.run}: {found.files} files, each {_span(found.rows)} evaluations and {_span(found.syncs)} "
        f"synchronisations, {'; '.join(found.statuses)}; metrics.h5 {found.joined or 'not there'}: nothing wrong"
    )
    return EXIT_DONE


def _span(ends: tuple[int, int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
