"""Synthetic sets have the properties stated, the same for a seed however they are written, and say what they are."""

import errno
import gzip
import hashlib
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LinearRegression, LogisticRegression

from mpi_opt import cli
from mpi_opt.build import build
from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.datasets.source import resolve
from mpi_opt.datasets.synthetic import blocks, mark
from mpi_opt.datasets.synthetic_covtype import BASE, Covtype, read_base
from mpi_opt.datasets.synthetic_epsilon import Epsilon
from mpi_opt.datasets.synthetic_figures import Figures, spectrum
from mpi_opt.datasets.synthetic_linear import Linear
from mpi_opt.datasets.synthetic_rcv1 import Rcv1
from mpi_opt.datasets.synthetic_shards import write_shard_file
from mpi_opt.datasets.synthetic_text import write_text
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import load_job
from mpi_opt.model import load_model
from mpi_opt.network.collectives import Solo

SMALL = {
    "dense": Linear(rows=1500, features=7, condition=30, label_noise=0.2, seed=3),
    "sparse": Linear(rows=1500, features=200, density=0.03, task="softmax", classes=4, seed=1),
    "shards": Linear(rows=1500, features=5, heterogeneity=2, nodes=7, task="regression", label_noise=0.3),
    "epsilon": Epsilon(rows=1100, features=40, seed=5),
    "rcv1": Rcv1(rows=1100, features=2000, seed=6),
}


def whole(recipe):
    """Return all rows, dense, and the labels."""
    parts = list(blocks(recipe))
    rows = [part.features.toarray() if sp.issparse(part.features) else part.features for part in parts]
    return np.concatenate(rows), np.concatenate([part.labels for part in parts])


def csr(recipe):
    parts = list(blocks(recipe))
    return sp.vstack([part.features for part in parts], format="csr"), np.concatenate([part.labels for part in parts])


def accuracy(X, y, train, C=100.0):
    model = LogisticRegression(C=C, max_iter=500).fit(X[:train], y[:train])
    return model.score(X[train:], y[train:])


# --- the same for a seed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SMALL)
def test_text_is_what_was_drawn(kind, tmp_path):
    recipe = SMALL[kind]
    path = tmp_path / "set.txt"
    written = list(write_text(path, mark(recipe), blocks(recipe)))
    assert [part.labels.size for part in written] == [1024, recipe.rows - 1024]
    X, y = load_svmlight_file(str(path), n_features=recipe.features)
    ours, labels = whole(recipe)
    np.testing.assert_array_equal(X.toarray(), ours)
    np.testing.assert_array_equal(y, labels)
    packed = tmp_path / "set.txt.gz"
    list(write_text(packed, mark(recipe), blocks(recipe)))
    assert gzip.decompress(packed.read_bytes()) == path.read_bytes()
    first = packed.read_bytes()
    list(write_text(packed, mark(recipe), blocks(recipe)))
    assert packed.read_bytes() == first


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("dense", "b0d74d652d400ca7"),
        ("sparse", "78c767ffd75505a6"),
        ("shards", "d7e3e980ba308a14"),
        ("epsilon", "28b024042fbb5fe4"),
        ("rcv1", "53d0ae22a56e67e5"),
    ],
)
def test_a_seed_gives_these_bytes_on_every_machine(kind, digest, tmp_path):
    list(write_text(tmp_path / "set", mark(SMALL[kind]), blocks(SMALL[kind])))
    assert hashlib.sha256((tmp_path / "set").read_bytes()).hexdigest()[:16] == digest


@pytest.mark.parametrize("kind", ["dense", "sparse", "epsilon", "rcv1"])
def test_rows_do_not_depend_on_how_many_there_are(kind):
    longer, labels = whole(SMALL[kind])
    shorter, fewer = whole(replace(SMALL[kind], rows=1030))
    np.testing.assert_array_equal(shorter, longer[:1030])
    np.testing.assert_array_equal(fewer, labels[:1030])


@pytest.mark.parametrize("kind", SMALL)
def test_another_seed_gives_other_rows(kind):
    ours, labels = whole(SMALL[kind])
    others, theirs = whole(replace(SMALL[kind], seed=99))
    assert not np.array_equal(ours, others)
    assert not np.array_equal(labels, theirs)


