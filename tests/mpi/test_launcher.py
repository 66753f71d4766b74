"""The launcher of the tests itself: a run that ends well, one that raises, one that is killed, one that hangs."""

import os
import time
from pathlib import Path

import pytest
from support.mpirun import _kind

HELLO = """
import os, sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = comm.allreduce(comm.rank)
print("rank", comm.rank, "of", comm.size, "sum", total, "args", sys.argv[1:], os.environ["OPENBLAS_NUM_THREADS"])
"""

RAISES = """
import time
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    raise ValueError("rank 1 says no")
comm.Barrier()
"""

KILLED = """
import os, signal
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
comm.Barrier()
"""

HANGS = """
import os, sys
from mpi4py import MPI
with open(os.path.join(sys.argv[1], str(os.getpid())), "w"):
    pass

def wait_for_nobody(comm):
    comm.recv(source=(comm.rank + 1) % comm.size)

wait_for_nobody(MPI.COMM_WORLD)
"""


def alive(pid: int) -> bool:
    """Return whether the process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_ranks_find_each_other(mpirun):
    result = mpirun(3, ["-c", HELLO, "a", "b c"]).check()
    assert sorted(result.logs) == [0, 1, 2]
    for rank, text in result.logs.items():
        assert f"rank {rank} of 3 sum 3 args ['a', 'b c'] 1" in text


def test_script_and_module_and_environment(mpirun, tmp_path):
    (tmp_path / "unlikely_name.py").write_text("import os\nprint('here', os.environ['WORD'], __name__)\n")
    script = mpirun(1, [tmp_path / "unlikely_name.py"], env={"WORD": "x"}).check()
    assert "here x __main__" in script.logs[0]
    module = mpirun(1, ["-m", "unlikely_name"], env={"WORD": "y"}, cwd=tmp_path).check()
    assert "here y __main__" in module.logs[0]


def test_ranks_import_support_from_tests(mpirun):
    mpirun(1, ["-c", "import support.mpirun"]).check()


def test_one_rank_raises(mpirun):
    result = mpirun(4, ["-c", RAISES], timeout=60)
    assert not result.timed_out, str(result)
    assert result.code != 0
    assert result.seconds < 30
    assert "ValueError: rank 1 says no" in result.logs[1]
    with pytest.raises(AssertionError, match="rank 1 says no"):
        result.check()


def test_one_rank_is_killed(mpirun):
    result = mpirun(4, ["-c", KILLED], timeout=60)
    assert not result.timed_out, str(result)
    assert result.code != 0


def test_deadlock_ends_with_every_stack_and_no_process(mpirun, tmp_path):
    before = time.monotonic()
    result = mpirun(4, ["-c", HANGS, tmp_path], timeout=8)
    assert result.timed_out, str(result)
    assert time.monotonic() - before < 30
    assert len(result.logs) == 4
    for text in result.logs.values():
        assert "wait_for_nobody" in text, str(result)
    pids = [int(p.name) for p in tmp_path.iterdir()]
    assert len(pids) == 4
    assert os.getpid() not in pids
    assert not [pid for pid in pids if alive(pid)]


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("mpiexec (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", "openmpi4"),
        ("mpirun (Open MPI) 4.1.4\n", "openmpi4"),
        ("mpiexec (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n", "openmpi5"),
        ("prterun (PRRTE) 3.0.12\n", "openmpi5"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.18\n", "intel"),
        ("HYDRA build details:\n    Version:    5.0.2\n", "mpich"),
    ],
)
def test_mpi_is_recognised(version, kind):
    assert _kind(version) == kind
