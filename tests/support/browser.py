"""A real browser without a window, as a subprocess: Chromium or Chrome, with no way to any network."""

import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_CONSOLE = re.compile(r'CONSOLE[:(]\d+\)?\] "(.*?)"', re.DOTALL)


def find_browser():
    """Return the browser's path, or None; ``$MPI_OPT_BROWSER`` names one."""
    chosen = os.environ.get("MPI_OPT_BROWSER")
    return shutil.which(chosen) if chosen else next(filter(None, map(shutil.which, NAMES)), None)


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of it: the document after its scripts ran, and what the console was told."""

    document: str
    console: tuple[str, ...]


class Browser:
    """A browser with a profile of its own in ``folder``."""

    def __init__(self, path: str, folder: Path) -> None:
        self._path, self._folder = path, folder

    def _run(self, page: Path, *options: str, width: int = 1280) -> Seen:
        command = [
            self._path,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--enable-logging=stderr",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={self._folder / 'profile'}",
            f"--window-size={width},900",
            *options,
            page.absolute().as_uri(),
        ]
        started = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            document, said = started.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)  # its own session: nobody else's processes
            document, said = started.communicate()
            raise AssertionError(f"the browser did not end in 120 s: {said[-2000:]}") from None
        assert started.returncode == 0, said[-2000:]
        return Seen(document, tuple(_CONSOLE.findall(said)))

    def document(self, page: Path, *, width: int) -> Seen:
        """Return the document that ``page`` becomes in a window of that width."""
        return self._run(page, "--dump-dom", width=width)

    def picture(self, page: Path, out: Path, *, width: int) -> Seen:
        """Save what the window shows as PNG."""
        return self._run(page, f"--screenshot={out}", width=width)

    def printed(self, page: Path, out: Path) -> Seen:
        """Save the page as it prints as PDF."""
        return self._run(page, f"--print-to-pdf={out}")
