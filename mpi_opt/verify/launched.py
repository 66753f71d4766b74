"""Check of the launch: ranks reach each other, run the same programs, one BLAS thread each, and share a folder."""

import platform
import socket
from collections import Counter
from typing import NamedTuple

import numpy as np

from mpi_opt import launch
from mpi_opt.info import Place, blas_threads, warnings
from mpi_opt.metrics.attributes import version_of
from mpi_opt.verify.findings import Outcome
from mpi_opt.verify.setting import Setting

_ALIKE = ("numpy", "scipy", "h5py", "mpi4py")


class _Seen(NamedTuple):
    place: Place
    programs: tuple[str, ...]
    thread_level: str


def check(setting: Setting) -> Outcome:
    """Let every rank send to every other; compare what they are made of."""
    everyone, rank = setting.collectives, setting.collectives.rank
    level = "none"
    if setting.comm is not None:
        from mpi_opt.network import mpi

        level = mpi.thread_level()
    place = Place(socket.gethostname(), launch.own_cores(), blas_threads())
    seen = everyone.gather(_Seen(place, _programs(), level))
    faults = _messages(setting)
    if place.threads != 1:
        faults.append(f"{place.threads} BLAS threads, although one was asked for: sums may differ from run to run")
    unlike = [other for other, theirs in enumerate(seen) if theirs.programs != seen[0].programs]
    if rank in unlike:
        pairs = zip(seen[rank].programs, seen[0].programs, strict=True)
        faults.append("has " + ", ".join(f"{mine} (rank 0: {first})" for mine, first in pairs if mine != first))
    if setting.shared:
        faults.append(setting.shared)
    hosts = Counter(each.place.host for each in seen)
    named = ", ".join(f"{host} ({count})" for host, count in list(hosts.items())[:8])
    detail = [
        _who(setting),
        f"host{'s' * (len(hosts) > 1)} {named}{', ...' if len(hosts) > 8 else ''}",
        "1 BLAS thread a rank",
        *([f"MPI thread level {level}"] if setting.comm is not None else []),
        *warnings([each.place for each in seen]),
    ]
    return Outcome("; ".join(detail), faults)


def _who(setting: Setting) -> str:
    if setting.comm is None:
        return "one process, no MPI"
    return f"{setting.nodes} ranks reach each other" if setting.nodes > 1 else "one rank"


def _messages(setting: Setting) -> list[str]:
    """Send a number of its own from every rank to every other; return what came otherwise."""
    everyone, rank, size = setting.collectives, setting.collectives.rank, setting.collectives.size
    came = everyone.all_to_all([np.array([rank * size + to, to]) for to in range(size)])
    faults = [
        f"rank {sender} sent {[sender * size + rank, rank]}, what came is {got.tolist()}"
        for sender, got in enumerate(came)
        if got.tolist() != [sender * size + rank, rank]
    ]
    total = everyone.sum(np.array([float(rank), 1.0])).tolist()
    if total != [size * (size - 1) / 2, float(size)]:
        faults.append(f"the ranks' numbers add up to {total[0]:g} and they count {total[1]:g}")
    return faults


def _programs() -> tuple[str, ...]:
    return (
        f"Python {platform.python_version()}",
        platform.machine(),
        *(f"{name} {version_of(name)}" for name in ("mpi_opt", *_ALIKE)),
    )
