"""What is read off a launcher's environment, and what is refused."""

import pytest

from mpi_opt import launch
from mpi_opt.errors import LaunchError

BATCH = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
STEP = BATCH | {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2"}


@pytest.mark.parametrize(
    ("environ", "size", "rank"),
    [
        ({}, None, None),
        ({"PMI_SIZE": "4", "PMI_RANK": "3"}, 4, 3),
        ({"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "0", "PMIX_RANK": "0"}, 8, 0),
        ({"MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_RANK": "1"}, 2, 1),
        ({"PMIX_RANK": "5"}, None, 5),
        (BATCH, None, None),  # a batch script is one process, however many tasks the job may start
        (STEP, 4, 2),
        ({"SLURM_PROCID": "1", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "6", "PMIX_RANK": "1"}, 6, 1),
        (BATCH | {"PMI_SIZE": "3", "PMI_RANK": "1"}, 3, 1),  # mpiexec inside a batch script
        (STEP | {"PMI_SIZE": "16", "PMI_RANK": "9"}, 16, 9),  # mpiexec that starts its daemons by srun
        ({"PMI_SIZE": "many", "PMI_RANK": ""}, None, None),
    ],
)
def test_size_and_rank(environ: dict[str, str], size: int | None, rank: int | None) -> None:
    assert launch.launcher_size(environ) == size
    assert launch.rank_from_environ(environ) == rank


@pytest.mark.parametrize(("size", "environ"), [(1, {}), (1, {"PMI_SIZE": "1"}), (4, {"PMI_SIZE": "4"}), (1, BATCH)])
def test_right_launches(size: int, environ: dict[str, str]) -> None:
    launch.check_launch(size, environ)


@pytest.mark.parametrize("environ", [{"PMI_SIZE": "4"}, {"OMPI_COMM_WORLD_SIZE": "4"}, STEP])
def test_singletons_are_refused_with_three_remedies(environ: dict[str, str]) -> None:
    with pytest.raises(LaunchError, match="4 processes") as caught:
        launch.check_launch(1, environ)
    assert caught.value.exit_code == 4
    for remedy in ("mpiexec", "srun --mpi=pmi2 or --mpi=pmix", "pip install 'mpi_opt[mpi]'"):
        assert remedy in str(caught.value)


def test_commands_of_one_process() -> None:
    launch.check_alone("plan", {})
    launch.check_alone("plan", {"PMI_SIZE": "1"})
    launch.check_alone("plan", BATCH)
    with pytest.raises(LaunchError, match=r"'mpi-opt plan' runs in one process.*started 4"):
        launch.check_alone("plan", {"PMI_SIZE": "4"})


@pytest.mark.parametrize(
    ("before", "threads"),
    [
        ({}, None),
        ({"PMI_RANK": "0"}, "1"),
        (STEP, "1"),
        ({"PMI_RANK": "0", "OMP_NUM_THREADS": "4"}, "4"),
        (
            {"PMI_RANK": "0", "OPENBLAS_NUM_THREADS": "2"},
            None,
        ),  # the user's choice, which OMP_NUM_THREADS does not touch
    ],
)
def test_one_thread_a_rank_unless_chosen(before: dict[str, str], threads: str | None) -> None:
    environ = dict(before)
    launch.limit_threads(environ)
    assert environ.get("OMP_NUM_THREADS") == threads
    assert {k: v for k, v in environ.items() if k != "OMP_NUM_THREADS"} == {
        k: v for k, v in before.items() if k != "OMP_NUM_THREADS"
    }


def test_thread_warning() -> None:
    assert launch.thread_warning(4, 2, 8) is None
    assert launch.thread_warning(1, 1, 1) is None
    many = launch.thread_warning(4, 2, 7)
    assert many is not None
    assert "4 ranks x 2 threads on 7 cores" in many
    assert "OMP_NUM_THREADS=1" in many
    crowded = launch.thread_warning(3, 1, 2)
    assert crowded is not None
    assert "3 ranks x 1 thread on 2 cores" in crowded
    assert "OMP_NUM_THREADS" not in crowded


def test_own_cores() -> None:
    assert len(launch.own_cores()) >= 1


class Barrier:
    """A barrier that the others reach after so many tests, or never."""

    def __init__(self, after: int | None) -> None:
        self.after, self.tests = after, 0

    def Ibarrier(self) -> "Barrier":
        return self

    def Test(self) -> bool:
        self.tests += 1
        return self.after is not None and self.tests > self.after


def test_all_arrive() -> None:
    assert launch.all_arrive(Barrier(after=0), 0.0)
    assert launch.all_arrive(Barrier(after=3), 5.0)
    assert not launch.all_arrive(Barrier(after=None), 0.02)


@pytest.mark.parametrize(
    ("library", "environ", "launcher"),
    [
        ("MPICH Version: 5.0.2", {"OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "0"}, "Open MPI's mpiexec"),
        ("Open MPI v5.0.8", {"PMI_SIZE": "3", "PMI_RANK": "0"}, "an mpiexec of MPICH's kind"),
    ],
)
def test_a_launcher_of_another_mpi_is_refused(library, environ, launcher):
    with pytest.raises(LaunchError, match=f"{launcher} started this process, but the MPI loaded is {library}"):
        launch.check_library(library, environ)


@pytest.mark.parametrize(
    ("library", "environ"),
    [
        ("MPICH Version: 5.0.2", {"PMI_SIZE": "3"}),
        ("MPICH Version: 5.0.2", {}),
        ("Open MPI v4.1.4", {"OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "0"}),
        ("Open MPI v5.0.8", {"PMIX_RANK": "0", "PMI_SIZE": "3"}),
    ],
)
def test_launchers_that_fit(library, environ):
    launch.check_library(library, environ)
