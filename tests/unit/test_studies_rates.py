"""The rate page: fits on planted errors, single runs against plain NumPy, quick slopes, tables, figure, kept runs."""

import json
import sys
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from mpi_opt.errors import EXIT_DONE, JobError
from mpi_opt.studies import rates
from mpi_opt.studies.rate_fit import Estimate, estimate, gain, slope
from mpi_opt.studies.rate_grounds import (
    BY_LABEL,
    NETWORK,
    SATURATING,
    STRONGLY_CONVEX,
    make_ground,
    network,
    saturating,
    strongly_convex,
)
from mpi_opt.studies.rate_points import FILE, Measured, Points, Series
from mpi_opt.studies.rate_runs import METHODS, PLAIN, SPARQ, Point, WithReplacement, gaps, gradients
from mpi_opt.studies.rate_series import QUICK, SERIES
from mpi_opt.studies.rate_tables import claims, expected, exponent_of, gain_of, page, rest, slope_of, slopes, verdict

GOLDEN = Path(__file__).parent.parent / "golden" / "rates"
T = (8, 32, 128)


def test_an_estimate_by_hand():
    """Mean 2, standard deviation 1, three values: Student's 4.3027 on two degrees of freedom."""
    found = estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.median, found.least, found.most) == (2.0, 2.0, 1.0, 3.0)
    assert found.high - 2.0 == pytest.approx(4.302653 / np.sqrt(3.0), rel=1e-6)
    assert found.low + found.high == pytest.approx(4.0)
    assert np.isnan(estimate([1.0]).low)


@pytest.mark.parametrize("power", [-1.0, -0.5, 0.3])
def test_a_planted_slope_is_found_whatever_the_seeds_constant(power):
    errors = np.array([[c * t**power for t in T] for c in (1.0, 7.0, 0.01)])
    found = slope(T, errors)
    assert (found.mean, found.least, found.most) == pytest.approx((power,) * 3, abs=1e-12)


def test_a_slope_is_least_squares_in_logarithms():
    errors = np.random.default_rng(0).lognormal(size=(4, 5))
    x = np.array([2.0, 3.0, 5.0, 20.0, 21.0])
    expected = [np.polyfit(np.log(x), np.log(each), 1)[0] for each in errors]
    np.testing.assert_allclose(astuple(slope(x, errors)), astuple(estimate(expected)), rtol=1e-10)


def test_the_range_holds_the_truth_as_often_as_it_says():
    draw = np.random.default_rng(1)
    ranges = [slope(T, np.array(T) ** -1.0 * draw.lognormal(sigma=0.3, size=(5, 3))) for _ in range(1000)]
    assert 0.93 < np.mean([each.low <= -1.0 <= each.high for each in ranges]) < 0.97


def test_a_gain_is_averaged_in_logarithms():
    found = gain(np.array([8.0, 2.0]), np.array([1.0, 1.0]))
    assert (found.mean, found.least, found.most) == pytest.approx((4.0, 2.0, 8.0))
    assert found.low * found.high == pytest.approx(16.0)


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(-1.1, -0.9, "yes"), (-1.3, -1.1, "no: faster"), (-0.9, -0.7, "**no**: slower")]
)
def test_verdicts(low, high, expected):
    assert verdict(Estimate(0.0, low, high, 0.0, 0.0, 0.0), -1.0) == expected


def test_draws_with_replacement():
    """The same by step whatever was asked before; rows come again within an epoch; nodes and seeds differ."""
    batches = WithReplacement(seed=1, node=2, rows=50, size=1)
    order = [int(batches.at(t)[0]) for t in range(2100)]
    assert [int(batches.at(t)[0]) for t in (2099, 3, 1024)] == [order[2099], order[3], order[1024]]
    assert len(set(order[:50])) < 50
    assert set(order) == set(range(50))
    assert abs(np.mean(order) - 24.5) < 4 * 14.4 / np.sqrt(2100)
    others = [WithReplacement(0, 2, 50, 1), WithReplacement(1, 0, 50, 1)]
    assert all([int(other.at(t)[0]) for t in range(50)] != order[:50] for other in others)


