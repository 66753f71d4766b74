"""The command: help without MPI, arguments handed on, every error told once with its exit code."""

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mpi_opt import __version__, cli, launch
from mpi_opt.errors import DataError, DivergedError, JobError, LaunchError, MpiOptError, RankFailedError

JOB = """
name = "small"
data.train = "builtin:digits"
problem.loss = "softmax"
algorithm = { name = "d-psgd", step_size = 0.5 }
stop.steps = 3
"""
LAUNCHERS = launch.KNOWN_VARIABLES


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LAUNCHERS:
        if not name.endswith("_NUM_THREADS"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launch, "running_world", lambda: None)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(JOB)
    return path


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stand-ins for what runs a job: they record what they are asked for, and answer or raise what a test puts in."""
    seen: dict[str, Any] = {"answer": 0}

    def entry(name: str) -> Any:
        def answer(job: Any, orders: Any = None, **options: Any) -> Any:
            taken = dataclasses.asdict(orders) if dataclasses.is_dataclass(orders) else {}
            seen.update(called=name, job=job, options={**taken, **options})
            if isinstance(seen["answer"], BaseException):
                raise seen["answer"]
            return seen["answer"]

        return answer

    for module_name, names in (("execute", ("run_job", "simulate_job")), ("planning", ("plan_job",))):
        module = ModuleType(f"mpi_opt.{module_name}")
        for name in names:
            setattr(module, name, entry(name))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return seen


def python(code: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environ, check=False
    )


# --- start-up ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["run", "--help"], ["simulate", "--help"], ["run", "none.toml"]]
)
def test_help_version_and_job_errors_start_nothing(arguments: list[str]) -> None:
    heavy = ["mpi4py", "numpy", "scipy", "h5py", "networkx", "sklearn", "matplotlib", "tqdm", "threadpoolctl"]
    done = python(
        f"""
import sys
from mpi_opt.cli import main
try:
    code = main({arguments!r})
except SystemExit as end:
    code = end.code
print("loaded", [name for name in {heavy!r} if name in sys.modules])
sys.exit(code)
"""
    )
    assert done.returncode == (2 if "none.toml" in arguments else 0), done.stderr
    assert done.stdout.splitlines()[-1] == "loaded []"


def test_module_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mpi_opt", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"mpi-opt {__version__}\n"


def test_commands_of_this_release(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    assert end.value.code == 0
    listed = [
        line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("    ") and line[4] != " "
    ]
    assert listed == [
        "run",
        "simulate",
        "resume",
        "plan",
        "info",
        "verify",
        "submit",
        "status",
        "watch",
        "metrics",
        "compare",
        "report",
        "scale",
        "predict",
        "evaluate",
        "model",
        "data",
    ]


def test_threads_are_limited_before_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    done = python(
        """
import os, sys
os.environ["PMI_RANK"] = "0"
import mpi_opt.cli as cli
try:
    cli.main(["--version"])
except SystemExit:
    print(os.environ.get("OMP_NUM_THREADS"), "numpy" in sys.modules)
