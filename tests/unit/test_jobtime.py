"""When a run in a SLURM job is to pause: by the job's environment, else by ``squeue``'s word."""

import math
import time
from datetime import datetime

import pytest

from mpi_opt.jobtime import end_of_job
from mpi_opt.network.collectives import Solo


def squeue(folder, text):
    """Put a ``squeue`` there that answers so; return the environment."""
    place = folder / "squeue"
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    return {"SLURM_JOB_ID": "12", "PATH": f"{folder}:/usr/bin:/bin"}


def test_outside_slurm_there_is_no_end():
    assert end_of_job({"SLURM_JOB_END_TIME": "5"}, Solo()) == math.inf


@pytest.mark.parametrize(("left", "margin"), [(100, 15.0), (1200, 60.0), (86400, 120.0)])
def test_the_margin_grows_with_the_time_within_bounds(left, margin):
    end = int(time.time()) + left
    assert end_of_job({"SLURM_JOB_ID": "12", "SLURM_JOB_END_TIME": str(end)}, Solo()) == pytest.approx(
        end - margin, abs=2
    )


def test_squeue_is_asked_in_a_form_that_can_be_read(tmp_path):
    """Whatever form of time a person has chosen for themselves."""
    end = datetime.fromtimestamp(int(time.time()) + 1000)
    answer = f'[ "$SLURM_TIME_FORMAT" = standard ] && [ "$3" = 12 ] && echo {end:%Y-%m-%dT%H:%M:%S} || echo soon'
    environ = squeue(tmp_path, answer) | {"SLURM_TIME_FORMAT": "relative"}
    assert end_of_job(environ, Solo()) == pytest.approx(end.timestamp() - 50, abs=2)


@pytest.mark.parametrize("text", ["echo N/A", "echo NONE", "true", "echo error >&2; exit 1", "echo Tomorr 12:00"])
def test_an_answer_that_names_no_end_is_none(text, tmp_path):
    assert end_of_job(squeue(tmp_path, text), Solo()) == math.inf


def test_without_squeue_there_is_no_end(tmp_path):
    assert end_of_job({"SLURM_JOB_ID": "12", "PATH": str(tmp_path)}, Solo()) == math.inf
