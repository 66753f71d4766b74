"""Cross-validation over l2: folds, figures against a brute-force loop, the choice, and what a run keeps of it."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from support.jobs import write_libsvm
from support.prepared import loaded_of
from support.threads import on_threads

from mpi_opt import training, validation
from mpi_opt.datasets.folds import deal_folds, without_fold
from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.errors import DataError, DivergedError, JobError
from mpi_opt.execute import Orders, resume_job, simulate_job
from mpi_opt.job import load_job, to_toml
from mpi_opt.model import load_model
from mpi_opt.network.collectives import Solo
from mpi_opt.tuning import prepare_run
from mpi_opt.validation import choose

ROWS = 53


@pytest.fixture
def folder(tmp_path):
    write_libsvm(tmp_path / "train.txt", ROWS, 5, seed=2)
    # neither separable nor even
    lines = (tmp_path / "train.txt").read_text().splitlines()
    lines[::5] = ["1 " + line.split(" ", 1)[1] for line in lines[::5]]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def table(folder):
    lines = [line.split() for line in (folder / "train.txt").read_text().splitlines()]
    features = np.array([[float(word.split(":")[1]) for word in line[1:]] for line in lines])
    return features, np.array([float(line[0]) for line in lines])


def loaded(folder, nodes=1, kind="binary", **words):
    spec = DataSpec(**{"train": "train.txt", "search": (folder,), "label_kind": kind} | words)
    return load(spec, Solo(), nodes, range(nodes))


# --- folds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_folds_are_even_and_so_are_their_classes(folder, kind):
    _, labels = table(folder)
    fold_of = deal_folds(loaded(folder, kind=kind), 4, 7, Solo())
    sizes = np.bincount(fold_of)
    assert (sizes.size, sizes.sum(), np.ptp(sizes)) == (4, ROWS, 1)
    if kind == "binary":
        for label in (-1, 1):
            assert np.ptp(np.bincount(fold_of[labels == label], minlength=4)) <= 1
    assert (fold_of != deal_folds(loaded(folder, kind=kind), 4, 8, Solo())).any()


def test_folds_do_not_depend_on_nodes_partition_or_processes(folder):
    first = deal_folds(loaded(folder, partition="contiguous"), 5, 1, Solo())
    for nodes, partition in ((3, "shuffled"), (60, "by-label"), (2, "contiguous")):
        np.testing.assert_array_equal(first, deal_folds(loaded(folder, nodes, partition=partition), 5, 1, Solo()))
    spec = DataSpec(train="train.txt", search=(folder,), partition="shuffled")

    def one(collectives):
        return deal_folds(load(spec, collectives, 3, [2 - collectives.rank]), 5, 1, collectives)

    for found in on_threads(3, one):
        np.testing.assert_array_equal(first, found)


def test_rows_held_out_are_in_no_fold(folder):
    data = loaded(folder, 2, holdout=0.3)
    fold_of = deal_folds(data, 3, 0, Solo())
    held = np.concatenate([shard.rows for shard in data.test])
    assert (fold_of[held[held < fold_of.size]] == -1).all()
    assert np.count_nonzero(fold_of >= 0) == data.info.rows


@pytest.mark.parametrize("storage", [np.array, csr_array])
def test_a_fold_parts_rows_with_labels_and_weights(storage):
    rng = np.random.default_rng(0)
    features, omega = rng.normal(size=(12, 3)), rng.random(12)
    parts = [storage(features[:5]), storage(features[5:])]
    data = loaded_of(parts, [np.arange(5.0), np.arange(5.0, 12.0)], weights=omega)
    fold_of = np.arange(12) % 3
    part = without_fold(data, fold_of, 1, Solo())
    assert (part.info.rows, part.test_info.rows, part.info.nonzeros) == (8, 4, 24)
    for shards, wanted in ((part.train, fold_of != 1), (part.test, fold_of == 1)):
        rows = np.concatenate([shard.rows for shard in shards])
        np.testing.assert_array_equal(rows, np.flatnonzero(wanted))
        for shard in shards:
            dense = shard.features if storage is np.array else shard.features.toarray()
            np.testing.assert_array_equal(dense, features[shard.rows])
            np.testing.assert_array_equal(shard.labels, shard.rows)
            np.testing.assert_array_equal(shard.weights, omega[shard.rows])


def classes(*counts):
    labels = np.repeat(np.arange(len(counts)), counts).astype(float)
    mapping = {10.0 + c: float(c) for c in range(len(counts))}
    return loaded_of([np.ones((labels.size, 2))], [labels], mapping=mapping)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (classes(2, 2), r"made: validation\.folds = 5, but there are 4 rows; allowed: at most 4"),
        (classes(9, 1), r"label 11 has 1 of 10 training rows: the fold that holds it leaves none"),
        (
            classes(20, 3),
            r"label 11 has 3 of 23 training rows: some folds would hold one label only; allowed: at most 3",
        ),
        (classes(0, 9), r"all training rows have one label"),
    ],
)
def test_folds_that_teach_nothing_are_refused(data, message):
    with pytest.raises(DataError, match=message):
        deal_folds(data, 5, 0, Solo())


def test_a_rare_class_among_several_is_no_obstacle():
    assert np.bincount(deal_folds(classes(20, 20, 3), 5, 0, Solo())).tolist() == [9, 9, 9, 8, 8]


# --- the choice -------------------------------------------------------------------------------------------------------


def lines(*means, sd=0.2, folds=4):
    return [{"loss_mean": mean, "loss_sd": sd, "losses": [0.0] * folds} for mean in means]


def test_the_least_mean_is_best_and_of_equals_the_largest_l2():
    assert choose(lines(0.5, 0.3, 0.3, 0.4), "loss", "best") == 1


def test_one_standard_error_takes_the_largest_l2_that_is_near():
    # sd / sqrt(4) = 0.1
    assert choose(lines(0.5, 0.39, 0.32, 0.3, 0.35), "loss", "one-standard-error") == 1
    assert choose(lines(0.5, 0.41, 0.42, 0.3, 0.35), "loss", "one-standard-error") == 3


# --- the whole --------------------------------------------------------------------------------------------------------

JOB = """
name = "tuned"
seed = 5
[data]
train = "train.txt"
intercept = true
[prepare]
columns = "standard"
center = true
[problem]
loss = "logistic"
class_weight = "balanced"
[validation]
folds = 4
l2 = [1e-3, 1.0, 3e-2]
[algorithm]
name = "newton"
[stop]
steps = 40
gradient_norm = 1e-12
[metrics]
every = 1
"""


def tuned(folder, *words, nodes=3, out="out"):
    (folder / "job.toml").write_text(JOB)
    job = load_job(folder / "job.toml", words)
    orders = Orders(out=folder / out, progress="none", overwrite=True, command=["test"])
    assert simulate_job(job, orders, nodes=nodes) == 0
    return load_model(folder / out / "model.h5")


def test_figures_are_those_of_a_brute_force_loop(folder):
    model = tuned(folder)
    A, y = table(folder)
    fold_of = deal_folds(loaded(folder), 4, 5, Solo())
    found = model.validation
    assert [line["l2"] for line in found["table"]] == [1.0, 3e-2, 1e-3]
    means = []
    for line in found["table"]:
        losses, errors = [], []
        for fold in range(4):
            kept, held = fold_of != fold, fold_of == fold
            scaler = StandardScaler().fit(A[kept])
            other = LogisticRegression(
                C=1 / (line["l2"] * np.count_nonzero(kept)),
                class_weight="balanced",
                solver="newton-cholesky",
                tol=1e-12,
            ).fit(scaler.transform(A[kept]), y[kept])
            losses.append(log_loss(y[held], other.predict_proba(scaler.transform(A[held]))))
            errors.append(1 - other.score(scaler.transform(A[held]), y[held]))
        np.testing.assert_allclose(line["losses"], losses, atol=1e-6)
        np.testing.assert_allclose(line["errors"], errors, atol=1e-12)
        assert line["loss_mean"] == pytest.approx(np.mean(losses), abs=1e-6)
        assert line["loss_sd"] == pytest.approx(np.std(losses, ddof=1), abs=1e-6)
        assert line["error_sd"] == pytest.approx(np.std(errors, ddof=1), abs=1e-6)
        means.append(line["loss_mean"])
    chosen = [1.0, 3e-2, 1e-3][int(np.argmin(means))]
    assert found["chosen"] == model.l2 == chosen
    # the winner, trained on all rows
    scaler = StandardScaler().fit(A)
    whole = LogisticRegression(C=1 / (chosen * ROWS), class_weight="balanced", solver="newton-cholesky", tol=1e-12)
    whole.fit(scaler.transform(A), y)
    np.testing.assert_allclose(model.weights[:-1], whole.coef_[0], atol=1e-8)
    np.testing.assert_allclose(model.preparation.shift, scaler.mean_, rtol=1e-13)


def test_regression_has_losses_only(folder):
    model = tuned(
        folder, 'problem.loss="squared"', "problem.class_weight=", "prepare.columns=none", "prepare.center=auto"
    )
    A, y = table(folder)
    fold_of = deal_folds(loaded(folder, kind="real"), 4, 5, Solo())
    for line in model.validation["table"]:
        assert "error_mean" not in line
        for fold in range(4):
            kept, held = fold_of != fold, fold_of == fold
            ridge = Ridge(alpha=line["l2"] * np.count_nonzero(kept)).fit(A[kept], y[kept])
            expected = 0.5 * np.mean((ridge.predict(A[held]) - y[held]) ** 2)
            assert line["losses"][fold] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_nodes_do_not_matter(folder, nodes):
    one = tuned(folder, nodes=5)
    other = tuned(folder, "data.partition=by-label", nodes=nodes)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-10)
    for a, b in zip(one.validation["table"], other.validation["table"], strict=True):
        np.testing.assert_allclose(a["losses"], b["losses"], atol=1e-10)
        assert a["errors"] == b["errors"]


def test_the_run_after_it_is_the_run_with_that_l2(folder):
    chosen = tuned(folder)
    log = (folder / "out" / "log.txt").read_text()
    assert "validation: fold 4 of 4, 3 values of l2" in log
    assert log.count("validation: l2 ") == 4
    assert "not counted below" in log
    plain = tuned(folder, "validation=", f"problem.l2={chosen.l2!r}", out="plain")
    np.testing.assert_array_equal(chosen.weights, plain.weights)
    assert plain.validation is None
    sent = [text.splitlines()[-3] for text in (log, (folder / "plain" / "log.txt").read_text())]
    assert sent[0] == sent[1]
    assert "payload" in "".join(log.splitlines()[-3:])


def test_the_resolved_job_runs_again_to_the_same_bits(folder):
    first = tuned(folder, "validation.l2={from=1e-3, to=1.0, count=3}")
    resolved = folder / "out" / "job.toml"
    job = load_job(resolved)
    assert job.problem.l2 is None
    assert job.validation.l2 == [1.0, 0.0316227766017, 1e-3]
    assert load_job(to_toml(job)) == job
    assert simulate_job(job, Orders(out=folder / "again", progress="none", command=["test"]), nodes=3) == 0
    again = load_model(folder / "again" / "model.h5")
    np.testing.assert_array_equal(first.weights, again.weights)
    assert first.validation == again.validation
    assert json.loads((folder / "again" / "validation.json").read_text()) == first.validation


@pytest.mark.parametrize(
    "words",
    [
        [
            "algorithm.name=sparq-sgd",
            "algorithm.step_size=0.05",
            "algorithm.consensus_rate=0.2",
            "stop.gradient_norm=",
            "stop.patience=30",
        ],
        [
            "algorithm.name=sparq-sgd",
            "algorithm.step_size=0.05",
            "algorithm.consensus_rate=0.2",
            'algorithm.output="local"',
            "stop.gradient_norm=",
        ],
        ["algorithm.name=local-newton"],
        ["algorithm.name=lbfgs", 'problem.loss="softmax"', 'validation.choose="error"'],
    ],
)
def test_other_methods_choose_too(folder, words):
    model = tuned(folder, "stop.steps=60", *words)
    assert len(model.validation["table"]) == 3
    assert model.l2 == model.validation["chosen"]
    assert all(np.isfinite(line["losses"]).all() for line in model.validation["table"])


def test_warm_starts_save_rounds(folder):
    close = tuned(folder, "validation.l2=[0.1, 0.101, 0.102]").validation["table"]
    assert close[1]["rounds"] < close[0]["rounds"]


def test_a_diverging_training_names_fold_and_l2(folder):
    words = ["algorithm.name=allreduce-sgd", "algorithm.step_size=1e6", "validation.l2=[1e9]", "stop.gradient_norm="]
    with pytest.raises(DivergedError, match=r"validation, fold 1, l2 = 1e\+09: node 0 is not finite"):
        tuned(folder, *words)


def test_data_without_folds_leave_no_folder(folder):
    with pytest.raises(DataError, match=r"validation\.folds = 60"):
        tuned(folder, "validation.folds=60")
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["problem.l2=0.1"], r"problem\.l2: not together with \[validation\]"),
        (["stop.objective=0.1"], r"stop\.objective: not together with \[validation\]"),
        (['problem.loss="huber"', "problem.class_weight=", "validation.choose=error"], r'validation\.choose = "error"'),
        (["validation.folds=1"], r"validation\.folds = 1: allowed: an integer >= 2"),
        (["validation.l2=[0.1, -1]"], r"validation\.l2\[1\] = -1"),
        (["validation.l2=[0.1, 0.1]"], r"a number is there twice"),
        (["validation.l2=[]"], r"validation\.l2 = \[\]"),
        (["validation.l2={from=1, to=2}"], r"validation\.l2\.count: missing"),
        (["validation.l2={from=0, to=2, count=3}"], r"validation\.l2\.from = 0: allowed: a number > 0"),
        (["validation.rule=bst"], r"validation\.rule"),
        (['problem.class_weight={"x"=1}'], r"problem\.class_weight\.x: no label"),
        (['problem.class_weight={"1"=1, "1.0"=1}'], r"a label is there twice"),
        (['problem.class_weight={"1"=0}'], r'allowed: "balanced" or a table'),
        (['problem.loss="huber"'], r'problem\.class_weight: has no meaning for the loss "huber"'),
        (["prepare.columns=max-abs"], r"prepare\.center = true: has no meaning"),
        (["prepare.rows=l3"], r"prepare\.rows"),
    ],
)
def test_wrong_keys_are_refused_by_name(folder, words, message):
    (folder / "job.toml").write_text(JOB)
    with pytest.raises(JobError, match=message):
        load_job(folder / "job.toml", words)


def test_without_the_table_l2_has_its_default(folder):
    (folder / "job.toml").write_text(JOB)
    job = load_job(folder / "job.toml", ["validation="])
    assert job.problem.l2 == "1/N"
    assert "[validation]" not in to_toml(job)


def test_a_run_that_goes_on_takes_what_was_chosen(folder):
    model = tuned(folder)
    job = load_job(folder / "out" / "job.toml")
    built, trial = prepare_run(job, Solo(), 3, range(3), None, folder / "out")
    assert trial is None
    assert (built.l2, built.validation) == (model.l2, model.validation)
    np.testing.assert_array_equal(built.preparation.factor, model.preparation.factor)
    (folder / "out" / "validation.json").write_text("{")
    with pytest.raises(DataError, match=r"validation\.json: cannot be read"):
        prepare_run(job, Solo(), 3, range(3), None, folder / "out")
    (folder / "out" / "validation.json").unlink()
    _, trial = prepare_run(job, Solo(), 3, range(3), None, folder / "out")
    assert trial is not None


def no_room(*_):
    raise JobError("no room")


@pytest.mark.parametrize("change", [[], ["stop.steps=39"]])
def test_folds_done_before_a_run_was_cut_off_are_not_done_again(folder, monkeypatch, change):
    whole = tuned(folder, out="whole")
    train, calls = validation._train, []

    def cut_off(*arguments):
        calls.append(arguments)
        if len(calls) == 8:  # three values of l2 a fold: in the third one
            raise KeyboardInterrupt
        return train(*arguments)

    monkeypatch.setattr(validation, "_train", cut_off)
    with pytest.raises(KeyboardInterrupt):
        tuned(folder)
    plain = training.replace_file
    monkeypatch.setattr(training, "replace_file", no_room)  # a start that is refused loses nothing either
    with pytest.raises(JobError, match="cannot write to .*: no room"):
        resume_job(folder / "out", Orders(progress="none", command=["test"]), change, repartition=False)
    monkeypatch.setattr(training, "replace_file", plain)
    assert resume_job(folder / "out", Orders(progress="none", command=["test"]), change, repartition=False) == 0
    model = load_model(folder / "out" / "model.h5")
    # another job would be compared with the folds of this one: it begins again
    assert len(calls) == 8 + (12 if change else 6)
    assert ("2 of 4 folds were done before" in (folder / "out" / "log.txt").read_text()) == (not change)
    np.testing.assert_array_equal(model.weights, whole.weights)
    assert model.validation == whole.validation
    assert model.provenance["nodes"] == 3
