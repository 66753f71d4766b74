"""What every test can ask for, and what the whole session keeps to.

- One BLAS thread: ranks share cores, and several threads would change the bits of a sum.
- Tests that ask for ``datasets`` are marked ``data``, those that ask for ``mpirun`` or lie in ``tests/mpi`` ``mpi``,
  those that ask for ``cluster`` ``slurm``, those that ask for ``ulfm`` or ``emulated`` that alone (``netlab``),
  those that ask for ``browser`` ``browser``.
- Skipped tests are listed with their reasons at the end; with ``CI`` set, none of these kinds may be skipped.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings
from support.browser import NAMES, Browser, find_browser
from support.mpirun import find_launcher
from support.mpirun import mpirun as run_ranks
from support.ulfm import MISSING, Elastic, find_python

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # nothing above imports numpy

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it puts in the background so, and commands that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ROOT = Path(__file__).resolve().parents[1]
_IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")
_NEVER_SKIPPED_IN_CI = ("data", "mpi", "slurm", "browser")
_BENCHMARK = "Skipping benchmark"  # not run by default, and not missed
if os.environ.get("MPI_OPT_ULFM") == "required":  # set where they are to run: other environments lack that MPI
    _NEVER_SKIPPED_IN_CI += ("ulfm",)
# Asked for by `make test-netlab`, and possible here: what is missing then is a mistake.
_NETLAB = os.environ.get("MPI_OPT_NETLAB_TESTS") == "required"
# Asked for where PyTorch is installed; modules of tests that need it are skipped as a whole elsewhere.
if os.environ.get("MPI_OPT_TORCH") == "required" and find_spec("torch") is None:
    raise pytest.UsageError("MPI_OPT_TORCH=required, but PyTorch is not installed: pip install --group torch")
_forbidden: list[str] = []

# No deadline: machines are shared. In CI the same examples each time, so that a red run can be repeated.
settings.register_profile("house", deadline=None, derandomize=_IN_CI, database=None, print_blob=True)
settings.load_profile("house")


def find_datasets() -> Path | None:
    """Return ``$MPI_OPT_DATASETS``, else ``data/raw``, else ``../shared/datasets`` beside the checkout, else None."""
    chosen = os.environ.get("MPI_OPT_DATASETS")
    places = [Path(chosen)] if chosen else [_ROOT / "data" / "raw", _ROOT.parent / "shared" / "datasets"]
    return next((place for place in places if place.is_dir() and any(place.iterdir())), None)


@pytest.fixture(scope="session")
def datasets() -> Path:
    """Folder of the real data sets; the test is skipped where there is none."""
    folder = find_datasets()
    if folder is None:
        pytest.skip("no data sets: set MPI_OPT_DATASETS, or fill data/raw (see data/README.md)")
    return folder.resolve()


@pytest.fixture(scope="session")
def mpirun():
    """``support.mpirun.mpirun``; the test is skipped where there is no ``mpiexec``."""
    if find_launcher() is None:
        pytest.skip("no mpiexec: pip install '.[mpi]', or set MPI_OPT_MPIEXEC")
    return run_ranks


@pytest.fixture(scope="session")
def torch():
    """PyTorch; the test is skipped where it is not installed."""
    return pytest.importorskip("torch")


@pytest.fixture
def browser(tmp_path):
    """``support.browser.Browser``; the test is skipped where there is none."""
    path = find_browser()
    if path is None:
        pytest.skip(f"no browser: install one of {', '.join(NAMES)}, or set MPI_OPT_BROWSER")
    return Browser(path, tmp_path)


@pytest.fixture(scope="session")
def ulfm():
    """``support.ulfm.Elastic``; the test is skipped where there is no MPI that outlives the death of a rank."""
    python = find_python()
    if python is None:
        pytest.skip(MISSING)
    return Elastic(python)


@pytest.fixture(scope="session")
def emulated():
    """Nothing; the test is skipped where it is not asked for, and where hosts cannot be emulated."""
    if not _NETLAB:
        pytest.skip("two minutes on an emulated network: make test-netlab")
    from support import netlab

    reason = netlab.missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """Also for libraries that were loaded before this file."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    """Undo what a command called in this process did: with SIGPIPE's default a socket's far end could kill pytest."""
    before = {number: signal.getsignal(number) for number in (signal.SIGPIPE, signal.SIGUSR1, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by what a test uses, before ``-m`` selects."""
    ranks = _ROOT / "tests" / "mpi"
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "datasets" in fixtures:
            item.add_marker("data")
        if "cluster" in fixtures:
            item.add_marker("slurm")
        if "browser" in fixtures:
            item.add_marker("browser")
        if "emulated" in fixtures:
            item.add_marker("netlab")
        elif "ulfm" in fixtures:
            item.add_marker("ulfm")
        elif "mpirun" in fixtures or item.path.is_relative_to(ranks):
            item.add_marker("mpi")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Note on skips whether CI may accept them; reports go from process to process, with what is noted."""
    report = yield
    marked = any(item.get_closest_marker(name) for name in _NEVER_SKIPPED_IN_CI)
    if report.skipped and _NETLAB and item.get_closest_marker("netlab"):
        from support import netlab

        marked = netlab.obstacle() is None
    report.forbidden = (
        _IN_CI and marked and report.skipped and not hasattr(report, "wasxfail") and _BENCHMARK not in _reason(report)
    )
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember skips that CI must not accept; where tests run in several processes, in the one that counts."""
    if getattr(report, "forbidden", False):  # a crashed process has its report made for it
        _forbidden.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn a session with forbidden skips red."""
    if _forbidden and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what did not run, and why."""
    skipped = [(report.nodeid, _reason(report)) for report in terminalreporter.stats.get("skipped", [])]
    listed = [(name, reason) for name, reason in skipped if _BENCHMARK not in reason]
    if len(listed) < len(skipped):
        terminalreporter.write_line(f"{len(skipped) - len(listed)} benchmarks not run (make bench)")
    if listed:
        terminalreporter.section("skipped tests")
        for (name, reason), count in Counter(listed).items():
            terminalreporter.write_line(f"{name}: {reason}" + (f" ({count} times)" if count > 1 else ""))
    if _forbidden:
        terminalreporter.section("skipped, but CI must run them", red=True)
        for name in _forbidden:
            terminalreporter.write_line(name)


def _reason(report: pytest.TestReport) -> str:
    place = report.longrepr
    text = place[2] if isinstance(place, tuple) else str(place)
    return text.removeprefix("Skipped: ")
