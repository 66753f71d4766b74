"""``mpi-opt scale`` with real ranks: a small weak test, the network measured, the model beside, nothing run twice."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from support.mpirun import find_launcher, run_command

from mpi_opt.report.reading import read_course

JOB = """
name = "tiny"
[data]
train = "builtin:digits"
[problem]
loss = "softmax"
[graph]
name = "ring"
[algorithm]
name = "choco-sgd"
batch = "full"
step_size = 0.1
compressor = { name = "top-k", k = 20 }
consensus_rate = 0.2
[stop]
steps = 40
[metrics]
every = 5
"""


@pytest.mark.mpi
def test_a_weak_test_of_one_and_two_ranks(mpirun, tmp_path):
    launcher = find_launcher()
    assert launcher is not None
    (tmp_path / "job.toml").write_text(JOB)
    command = [sys.executable, "-P", "-m", "mpi_opt", "scale", "job.toml", "--ranks", "1,2", "--mode", "weak"]
    command += ["--repeats", "1", "--network", "wan", "--json", "a.json", "--figure", "a.png"]
    command += ["--launcher", shlex.join([launcher.path, *launcher.flags()]), "--time-limit", "100"]
    root = str(Path(read_course.__code__.co_filename).parents[2])
    env = {**os.environ, **launcher.environment(2), "PYTHONPATH": root}
    result = run_command(command, env, tmp_path, 280.0)
    assert result.code == 0, result
    folder = tmp_path / "runs" / "tiny-scale-weak"
    for ranks in (1, 2):
        course = read_course(folder / f"tiny-{ranks}" / f"tiny-{ranks}-0")
        assert course.word == "done"
        assert course.nodes == ranks
        assert course.job.data.rows == 898 * ranks  # of 1797
    values = json.loads((tmp_path / "a.json").read_text())
    one, two = values["ranks"]
    assert (one["runs"], two["runs"], values["failures"]) == (1, 1, [])
    assert "one-run" in one["marks"]
    assert one["efficiency"] == 1.0
    assert two["efficiency"] == pytest.approx(two["speedup"] / 2)
    # Steps 5 to 35: 20 of 650 coordinates to one neighbour, 4 bytes each and their positions.
    assert one["sent_bytes_step_node"] == 0
    assert 80 < two["sent_bytes_step_node"] < 160
    if len(os.sched_getaffinity(0)) >= 2:
        assert (folder / "network.json").exists()
        assert [model["measured_here"] for model in values["model"]] == [True, False]
        at = {point["ranks"]: point for point in values["model"][1]["points"]}
        assert at[2]["network_seconds"] > 0.02 > at[1]["network_seconds"] == 0  # 20 ms a message
        assert at[1024]["compute_seconds"] == pytest.approx(at[2]["compute_seconds"])  # weak: rows are kept
    assert (tmp_path / "a.png").exists()
    again = run_command(command, env, tmp_path, 100.0)
    assert again.code == 0, again
    assert again.output.count("done before") == 2
