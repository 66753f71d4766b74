"""A SLURM of the tests' own, and what tests ask of it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "slurm"
SITE = HERE / "site.toml"
NODES = 4
_PORTS = range(17100, 30000, 10)


class Missing(Exception):
    """Why there is no SLURM."""


def start(*, install: bool) -> "Cluster":
    """Start a cluster in a new folder."""
    folder = Path(tempfile.mkdtemp(prefix="mpi-opt-slurm-"))
    words = ["--install"] if install else []
    command = [HERE / "start.sh", *words, folder, str(NODES), "8", str(_free_ports())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    cluster = Cluster(folder)
    if done.returncode:
        cluster.stop()
        raise Missing((done.stderr or done.stdout).strip())
    return cluster


class Cluster:
    """A running SLURM."""

    def __init__(self, folder):
        self.folder = folder
        scripts = os.path.dirname(sys.executable)  # where mpiexec is
        (folder / "bin").mkdir(exist_ok=True)
        command = folder / "bin" / "mpi-opt"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m mpi_opt "$@"\n')
        command.chmod(0o755)
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PYTHONWARNINGS": "error"}
        # SLURM 22.05's pmi2 garbles the long addresses that MPICH 5 exchanges in most of its ways to talk: one start in
        # eight failed or hung (docs/troubleshooting.md); so, none of 48.
        self.env |= {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1"}
        self.env["PATH"] = os.pathsep.join([str(command.parent), scripts, self.env["PATH"]])

    def stop(self):
        """End it, with every process of its jobs."""
        subprocess.run([HERE / "stop.sh", self.folder], capture_output=True, timeout=60, check=False)
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self, job=None):
        """Return the living processes of its jobs, or of one: by process number their rank, ``None`` for no rank."""
        mark = f"SLURM_CONF={self.folder / 'slurm.conf'}".encode()
        ids = None if job is None else f"SLURM_JOB_ID={job}".encode()
        ranks = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:  # ended meanwhile
                continue
            if mark in words and int(entry.name) != os.getpid() and (ids is None or ids in words):
                found = [word for word in words if word.startswith(b"PMI_RANK=")]
                ranks[int(entry.name)] = int(found[0].partition(b"=")[2]) if found else None
        return ranks

    def call(self, *words, cwd=None, code=0, timeout=60):
        """Run a command, see its exit code, and return what it printed, errors after the rest."""
        command = [str(word) for word in words]
        done = subprocess.run(
            command, env=self.env, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, f"{command}: {done.returncode}\n{said}"
        return said

    def mpi_opt(self, *words, cwd=None, code=0):
        return self.call(sys.executable, "-P", "-m", "mpi_opt", *words, cwd=cwd, code=code)

    def submit(self, job, out, *words, site=SITE, ranks=4):
        """Submit on two nodes; return the job's number."""
        said = self.mpi_opt(
            "submit", job, "--out", out, "--nodes", 2, "--ntasks", ranks, "--time", 5, "--site", site, *words
        )
        assert said.startswith("job "), said
        return said.split()[1].rstrip(":")

    def status(self, out):
        return json.loads(self.mpi_opt("status", "--json", out))

    def show(self, job):
        """Return SLURM's fields of a job (of an array: of its first task)."""
        return dict(word.partition("=")[::2] for word in self.call("scontrol", "show", "job", "-o", job).split())

    def cancel(self, *words):
        self.call("scancel", *words)

    def hurry(self, job):
        """Let a requeued job begin three seconds after it was put back, instead of nine.

        Not at once: what remains of its first step, which had the same number, would end the next one too.
        """
        put_back = datetime.fromisoformat(self.show(job)["SubmitTime"])
        if (datetime.now() - put_back).total_seconds() >= 3:
            command = ["scontrol", "update", f"JobId={job}", "StartTime=now"]
            subprocess.run(command, env=self.env, capture_output=True, check=False)

    def wait(self, job, *, states=("COMPLETED",), seconds=200):
        """Wait until the job is in one of the states, hurrying it where it waits to begin again; return its fields."""
        return until(lambda: self._reached(job, states), seconds, lambda: self.told(job))

    def _reached(self, job, states):
        fields = self.show(job)
        state = fields["JobState"]
        if state == "PENDING" and fields["Restarts"] != "0":
            self.hurry(job)
        over = state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        assert state in states or not over, self.told(job)
        return fields if state in states else None

    def told(self, job):
        """Return SLURM's word on a job and its log."""
        fields = self.show(job)
        log = Path(fields.get("StdOut", ""))
        return f"{fields}\n{log.read_text() if log.is_file() else 'no log'}"

    def log(self, job):
        return Path(self.show(job)["StdOut"]).read_text()


def until(reached, seconds, told=lambda: ""):
    """Return the first true answer of ``reached``, looking often."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = reached()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {told()}")


def in_steps(out, steps=1, seconds=120):
    """Wait until a run's log shows that many evaluations beyond the start, in the whole of its log."""

    def reached():
        log = out / "log.txt"
        return log.exists() and sum(line.startswith("step") for line in log.read_text().splitlines()) > steps

    return until(reached, seconds, lambda: [path.read_text() for path in out.glob("slurm-*.out")])


def _free_ports():
    """Return the first of a row of ports that nobody listens on."""
    for first in _PORTS[os.getpid() % 500 :]:
        if all(_free(first + k) for k in range(NODES + 1)):
            return first
    raise Missing("no free ports")


def _free(port):
    with closing(socket.socket()) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
