"""``data.rows``: training on some of the rows, by the seed alone."""

import re

import numpy as np
import pytest
from support.stored_runs import store
from support.threads import on_threads

from mpi_opt.comparing import Request, compare
from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.datasets.partition import choose
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import load_job, to_toml
from mpi_opt.network.collectives import Solo
from mpi_opt.planning import plan_job
from mpi_opt.shards import load_shards

ROWS = 40


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(5)
    lines = [f"{(-1) ** (j // 3)} 1:{rng.normal()} {'' if j % 4 else '2:1 '}3:{j}" for j in range(ROWS)]
    (tmp_path / "rows.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def spec(folder, **other):
    return DataSpec("rows.txt", search=(folder,), **other)


def numbers(loaded):
    return [shard.rows.tolist() for shard in loaded.train]


def test_fewer_rows_are_part_of_more_and_another_seed_draws_others():
    chosen = [choose(1000, count, 3) for count in (1, 10, 100, 1000)]
    for fewer, more in zip(chosen, chosen[1:], strict=False):
        assert set(fewer) < set(more)
        assert (np.diff(more) > 0).all()
    assert np.array_equal(chosen[-1], np.arange(1000))
    assert set(choose(1000, 100, 4)) != set(chosen[2])
    # drawn from all of them: the mean of 100 of 0..999 is within five deviations of the middle
    assert abs(chosen[2].mean() - 499.5) < 5 * 289 / 10


@pytest.mark.parametrize("partition", ["contiguous", "shuffled", "by-label"])
@pytest.mark.parametrize("size", [2, 3])
def test_the_rows_do_not_depend_on_nodes_or_processes(folder, partition, size):
    alone = load(spec(folder, partition=partition, rows=17, seed=2), Solo(), 1, [0])
    wanted = choose(ROWS, 17, 2).tolist()
    assert sorted(numbers(alone)[0]) == wanted
    assert (alone.info.rows, alone.info.nonzeros) == (17, alone.train[0].features.nnz)
    found = on_threads(
        size,
        lambda processes: load(spec(folder, partition=partition, rows=17, seed=2), processes, size, [processes.rank]),
    )
    assert [row for each in found for row in numbers(each)[0]] == numbers(alone)[0]
    assert [len(numbers(each)[0]) for each in found] == [17 * (i + 1) // size - 17 * i // size for i in range(size)]


def test_by_label_sorts_only_what_is_trained_on(folder):
    loaded = load(spec(folder, partition="by-label", rows=20, seed=1), Solo(), 2, [0, 1])
    labels = np.concatenate([shard.labels for shard in loaded.train])
    assert (np.diff(labels) >= 0).all()
    assert loaded.info.labels == {-1.0: -1.0, 1.0: 1.0}


def test_rows_held_out_are_not_among_them_and_stay_what_they_were(folder):
    whole = load(spec(folder, holdout=0.25, seed=6), Solo(), 2, [0, 1])
    some = load(spec(folder, holdout=0.25, seed=6, rows=12), Solo(), 2, [0, 1])
    held = [shard.rows.tolist() for shard in some.test]
    assert held == [shard.rows.tolist() for shard in whole.test]
    assert not set(sum(held, [])) & set(sum(numbers(some), []))
    assert (some.info.rows, some.test_info.rows) == (12, 10)
    assert some.test_info.nonzeros == whole.test_info.nonzeros == sum(shard.features.nnz for shard in some.test)


def test_more_rows_than_there_are_is_refused(folder):
    with pytest.raises(DataError, match=r"data\.rows = 41, but there are 40 rows; allowed: at most that"):
        load(spec(folder, rows=41), Solo(), 1, [0])
    with pytest.raises(DataError, match=r"data\.rows = 31, but there are 30 rows that are not held out"):
        load(spec(folder, rows=31, holdout=0.25), Solo(), 1, [0])
    with pytest.raises(JobError, match=r"data\.rows = 0"):
        DataSpec("rows.txt", rows=0)


JOB = """
name = "some"
[data]
train = "rows.txt"
rows = 12
[problem]
loss = "logistic"
[algorithm]
name = "giant"
[stop]
steps = 2
"""


def test_the_job_says_it_and_the_plan_tells_it(folder):
    (folder / "job.toml").write_text(JOB)
    job = load_job(folder / "job.toml")
    assert load_job(to_toml(job)).data.rows == 12
    assert sum(len(rows) for rows in numbers(load_shards(job, Solo(), 3, [0, 1, 2]))) == 12
    plan = plan_job(job, nodes=3)
    assert plan.values()["data"]["l2"] == 1 / 12  # N is the rows trained on
    assert re.search(r"rows a node +4\b", plan.text())
    with pytest.raises(JobError, match=r"data\.rows = 0"):
        load_job(folder / "job.toml", ["data.rows=0"])


def test_runs_on_other_rows_do_not_compare(tmp_path):
    one = store(tmp_path / "one", [0.9, 0.3], settings=["data.rows=10"])
    two = store(tmp_path / "two", [0.9, 0.3], settings=["data.rows=20"])
    seed = store(tmp_path / "seed", [0.9, 0.3], settings=["data.rows=10", "seed=1"])
    with pytest.raises(JobError, match=r"data\.rows is 10 and 20"):
        compare(Request(runs=[one, two], measure="objective"))
    with pytest.raises(JobError, match=r"seed \(draws the rows that data\.rows takes\) is 0 and 1"):
        compare(Request(runs=[one, seed], measure="objective"))