@pytest.mark.parametrize("name", [STRONGLY_CONVEX, BY_LABEL, SATURATING, NETWORK])
def test_nodes_functions_average_to_the_whole(name):
    ground = make_ground(name)
    x = ground.start + 0.3
    shards = ground.shards(8)
    np.testing.assert_allclose(np.mean([s.gradient(x) for s in shards], axis=0), ground.whole.gradient(x), rtol=1e-9)
    assert sum(s.rows for s in shards) == ground.whole.rows
    assert np.linalg.norm(ground.whole.gradient(ground.start)) > 0.01


def test_the_grounds_are_what_they_are_called():
    convex, sorted_ = strongly_convex(), strongly_convex(by_label=True)
    product = convex.whole.hvp_at(convex.start)
    values = np.linalg.eigvalsh(np.array([product(e) for e in np.eye(40)]))
    assert values[0] > convex.convexity == 0.1
    assert values[-1] == pytest.approx(convex.smoothness, rel=1e-10)
    assert all(convex.whole.value(x) > convex.least for x in np.random.default_rng(0).normal(size=(20, 40)))
    x = 10.0 * np.ones(40)
    assert min(s.figures(x).wrong for s in sorted_.shards(2)) > 0  # no node's rows are told apart by x
    assert [s.varied for s in sorted_.shards(8)].count(True) <= 1
    for ground in (saturating(), network()):
        product = ground.whole.hvp_at(ground.start)
        assert np.linalg.eigvalsh(np.array([product(e) for e in np.eye(ground.whole.dim)]))[0] < -0.01


def rows_of(seed, rows, steps):
    batches = WithReplacement(seed, 0, rows, 1)
    return [batches.at(t) for t in range(steps)]


def test_a_gap_against_sgd_written_out():
    """One node, no package loop: x -= 8 / (mu (a + t)) g, and the mean with weights (a + t)^2."""
    ground = strongly_convex(rows=200, features=5)
    mu, a = 0.1, 32 * ground.smoothness / 0.1
    x, total, mean = np.zeros(5), 0.0, np.zeros(5)
    for t, row in enumerate(rows_of(3, 200, 64)):
        total, mean = total + (a + t) ** 2, mean + (a + t) ** 2 * x
        x = x - 8 / (mu * (a + t)) * ground.whole.sampled_gradient(x, row)
    (early, late) = gaps("g", ground, PLAIN, "ring", 1, 3, [16, 64])
    assert (early.steps, late.steps, late.nodes, late.seed) == (16, 64, 1, 3)
    assert late.error == pytest.approx(ground.whole.value(mean / total) - ground.least, rel=1e-9)
    assert late.own == pytest.approx(late.error, rel=1e-12)


def test_a_gradient_norm_against_sgd_written_out():
    """Steps of 256: every second is looked at; the step size is c sqrt(n/T)."""
    ground = saturating(rows=100, features=4)
    x, seen = ground.start.copy(), []
    for t, row in enumerate(rows_of(1, 100, 256)):
        if t % 2 == 1:
            seen.append(np.sum(ground.whole.gradient(x) ** 2))
        x -= 2.0 * np.sqrt(1 / 256) * ground.whole.sampled_gradient(x, row)
    point = gradients("g", ground, PLAIN, "ring", 1, 1, 256, 2.0)
    assert len(seen) == 128
    assert point.error == pytest.approx(np.mean(seen), rel=1e-9)


def test_looks_stand_for_the_whole_run():
    """Against the mean over every step, also where the gradient falls within a few intervals."""
    ground = saturating(rows=100, features=4)
    x, seen = ground.start.copy(), []
    for row in rows_of(1, 100, 2048):
        seen.append(np.sum(ground.whole.gradient(x) ** 2))
        x -= 8.0 * np.sqrt(1 / 2048) * ground.whole.sampled_gradient(x, row)
    assert gradients("g", ground, PLAIN, "ring", 1, 1, 2048, 8.0).error == pytest.approx(np.mean(seen), rel=0.02)


