"""Prepared features: equal to scikit-learn's on the gathered data, the same bits for every split of the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler, normalize
from support.prepared import loaded_of

from mpi_opt.datasets import memory
from mpi_opt.datasets.column_figures import column_range, moments
from mpi_opt.datasets.preparation import Preparation
from mpi_opt.datasets.prepare import Rules, prepare
from mpi_opt.errors import DataError, JobError
from mpi_opt.network.collectives import Solo

RNG = np.random.default_rng(11)
ROWS, FEATURES = 60, 7


def table():
    """Columns of many sizes, far from zero, constant, empty, and of both signs."""
    A = RNG.normal(size=(ROWS, FEATURES)) * (RNG.random((ROWS, FEATURES)) < 0.5)
    A *= [1.0, 1e-6, 1e6, 1.0, 1.0, 1.0, 1.0]
    A[:, 3] = 0.1
    A[:, 4] = 0.0
    A[:, 5] = 10.0 + RNG.normal(size=ROWS)
    return A


A = table()
TEST = RNG.normal(size=(9, FEATURES))


def split(features, nodes):
    cuts = ROWS * np.arange(nodes + 1) // nodes
    return [features[begin:end] for begin, end in zip(cuts[:-1], cuts[1:], strict=True)]


def prepared(storage, nodes=3, order=slice(None), **rules):
    parts = [storage(part) for part in split(A[order], nodes)]
    loaded = loaded_of(parts, [np.ones(part.shape[0]) for part in parts], test=[storage(TEST)] * nodes)
    return prepare(Rules(**rules), loaded, Solo())


def dense(features):
    return features if isinstance(features, np.ndarray) else features.toarray()


def gathered(loaded):
    return np.concatenate([dense(shard.features) for shard in loaded.train])


DENSE = [
    ({"columns": "standard"}, StandardScaler()),
    ({"columns": "standard", "center": False}, StandardScaler(with_mean=False)),
    ({"columns": "min-max"}, MinMaxScaler()),
    ({"columns": "max-abs"}, MaxAbsScaler()),
]


@pytest.mark.parametrize(("rules", "scaler"), DENSE)
@pytest.mark.parametrize("rows", ["none", "l1", "l2", "max"])
def test_dense_columns_then_rows_as_scikit_learn_has_them(rules, scaler, rows):
    loaded, ready, notes = prepared(np.array, rows=rows, **rules)
    expected, test = scaler.fit_transform(A), scaler.transform(TEST)
    if rows != "none":
        expected, test = normalize(expected, norm=rows), normalize(test, norm=rows)
    np.testing.assert_allclose(gathered(loaded), expected, rtol=1e-12, atol=1e-12)
    for shard in loaded.test:
        np.testing.assert_allclose(shard.features, test, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ready.apply(TEST), loaded.test[0].features)
    assert (ready.columns, ready.rows, notes) == (rules["columns"], rows, ())
    assert all(shard.features.flags.c_contiguous for shard in loaded.train)


@pytest.mark.parametrize(
    ("columns", "scaler"), [("standard", StandardScaler(with_mean=False)), ("max-abs", MaxAbsScaler())]
)
@pytest.mark.parametrize("rows", ["none", "l1", "l2", "max"])
def test_sparse_columns_stay_sparse(columns, scaler, rows):
    loaded, ready, notes = prepared(csr_array, columns=columns, rows=rows)
    expected = scaler.fit_transform(csr_array(A))
    if rows != "none":
        expected = normalize(expected, norm=rows)
    np.testing.assert_allclose(gathered(loaded), expected.toarray(), rtol=1e-12, atol=1e-12)
    assert ready.shift is None
    assert loaded.info.sparse
    assert loaded.train[0].features.nnz == csr_array(split(A, 3)[0]).nnz
    assert (len(notes) == 1 and "not centred" in notes[0]) == (columns == "standard")


def test_sparse_min_max_divides_by_the_range_and_keeps_zeros():
    loaded, ready, _ = prepared(csr_array, columns="min-max")
    width = np.ptp(A, axis=0)
    np.testing.assert_allclose(gathered(loaded), A / np.where(width, width, 1.0), rtol=1e-12)
    assert ready.shift is None


@pytest.mark.parametrize(("columns", "scaler"), [("standard", StandardScaler()), ("min-max", MinMaxScaler())])
def test_told_to_centre_sparse_data_become_dense(columns, scaler):
    loaded, ready, (note,) = prepared(csr_array, columns=columns, center=True)
    np.testing.assert_allclose(gathered(loaded), scaler.fit_transform(A), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(loaded.test[0].features, scaler.transform(TEST), rtol=1e-12, atol=1e-12)
    assert "stored dense: 0.00487 MB" in note  # (60 + 3 * 9) * 7 * 8 bytes
    assert not loaded.info.sparse
    assert not loaded.test_info.sparse
    assert isinstance(ready.apply(csr_array(TEST)), np.ndarray)


def test_dense_rows_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "NEVER_ASKED", 100)
    monkeypatch.setattr(memory, "machine_memory", lambda: 4000.0)
    with pytest.raises(DataError, match=r"made: prepare\.center = true stores the sparse rows dense"):
        prepared(csr_array, columns="standard", center=True)


@pytest.mark.parametrize("columns", ["none", "max-abs"])
def test_centring_is_refused_where_it_means_nothing(columns):
    with pytest.raises(JobError, match=r"prepare\.center = true: has no meaning for columns = "):
        prepared(np.array, columns=columns, center=True)


@pytest.mark.parametrize("storage", [np.array, csr_array])
@pytest.mark.parametrize("columns", ["standard", "min-max", "max-abs"])
def test_figures_are_the_same_bits_for_every_split_and_order(storage, columns):
    _, one, _ = prepared(storage, nodes=1, columns=columns, center=True if columns == "standard" else "auto")
    for nodes in (2, 5, 60, 70):
        order = RNG.permutation(ROWS)
        _, other, _ = prepared(storage, nodes, order, columns=columns, center=True if columns == "standard" else "auto")
        np.testing.assert_array_equal(one.factor, other.factor)
        np.testing.assert_array_equal(one.shift, other.shift)


@given(
    st.lists(st.floats(-1e100, 1e100, allow_subnormal=False), min_size=2, max_size=40),
    st.integers(1, 5),
    st.sampled_from([np.array, csr_array]),
)
def test_moments_are_those_of_exact_arithmetic(numbers, nodes, storage):
    from fractions import Fraction

    column = np.array(numbers)[:, np.newaxis]
    parts = [storage(part) for part in np.array_split(column, nodes)]
    mean, deviation = moments(parts, column_range(parts, 1, Solo()), Solo())
    exact = [Fraction(number) for number in numbers]
    true_mean = sum(exact) / len(exact)
    size = max(abs(number) for number in exact)
    assert abs(Fraction(float(mean[0])) - true_mean) <= size * Fraction(2) ** -51
    # around the mean as rounded, which adds the square of its rounding
    variance = sum((number - Fraction(float(mean[0]))) ** 2 for number in exact) / len(exact)
    assert float(deviation[0]) == pytest.approx(float(variance) ** 0.5, rel=1e-14, abs=1e-160)


def test_a_narrow_column_far_from_zero_is_scaled_to_the_last_digits():
    column = (1e8 + 1e-3 * RNG.integers(0, 9, ROWS))[:, np.newaxis]
    parts = np.array_split(column, 4)
    _, ready, _ = prepare(Rules("standard"), loaded_of(parts, [np.ones(p.shape[0]) for p in parts]), Solo())
    result = ready.apply(column)
    assert abs(result.mean()) < 1e-5  # 1e8 has 1.5e-8 to the next number, a 1e-5th of the width
    np.testing.assert_allclose(result.std(), 1.0, rtol=1e-9)


def test_columns_too_large_are_refused_by_name():
    huge = A.copy()
    huge[:2, 2] = [1e200, -1e200]
    parts = [huge]
    with pytest.raises(DataError, match=r'made: column 3 reaches from -1e\+200 to 1e\+200.*"standard"'):
        prepare(Rules("standard"), loaded_of(parts, [np.ones(ROWS)]), Solo())


@pytest.mark.parametrize("storage", [np.array, csr_array])
def test_nothing_to_do_gives_the_same_features_back(storage):
    features = storage(A)
    assert Preparation().apply(features) is features
    loaded = loaded_of([features], [np.ones(ROWS)])
    ready = prepare(Rules(), loaded, Solo())[0]
    assert ready.train[0].features is features


@pytest.mark.parametrize("storage", [np.array, csr_array])
@pytest.mark.parametrize("rows", ["l1", "l2", "max"])
def test_rows_of_zeros_and_no_rows_stay(storage, rows):
    zeros = Preparation(rows=rows).apply(storage(np.zeros((3, 4))))
    np.testing.assert_array_equal(dense(zeros), np.zeros((3, 4)))
    assert Preparation(rows=rows).apply(storage(np.zeros((0, 4)))).shape == (0, 4)


def test_what_is_given_is_not_changed():
    for storage in (np.array, csr_array):
        features = storage(A)
        Preparation("standard", None, np.full(FEATURES, 2.0), "l2").apply(features)
        np.testing.assert_array_equal(dense(features), A)


@pytest.mark.parametrize("storage", [np.array, csr_array])
def test_prepared_features_take_the_place_of_raw_ones_shard_by_shard(storage, monkeypatch):
    import weakref

    raw, alive = [], []

    def made():
        parts = [storage(part.copy()) for part in split(A, 3)]
        raw.extend(weakref.ref(part) for part in parts)
        return loaded_of(parts, [np.ones(part.shape[0]) for part in parts])

    apply = Preparation.apply

    def watched(ready, features):
        alive.append(sum(ref() is not None for ref in raw))
        return apply(ready, features)

    monkeypatch.setattr(Preparation, "apply", watched)
    prepare(Rules("standard"), made(), Solo())
    assert alive == [3, 2, 1]
