"""From a job to the text of its batch file: a pure function; nothing is read, written or started here.

Every word that comes from outside is quoted: for the shell in commands, for ``sbatch`` in its directives, which it
reads by rules of its own. What neither can hold, a line break, is refused.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mpi_opt.errors import EXIT_PAUSED, JobError
from mpi_opt.site import Launcher, Site, one_line

SUBMITTED = "submitted.toml"
"""The job as it was when it was submitted, in the run's folder."""
JOB_ID = "slurm-job.txt"
"""The number that SLURM gave the job last, in the run's folder."""
BATCH = "submit.sbatch"
"""The batch file, in the folder of the run or of the sweep."""

_UNUSUAL = re.compile(r"[^A-Za-z0-9_@%+=:,./-]")
_WHEN = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch file is made of.

    Attributes
    ----------
    name : str
        Of the job.
    folder : Path
        Absolute; of the run, or of the sweep, in which run k has the folder NAME-k.
    about : tuple of str
        What is said at the head, one line each.
    nodes, ntasks : int
        Hosts and ranks.
    seconds : int
        Time limit, s.
    site : Site
    launcher : {"srun", "mpirun"}
    command : tuple of str
        How a node starts ``mpi-opt``.
    signal_ahead : int or None
        Seconds before the limit at which the run is asked to stop; ``None``: it is not.
    requeue : int
        How many times the job may begin again.
    sweep : tuple of tuple of str
        For each run of a sweep its ``key=value`` settings; empty: one run.
    array_limit : int or None
        How many runs of a sweep at once.
    dependency : str or None
        Handed on to ``sbatch``.
    """

    name: str
    folder: Path
    about: tuple[str, ...]
    nodes: int
    ntasks: int
    seconds: int
    site: Site
    launcher: Launcher
    command: tuple[str, ...]
    signal_ahead: int | None
    requeue: int = 0
    sweep: tuple[tuple[str, ...], ...] = ()
    array_limit: int | None = None
    dependency: str | None = None


def batch_text(batch: Batch) -> str:
    """Return the batch file.

    Raises
    ------
    JobError
        A value cannot be written into it: names it.
    """
    parts = (_head(batch), _directives(batch), _setting(batch), _launch(batch), _ending(batch))
    return "#!/bin/bash\n" + "\n\n".join("\n".join(part) for part in parts) + "\n"


def seconds_of(text: str) -> int:
    """Return a time limit in seconds, from any of SLURM's forms.

    These are minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes and
    days-hours:minutes:seconds.

    Raises
    ------
    JobError
        It is none of them, or nothing.
    """
    found = _WHEN.match(text)
    if found is not None:
        parts = [int(part) for part in found["parts"].split(":")]
        days = int(found["days"] or 0)
        units = (3600, 60, 1) if found["days"] or len(parts) == 3 else (60, 1)
        total = 86400 * days + sum(part * unit for part, unit in zip(parts, units, strict=False))
        if total > 0:
            return total
    raise JobError(
        f"--time {text}: allowed: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or "
        "days-hours:minutes:seconds, more than nothing"
    )


def as_limit(seconds: int) -> str:
    """Return a time as hours:minutes:seconds, with the days before where there are any."""
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def run_folder(batch: Batch, index: int) -> Path:
    """Return the folder of run ``index`` of a sweep."""
    return batch.folder / f"{batch.name}-{index}"


def comment(text: str) -> str:
    """Return a comment line; what could end it early is written as it would be in a string."""
    return "# " + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _head(batch: Batch) -> Iterator[str]:
    yield from map(comment, batch.about)
    for index, settings in enumerate(batch.sweep):
        yield comment(f"  {batch.name}-{index}: {' '.join(settings)}")


def _directives(batch: Batch) -> Iterator[str]:
    site, folder = batch.site, str(batch.folder)
    if "\\" in folder:
        raise JobError(f"the folder {folder!r}: SLURM cannot name a log in it; allowed: a folder without backslashes")
    folder = folder.replace("%", "%%")
    log = f"{folder}/slurm-%j.out" if not batch.sweep else f"{folder}/{batch.name}-%a/slurm-%A_%a.out"
    ahead = batch.signal_ahead
    signal = None if ahead is None else f"{'B:' if site.signal_to == 'batch' else ''}USR1@{ahead}"
    limit = "" if batch.array_limit is None else f"%{batch.array_limit}"
    values = {
        "job-name": batch.name,
        "output": log,
        "open-mode": "append",
        "nodes": batch.nodes,
        "ntasks": batch.ntasks,
        # Alike on all nodes: else the first ones are filled, and the last has what is left.
        "ntasks-per-node": None if batch.ntasks % batch.nodes else batch.ntasks // batch.nodes,
        "cpus-per-task": site.cpus_per_task,
        "time": as_limit(batch.seconds),
        "array": f"0-{len(batch.sweep) - 1}{limit}" if batch.sweep else None,
        "signal": signal,
        "account": site.account,
        "partition": site.partition,
        "qos": site.qos,
        "reservation": site.reservation,
        "constraint": site.constraint,
        "mem": site.mem,
        "mem-per-cpu": site.mem_per_cpu,
        "dependency": batch.dependency,
    }
    for key, value in values.items():
        if value is not None:
            yield _directive(f"--{key}={value}")
    yield "#SBATCH --requeue" if batch.requeue else "#SBATCH --no-requeue"
    yield from map(_directive, site.sbatch)


def _directive(option: str) -> str:
    """Return a line for ``sbatch``, quoted as it reads quotes: a backslash counts within them too."""
    if _UNUSUAL.search(one_line(option, "an option of sbatch")):
        option = '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"#SBATCH {option}"


def _setting(batch: Batch) -> Iterator[str]:
    """Where the run is, and what surrounds it."""
    folder = one_line(str(batch.folder), "the folder")
    if batch.sweep:
        yield f'run={shlex.quote(f"{folder}/{batch.name}-")}"$SLURM_ARRAY_TASK_ID"'
        yield f'echo "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID" >"$run/{JOB_ID}"'
    else:
        yield f"run={shlex.quote(folder)}"
        yield f'echo "$SLURM_JOB_ID" >"$run/{JOB_ID}"'
    yield ""
    yield "export OMP_NUM_THREADS=1  # one BLAS thread a rank"
    for module in batch.site.modules:
        yield f"module load {shlex.quote(module)} || exit"
    if batch.site.prologue.strip():
        yield batch.site.prologue.strip("\n")
    for name, value in batch.site.environment.items():
        yield f"export {name}={shlex.quote(value)}"


def _launch(batch: Batch) -> Iterator[str]:
    yield f"launcher=({shlex.join(_launcher(batch))})"
    yield f"mpi_opt=({shlex.join(batch.command)})"
    yield "# A run that has begun is gone on with: after a requeue, or where this file is submitted once more."
    yield 'if [ -e "$run/job.toml" ]; then'
    yield '    order=(resume "$run")'
    yield "else"
    yield f'    order=(run "$run/{SUBMITTED}" --out "$run" --overwrite)'
    yield "fi"
    yield ""
    yield "# USR1, which comes ahead of the time limit, is handed on to the ranks. TERM, by which SLURM ends a job,"
    yield "# reaches them by itself, and such a job does not put itself back. Both are waited out."
    yield "pid='' cancelled=no again=no"
    yield 'trap \'[ -z "$pid" ] || { again=yes; kill -s USR1 "$pid"; }\' USR1'
    yield "trap 'cancelled=yes again=yes' TERM"
    yield '"${launcher[@]}" "${mpi_opt[@]}" "${order[@]}" &'
    yield "pid=$!"
    yield 'wait "$pid"'
    yield "code=$?"
    yield 'while [ "$again" = yes ]; do  # a signal ended the wait, not the run'
    yield "    again=no"
    yield '    wait "$pid"'
    yield "    code=$?"
    yield "done"


def _launcher(batch: Batch) -> Sequence[str]:
    site = batch.site
    if batch.launcher == "mpirun":
        return (site.mpirun, "-n", str(batch.ntasks), *site.launcher_options)
    mpi = () if site.mpi is None else (f"--mpi={site.mpi}",)
    sizes = (f"--nodes={batch.nodes}", f"--ntasks={batch.ntasks}", f"--cpus-per-task={site.cpus_per_task}")
    # Without kill-on-bad-exit the other ranks of a failed one wait for it until the time limit.
    return ("srun", *sizes, "--kill-on-bad-exit=1", *mpi, *site.launcher_options)


def _ending(batch: Batch) -> Iterator[str]:
    again = '"sbatch --array=$SLURM_ARRAY_TASK_ID"' if batch.sweep else "sbatch"
    shown = shlex.quote(shlex.quote(str(batch.folder / BATCH)))  # for this shell, and for who copies it
    yield f"limit={batch.requeue}  # times that this job may begin again"
    yield "restarts=${SLURM_RESTART_COUNT:-0}"
    yield f'if [ "$code" -eq {EXIT_PAUSED} ] && [ "$cancelled" = no ]; then  # it stopped in time, with a checkpoint'
    yield '    if [ "$restarts" -lt "$limit" ]; then'
    yield '        echo "mpi-opt: back into the queue, $((restarts + 1)) of at most $limit times"'
    yield '        scontrol requeue "$SLURM_JOB_ID"'
    yield "    else"
    yield '        echo "mpi-opt: stopped in time, and begun again $restarts times of at most $limit; go on with:"'
    yield f"        echo {again} {shown}"
    yield "    fi"
    yield "fi"
    yield 'exit "$code"'