def test_with_one_node_all_methods_are_the_plain_one():
    convex, curved = strongly_convex(rows=200, features=8), saturating(rows=100, features=8)
    errors = [gaps("g", convex, method, "ring", 1, 0, [64])[0].error for method in METHODS]
    norms = [gradients("g", curved, method, "ring", 1, 0, 128, 1.0).error for method in METHODS]
    assert errors == [errors[0]] * 3
    assert norms == [norms[0]] * 3


def test_the_methods_differ_in_what_they_send():
    ground = saturating(rows=128, features=20)
    found = {method: gradients("g", ground, method, "ring", 4, 0, 256, 1.0) for method in METHODS}
    again = gradients("g", ground, SPARQ, "ring", 4, 0, 256, 1.0)
    assert again == found[SPARQ]
    assert found[PLAIN].fired == found["compressed"].fired == 1.0 > found[SPARQ].fired > 0.0
    assert found[PLAIN].sent > 5 * found["compressed"].sent > 15 * found[SPARQ].sent > 0


@pytest.fixture(scope="module")
def quick():
    points = Points()
    rates.measure(QUICK, {each.ground: make_ground(each.ground) for each in QUICK}, 2, points, lambda _: None)
    return points.of_seeds(2)


def test_quick_slopes_and_gains_are_the_theorems(quick):
    convex, curved = QUICK
    for method in convex.methods:
        assert slope_of(convex, quick, method, 4).mean == pytest.approx(-1.0, abs=0.35)
        assert slope_of(curved, quick, method, 4).mean == pytest.approx(-0.5, abs=0.15)
        assert 2.0 < gain_of(convex, quick, method, 4).mean < 8.0
        assert 1.5 < gain_of(curved, quick, method, 4).mean < 2.7
        assert exponent_of(curved, quick, method).mean == pytest.approx(-0.5, abs=0.2)
    for series in QUICK:
        last = quick.get(series, SPARQ, 4, series.horizons[-1])
        assert len(last) == 2
        assert all(0.2 < point.fired < 0.9 for point in last)


def test_table_of_stored_points(tmp_path):
    (tmp_path / FILE).write_bytes((GOLDEN / FILE).read_bytes())
    grounds = {each.ground: make_ground(each.ground) for each in QUICK}
    text = page(QUICK, grounds, Points(tmp_path).of_seeds(3))
    assert text + "\n" == (GOLDEN / "tables.md").read_text()


class Anything:
    """A function of which the tables only ask whether a step size has an offset, and what it is called."""

    def __init__(self, offset=None):
        self.offset, self.words = offset, "some function"


GROUNDS = dict.fromkeys("ghk", Anything())


def test_the_theorems_slope_before_its_limit():
    """The leading term T (T + 2 a) / S_T, S_T summed up: -1 far above a, flatter near it, no offset: -1 at once."""
    series = Series(ground="g", rate=1.0, methods=(PLAIN,), nodes=(1,), horizons=(300, 3000))
    for a, accuracy in ((41.6, 3e-3), (1e-6, 3e-3)):
        first, last = (T * (T + 2 * a) / sum((a + t) ** 2 for t in range(T)) for T in series.horizons)
        assert expected(series, Anything(a)) == pytest.approx(np.log(last / first) / np.log(10), rel=accuracy)
    assert expected(series, Anything(41.6)) == pytest.approx(-0.94, abs=0.01)
    assert expected(series, Anything()) == -1.0


def planted(power=-1.0, ground="g", nodes=(1, 4)):
    """Errors that follow a power of n T exactly, one constant a seed."""
    series = Series(ground=ground, rate=1.0, methods=(PLAIN, SPARQ), nodes=nodes, horizons=(10, 100, 1000))
    points = [
        Point(ground=ground, method=m, graph="ring", nodes=n, seed=s, steps=T, error=(1 + s) * (n * T) ** power,
              own=2 * (1 + s) * (n * T) ** power, fired=0.5, sent=1e3 * T)
        for s in range(3) for m in series.methods for n in nodes for T in series.horizons
    ]  # fmt: skip
    return series, Measured(points)