# --- linear -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [1, 50, 1e4])
def test_the_spectrum_is_the_one_stated(condition):
    X, _ = whole(Linear(rows=20_000, features=10, condition=condition))
    values = np.linalg.eigvalsh(X.T @ X / len(X))
    stated = condition ** (-np.arange(9, -1, -1) / 9.0)
    # the sample's deviation: 2 sqrt(d / n) = 4.5 %
    np.testing.assert_allclose(values, stated, rtol=0.08)
    correlations = np.corrcoef(X.T) - np.eye(10)
    assert (np.abs(correlations).max() > 0.2) == (condition > 1), "no scaling of columns undoes it"


def test_sparse_columns_have_the_stated_density_and_squares():
    X, _ = csr(Linear(rows=20_000, features=50, density=0.05, condition=100))
    share = X.nnz / 1e6
    assert abs(share - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 1e6)
    per_row = np.diff(X.indptr)
    assert abs(per_row.var() - 50 * 0.05 * 0.95) < 0.1, "entries are stored independently of each other"
    squares = np.sort(X.power(2).mean(axis=0))
    np.testing.assert_allclose(squares, 0.05 * 100.0 ** (-np.arange(49, -1, -1) / 49.0), rtol=0.25)


@pytest.mark.parametrize("density", [1.0, 0.3])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_no_model_beats_the_label_noise_and_a_fitted_one_comes_near(density, noise):
    recipe = Linear(rows=16_000, features=12, density=density, label_noise=noise)
    X, y = whole(recipe)
    # an empty row says nothing
    assert abs(accuracy(X, y, 8000) - (1 - noise)) < 0.02
    assert abs((y == 1).mean() - 0.5) < 0.03
    assert set(np.unique(y)) == {-1.0, 1.0}


def test_wrong_classes_are_spread_over_the_others():
    clean, y = whole(Linear(rows=8000, features=6, task="softmax", classes=4))
    noisy, other = whole(Linear(rows=8000, features=6, task="softmax", classes=4, label_noise=0.3))
    np.testing.assert_array_equal(clean, noisy)
    assert abs((y != other).mean() - 0.3) < 0.02
    shifts = np.bincount(((other - y) % 4).astype(int), minlength=4) / y.size
    np.testing.assert_allclose(shifts, [0.7, 0.1, 0.1, 0.1], atol=0.015)


def test_regression_noise_is_its_share_of_the_variance():
    X, y = whole(Linear(rows=8000, features=6, task="regression", label_noise=0.25, condition=10))
    assert abs(LinearRegression().fit(X, y).score(X, y) - 0.75) < 0.02
    X, y = whole(Linear(rows=2000, features=6, task="regression"))
    assert LinearRegression().fit(X, y).score(X, y) > 1 - 1e-9


def node_fits(recipe, tmp_path):
    """Return means of the features and directions of least squares of the shards that a job deals out."""
    list(write_text(tmp_path / "set", mark(recipe), blocks(recipe)))
    n = recipe.nodes
    job = load_job(
        f'name="a"\ndata={{train="{tmp_path}/set", partition="contiguous"}}\nproblem.loss="squared"\n'
        'algorithm.name="giant"\nstop.steps=1'
    )
    shards = build(job, Solo(), n, range(n)).loaded.train
    rows = [shard.features.toarray() for shard in shards]
    fits = [LinearRegression().fit(X, shard.labels).coef_ for X, shard in zip(rows, shards, strict=True)]
    return np.array([X.mean(axis=0) for X in rows]), np.array([fit / np.linalg.norm(fit) for fit in fits])


def cosines(directions):
    return (directions @ directions.T)[np.triu_indices(len(directions), 1)]


def test_shards_differ_as_told(tmp_path):
    base = Linear(rows=6001, features=60, task="regression", nodes=12, heterogeneity=0.0)
    means, directions = node_fits(base, tmp_path)
    assert np.abs(means).max() < 0.25
    assert cosines(directions).min() > 0.999
    means, directions = node_fits(replace(base, heterogeneity=1.0, differ="features"), tmp_path)
    assert abs(means.std() - 1.0) < 0.1
    assert cosines(directions).min() > 0.999
    means, directions = node_fits(replace(base, heterogeneity=1.0, differ="weights"), tmp_path)
    assert np.abs(means).max() < 0.25
    assert abs(cosines(directions).mean() - 0.5) < 0.06, "1 / (1 + H^2)"
    means, directions = node_fits(replace(base, heterogeneity=1.0), tmp_path)
    assert abs(means.std() - 1.0) < 0.1
    assert abs(cosines(directions).mean() - 0.5) < 0.06


