"""What the built packages hold, and that the tests look at the installed one."""

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folder with one wheel and one sdist, built with the installed backend: no index is asked."""
    pytest.importorskip("hatchling", reason="hatchling is not installed (dependency group dev)")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    """Names of the files in the wheel."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def test_wheel_holds_the_package_and_nothing_else(wheel):
    tops = {name.split("/")[0] for name in wheel}
    assert "mpi_opt" in tops
    assert len(tops) == 2
    assert all(top == "mpi_opt" or top.endswith(".dist-info") for top in tops)


def test_wheel_holds_every_module(wheel):
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "mpi_opt").rglob("*.py")}
    assert sources == {name for name in wheel if name.endswith(".py")}
    assert "mpi_opt/py.typed" in wheel


def test_every_folder_of_modules_is_a_package(wheel):
    folders = {name.rpartition("/")[0] for name in wheel if name.endswith(".py")}
    assert {f"{folder}/__init__.py" for folder in folders} <= wheel


def test_wheel_holds_the_cards_and_no_data(built, wheel):
    (path,) = built.glob("*.whl")
    cards = {path.name: path.read_text() for path in (ROOT / "data").glob("*.md")}
    cards = {name: text for name, text in cards.items() if text.startswith("+++\n")}
    with zipfile.ZipFile(path) as archive:
        inside = {name.rpartition("/")[2]: archive.read(name).decode() for name in wheel if "/cards/" in name}
    assert inside == cards
    assert {name for name in wheel if not name.endswith((".py", ".typed")) and ".dist-info/" not in name} == {
        f"mpi_opt/cards/{name}" for name in cards
    }


def test_cards_are_known_by_name_where_they_are_installed(built, tmp_path):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "mpi_opt", "data", "fetch", "--list"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\na9a: " in f"\n{done.stdout}"
    assert "\n  no file: 'builtin:digits'" in done.stdout


def test_wheel_brings_the_command_and_the_licence(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        points = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "mpi-opt = mpi_opt.cli:main" in archive.read(points).decode()
        assert any(name.endswith("LICENSE") for name in archive.namelist())


def test_sdist_carries_what_stands_beside_the_package(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    beside = [
        str(path.relative_to(ROOT))
        for folder in ("jobs", "data", "slurm", "tests", "docs", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", ".hypothesis", "raw", "shards"} & set(path.parts)
    ]
    assert set(beside) <= inside
    assert any(name.startswith("jobs/quickstart-") for name in inside)
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "pyproject.toml"} <= inside
    assert not [name for name in inside if name.startswith(("data/raw/", "data/shards/", "runs/", ".venv"))]


@pytest.mark.skipif("MPI_OPT_TEST_INSTALLED" not in os.environ, reason="not the installed package (make test)")
def test_the_installed_package_is_tested():
    import mpi_opt

    folder = Path(mpi_opt.__file__).resolve()
    assert "site-packages" in folder.parts
    assert not folder.is_relative_to(ROOT / "mpi_opt")
    assert importlib.metadata.version("mpi_opt")
    origin = importlib.metadata.distribution("mpi_opt").read_text("direct_url.json") or ""
    assert '"editable": true' not in origin