def test_tables_say_what_was_planted():
    series, measured = planted()
    lines = slopes([series], GROUNDS, measured).splitlines()[2:]
    exact = "-1.00 (-1.00 .. -1.00)"
    assert lines[0].startswith(f"| g | any | 1 | 10 .. 1000 | -1 | -1.00 | {exact} | {exact} | ")
    assert [line.split(" | ")[1:3] for line in lines] == [["any", "1"], ["plain", "4"], ["SPARQ", "4"]]
    (_, _, one, _, two) = rest([series], measured).splitlines()
    # (1 * 2 * 3)^(1/3) times a constant that does not depend on T
    assert one == "| g | any | 1 | 1.82 | 1.82 | 1.82 | 3.63 |  |  |"
    assert two == "| g | SPARQ | 4 | 1.82 | 1.82 | 1.82 | 3.63 | 50 % | 1 MB |"


def test_claims_tell_slower_from_faster():
    series, measured = planted(power=-0.8)
    assert "| in T **no**, slower; in n **no**, slower | " in claims([series], GROUNDS, measured, "make rates")
    series, measured = planted(power=-1.2)
    (row,) = [line for line in claims([series], GROUNDS, measured, "make rates").splitlines() if "SPARQ |" in line]
    assert row.startswith("| SPARQ-SGD: O(1/(n T)) | g, SPARQ | in T **no**, faster; in n **no**, faster | ")
    assert "T = 10 .. 1000: slope -1.20 at n = 4; exponent of n -1.20, gain 5.28 from n = 4 | `make rates` |" in row


def test_a_rate_that_holds_in_part_is_said_to():
    """Seeds scatter round -1 in T; n gains nothing."""
    series, measured = planted()
    points = [
        replace(p, error=p.error * p.nodes * p.steps ** (0.1 * (p.seed - 1)) * (1 + 0.1 * p.seed) ** (p.nodes == 1))
        for p in measured.points
    ]
    text = claims([series], GROUNDS, Measured(points), "make rates")
    assert text.count("| in T yes; in n **no**, slower | ") == 2
    both, more = planted(nodes=(1, 4, 8))
    uneven = Measured(
        [replace(p, error=p.error * p.steps ** (0.1 * (p.seed - 1) + 0.5 * (p.nodes == 8))) for p in more.points]
    )
    assert "| in T 1 of 2, else **slower**; in n **no**, slower | " in claims([both], GROUNDS, uneven, "make rates")
    alone, one = planted(nodes=(1,))
    scattered = Measured([replace(p, error=p.error * p.steps ** (0.1 * (p.seed - 1))) for p in one.points])
    (row,) = claims([alone], GROUNDS, scattered, "make rates").splitlines()[2:]
    assert row.startswith("| SPARQ-SGD: O(1/(n T)) | g, any | in T yes | T = 10 .. 1000: slope -1.00 at n = 1 | ")


def test_the_figure_shows_medians_spread_and_the_theorem():
    pytest.importorskip("matplotlib")
    from mpi_opt.studies.rate_figure import rate_figure

    series, measured = planted(power=-0.9)
    alone, one = planted(ground="h", nodes=(4,))
    lone, _ = planted(ground="k", nodes=(1,))
    figure = rate_figure([series, lone, alone], Measured([*measured.points, *one.points]))
    by_steps, by_nodes, _, own = figure.axes
    assert [axes.get_xlabel() for axes in figure.axes] == ["steps T", "nodes n", "steps T", "steps T"]
    assert {axes.get_ylabel() for axes in figure.axes} == {"F - F*"}
    assert (by_steps.get_title(loc="left"), own.get_title(loc="left")) == ("g, n = 4", "a node's own model, n = 4")
    plain, sparq, theorem = by_steps.get_lines()
    assert [each.get_label() for each in by_steps.get_lines()] == ["plain", "SPARQ", "the theorem's slope"]
    np.testing.assert_allclose(sparq.get_ydata(), 2 * (4 * np.array([10.0, 100, 1000])) ** -0.9)
    np.testing.assert_allclose(theorem.get_ydata(), plain.get_ydata()[0] * np.array([1.0, 0.1, 0.01]))
    np.testing.assert_allclose(by_nodes.get_lines()[0].get_xdata(), [1.0, 4.0])
    band = by_steps.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(3 * 40**-0.9)
    assert by_steps.get_yscale() == by_nodes.get_xscale() == "log"
    assert len([t for t in by_nodes.get_yticks() if by_nodes.get_ylim()[0] <= t <= by_nodes.get_ylim()[1]]) >= 2