"""
    )
    assert done.stdout.splitlines()[-1] == "1 False", done.stderr


# --- arguments --------------------------------------------------------------------------------------------------------


def test_run_hands_on(job: Path, called: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    agreed = []

    class Everyone:
        def check(self, error: Exception | None) -> None:
            agreed.append(error)

    monkeypatch.setattr(launch, "start_mpi", lambda environ: Everyone())
    called["answer"] = 5
    arguments = [
        "run",
        str(job),
        "--set",
        "seed=3",
        "--set",
        "stop.steps=9",
        "--out",
        str(tmp_path / "o"),
        "--overwrite",
    ]
    assert cli.main(arguments) == 5
    assert called["called"] == "run_job"
    assert (called["job"].seed, called["job"].stop.steps, called["job"].folder) == (3, 9, tmp_path)
    command = ["mpi-opt", *arguments]
    assert called["options"] == {"out": tmp_path / "o", "overwrite": True, "progress": "auto", "command": command}
    assert agreed == [None]


def test_simulate_and_plan_hand_on(job: Path, called: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", str(job), "--nodes", "60"]) == 0
    command = ["mpi-opt", "simulate", str(job), "--nodes", "60"]
    assert (called["called"], called["options"]) == (
        "simulate_job",
        {"nodes": 60, "out": None, "overwrite": False, "progress": "auto", "command": command},
    )
    called["answer"] = SimpleNamespace(text=lambda: "a plan", values=lambda: {"job": "small"})
    assert cli.main(["plan", str(job), "--nodes", "8", "--set", "seed=4"]) == 0
    assert (called["called"], called["options"], called["job"].seed) == ("plan_job", {"nodes": 8, "network": None}, 4)
    assert capsys.readouterr().out == "a plan\n"
    assert cli.main(["plan", str(job), "--nodes", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"job": "small"}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], "COMMAND"),
        (["walk"], "'walk'"),
        (["run"], "JOB"),
        (["run", "x.toml", "--nodes", "3"], "--nodes"),
        (["simulate", "x.toml"], "--nodes"),
        (["simulate", "x.toml", "--nodes", "0"], "'0': allowed: an integer >= 1"),
        (["plan", "x.toml", "--nodes", "many"], "'many'"),
        (["run", "x.toml", "--set"], "--set"),
        (["run", "none.toml"], "'none.toml': No such file"),
        (["plan", "none.toml", "--nodes", "2"], "'none.toml': No such file"),
    ],
)
def test_usage_errors_are_one_line_and_end_with_2(
    arguments: list[str], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("mpi-opt: error: ")
    assert told.err.count("\n") == 1
    assert names in told.err


def test_wrong_override(job: Path, called: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", str(job), "--nodes", "2", "--set", "algorithm.sync_evry=2"]) == 2
    assert "algorithm.sync_evry: unknown key; did you mean 'sync_every'?" in capsys.readouterr().err
    assert "called" not in called


# --- how errors end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JobError("k"), 2),
        (DataError("d"), 3),
        (LaunchError("l"), 4),
        (DivergedError("n"), 5),
        (RankFailedError("r"), 6),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("z"), 6),
    ],
)
def test_codes_in_one_process(
    error: BaseException, code: int, job: Path, called: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    called["answer"] = error
    assert cli.main(["simulate", str(job), "--nodes", "2"]) == code
    told = capsys.readouterr().err
    if isinstance(error, MpiOptError):
        assert told == f"mpi-opt: error: {error}\n"
    elif isinstance(error, ZeroDivisionError):
        assert "Traceback" in told
        assert "ZeroDivisionError: z" in told


class World:
    """A communicator of four ranks, the others of which do or do not come to the barrier."""

    size = 4

    def __init__(self, rank: int, others_come: bool) -> None:
        self.rank, self.others_come = rank, others_come

    def Ibarrier(self) -> "World":
        return self

    def Test(self) -> bool:
        return self.others_come


def among_four(monkeypatch: pytest.MonkeyPatch, rank: int, others_come: bool, job: Path) -> tuple[int, list[int]]:
    """Return the command's code and the codes it ended all ranks with."""
    ended: list[int] = []
    world = World(rank, others_come)
    monkeypatch.setattr(launch, "running_world", lambda: world)
    monkeypatch.setattr(cli, "_PATIENCE", 0.01)
    module = ModuleType("mpi_opt.network.mpi")
    module.abort = ended.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mpi_opt.network.mpi", module)
    return cli.main(["simulate", str(job), "--nodes", "2"]), ended


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("marked", [True, False])
def test_error_of_all_ranks_is_told_once_and_nobody_is_ended(
    rank: int, marked: bool, job: Path, called: dict[str, Any], monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    called["answer"] = DataError("all see it")
    called["answer"].everywhere = marked
    # a marked error needs no barrier: the others need not come to it
    assert among_four(monkeypatch, rank, not marked, job) == (3, [])
    assert capsys.readouterr().err == ("mpi-opt: error: all see it\n" if rank == 0 else "")


def test_error_of_one_rank_ends_all(
    job: Path, called: dict[str, Any], monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    called["answer"] = DivergedError("node 2, step 9")
    assert among_four(monkeypatch, 2, False, job) == (5, [5])
    assert capsys.readouterr().err == "mpi-opt: error: rank 2 of 4: node 2, step 9\n"


def test_unexpected_error_ends_all_with_its_traceback(
    job: Path, called: dict[str, Any], monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    called["answer"] = ZeroDivisionError("z")
    assert among_four(monkeypatch, 3, True, job) == (6, [6])
    told = capsys.readouterr().err
    assert "rank 3 of 4" in told
    assert "ZeroDivisionError: z" in told


def test_before_mpi_only_the_launchers_first_process_speaks(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_SIZE", "4")
    for rank in range(4):
        monkeypatch.setenv("PMI_RANK", str(rank))
        assert cli.main(["plan", str(job), "--nodes", "2"]) == 4
    assert capsys.readouterr().err.count("mpi-opt: error: ") == 1


# --- on real ranks ----------------------------------------------------------------------------------------------------


def test_job_error_on_ranks_is_told_once(mpirun: Any, tmp_path: Path) -> None:
    result = mpirun(3, ["mpi-opt", "run", str(tmp_path / "none.toml")])
    assert result.code == 2, str(result)
    assert str(result).count("mpi-opt: error: ") == 1
    assert "Abort" not in str(result)


def test_one_rank_without_the_job_file_holds_nobody_up(mpirun: Any, job: Path) -> None:
    code = f"""
import os, sys
from mpi_opt.cli import main
name = {str(job)!r} if os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")) != "2" else "none.toml"
sys.exit(main(["run", name]))
"""
    began = time.monotonic()
    result = mpirun(3, ["-c", code])
    assert result.code == 2, str(result)
    assert str(result).count("job file 'none.toml': No such file") == 1
    assert time.monotonic() - began < 30


def test_info_on_ranks(mpirun: Any) -> None:
    result = mpirun(2, ["mpi-opt", "info"])
    assert result.code == 0, str(result)
    lines = dict(line.split(maxsplit=1) for line in str(result).splitlines() if len(line.split()) > 1)
    assert lines["ranks"] == "2"
    assert lines["launcher"] == "2 processes"
    assert str(result).count("ranks 2, cores") == 1


def test_info_alone(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mpi4py")
    done = python("import sys; from mpi_opt.cli import main; sys.exit(main(['info']))")
    assert done.returncode == 0, done.stderr
    for word in ("mpi_opt", "numpy", "mpi4py", "MPI", "ranks", "launcher", "cores"):
        assert word in done.stdout