def test_sparse_shards_differ_too():
    recipe = Linear(rows=3000, features=40, density=0.2, nodes=3, heterogeneity=2.0, seed=4)
    X, _ = csr(recipe)
    for node in range(3):
        part = X[1000 * node : 1000 * (node + 1)]
        means = part.sum(axis=0) / np.maximum((part != 0).sum(axis=0), 1)
        np.testing.assert_allclose(means, recipe.differences(node)[0], atol=0.4)


# --- stand-ins --------------------------------------------------------------------------------------------------------


@pytest.mark.data
def test_covtype_has_the_figures_of_the_recipe(datasets):
    """Real: eigenvalues .143 .539 3.141, 11.95 entries a row, rank 52 of 54, linear accuracy 75.2 %."""
    table, labels = read_base(BASE, [datasets])
    recipe = Covtype(rows=30_000, table=table, labels=labels)
    X, y = csr(recipe)
    values = spectrum(X)
    np.testing.assert_allclose(values[-3:], [0.144, 0.537, 3.138], rtol=0.02)
    assert (values > 1e-12 * values[-1]).sum() == 52
    assert abs(X.nnz / 30_000 - 11.94) < 0.03
    assert abs((y == 2).mean() - 0.4876) < 0.01
    model = LogisticRegression(C=100, max_iter=500).fit(X, y)
    real, theirs = load_svmlight_file(str(datasets / f"{BASE}.bz2"), n_features=54)
    assert abs(model.score(real, theirs) - 0.754) < 0.008
    assert abs(model.score(X, y) - 0.755) < 0.01
    np.testing.assert_array_equal(X[:, 10:14].sum(axis=1), 1)
    np.testing.assert_array_equal(X[:, 14:].sum(axis=1), 1)
    assert X.min() == 0
    assert X.max() == 1


def test_epsilon_has_the_figures_of_the_recipe():
    """Real: unit rows, half of each label, largest correlation eigenvalue of 100 columns 27.7."""
    X, y = whole(Epsilon(rows=4096))
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, atol=1e-5)
    assert abs((y == 1).mean() - 0.5) < 0.03
    tops = [np.linalg.eigvalsh(np.corrcoef(X[:, k : k + 100].T))[-1] for k in range(0, 2000, 100)]
    assert 25 < np.mean(tops) < 30
    correlations = np.abs(np.corrcoef(X.T)) - np.eye(2000)
    copies = (correlations.max(axis=1) > 0.88).sum()
    assert 150 <= copies <= 400, "100 columns and those they are like, and pairs of high loadings"
    assert 0.985 < correlations.max() < 1.0


def test_epsilon_is_as_hard_as_the_recipe_says():
    """The recipe's trial: test accuracy 0.881 and 0.907 at 30,000 x 2,000; here with as many rows a column."""
    X, y = whole(Epsilon(rows=8000, features=500))
    assert 0.86 < accuracy(X, y, 6000) < 0.92


def test_rcv1_has_the_figures_of_the_recipe():
    """Real: 74.05 entries a row, document frequency .25 .11 .017 .0006 at ranks 10, 100, 1,000, 10,000."""
    recipe = Rcv1()
    X, y = csr(recipe)
    assert X.shape == (20_242, 47_236)
    assert abs(X.nnz / 20_242 - 74.3) < 1.0
    assert abs((y == 1).mean() - 0.518) < 0.01
    np.testing.assert_allclose(np.sqrt(X.power(2).sum(axis=1)), 1.0, atol=1e-5)
    share = np.sort(np.bincount(X.indices, minlength=X.shape[1]))[::-1] / X.shape[0]
    np.testing.assert_allclose(share[[9, 99, 999, 9999]], [0.22, 0.078, 0.010, 0.001], rtol=0.12)
    assert abs(spectrum(X)[-1] - 0.013) < 0.001
    assert 0.945 < accuracy(X, y, 15_000, C=10.0) < 0.97
    # columns are in a random order
    often = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]))[:1000]
    assert abs(often.mean() / 47_236 - 0.5) < 0.05