TINY = (
    Series(ground=STRONGLY_CONVEX, rate=1.0, methods=(PLAIN,), nodes=(1, 2), horizons=(16, 32)),
    Series(
        ground=SATURATING, rate=0.5, methods=(PLAIN,), nodes=(1, 2), horizons=(16, 32), slope_nodes=(2,), factor=1.0
    ),
)


def test_the_command_goes_on_from_what_is_kept(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(rates, "QUICK", TINY)
    target = tmp_path / "page.md"
    target.write_text("# Rates\n\n<!-- rates -->\n<!-- end of rates -->\n\nend\n")
    arguments = ["--quick", "--seeds", "2", "--out", str(tmp_path / "out"), "--page", str(target)]
    assert rates.main(arguments) == EXIT_DONE
    first = capsys.readouterr()
    assert first.err.count("seed 1") == 2 + 3
    assert first.out.rstrip("\n") in target.read_text()
    assert target.read_text().endswith("<!-- end of rates -->\n\nend\n")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {FILE, "rates.png", "rates.svg"}
    kept = (tmp_path / "out" / FILE).read_text()
    assert rates.main(arguments[:5]) == EXIT_DONE
    again = capsys.readouterr()
    assert again.out == first.out
    assert "seed" not in again.err
    # Broken off in the middle: only what is missing is run, and comes out the same.
    (tmp_path / "out" / FILE).write_text("".join(kept.splitlines(keepends=True)[:-1]))
    assert rates.main(arguments[:5]) == EXIT_DONE
    again = capsys.readouterr()
    assert again.out == first.out
    assert again.err.count("seed") == 1
    assert (tmp_path / "out" / FILE).read_text() == kept


def test_kept_runs_of_other_settings_are_refused(tmp_path, capsys):
    (tmp_path / FILE).write_text(json.dumps({"H": 7}) + "\n")
    with pytest.raises(JobError, match=r"rates.jsonl:1: runs with other settings, \{\"H\": 7\}; allowed: \{\"H\": 5"):
        Points(tmp_path)
    assert rates.main(["--quick", "--out", str(tmp_path)]) == 2
    assert "runs with other settings" in capsys.readouterr().err
    (tmp_path / FILE).write_text("{nonsense\n")
    with pytest.raises(JobError, match=r"rates.jsonl: .*; allowed: a file of this command"):
        Points(tmp_path)


def test_without_matplotlib_it_is_said_before_the_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert rates.main(["--quick", "--out", str(tmp_path)]) == 2
    assert "pip install 'mpi_opt[report]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_spread_needs_two_seeds(capsys):
    with pytest.raises(SystemExit):
        rates.main(["--quick", "--seeds", "1"])
    assert "--seeds 1: at least 2" in capsys.readouterr().err


def test_the_pages_series_are_whole():
    """All T of a slope, and n = 1 wherever there is a gain."""
    assert [each.ground for each in SERIES] == [STRONGLY_CONVEX, SATURATING, NETWORK, NETWORK, BY_LABEL]
    for each in SERIES:
        assert any(len(each.horizons_of(n)) >= 3 for n in each.nodes)
        assert len(each.nodes) == 1 or each.nodes[0] == 1
        assert PLAIN in each.methods
