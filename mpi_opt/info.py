"""What ``mpi-opt info`` prints: versions, MPI, launcher, hosts, cores, threads, and what is wrong with them."""

import platform
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from mpi_opt import launch
from mpi_opt.errors import LaunchError
from mpi_opt.network.collectives import Collectives, Solo

if TYPE_CHECKING:
    from mpi_opt.scaling.fitted import Measurement

_PACKAGES = ("numpy", "scipy", "h5py", "mpi4py", "msgspec", "networkx", "threadpoolctl", "scikit-learn", "torch")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one process runs: its host, the cores it may use there, and its BLAS threads."""

    host: str
    cores: frozenset[int]
    threads: int


@dataclass(frozen=True, slots=True)
class Report:
    """The text, and the error that the command ends with where the launch is wrong."""

    text: str
    error: LaunchError | None


def report(environ: Mapping[str, str]) -> Report:
    """Return what is to be said of this process and, where MPI has started, of all ranks together.

    Collective where a launcher started several ranks; every rank returns the same text.
    """
    error: LaunchError | None = None
    everyone: Collectives
    try:
        everyone = launch.start_mpi(environ)
    except LaunchError as failed:
        everyone, error = Solo(), failed
    places: Sequence[Place] = everyone.gather(Place(socket.gethostname(), launch.own_cores(), blas_threads()))
    lines = [
        *_versions(),
        ("MPI", _library()),
        ("ranks", str(everyone.size)),
        *_variables(environ),
        *((f"host {name}", text) for name, text in _hosts(places)),
    ]
    width = max(len(name) for name, _ in lines)
    said = [f"{name:<{width}}  {text}" for name, text in lines]
    said += [f"warning: {text}" for text in warnings(places)]
    return Report("\n".join(said), error)


def network(environ: Mapping[str, str]) -> "Measurement":
    """Return what messages between the ranks cost, the same on every rank. Collective.

    Raises
    ------
    LaunchError
        The processes were not started as one MPI job.
    """
    from mpi_opt.scaling.fitted import Measurement

    everyone = launch.start_mpi(environ)
    places = everyone.gather(Place(socket.gethostname(), launch.own_cores(), 1))
    found = Measurement(ranks=everyone.size)
    if everyone.size > 1:
        from mpi_opt.network.mpi import measure_world

        found = measure_world()
    return replace(found, library=_library(), cautions=(*warnings(places), *found.cautions))


def warnings(places: Sequence[Place]) -> list[str]:
    """Return one warning for each host whose ranks x threads exceed its cores."""
    found = []
    for host, here in _by_host(places).items():
        cores = frozenset[int]().union(*(place.cores for place in here))
        text = launch.thread_warning(len(here), max(place.threads for place in here), len(cores))
        if text is not None:
            found.append(f"host {host}: {text}")
    return found


def blas_threads() -> int:
    """Return how many threads the BLAS behind NumPy would use (1 where there is none that can be asked)."""
    import numpy as np
    import threadpoolctl

    assert np.__version__  # loads the BLAS that is asked next
    pools = threadpoolctl.threadpool_info()
    return max((int(pool["num_threads"]) for pool in pools if pool["user_api"] == "blas"), default=1)


def _versions() -> list[tuple[str, str]]:
    lines = [("mpi_opt", _version("mpi_opt")), ("Python", platform.python_version()), ("system", platform.platform())]
    return lines + [(name, _version(name)) for name in _PACKAGES]


def _version(package: str) -> str:
    if package == "mpi_opt":
        from mpi_opt import __version__

        return __version__
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _library() -> str:
    try:
        from mpi_opt.network.mpi import library
    except (ImportError, RuntimeError):
        return "not found"
    return library()


def _variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    found = [(name, environ[name]) for name in launch.KNOWN_VARIABLES if name in environ]
    started = launch.launcher_size(environ)
    return [("launcher", "none seen" if started is None else f"{started} processes"), *found]


def _hosts(places: Sequence[Place]) -> list[tuple[str, str]]:
    lines = []
    for host, here in _by_host(places).items():
        cores = frozenset[int]().union(*(place.cores for place in here))
        threads = sorted({place.threads for place in here})
        lines.append((host, f"ranks {len(here)}, cores {len(cores)}, BLAS threads a rank {str(threads)[1:-1]}"))
    return lines


def _by_host(places: Sequence[Place]) -> dict[str, list[Place]]:
    hosts: dict[str, list[Place]] = {}
    for place in places:
        hosts.setdefault(place.host, []).append(place)
    return hosts
