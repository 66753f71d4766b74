"""``mpi-opt scale``: one job on several numbers of ranks, and what more ranks bring."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, add_queue, add_set, add_target, count, file, folder, seconds, whole
from mpi_opt.errors import EXIT_DONE, JobError, RankFailedError

if TYPE_CHECKING:
    from mpi_opt.report.scaling import ScaleReport
    from mpi_opt.scaletest.study import Study

_INTERRUPTED = 130
_NONE = Path("none")


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "scale", help="run a job on several numbers of ranks: time a step, speed-up, efficiency, shares, a model beside"
    )
    parser.add_argument(
        "job", metavar="JOB|FOLDER", type=Path, help="the job file, or the folder of a scaling test to be tabulated"
    )
    add_set(parser, "override a key of the job, e.g. metrics.every=5; may be repeated")
    plan = parser.add_argument_group("what is run")
    plan.add_argument("--ranks", metavar="1,2,4", help="numbers of ranks")
    plan.add_argument("--mode", choices=("strong", "weak"), default="strong", help="the same rows, or the same a rank")
    plan.add_argument("--rows-per-rank", type=count, metavar="R", help="weak: by default the most ranks use all rows")
    plan.add_argument("--repeats", type=count, default=3, metavar="K", help="runs of each number of ranks (default: 3)")
    plan.add_argument("--out", type=folder, metavar="DIR", help="default: runs/NAME-scale, weak: runs/NAME-scale-weak")
    plan.add_argument("--collect", action="store_true", help="run nothing, tabulate what is there")
    local = parser.add_argument_group("run here")
    local.add_argument(
        "--launcher", metavar="COMMAND", help='what starts ranks, without -n: "mpiexec.openmpi --map-by :OVERSUBSCRIBE"'
    )
    local.add_argument(
        "--time-limit", type=seconds, default=3600.0, metavar="S", help="seconds that a point may take (default: 3600)"
    )
    slurm = parser.add_argument_group("run by SLURM")
    slurm.add_argument("--slurm", "--submit", action="store_true", help="submit an array of jobs a number of ranks")
    slurm.add_argument("--ranks-per-node", type=count, metavar="M", help="ranks a host")
    slurm.add_argument("--time", metavar="T", help="time limit of a point as SLURM reads it: 10 is ten minutes")
    add_queue(slurm, "--slurm-launcher")
    table = parser.add_argument_group("what is told")
    table.add_argument("--skip", type=whole, metavar="N", help="steps of warm-up left out (default: a tenth of all)")
    add_target(
        table, "gap is F - F* (default); error and accuracy are of the test rows", "tell steps and time to this too"
    )
    table.add_argument("--reference", default="compute", metavar="F|RUN|compute", help="F* for the measure gap")
    table.add_argument(
        "--network",
        action="append",
        default=[],
        metavar="NAME|FILE",
        help="of the model: infiniband, 10gbe, wan (the default: all three), latency=20ms,bandwidth=100Mbit, a file of "
        "mpi-opt info --network --json, or none; may be repeated",
    )
    for name in ("csv", "json", "markdown"):
        table.add_argument(f"--{name}", type=file, metavar="FILE", help=f"write the figures there as {name}")
    table.add_argument(
        "--figure",
        type=file,
        metavar="FILE|none",
        help="the plot, .png, .pdf or .svg (default: scale.png and scale.pdf in the test's folder)",
    )
    parser.set_defaults(handler=_scale)


def _scale(options: argparse.Namespace, command: Sequence[str]) -> int:
    launch.check_alone("scale", os.environ)
    _check(options)
    from mpi_opt.scaletest.networks import networks_of

    networks = networks_of(options.network)  # a wrong word is told before anything runs
    study = _study(options)
    if options.slurm:
        return _submit(options, study, command)
    interrupted = False
    if not options.collect:
        interrupted = _run(options, study)
    from mpi_opt.scaletest.answer import answer
    from mpi_opt.scaletest.collecting import Target
    from mpi_opt.scaletest.networks import with_own

    target = None
    if options.target is not None:
        target = Target(options.target, options.measure, options.at, options.reference)
    report = answer(study, skip=options.skip, target=target, networks=with_own(study, networks))
    _write(options, study, report)
    if interrupted:
        return _INTERRUPTED
    return RankFailedError.exit_code if report.failures and not options.collect else EXIT_DONE


def _check(options: argparse.Namespace) -> None:
    """Refuse what does not go together, before anything is read."""
    if options.job.is_dir() and not options.collect:
        options.collect = True
    if options.slurm and options.collect:
        raise JobError("--slurm: not together with --collect or a folder; give the job file")
    if options.slurm:
        for name in ("ranks_per_node", "time"):
            if getattr(options, name) is None:
                raise JobError(
                    f"--slurm without --{name.replace('_', '-')}; give it: SLURM is asked for hosts and time"
                )
    elif options.print:
        raise JobError("--print: prints batch files; allowed: with --slurm")
    if options.target is None and options.measure is not None:
        raise JobError("--measure without --target: steps and time to what?")
    if options.figure not in (None, _NONE) and options.figure.suffix not in (".png", ".pdf", ".svg"):
        raise JobError(f"--figure {options.figure}: allowed: a file that ends in .png, .pdf or .svg, or none")


def _study(options: argparse.Namespace) -> "Study":
    from mpi_opt.scaletest.study import make_study, read_study
    from mpi_opt.scaling.points import rank_counts

    if options.job.is_dir():
        return read_study(options.job)
    if options.ranks is None:
        raise JobError("--ranks: missing; allowed: numbers of ranks, as 1,2,4,8")
    return make_study(
        options.job,
        options.set,
        ranks=rank_counts(options.ranks),
        mode=options.mode,
        repeats=options.repeats,
        rows=options.rows_per_rank,
        out=options.out,
    )


def _run(options: argparse.Namespace, study: "Study") -> bool:
    """Run the points; return whether that was interrupted."""
    from mpi_opt.scaletest import local
    from mpi_opt.scaletest.launching import find_launcher

    means = local.Means(
        launcher=find_launcher(options.launcher, os.environ),
        limit=options.time_limit,
        environ=dict(os.environ),
        measure=options.network != ["none"],
        tell=_say,
    )
    try:
        local.run_points(study, means)
    except KeyboardInterrupt:
        _say("interrupted: the point under way was ended; the same command goes on with the others")
        return True
    return False


def _submit(options: argparse.Namespace, study: "Study", command: Sequence[str]) -> int:
    from mpi_opt.scaletest import queueing
    from mpi_opt.slurm import batch_text

    queue = queueing.Queue(
        ranks_per_node=options.ranks_per_node,
        time=options.time,
        site=options.site,
        launcher=options.slurm_launcher,
        dependency=options.dependency,
        command=command,
    )
    if options.print:
        print("\n".join(map(batch_text, queueing.batches(study, queue).values())), end="")
        return EXIT_DONE
    print("\n".join([*queueing.submit(study, queue), queueing.queue_words(study)]))
    return EXIT_DONE


def _write(options: argparse.Namespace, study: "Study", report: "ScaleReport") -> None:
    """Print the table and write the files."""
    from mpi_opt.metrics.files import replace_file
    from mpi_opt.report import scaletable

    print(scaletable.as_text(report), end="", flush=True)
    for name, write in (
        ("csv", scaletable.as_csv),
        ("json", scaletable.as_json),
        ("markdown", scaletable.as_markdown),
    ):
        path = getattr(options, name)
        if path is not None:
            replace_file(path, write(report).encode(), durable=False)
    _draw(options, study, report)


def _draw(options: argparse.Namespace, study: "Study", report: "ScaleReport") -> None:
    """Draw the figure; where matplotlib is missing one line says so, for the table is what counts."""
    if options.figure == _NONE or not any(merit.runs for merit in report.merits):
        return
    from mpi_opt.report.figures.output import save
    from mpi_opt.report.figures.scale import scale_figure
    from mpi_opt.report.figures.style import need_matplotlib

    try:
        need_matplotlib()
    except JobError:
        _say("no plot: matplotlib is not installed; pip install 'mpi_opt[report]', then again with --collect")
        return
    place = study.folder / "scale.png" if options.figure is None else options.figure
    formats = ("png", "pdf") if options.figure is None else (place.suffix[1:],)
    made = save(scale_figure(report), place.parent, place.stem, formats)
    _say(f"plot: {', '.join(map(str, made))}")


def _say(line: str) -> None:
    """Tell a line on standard error, which leaves standard output to the table."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
