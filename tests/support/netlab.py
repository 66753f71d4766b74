"""Hosts on one machine with a slow network between them (`netlab`), and ranks on them, one a host.

``with Lab(4, delay=10, rate=100) as lab: lab.mpirun(["mpi-opt", "run", job])`` runs a command as on four machines
joined by links of 100 Mbit/s, 10 ms apart; ``lab.counts()`` is what went over them. Ranks talk TCP, by MPICH's wheel.
Needs root, ``/dev/net/tun``, namespaces and ``ip``: `missing` says what there is not.
"""

import fcntl
import functools
import json
import os
import select
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from netlab import hosts
from support.mpirun import _RANK, _STRICT, _TESTS, _TOKEN, Result, _run, find_launcher

_ENTER = Path(hosts.__file__).with_name("enter")
FIRST = 'if [ -w /proc/self/autogroup ]; then echo -10 >/proc/self/autogroup; fi 2>/dev/null; exec "$0" "$@"'
"""Hosts have cores of their own. Here they come at least before this machine's other sessions."""

_LIMIT = 30.0
"""Seconds for the switch to begin, to answer and to end."""


class NoLab(Exception):
    """Why there are no hosts."""


@functools.cache
def obstacle() -> str | None:
    """Return what this machine withholds from us so that there can be no lab, or None."""
    if os.geteuid() != 0:
        return "an emulated network needs root"
    try:
        tun = os.open("/dev/net/tun", os.O_RDWR)
        try:
            fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"mo%d" % os.getpid(), 0x1002))
        finally:
            os.close(tun)
    except OSError as error:
        return f"an emulated network needs /dev/net/tun: {error.strerror}"
    # What `ip netns add` does: a network and a mount of its own, a mount shared with others.
    words = ["unshare", "--net", "--mount", "--uts", "sh", "-c", "mount --make-rshared / && hostname h0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        return f"an emulated network needs the right to make namespaces: {done.stderr.strip()}"
    return None


def missing() -> str | None:
    """Return why there can be no lab here: an obstacle, or a program that could be installed; or None."""
    if obstacle():
        return obstacle()
    if shutil.which("ip") is None:
        return "no ip: install iproute2"
    launcher = find_launcher()
    if launcher is None or launcher.kind != "mpich":
        return "the emulated network starts MPICH: make test-netlab MPI=wheel"
    return None


class Lab:
    """Hosts h0, h1, ..., while the context lasts.

    Parameters
    ----------
    n : int
        Number of hosts.
    delay : float
        Milliseconds one way.
    rate : float
        Mbit/s of each host's link in each direction; 0: no limit.
    """

    def __init__(self, n: int, delay: float = 0.0, rate: float = 0.0) -> None:
        self.n, self.delay, self.rate = n, delay, rate
        self.name = ""

    def __enter__(self) -> "Lab":
        command = [sys.executable, "-P", "-m", "netlab.switch", str(self.n)]
        command += ["--delay", str(self.delay), "--rate", str(self.rate)]
        self._switch = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(_TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self.name = self._line().removeprefix("ready ")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def pid(self) -> int:
        """The switch's process."""
        return self._switch.pid

    def counts(self) -> dict[str, np.ndarray]:
        """Return frames, bytes and TCP payload so far, int64 ``(n, n)`` as [sender, receiver], and ``dropped``."""
        assert self._switch.stdin is not None
        self._switch.stdin.write(b"counts\n")
        self._switch.stdin.flush()
        return {name: np.array(value) for name, value in json.loads(self._line()).items()}

    def command(self, host: int, words: Sequence[str | os.PathLike[str]]) -> list[str]:
        """Return the command that runs ``words`` on a host; it needs the environment of `environment`."""
        return [str(_ENTER), f"h{host}", shlex.join(map(os.fspath, words))]

    def environment(self) -> dict[str, str]:
        """Return what commands on the hosts need set."""
        return {"MPI_OPT_NETLAB": self.name}

    def mpirun(
        self,
        args: Sequence[str | os.PathLike[str]],
        n: int | None = None,
        timeout: float = 60.0,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run ``args`` as `support.mpirun.mpirun` does, rank k on host k; all processes are ended at the limit."""
        launcher = find_launcher()
        assert launcher is not None
        n = n or self.n
        with tempfile.TemporaryDirectory(prefix="netlab-") as name:
            logs, empty, machines = (Path(name, part) for part in ("logs", "cwd", "hosts"))
            logs.mkdir()
            empty.mkdir()
            machines.write_text("".join(f"{hosts.address(host)}:1\n" for host in range(self.n)))
            stacks_at = time.time() + timeout - min(2.0, timeout / 4)
            start = [launcher.path, "-launcher", "ssh", "-launcher-exec", str(_ENTER), "-iface", "eth0"]
            start += ["-f", str(machines), "-n", str(n), "sh", "-c", FIRST, sys.executable, str(_RANK)]
            start += [str(logs), repr(stacks_at)]
            path = os.pathsep.join(filter(None, [str(_TESTS), os.environ.get("PYTHONPATH")]))
            environment = {
                **os.environ,
                **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
                **_STRICT,
                # TCP, and who waits gives way to who computes: all hosts share this machine's cores.
                "MPIR_CVAR_CH4_NETMOD": "ofi",
                "FI_PROVIDER": "tcp;ofi_rxm",
                "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
                "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",
                "PYTHONPATH": path,
                **self.environment(),
                **(env or {}),
                _TOKEN: name,
            }
            words = self.command(0, [*start, *map(os.fspath, args)])
            code, output, timed_out, seconds = _run(words, environment, empty, timeout, name)
            texts = {int(p.stem[5:]): p.read_text(errors="replace") for p in logs.glob("rank_*.log")}
        return Result(code, output, dict(sorted(texts.items())), timed_out, seconds)

    def _line(self) -> str:
        """Return the switch's next line."""
        assert self._switch.stdout is not None
        ready, _, _ = select.select([self._switch.stdout], [], [], _LIMIT)
        line = self._switch.stdout.readline().decode().strip() if ready else ""
        if not line:
            raise NoLab(self._end() or f"the switch says nothing within {_LIMIT} s")
        return line

    def _end(self) -> str:
        """End the switch, which removes the hosts; return its last words."""
        lab = self.name or hosts.lab_name(self._switch.pid)
        try:
            _, words = self._switch.communicate(timeout=_LIMIT)  # its input ends, and so does it
        except subprocess.TimeoutExpired:
            self._switch.kill()
            _, words = self._switch.communicate()
        if hosts.namespaces(lab):  # it was killed before it could
            hosts.remove(lab)
        return words.decode(errors="replace").strip()
