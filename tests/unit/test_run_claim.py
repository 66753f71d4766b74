"""One run a folder at a time."""

import os
import subprocess
import sys
import threading
import time

import pytest

from mpi_opt.errors import JobError
from mpi_opt.network.collectives import Solo
from mpi_opt.run.claim import Claim
from mpi_opt.run.watchdog import LONGEST_BEAT

HOLD = """
import sys, time
from pathlib import Path
from mpi_opt.network.collectives import Solo
from mpi_opt.run.claim import Claim
with Claim(Path(sys.argv[1]), Solo()):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_folder_is_given_back_and_not_left_where_it_stays_empty(tmp_path):
    with Claim(tmp_path / "a" / "run", Solo()):
        assert (tmp_path / "a" / "run" / ".lock").read_text().endswith(f"process {os.getpid()}")
    assert not (tmp_path / "a" / "run").exists()
    with Claim(tmp_path / "run", Solo()):
        (tmp_path / "run" / "job.toml").touch()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["job.toml"]


def test_another_process_that_lives_is_named_and_one_that_was_killed_bars_nobody(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(JobError, match=rf"another run writes to {tmp_path} \(.*, process {other.pid}\): wait for"),
            Claim(tmp_path, Solo()),
        ):
            pass
        assert (tmp_path / ".lock").exists()
        other.kill()
        other.wait()
        assert (tmp_path / ".lock").exists()
        with Claim(tmp_path, Solo()):
            pass
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def test_a_lock_that_its_owner_takes_away_meanwhile_is_worth_nothing(tmp_path):
    """Many that come and go at once: never two at a time."""
    inside, worst, errors = [], [], []

    def claim():
        for _ in range(60):
            try:
                with Claim(tmp_path, Solo()):
                    inside.append(1)
                    worst.append(len(inside))
                    inside.pop()
            except JobError:
                pass
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert worst
    assert max(worst) == 1


@pytest.mark.parametrize(("beats", "age"), [(True, 0), (False, 0), (False, 3600)])
def test_a_run_of_another_machine_shows_by_its_signs(beats, age, tmp_path):
    """As where locks do not reach beyond one machine: the lock is free, but another machine's name is in it."""
    (tmp_path / ".alive").mkdir()
    sign = tmp_path / ".alive" / "rank_00001"
    sign.write_text("7 3 0 11")
    (tmp_path / ".lock").write_text("elsewhere, process 7")
    if age:
        os.utime(sign, (time.time() - age,) * 2)
    waited = []

    def wait(seconds):
        waited.append(seconds)
        if beats:
            os.utime(sign, (time.time() + 5,) * 2)

    claim = Claim(tmp_path, Solo(), wait)
    if beats:
        with pytest.raises(JobError, match=r"another run writes to \S+ \(elsewhere, process 7\)"), claim:
            pass
    else:
        with claim:
            pass
    assert waited == ([] if age else [2 * LONGEST_BEAT])
    with Claim(tmp_path, Solo(), wait, heir=True):  # its own run's signs say nothing
        assert (tmp_path / ".lock").read_text().endswith(f"process {os.getpid()}")
    assert waited == ([] if age else [2 * LONGEST_BEAT])


def test_what_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(JobError, match="is a file"), Claim(tmp_path / "file", Solo()):
        pass
    with (
        pytest.raises(JobError, match="cannot write to the result folder /proc/none/x: .*give another --out"),
        Claim(tmp_path.__class__("/proc/none/x"), Solo()),
    ):
        pass
