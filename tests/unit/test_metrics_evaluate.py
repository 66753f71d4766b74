"""Evaluation against figures worked out on all rows at once; and the same bits however the nodes are spread."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest

from mpi_opt.errors import JobError
from mpi_opt.metrics import schema
from mpi_opt.metrics.evaluate import Evaluator
from mpi_opt.network.collectives import Solo
from mpi_opt.problems.base import Figures


@dataclass
class Logistic:
    """A problem written out plainly, last entry not penalised."""

    features: np.ndarray
    labels: np.ndarray
    scale: float
    l2: float
    looks: int = 0

    @property
    def dim(self):
        return self.features.shape[1]

    @property
    def rows(self):
        return len(self.labels)

    def margins(self, x):
        return self.labels * (self.features @ x)

    def penalty(self, x):
        return 0.5 * self.l2 * float(x[:-1] @ x[:-1])

    def value(self, x):
        return self.scale * float(np.logaddexp(0, -self.margins(x)).sum()) + self.penalty(x)

    def gradient(self, x, out=None):
        slopes = -self.labels / (1 + np.exp(self.margins(x)))
        made = self.scale * (self.features.T @ slopes) + self.l2 * np.append(x[:-1], 0.0)
        if out is None:
            return made
        out[:] = made
        return out

    def figures(self, x):
        self.looks += 1
        margins = self.margins(x)
        return Figures(float(np.logaddexp(0, -margins).sum()), int((margins <= 0).sum()), self.rows)


class Ring:
    """All nodes in one process."""

    collectives = Solo()

    def __init__(self, nodes):
        self.nodes = nodes
        self.local = tuple(range(nodes))
        self.hops = 0

    def rotate(self, arrays):
        self.hops += 1
        return [arrays[i - 1] for i in range(self.nodes)]

    def mean(self, arrays):
        total = arrays[0].copy()
        for array in arrays[1:]:
            total += array
        return total / self.nodes


class ThreadRing:
    """One node a thread; stands for one node a process. Arrays are copied, as messages are."""

    def __init__(self, nodes, node, board, barrier):
        self.nodes, self.local, self.rank, self.size = nodes, (node,), node, nodes
        self.board, self.barrier = board, barrier
        self.collectives = self

    def gather(self, item):
        self.board[self.rank] = item
        self.barrier.wait(timeout=30)
        found = list(self.board)
        self.barrier.wait(timeout=30)
        return found

    def rotate(self, arrays):
        return [self.gather(arrays[0].copy())[self.rank - 1]]

    def mean(self, arrays):
        found = self.gather(arrays[0].copy())
        total = found[0].copy()
        for array in found[1:]:
            total += array
        return total / self.nodes


def setting(sizes, tests=None, d=6, l2=0.1, seed=0):
    rng = np.random.default_rng(seed)
    n, total = len(sizes), sum(sizes)

    def shards(sizes, scale):
        return [Logistic(rng.normal(size=(m, d)), rng.choice([-1.0, 1.0], m), scale, l2) for m in sizes]

    problems = shards(sizes, n / total)
    test_problems = None if tests is None else shards(tests, 1.0)
    return problems, test_problems, [rng.normal(size=d) for _ in sizes]


def whole(problems):
    rows = sum(problem.rows for problem in problems)
    return Logistic(
        np.concatenate([p.features for p in problems]),
        np.concatenate([p.labels for p in problems]),
        1 / rows,
        problems[0].l2,
    )


def evaluate(problems, tests, models, *, step=0, **options):
    network = Ring(len(problems))
    return Evaluator(network, problems, tests, classification=True, seed=3, **options).evaluate(models, step)


@pytest.mark.parametrize(
    ("sizes", "tests"),
    [((7,), (4,)), ((7,), None), ((5, 9, 1), (2, 0, 3)), ((4, 0, 11, 3, 0), (0, 0, 6, 0, 0)), ((3, 3), None)],
)
def test_figures_are_those_of_all_rows_at_once(sizes, tests):
    problems, test_problems, models = setting(sizes, tests)
    kept = [model.copy() for model in models]
    rows = evaluate(problems, test_problems, models)
    everything = whole(problems)
    average = np.mean(models, axis=0)
    near = {"rel": 1e-12, "nan_ok": True}

    def test_figures(x):
        if test_problems is None:
            return np.nan, np.nan
        figures = whole(test_problems).figures(x)
        return figures.loss / figures.rows, figures.wrong / figures.rows

    objectives = [everything.value(x) for x in models]
    test_errors = [test_figures(x)[1] for x in models]
    assert len(rows) == len(sizes)
    for row, x in zip(rows, models, strict=True):
        assert row["objective_local"] == pytest.approx(everything.value(x), **near)
        assert row["train_error"] == everything.figures(x).wrong / everything.rows
        assert row["test_loss"] == pytest.approx(test_figures(x)[0], **near)
        assert row["test_error"] == pytest.approx(test_figures(x)[1], **near)
        assert row["objective_mean"] == pytest.approx(np.mean(objectives), **near)
        assert row["objective_worst"] == pytest.approx(np.max(objectives), **near)
        assert row["test_error_mean"] == pytest.approx(np.mean(test_errors), **near)
        assert row["test_error_worst"] == pytest.approx(np.max(test_errors), **near)
        assert row["objective_average"] == pytest.approx(everything.value(average), **near)
        assert row["train_error_average"] == everything.figures(average).wrong / everything.rows
        assert row["test_error_average"] == pytest.approx(test_figures(average)[1], **near)
        spread = sum(np.sum((x - average) ** 2) for x in models) / len(models)
        assert row["consensus_distance"] == pytest.approx(spread, **near)
        assert row["gradient_norm"] == pytest.approx(np.linalg.norm(everything.gradient(average)), **near)
    assert rows[0].keys() <= {column.name for column in schema.SERIES if column.kind == "f8"}
    for model, before in zip(models, kept, strict=True):
        np.testing.assert_array_equal(model, before)


@pytest.mark.parametrize("nodes", ["all", 2])
def test_threads_and_one_process_give_the_same_bits(nodes):
    sizes = (5, 0, 8, 3, 20)
    problems, tests, models = setting(sizes, (1, 2, 3, 0, 4), d=33)
    n = len(sizes)
    together = Evaluator(Ring(n), problems, tests, classification=True, seed=3, nodes=nodes)
    expected = [together.evaluate([k * x for x in models], k) for k in (1, 2)]
    board, barrier, found = [None] * n, threading.Barrier(n), {}

    def work(i):
        network = ThreadRing(n, i, board, barrier)
        own = Evaluator(network, [problems[i]], [tests[i]], classification=True, seed=3, nodes=nodes)
        found[i] = [own.evaluate([k * models[i]], k)[0] for k in (1, 2)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for i in range(n):
        for k in range(2):
            assert {a: np.float64(b).tobytes() for a, b in found[i][k].items()} == {
                a: np.float64(b).tobytes() for a, b in expected[k][i].items()
            }


def test_a_sample_is_evaluated_only_at_its_nodes(monkeypatch):
    problems, tests, models = setting((4, 5, 6, 7, 8), (1, 1, 1, 1, 1))
    network = Ring(5)
    evaluator = Evaluator(network, problems, tests, classification=True, seed=3, nodes=2)
    drawn = {evaluator.sample(step) for step in range(40)}
    assert all(len(set(sample)) == 2 for sample in drawn)
    assert set().union(*drawn) == set(range(5))
    sample = evaluator.sample(11)
    rows = evaluator.evaluate(models, 11)
    everything = [row["objective_local"] for row in evaluate(problems, tests, models)]
    for node, row in enumerate(rows):
        assert np.isnan(row["objective_local"]) == (node not in sample)
        assert np.isnan(row["train_error"]) == (node not in sample)
        assert np.isnan(row["test_loss"]) == (node not in sample)
    assert [rows[node]["objective_local"] for node in sample] == [everything[node] for node in sample]
    assert rows[0]["objective_mean"] == pytest.approx(np.mean([everything[node] for node in sample]))
    assert rows[0]["objective_worst"] == max(everything[node] for node in sample)
    assert network.hops == 5
    for problem in problems:
        problem.looks = 0
    evaluator.evaluate(models, 12)
    assert [problem.looks for problem in problems] == [3] * 5  # two sampled models and the average


def test_more_nodes_than_there_are_means_all():
    problems, _, _ = setting((4, 5))
    assert Evaluator(Ring(2), problems, None, classification=True, seed=0, nodes=9).sample(4) == (0, 1)


@pytest.mark.parametrize("nodes", [0, -1, "some"])
def test_a_wrong_number_of_nodes_is_named(nodes):
    problems, _, _ = setting((4, 5))
    with pytest.raises(JobError, match=f"metrics.nodes = {nodes!r}"):
        Evaluator(Ring(2), problems, None, classification=True, seed=0, nodes=nodes)


def test_regression_counts_no_errors():
    problems, tests, models = setting((4, 5), (3, 3))
    row = Evaluator(Ring(2), problems, tests, classification=False, seed=0).evaluate(models, 0)[0]
    names = [
        "train_error",
        "test_error",
        "test_error_mean",
        "test_error_worst",
        "train_error_average",
        "test_error_average",
    ]
    assert all(np.isnan(row[name]) for name in names)
    assert np.isfinite(row["test_loss"])


def test_a_model_that_is_no_longer_finite_shows_in_every_shared_figure():
    problems, tests, models = setting((4, 5, 3), (3, 3, 3))
    models[1][2] = np.inf
    rows = evaluate(problems, tests, models)
    assert np.isfinite(rows[0]["objective_local"])
    assert not np.isfinite(rows[1]["objective_local"])
    for name in ("objective_mean", "objective_worst", "objective_average", "consensus_distance"):
        assert not np.isfinite(rows[0][name])


def test_problems_of_another_scale_are_refused_once_it_matters():
    problems, _, models = setting((4, 9))
    for problem in problems:
        problem.scale = 1 / problem.rows
    with pytest.raises(ValueError, match="scale n / N"):
        evaluate(problems, None, models)


def test_as_many_problems_as_local_nodes():
    problems, _, _ = setting((4, 5))
    with pytest.raises(ValueError, match="2 local nodes"):
        Evaluator(Ring(2), problems[:1], None, classification=True, seed=0)
