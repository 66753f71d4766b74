"""Figures of merit of a scaling test against numbers worked by hand; points, and what single runs say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stored_runs import store

from mpi_opt.errors import DataError, JobError
from mpi_opt.launch import thread_warning
from mpi_opt.report.reading import read_course
from mpi_opt.report.samples import is_crowded, is_resumed, sample_of
from mpi_opt.scaling.merit import NOISY, ONCE, OVERSUBSCRIBED, Sample, gustafson, karp_flatt, merits
from mpi_opt.scaling.points import Plan, Point, rank_counts, weak_rows


def sample(ranks, repeat, step, passes=None, shares=(0.5, 0.1, 0.2, 0.1), sent=100.0):
    return Sample(
        ranks=ranks,
        repeat=repeat,
        steps=90,
        step=step,
        passes=1 / step if passes is None else passes,
        shares=shares,
        sent=sent,
    )


def plan(ranks=(1, 2, 4), mode="strong", repeats=3, **other):
    return Plan(mode=mode, ranks=ranks, repeats=repeats, **other)


def test_karp_flatt_is_that_of_amdahl():
    # 10 % serial on 8 ranks: S = 1 / (0.1 + 0.9 / 8) = 4.70588...
    assert karp_flatt(8 / 1.7, 8) == pytest.approx(0.1)
    assert karp_flatt(2.0, 2) == 0.0
    assert karp_flatt(1.0, 4) == 1.0
    assert karp_flatt(1.6, 2) == pytest.approx(0.25)  # (0.625 - 0.5) / 0.5
    assert karp_flatt(2.5, 2) < 0  # faster than ideal


@given(st.floats(0.0, 1.0), st.integers(2, 4096))
def test_serial_fractions_are_found_again(fraction, ranks):
    assert karp_flatt(1 / (fraction + (1 - fraction) / ranks), ranks) == pytest.approx(fraction, abs=1e-9)
    assert gustafson(ranks - fraction * (ranks - 1), ranks) == pytest.approx(fraction, abs=1e-9)


def test_strong_scaling_by_hand():
    samples = [sample(1, r, s) for r, s in enumerate((0.10, 0.102, 0.098))]
    samples += [sample(2, r, s) for r, s in enumerate((0.05, 0.0625, 0.06))]  # median 0.06, spread 0.0125 / 0.06
    samples += [sample(4, r, s) for r, s in enumerate((0.04, 0.041))]
    one, two, four = merits(plan(), samples, crowded={4})
    assert (one.step, one.least, one.most, one.speedup, one.efficiency, one.serial) == (
        0.10,
        0.098,
        0.102,
        1.0,
        1.0,
        None,
    )
    assert one.spread == pytest.approx(0.04)
    assert one.clean
    assert two.speedup == pytest.approx(0.10 / 0.06)
    assert two.efficiency == pytest.approx(0.10 / 0.12)
    assert two.serial == pytest.approx((0.6 - 0.5) / 0.5)
    assert two.marks == (NOISY,)
    assert not two.clean
    assert (four.runs, four.marks) == (2, (OVERSUBSCRIBED,))
    # the median of passes a second, not the passes of the median time: between 24.39 and 25
    assert four.speedup == pytest.approx(0.10 * (1 / 0.04 + 1 / 0.041) / 2)
    assert four.shares == (0.5, 0.1, 0.2, 0.1)
    assert four.sent == 100.0


def test_weak_scaling_by_hand():
    # Twice the rows in 1.25 times the time: passes fall to 0.8, rows a second grow to 1.6.
    samples = [sample(1, 0, 0.1), sample(1, 1, 0.1), sample(2, 0, 0.125), sample(2, 1, 0.125)]
    one, two = merits(plan((1, 2), "weak", 2, rows=50), samples)
    assert (one.speedup, one.efficiency) == (1.0, 1.0)
    assert two.speedup == pytest.approx(1.6)
    assert two.efficiency == pytest.approx(0.8)  # T(1) / T(2)
    assert two.serial == pytest.approx(0.4)  # (2 - 1.6) / 1


def test_mini_batches_count_by_rows_not_by_steps():
    # Steps as long on 4 ranks, each of which takes as many rows again: four times the rows a second.
    samples = [sample(1, r, 0.1, passes=2.0) for r in range(2)] + [sample(4, r, 0.1, passes=8.0) for r in range(2)]
    assert merits(plan((1, 4), repeats=2), samples)[1].speedup == 4.0


def test_without_one_rank_the_fewest_count_as_efficient_and_there_is_no_serial_fraction():
    samples = [sample(n, r, 0.2 / n) for n in (2, 4) for r in range(2)]
    two, four = merits(plan((2, 4), repeats=2), samples)
    assert (two.speedup, two.efficiency, four.speedup, four.efficiency) == (2.0, 1.0, 4.0, 1.0)
    assert two.serial is None
    assert four.serial is None


def test_points_without_runs_stay_in_the_list_and_are_never_clean():
    none, two, four = merits(plan(), [sample(2, 0, 0.1)])
    assert (none.ranks, none.runs, none.step, none.speedup, none.marks) == (1, 0, None, None, ())
    assert not none.clean
    assert (two.marks, two.spread) == ((ONCE,), None)
    assert four.runs == 0


def test_a_spread_of_a_tenth_is_no_noise_yet():
    quiet, loud = (merits(plan((1,), repeats=2), [sample(1, 0, 1.0), sample(1, 1, most)])[0] for most in (1.105, 1.106))
    assert (quiet.marks, loud.marks) == ((), (NOISY,))  # 0.105 / 1.0525 = 0.0998; 0.106 / 1.053 = 0.1007


def test_the_plan_goes_repeat_by_repeat_and_keeps_the_rows_of_a_rank():
    weak = plan((2, 4), "weak", 2, rows=10, masters=1)
    assert weak.points() == (Point(2, 0), Point(4, 0), Point(2, 1), Point(4, 1))
    assert [weak.rows_on(n) for n in (2, 4)] == [10, 30]  # the master holds none
    assert plan().rows_on(4) is None
    assert Point(4, 1).name("a9a") == "a9a-4-1"
    assert str(Point(4, 1)) == "4 ranks, repeat 2"


def test_numbers_of_ranks_are_read_and_checked():
    assert rank_counts("8, 1,2") == (1, 2, 8)
    for text, told in (("1,,2", "''"), ("0", "'0'"), ("-1", "'-1'"), ("two", "'two'"), ("2,2", "2 is there twice")):
        with pytest.raises(JobError, match=f"--ranks {text}: {told}"):
            rank_counts(text)


def test_the_most_ranks_use_all_rows_but_a_rest():
    assert weak_rows(103, (1, 2, 4), 0) == 25
    assert weak_rows(103, (2, 4), 1) == 34
    with pytest.raises(JobError, match="3 rows for 4 nodes"):
        weak_rows(3, (4,), 0)


@pytest.fixture
def course(tmp_path):
    """Six evaluations, 20 steps and 2 s apart; see `stored_runs.store`."""
    return lambda **other: read_course(store(tmp_path / f"run{len(other)}", other.pop("rows", [0.5] * 6), **other))


def test_a_run_without_its_warm_up_and_its_closing_average(course):
    found, caution = sample_of(course(), Point(3, 1))
    # a tenth of 100 steps is 10, so from step 20; to step 80, as the row of step 100 holds the closing average
    assert (found.steps, found.ranks, found.repeat, caution) == (60, 3, 1, "")
    assert found.step == pytest.approx(0.1)
    assert found.passes == pytest.approx(1.0)  # 2 epochs in 2 s
    assert found.shares == pytest.approx((0.5, 0.25, 0.125, 0.0625))  # wait: mean of 0, 1/16 and 2/16
    assert found.sent == pytest.approx((200 + 2) * 4 / 20)


def test_more_can_be_skipped_and_slower_runs_are_slower(course):
    found, caution = sample_of(course(slow=3.0), Point(3, 0), skip=41)
    assert (found.steps, caution) == (20, "")
    assert found.step == pytest.approx(0.3)
    assert found.shares == pytest.approx((0.5, 0.25, 0.125, 0.0625))


def test_what_cannot_be_left_out_is_told(course):
    found, caution = sample_of(course(rows=[0.5] * 2), Point(3, 0))
    assert found.steps == 20
    assert caution.startswith("too few evaluations: the times are those from step 0 to 20")
    assert "the bytes of the closing average are among those of the steps" in caution
    _, caution = sample_of(course(), Point(3, 0), skip=1000)
    assert caution.startswith("fewer evaluations than --skip 1000 leaves: the times are those from step 80 to 100")


def test_methods_without_a_closing_average_keep_their_last_row(course):
    found, _ = sample_of(course(settings=["algorithm.output=local"], slow=1.0), Point(3, 0))
    assert found.steps == 80


def test_a_run_without_steps_says_nothing(course):
    with pytest.raises(DataError, match="nothing to time"):
        sample_of(course(rows=[0.5]), Point(3, 0))


@pytest.mark.parametrize(
    ("ranks", "threads", "cores", "crowded"), [(4, 1, 2, True), (2, 2, 3, True), (2, 1, 2, False), (3, 1, 1, True)]
)
def test_crowded_hosts_are_known_by_the_runs_own_warning(tmp_path, ranks, threads, cores, crowded):
    told = thread_warning(ranks, threads, cores)
    (tmp_path / "log.txt").write_text(
        "small: sparq-sgd\n" + ("" if told is None else f"host n1: {told}\n") + "step 1\n"
    )
    assert is_crowded(tmp_path) is crowded
    assert not is_crowded(tmp_path / "nowhere")


def test_runs_that_were_gone_on_with_are_known_by_their_logs(tmp_path):
    (tmp_path / "log.txt").write_text("small: sparq-sgd\nresumed from the checkpoint at step 40\nstep 60\n")
    assert is_resumed(tmp_path)
    assert not is_crowded(tmp_path)
    assert not is_resumed(tmp_path / "nowhere")


def test_amdahl_is_met_by_the_whole_chain():
    """Times of a program of which 5 % do not divide give that fraction on every number of ranks."""
    ranks = (1, 2, 4, 8, 16)
    samples = [sample(n, r, 0.05 + 0.95 / n) for n in ranks for r in range(2)]
    found = merits(plan(ranks, repeats=2), samples)
    assert [merit.serial for merit in found[1:]] == pytest.approx([0.05] * 4)
    assert all(merit.clean for merit in found)
    assert math.isclose(found[-1].speedup, 1 / (0.05 + 0.95 / 16))