# --- the command ------------------------------------------------------------------------------------------------------


def generate(*words):
    return cli.main(["data", "generate", *map(str, words)])


def test_the_command_tells_what_came_out(tmp_path, capsys):
    out = tmp_path / "made.txt"
    words = ("--rows", 4000, "--features", 8, "--condition", 20, "--label-noise", 0.1, "--out", out)
    assert generate("linear", *words) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == (
        "synthetic: linear rows=4000 features=8 seed=0 task=logistic density=1.0 condition=20.0 label_noise=0.1"
    )
    assert out.read_text().splitlines()[0] == f"# {told[0]}"
    X, y = load_svmlight_file(str(out))
    values = np.linalg.eigvalsh((X.T @ X).toarray() / 4000)
    assert told[1] == f"rows 4000, stored entries {X.nnz}, {X.nnz / 4000:.4g} a row"
    assert told[2] == (f"labels -1: {(y < 0).sum()} ({(y < 0).mean():.2%}), 1: {(y > 0).sum()} ({(y > 0).mean():.2%})")
    assert told[3] == (
        f"largest eigenvalue of X'X/n {values[-1]:.4g}, condition {values[-1] / values[0]:.4g}, rank 8 of 8 (all rows)"
    )
    assert abs(float(told[4].split()[1]) - 0.9) < 0.04
    assert told[5] == f"written to {out}, {out.stat().st_size} bytes"


def test_results_say_what_a_stand_in_is(tmp_path):
    out = tmp_path / "train.txt.gz"
    assert generate("epsilon-sim", "--rows", 50, "--features", 20, "--out", out) == 0
    assert resolve("train.txt.gz", [tmp_path]).name == "train.txt.gz (synthetic: epsilon-sim)"
    out.rename(tmp_path / "epsilon-sim.gz")
    assert resolve("epsilon-sim", [tmp_path]).name == "epsilon-sim"


@pytest.mark.parametrize("kind", SMALL)
def test_a_shard_file_holds_the_same_rows_as_text(kind, tmp_path):
    recipe = SMALL[kind]
    list(write_text(tmp_path / "set", mark(recipe), blocks(recipe)))
    list(write_shard_file(tmp_path / "set.h5", recipe, blocks(recipe), "1.0"))
    first = (tmp_path / "set.h5").read_bytes()
    list(write_shard_file(tmp_path / "set.h5", recipe, blocks(recipe), "1.0"))
    assert (tmp_path / "set.h5").read_bytes() == first
    kind = {"softmax": "classes", "regression": "real"}.get(recipe.settings.get("task"), "binary")
    texts, shards = (
        load(DataSpec(train=word, label_kind=kind, features=recipe.features, search=(tmp_path,)), Solo(), 3, range(3))
        for word in ("set", "set.h5")
    )
    assert shards.info.name == f"set.h5 (synthetic: {recipe.name})"
    assert (shards.info.rows, shards.info.features) == (recipe.rows, recipe.features)
    assert (shards.info.index_base, shards.info.nonzeros) == (1, texts.info.nonzeros)
    for ours, theirs in zip(shards.train, texts.train, strict=True):
        dense = ours.features.toarray() if shards.info.sparse else ours.features
        np.testing.assert_array_equal(dense, theirs.features.toarray())
        np.testing.assert_array_equal(ours.labels, theirs.labels)


def test_the_command_writes_shard_files(tmp_path, capsys):
    out = tmp_path / "made.h5"
    assert generate("linear", "--rows", 100, "--features", 4, "--out", out) == 0
    assert f"written to {out}, {out.stat().st_size} bytes" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["made.h5"]


