"""Reading runs: ended, going on, paused, killed, with nodes lost, moved, damaged."""

import json
import shutil

import numpy as np
import pytest
from support.stored_runs import store

from mpi_opt.errors import DataError, JobError
from mpi_opt.metrics.read import read_rank
from mpi_opt.report.course import COUNTS, FIGURES, SHARED
from mpi_opt.report.reading import read_course

FALLING = [0.9, 0.5, 0.4, 0.35]


def test_every_series_is_what_the_files_hold(tmp_path):
    course = read_course(store(tmp_path / "run", FALLING))
    ranks = [read_rank(tmp_path / "run" / "metrics" / f"rank_{i:05d}.h5") for i in range(3)]
    assert (course.nodes, course.rows, course.label, course.word) == (3, 4, "run", "done")
    for name in SHARED:
        np.testing.assert_array_equal(course.shared[name], ranks[0].series[name])
    for name in (*FIGURES, *COUNTS):
        np.testing.assert_array_equal(course.own[name], [rank.series[name] for rank in ranks])
    np.testing.assert_array_equal(course.fired, [rank.syncs["fired"] for rank in ranks])
    assert set(course.fired.ravel()) == {0, 1}
    np.testing.assert_array_equal(course.sync_steps, ranks[0].syncs["step"])
    np.testing.assert_array_equal(course.total("payload_bytes"), (1 + 2 + 3) * 100 * course.shared["round"])
    np.testing.assert_array_equal(course.most("wait_seconds"), 0.25 * np.arange(4))
    np.testing.assert_array_equal(course.mean("wait_seconds"), 0.125 * np.arange(4))
    assert course.job is not None
    assert course.job.algorithm.sync_every == 5
    assert [course.seen(step) for step in (0, 19, 20, 60, 61)] == [1, 1, 2, 4, 4]


def test_the_joined_file_alone_says_the_same(tmp_path):
    run = store(tmp_path / "run", FALLING, status="running")
    from mpi_opt.metrics.joined import join

    join(run)  # not closed: its numbers are copied
    before = read_course(run)
    alone = tmp_path / "alone.h5"
    shutil.copy(run / "metrics.h5", alone)
    shutil.rmtree(run / "metrics")
    for course in (read_course(run), read_course(alone)):
        assert course.word == "running or killed"
        for name in COUNTS:
            np.testing.assert_array_equal(course.own[name], before.own[name])
        np.testing.assert_array_equal(course.fired, before.fired)
    assert read_course(alone).label == "alone"


def test_a_killed_run_is_cut_to_what_all_nodes_have(tmp_path):
    course = read_course(store(tmp_path / "run", FALLING, status="running", lengths=[4, 2, 3]))
    assert course.rows == 2
    assert course.own["seconds"].shape == (3, 2)
    assert course.cut == (
        "series cut to 2 of up to 4 rows, which all nodes have; syncs cut to 4 of up to 12 rows, which all nodes have"
    )
    assert course.job is not None


def test_a_lost_node_keeps_its_counts_and_has_no_figures_afterwards(tmp_path):
    run = store(tmp_path / "run", FALLING, lengths=[4, 2, 4])
    lost = [{"node": 1, "step": 25, "host": "there", "time": "2026-01-01T00:00:00"}]
    (run / "metrics" / "lost.json").write_text(json.dumps(lost))
    course = read_course(run)
    assert course.rows == 4
    assert not course.cut
    np.testing.assert_array_equal(course.own["payload_bytes"][1], [0, 800, 800, 800])
    np.testing.assert_array_equal(course.own["payload_bytes"][2], [0, 1200, 2400, 3600])
    np.testing.assert_array_equal(np.isnan(course.own["objective_local"][1]), [False, False, True, True])
    assert course.fired.shape == (3, 12)
    assert not course.fired[1, 4:].any()
    assert course.lost[0].host == "there"


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("paused: SIGTERM after 60 steps; mpi-opt resume goes on", "paused"),
        ("diverged: node 1", "diverged"),
        ("failed: OSError: no room", "failed"),
        ("running", "running or killed"),
    ],
)
def test_how_a_run_ended(tmp_path, status, word):
    assert read_course(store(tmp_path / "run", FALLING, status=status)).word == word


def test_one_node_that_failed_is_the_runs_failure(tmp_path):
    run = store(tmp_path / "run", FALLING)
    other = store(tmp_path / "other", FALLING, status="failed: no room", attributes={"name": "run"})
    name = "rank_00002.h5"
    shutil.copy(other / "metrics" / name, run / "metrics" / name)
    assert read_course(run).state == "failed: no room"


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(JobError, match="nowhere holds no run; allowed: a folder that a run has made"):
        read_course(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(JobError, match="empty holds no run"):
        read_course(tmp_path / "empty")
    (tmp_path / "empty" / "job.toml").touch()
    with pytest.raises(DataError, match=r"no metrics yet: neither metrics/rank_\*\.h5 nor metrics\.h5"):
        read_course(tmp_path / "empty")
    run = store(tmp_path / "run", FALLING)
    (run / "metrics" / "rank_00001.h5").rename(tmp_path / "kept.h5")
    with pytest.raises(DataError, match="files of 3 nodes expected, 2 there, missing: 1"):
        read_course(run)
    other = store(tmp_path / "other", FALLING)
    shutil.copy(other / "metrics" / "rank_00001.h5", run / "metrics")
    with pytest.raises(DataError, match=r"rank_00001\.h5 is of another run than .*: name is 'other', not 'run'"):
        read_course(run)
    other = store(tmp_path / "slow", FALLING, every=10, attributes={"name": "run"})
    shutil.copy(other / "metrics" / "rank_00001.h5", run / "metrics")
    with pytest.raises(DataError, match="row 1 of series is step (10|20) on node [01], but step (10|20) on another"):
        read_course(run)


def test_a_job_that_cannot_be_read_does_not_hide_the_figures(tmp_path):
    course = read_course(store(tmp_path / "run", FALLING, attributes={"job": "colour = 1"}))
    assert course.job is None
    assert "colour" in course.trouble
    assert course.rows == 4


def test_the_l2_that_validation_chose(tmp_path):
    run = store(tmp_path / "run", FALLING)
    assert read_course(run).l2 is None
    (run / "validation.json").write_text('{"chosen": 0.25}')
    assert read_course(run).l2 == 0.25
    (run / "validation.json").write_text("{")
    assert read_course(run).l2 is None
