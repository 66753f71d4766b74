"""LocalNewton's comparison on a tiny set: exact counts, seconds by the formulas, going on from what is kept."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.commands import simulate

from mpi_opt.datasets.synthetic import blocks, mark
from mpi_opt.datasets.synthetic_linear import Linear
from mpi_opt.datasets.synthetic_text import write_text
from mpi_opt.errors import EXIT_DONE, JobError
from mpi_opt.report.reading import read_course
from mpi_opt.scaling.cost import (
    PROFILES,
    USUAL,
    Shard,
    factor_seconds,
    hessian_seconds,
    margin_seconds,
    product_seconds,
    reduction_seconds,
)
from mpi_opt.studies import newton
from mpi_opt.studies.methods import EXACT, METHODS, PLAIN, RIVALS, job_of, set_of
from mpi_opt.studies.newton import Question, answer, main, smoothness
from mpi_opt.studies.newton_figures import SHOWN, draw, picture
from mpi_opt.studies.newton_tables import TARGETS, reached

GOLDEN = Path(__file__).parents[1] / "golden" / "studies"
ROWS, FEATURES, NODES = 240, 6, 4
JOB = """
name = "tiny-giant"
[data]
train = "tiny"
test = "not-there"
intercept = true
[problem]
loss = "logistic"
l2 = "1/N"
[algorithm]
name = "giant"
damping = 0.5
[stop]
steps = 3
gradient_norm = 1e-1
"""


def quiet(line):
    pass


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    recipe = Linear(rows=ROWS, features=FEATURES, seed=1, label_noise=0.1)
    for _ in write_text(folder / "tiny", mark(recipe), blocks(recipe)):
        pass
    (folder / "tiny-giant.toml").write_text(JOB)
    return folder / "tiny-giant.toml"


@pytest.fixture(scope="module")
def found(job):
    return answer(Question(jobs=[job], nodes=NODES, rounds=40), quiet)


def rows_of(job):
    from sklearn.datasets import load_svmlight_file

    features, labels = load_svmlight_file(str(job.parent / "tiny"), n_features=FEATURES)
    return features.toarray(), labels


def test_counts(found):
    """Rounds, short reductions and bytes of every method to every target."""
    counts = {}
    for kept in found:
        for name, course in kept.courses.items():
            points = [reached(kept, name, target) for target in TARGETS]
            counts[f"{kept.setting.split}: {name} {course.note}".strip()] = [
                None if at is None else [at.rounds, at.short, at.sent] for at in points
            ]
    assert counts == json.loads((GOLDEN / "newton_counts.json").read_text())


def test_optimum_is_what_scipy_finds(found, job):
    from scipy.optimize import minimize

    features, labels = rows_of(job)

    def value(w):
        return np.logaddexp(0.0, -labels * (features @ w)).mean() + w @ w / (2 * ROWS)

    best = minimize(value, np.zeros(FEATURES), tol=1e-14).fun
    assert [kept.setting.optimum for kept in found] == pytest.approx([best, best], abs=1e-10)
    at_zero = features.T @ features / (4 * ROWS) + np.eye(FEATURES) / ROWS
    assert found[0].setting.smoothness == pytest.approx(np.linalg.eigvalsh(at_zero)[-1], rel=1e-6)
    assert (found[0].setting.rows, found[0].setting.features) == (ROWS, FEATURES)


def test_splits_differ_and_all_methods_begin_at_zero(found):
    assert [kept.setting.split for kept in found] == ["shuffled", "by-label"]
    for kept in found:
        assert list(kept.courses) == [method.name for method in METHODS]
        for course in kept.courses.values():
            first = course.points[0]
            assert first.objective == pytest.approx(np.log(2.0), rel=1e-14)
            assert (first.rounds, first.short, first.sent, first.seconds) == (0, 0, 0, (0.0, 0.0))


def test_a_method_ends_at_the_smallest_target_or_after_its_rounds(found):
    for kept in found:
        for name, course in kept.courses.items():
            done = reached(kept, name, TARGETS[-1])
            assert done is None or done == course.points[-1]
            assert course.points[-1].rounds <= 40
    assert reached(found[0], "adaptive + newton", 1e-6) is not None
    assert reached(found[1], PLAIN[-1].name, 1e-3) is None  # one class a shard


@pytest.mark.parametrize(("which", "network"), [(0, "wan"), (1, "10gbe")])
def test_seconds_of_exact_newton_by_hand(found, which, network):
    """A round: gradient, loss and Hessian of a dense shard of 60 rows, one sum of their numbers, then the factor."""
    shard = Shard(FEATURES, ROWS / NODES, ROWS / NODES * FEATURES)
    numbers = FEATURES * (FEATURES + 1) // 2 + FEATURES + 1
    messages = reduction_seconds(8 * numbers, NODES, PROFILES[network])
    least = product_seconds(shard, USUAL) + margin_seconds(shard, USUAL)
    least += hessian_seconds(shard, USUAL) + factor_seconds(FEATURES, USUAL)
    for point in found[0].courses[EXACT.name].points[1:]:
        computing = point.seconds[which] - point.rounds * messages
        assert point.rounds * least * 0.999 <= computing <= 2 * point.rounds * least


def test_simulate_gives_the_same_course(found, job, tmp_path):
    """The command with a clock, from the same job: losses bit for bit, and the seconds of the 20 ms network."""
    cleared = ["data.test=", "data.intercept=false", "algorithm.damping=", "stop.gradient_norm="]
    set_up = ["data.partition=shuffled", "stop.steps=3", "metrics.every=1", "clock.network=wan"]
    simulate(job, NODES, tmp_path / "run", *cleared, *set_up)
    course = read_course(tmp_path / "run")
    points = found[0].courses["GIANT"].points[:4]
    assert list(course.shared["objective_average"]) == pytest.approx([each.objective for each in points], rel=1e-15)
    assert list(course.own["seconds"].max(axis=0)) == pytest.approx([each.seconds[0] for each in points], rel=1e-12)


def test_networks_differ_in_messages_alone(found):
    for kept in found:
        for course in kept.courses.values():
            slow, fast = course.points[-1].seconds
            few = course.points[-1].rounds + course.points[-1].short
            assert slow - fast > few * 4 * (20e-3 - 30e-6) * 0.999  # two levels of a tree, there and back


def test_auto_is_the_finish_that_it_names(found):
    for kept in found:
        auto = kept.courses["adaptive + auto"]
        assert auto.points == kept.courses[f"adaptive + {auto.note}"].points


def test_step_size_is_that_of_the_least_end(job, found):
    """Every step size by itself, for as many rounds as it is tuned for; the one noted ends lowest."""
    tuned, kept = next(method for method in RIVALS if method.grid), found[0]
    ends = {}
    for factor in tuned.grid:
        step = factor / kept.setting.smoothness
        built = newton._build(job_of(job, tuned, "shuffled", (), step), NODES)
        points = newton.follow(built, [PROFILES["wan"]], newton.Limits(rounds=20, every=tuned.every))
        assert points[-1].rounds == 20
        ends[factor] = points[-1].objective
    assert kept.courses[tuned.name].note == f"step {min(ends, key=ends.get):g}/L"


def test_a_course_that_broke_off_or_blew_up_is_not_chosen():
    point = newton.Point(0.5, 20, 0, 0, (1.0,))
    assert newton._end([point], 20) == 0.5
    assert newton._end([point], 21) == np.inf
    assert newton._end([point._replace(objective=np.nan)], 20) == np.inf


def test_smoothness_weighs_shards_by_rows():
    class Mean:
        dim = 2

        def __init__(self, rows, h):
            self.rows, self.h = rows, np.array(h)

        def hvp_at(self, x):
            return lambda v: self.h @ v

    shards = [Mean(3, [[4.0, 1.0], [1.0, 0.0]]), Mean(1, [[0.0, 0.0], [0.0, 8.0]])]
    expected = np.linalg.eigvalsh(0.75 * shards[0].h + 0.25 * shards[1].h)[-1]
    assert smoothness(shards) == pytest.approx(expected, rel=1e-12)


def test_what_is_kept_is_not_computed_again(job, tmp_path, monkeypatch):
    few = [EXACT, next(method for method in METHODS if method.name == "adaptive + giant")]
    question = Question(jobs=[job], nodes=2, splits=["shuffled"], methods=few[:1], rounds=30, folder=tmp_path / "out")
    first = answer(question, quiet)[0].courses
    computed = Counter()
    follow = newton.follow

    def counting(built, profiles, limits):
        computed[built.job.algorithm.name] += 1
        return follow(built, profiles, limits)

    monkeypatch.setattr(newton, "follow", counting)
    wider = Question(jobs=[job], nodes=2, splits=["shuffled"], methods=few, rounds=30, folder=tmp_path / "out")
    second = answer(wider, quiet)[0].courses
    assert computed == {"local-newton": 1}
    assert second[EXACT.name] == first[EXACT.name]
    longer = Question(jobs=[job], nodes=2, splits=["shuffled"], methods=few, rounds=31, folder=tmp_path / "out")
    answer(longer, quiet)
    assert computed == {"local-newton": 2, "newton": 1}
    (tmp_path / "out" / "tiny" / "2-shuffled.json").write_text("{ torn")
    answer(longer, quiet)
    assert computed == {"local-newton": 3, "newton": 2}


def test_command_fills_pages(job, tmp_path, capsys):
    page, claims = tmp_path / "page.md", tmp_path / "claims.md"
    page.write_text("<!-- tables, 2 nodes -->\n<!-- end of tables, 2 nodes -->\n")
    claims.write_text("<!-- LocalNewton's claims -->\n<!-- end of LocalNewton's claims -->\n")
    words = [str(job), "--nodes", "2", "--splits", "shuffled", "--networks", "wan"]
    assert main([*words, "--page", str(page), "--claims", str(claims)]) == EXIT_DONE
    out, err = capsys.readouterr()
    assert out == ""
    told = [line.split(", gap")[0] for line in err.splitlines()]
    assert told == [f"tiny, 2 nodes, shuffled: {method.name}" for method in METHODS]
    assert "| shuffled | GIANT |" in page.read_text()
    assert "| LocalNewton: < 40 % of the time | tiny, 2 nodes, shuffled |" in claims.read_text()
    assert main(words) == EXIT_DONE
    assert capsys.readouterr().out in page.read_text().replace("\n\n<!-- end", "\n<!-- end")


def test_command_says_what_is_wrong(job, tmp_path, capsys):
    assert main([str(tmp_path / "none.toml")]) == 2
    assert "none.toml" in capsys.readouterr().err
    lost = tmp_path / "lost-giant.toml"
    lost.write_text(JOB.replace('"tiny"', '"lost"'))
    assert main([str(lost)]) == 3
    assert "lost" in capsys.readouterr().err
    assert main([str(job), "--networks", "wam"]) == 2
    assert "wan" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(job), "--claims", str(tmp_path / "page.md"), "--methods", "GIANT"])
    assert "leave --methods out" in capsys.readouterr().err
    with pytest.raises(JobError):
        job_of(tmp_path / "none.toml", EXACT, "shuffled", ())


def test_picture_shows_every_gap_against_its_seconds(found):
    figure = picture(found, "wan")
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "tiny, 4 nodes, shuffled",
        "tiny, 4 nodes, by-label",
    ]
    for axes, kept in zip(figure.axes, found, strict=True):
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("simulated seconds, network wan", "F - F*")
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        lines = {line.get_label(): line for line in axes.get_lines()}
        assert list(lines) == [method.name for method in SHOWN]
        for name, line in lines.items():
            points = [point for point in kept.courses[name].points if point.rounds]
            assert list(line.get_xdata()) == [point.seconds[0] for point in points]
            gap = np.array([point.objective for point in points]) - kept.setting.optimum
            np.testing.assert_array_equal(line.get_ydata(), np.maximum(gap, 1e-7))
    assert len({(line.get_color(), line.get_marker()) for line in figure.axes[0].get_lines()}) == len(SHOWN)


def test_figures_are_files_a_set(found, tmp_path):
    files = draw(found, "wan", tmp_path / "new")
    assert [path.name for path in files] == ["compare-newton-tiny.svg"]
    assert "simulated seconds, network wan" in files[0].read_text()
    (tmp_path / "file").touch()
    with pytest.raises(JobError, match="file"):
        draw(found, "wan", tmp_path / "file")


def test_set_is_the_name_before_the_method(job):
    assert set_of(job) == "tiny"


def test_job_keeps_data_and_loss_alone(job):
    made = job_of(job, METHODS[2], "by-label", ("latency=0.02", "bandwidth=1e7"))
    assert (made.data.test, made.data.intercept, made.data.partition.name) == (None, False, "by-label")
    assert (made.algorithm.damping, made.algorithm.finish) == ("auto", "giant")
    assert (made.stop.gradient_norm, made.clock.compute, made.network.latency) == (None, "counted", 0.02)