def test_the_file_is_called_as_the_kind_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert generate("rcv1-sim", "--rows", 20, "--features", 1000) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["rcv1-sim"]
    assert resolve("rcv1-sim", [tmp_path]).name == "rcv1-sim"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["linear", "--density", 0], "--density 0: allowed: a number above 0"),
        (["linear", "--density", 1.5], "--density 1.5"),
        (["linear", "--condition", 0.5], "--condition 0.5: allowed: a number from 1"),
        (["linear", "--condition", 9, "--features", 1], "one column has one eigenvalue"),
        (["linear", "--label-noise", 1], "--label-noise 1: allowed: a number >= 0 and below 1"),
        (["linear", "--rows", 0], "--rows 0"),
        (["linear", "--rows", 5, "--nodes", 6], "--nodes 6: allowed: an integer from 1 to the number of rows, 5"),
        (["linear", "--task", "logit"], "--task logit: allowed: logistic, softmax, regression"),
        (["linear", "--heterogeneity", 1], "give --nodes"),
        (["linear", "--heterogeneity", "nan", "--nodes", 2], "--heterogeneity nan"),
        (["linear", "--seed", -1], "--seed -1"),
        (["epsilon-sim", "--density", 0.5], "--density has no meaning for epsilon-sim; taken by linear"),
        (["covtype-sim", "--features", 9], "--features has no meaning for covtype-sim"),
        (["epsilon"], "epsilon"),
        (["linear", "--out", "no/such/folder"], "the folder no/such does not exist"),
    ],
)
def test_wrong_options_are_named(words, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert generate(*words) == 2
    assert named in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_not_replaced_unasked(tmp_path, capsys):
    out = tmp_path / "made"
    out.write_text("mine")
    assert generate("linear", "--rows", 5, "--features", 2, "--out", out) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert generate("linear", "--rows", 5, "--features", 2, "--out", out, "--overwrite") == 0
    assert out.read_text().startswith("# synthetic: linear ")


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    out = tmp_path / "made"
    out.write_text("mine")

    def running_out():
        yield from blocks(replace(SMALL["dense"], rows=10))
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(JobError, match=r"made: cannot be written: No space left"):
        list(write_text(out, "x", running_out()))
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert out.read_text() == "mine"


def test_covtype_needs_real_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MPI_OPT_DATASETS", raising=False)
    assert generate("covtype-sim", "--rows", 10) == 3
    told = capsys.readouterr().err
    assert "covtype.libsvm.binary.scale.random11955' was not found" in told
    assert "name a file of them with --base FILE" in told
    (tmp_path / "other").write_text("1 1:0.5 11:1 15:1\n2 1:0.7 11:1 15:1\n")
    with pytest.raises(DataError, match=r"other: row 1 is no scaled row of covtype.binary"):
        read_base("other", [tmp_path])
    (tmp_path / "other").write_text("1 1:0.5 55:1\n")
    with pytest.raises(DataError, match=r"other: has column 55"):
        read_base("other", [tmp_path])
    (tmp_path / "other").write_text("1 11:1 15:1\n1 12:1 15:1\n")
    with pytest.raises(DataError, match=r"other: its labels are not 1 and 2"):
        read_base("other", [tmp_path])
    (tmp_path / "other").write_text("1 5:0.223514 11:1 15:1\n2 1:1 5:0.223514 12:1 54:1\n")
    table, labels = read_base("other", [tmp_path])
    assert table[0, :10].tolist() == [1859, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert labels.tolist() == [1, 2]


def test_a_sample_takes_every_so_many_th_row():
    figures = Figures(7, classes=True)
    for block in blocks(replace(SMALL["dense"], rows=2500)):
        figures.add(block)
    X, y = whole(replace(SMALL["dense"], rows=2500))
    features, labels = figures.sample()
    order = np.r_[0 : len(y) : 14, 7 : len(y) : 14]
    np.testing.assert_array_equal(features, X[order])
    np.testing.assert_array_equal(labels, y[order])
    assert (figures.rows, figures.nonzeros) == (2500, np.count_nonzero(X))
    assert figures.labels == {-1.0: (y < 0).sum(), 1.0: (y > 0).sum()}


def test_a_run_names_the_stand_in_in_its_log_and_its_model(tmp_path):
    train = tmp_path / "train.txt"
    list(write_text(train, mark(SMALL["epsilon"]), blocks(SMALL["epsilon"])))
    job = tmp_path / "job.toml"
    job.write_text(
        'name = "a"\ndata.train = "train.txt"\nproblem.loss = "logistic"\nalgorithm.name = "lbfgs"\nstop.steps = 1\n'
    )
    assert cli.main(["simulate", str(job), "--nodes", "2", "--out", str(tmp_path / "run"), "--progress", "none"]) == 0
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "data train.txt (synthetic: epsilon-sim): 1100 rows x 40 features" in log
    assert load_model(tmp_path / "run" / "model.h5").provenance["data"] == "train.txt (synthetic: epsilon-sim)"
