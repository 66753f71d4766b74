"""Rules of the house that import-linter cannot state, read off the syntax trees: a new file is covered at once."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "mpi_opt"
PURE = ("problems", "compression", "topology", "algorithms")
"""Rooms of pure computation: no output, no environment, no clock, no hidden randomness."""
FORBIDDEN_MODULES = {"time", "datetime", "timeit", "random", "secrets", "logging", "subprocess", "socket"}
FOLDERS = {"jobs", "data", "slurm", "tests"}
"""Folders beside the package, which an installed package does not have."""
LOOKED_FOR = {("mpi_opt/datasets/source.py", "data/raw")}
"""The one relative folder that is part of what the user is told: where a job's data sets are looked for."""
OPENERS = ("open", "Path", "PurePath", "glob", "iglob", "listdir", "exists", "File")
HEAVY = ("networkx", "sklearn", "matplotlib", "torch", "pandas")
FACADES = (
    {"mpi_opt.sklearn", "mpi_opt.torch"}
    | {f"mpi_opt.estimators.{name}" for name in ("arguments", "keeping", "kinds", "linear")}
    | {
        f"mpi_opt.problems.torch.{name}"
        for name in (
            *("activations", "buffers", "calling", "devices", "flat", "kept", "losses", "nets", "norms", "outputs"),
            *("problem", "rows", "setting", "taking"),
        )
    }
)
"""Modules whose whole purpose is another library."""


def files(*rooms: str) -> list[Path]:
    """Return the Python files of the rooms, or of the whole package."""
    return sorted(path for room in rooms or (".",) for path in (PACKAGE / room).rglob("*.py"))


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def imported(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Yield every absolute name an import statement brings in, at any depth of the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            for alias in node.names:
                yield node, f"{node.module}.{alias.name}"


def dotted(node: ast.expr) -> str:
    """Return ``np.random.seed`` for such an expression, the empty string for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return ""


def impurities(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield what a room of pure computation must not contain."""
    for statement, name in imported(tree):
        if name.split(".")[0] in FORBIDDEN_MODULES or name.startswith(("os.environ", "os.getenv", "numpy.random")):
            yield statement, f"imports {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func) in ("print", "input", "breakpoint"):
            yield node, f"calls {dotted(node.func)}"
        elif isinstance(node, ast.Attribute):
            name = dotted(node)
            if name in ("os.environ", "os.getenv", "sys.stdout", "sys.stderr", "sys.argv"):
                yield node, f"uses {name}"
            # The type may be named; making one, or drawing from the global one, is the business of mpi_opt.draws.
            if name.startswith(("np.random.", "numpy.random.")) and name.split(".")[2] != "Generator":
                yield node, f"uses {name}"


def paths_beside_the_package(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield calls of ``open`` and ``Path`` (or its methods) on a fixed path into a folder beside the package."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
            continue
        value = node.args[0].value
        name = dotted(node.func).split(".")[-1]
        if isinstance(value, str) and name in (
            "open",
            "Path",
            "PurePath",
            "glob",
            "iglob",
            "listdir",
            "exists",
            "File",
        ):
            steps = [step for step in value.replace("\\", "/").split("/") if step not in ("", ".", "..")]
            if steps and steps[0] in FOLDERS and not value.startswith("/"):
                yield node, value


def test_there_are_files_to_look_at():
    for room in PURE:
        assert len(files(room)) > 1, room


@pytest.mark.parametrize("path", files(*PURE), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_pure_rooms(path):
    found = [f"{where(path, node)} {what}" for node, what in impurities(ast.parse(path.read_text()))]
    assert not found


def test_no_file_beside_the_package_is_opened():
    found = [
        f"{where(path, node)} {value}"
        for path in files()
        for node, value in paths_beside_the_package(ast.parse(path.read_text()))
        if (str(path.relative_to(ROOT)), value) not in LOOKED_FOR
    ]
    assert not found


def test_twins_do_not_import_what_they_check():
    twins = sorted((ROOT / "tests" / "twins").rglob("*.py"))
    assert twins
    found = [
        f"{where(path, statement)} {name}"
        for path in twins
        for statement, name in imported(ast.parse(path.read_text()))
        if name.split(".")[0] == "mpi_opt"
    ]
    assert not found


def test_folders_beside_the_package_are_no_packages():
    found = [p for folder in FOLDERS for p in (ROOT / folder).rglob("__init__.py") if ".venv" not in p.parts]
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "print(1)",
        "import time",
        "def f():\n    from time import perf_counter",
        "import os\nos.environ['X']",
        "from os import environ",
        "import numpy as np\nnp.random.seed(1)",
        "import numpy as np\nrng = np.random.default_rng()",
        "from numpy.random import default_rng",
        "import random",
    ],
)
def test_the_check_of_pure_rooms_sees(line):
    assert list(impurities(ast.parse(line)))


def test_the_check_of_pure_rooms_lets_pass():
    fine = "import numpy as np\ndef f(rng: np.random.Generator, fingerprint: int) -> None:\n    rng.random()\n"
    assert not list(impurities(ast.parse(fine)))


@pytest.mark.parametrize("line", ["open('jobs/x.toml')", "Path('./data/raw')", "pathlib.Path('../tests').exists()"])
def test_the_check_of_paths_sees(line):
    assert list(paths_beside_the_package(ast.parse(line)))


def loaded_after(code: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter holds after ``code``."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sorted(sys.modules), file=sys.stderr)"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_start_up_loads_nothing_heavy():
    """60 ranks share two cores: what is not always needed is imported where it is used."""
    loaded = loaded_after(
        "import importlib, pkgutil, mpi_opt\n"
        "for module in pkgutil.walk_packages(mpi_opt.__path__, 'mpi_opt.'):\n"
        f"    if module.name not in {sorted(FACADES)!r} and not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
    )
    assert {"mpi_opt.algorithms.base", "mpi_opt.topology.registry"} <= loaded
    assert not loaded & set(HEAVY)


def test_help_starts_no_mpi():
    loaded = loaded_after("import mpi_opt.cli\ntry:\n    mpi_opt.cli.main(['--help'])\nexcept SystemExit:\n    pass")
    assert not loaded & {"mpi4py.MPI", "scipy", "h5py", *HEAVY}


def test_public_names_are_never_hidden_by_modules():
    """A submodule of the same name would take a function's place as soon as anyone imports it."""
    loaded_after(
        "import importlib, pkgutil, types, mpi_opt\n"
        "for module in pkgutil.iter_modules(mpi_opt.__path__):\n"
        "    if module.name in mpi_opt.__all__:\n"
        "        importlib.import_module('mpi_opt.' + module.name)\n"
        "for name in mpi_opt.__all__:\n"
        "    assert not isinstance(getattr(mpi_opt, name), types.ModuleType), name\n"
    )
