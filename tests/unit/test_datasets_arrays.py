"""NumPy and SciPy files against the arrays that were saved, for any number of processes."""

import io
import os
import zipfile

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from support.threads import on_threads

from mpi_opt.datasets import arrays
from mpi_opt.datasets.arrays import array_pieces
from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.datasets.memory import check_room
from mpi_opt.datasets.reading import hold
from mpi_opt.datasets.source import ArrayFiles, resolve
from mpi_opt.datasets.spec import Reading
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Solo

SIZES = (1, 2, 3, 5, 8)
rng = np.random.default_rng(0)
X = rng.normal(size=(23, 4)).round(2)
Y = rng.integers(0, 2, 23)
HOLED = np.where(X[3, 2] == X, np.nan, X)


def held(words, size=1, **keys):
    """Return the holdings of all processes; the error, if it is one of all."""
    words = list(map(str, words)) if isinstance(words, list) else str(words)
    parts = on_threads(size, lambda collectives: hold(words, [], Reading(**keys), collectives))
    if isinstance(parts[0], Exception):
        assert {str(part) for part in parts} == {str(parts[0])}
        raise parts[0]
    return parts


def joined(parts):
    """Return (features, labels, weights) of the processes that hold a set once."""
    owners = [part for part in parts if part.labels.size]
    assert np.array_equal(np.concatenate([part.numbers for part in owners]), np.arange(parts[0].rows))
    if parts[0].sparse is not None:
        (owner,) = owners
        rows = owner.sparse
        shape = owner.rows, owner.features
        features = scipy.sparse.csr_array((rows.values, rows.indices, rows.indptr), shape)
        assert features.has_canonical_format
    else:
        features = np.concatenate([part.dense for part in owners])
        assert features.dtype == np.float64
    weights = None if parts[0].weights is None else np.concatenate([part.weights for part in owners])
    return features, np.concatenate([part.labels for part in owners]), weights


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", ">f4", "f2", "i1", "u8", "?", "g"])
def test_any_order_and_real_type(tmp_path, monkeypatch, size, order, dtype):
    monkeypatch.setattr(arrays, "ENTRIES", 13)
    table = (X * 9).astype(dtype)
    np.save(tmp_path / "X.npy", np.asarray(table, order=order))
    np.save(tmp_path / "y.npy", Y[:, None].astype(dtype))
    np.save(tmp_path / "w.npy", np.arange(23, dtype=np.uint8))
    parts = held([tmp_path / f"{name}.npy" for name in "Xyw"], size)
    features, labels, weights = joined(parts)
    assert np.array_equal(features, table.astype(float))
    assert np.array_equal(labels, Y)
    assert np.array_equal(weights, np.arange(23))
    assert len({(part.rows, part.features, part.nonzeros, part.index_base) for part in parts}) == 1
    # labels and weights that are columns
    features, labels, weights = joined(held(tmp_path / "X.npy", size, label=-1, weight=None))
    assert np.array_equal(features, table[:, :-1].astype(float))
    assert np.array_equal(labels, table[:, -1].astype(float))
    assert weights is None
    if dtype == "?":
        features, labels, weights = joined(held(tmp_path / "X.npy", size, label=2, weight=0))
        assert np.array_equal(features, table[:, [1, 3]])
        assert np.array_equal(labels, table[:, 2])
        assert np.array_equal(weights, table[:, 0])


@given(st.integers(0, 12), st.integers(1, 14), st.integers(1, 30))
def test_shares_in_order_are_the_rows(tmp_path_factory, rows, parts, entries):
    folder = tmp_path_factory.mktemp("npy")
    table = np.arange(3.0 * rows).reshape(rows, 3)
    np.save(folder / "X.npy", table)
    source = resolve(str(folder / "X.npy"), [])
    before, arrays.ENTRIES = arrays.ENTRIES, entries
    try:
        pieces = [list(array_pieces(source, Reading(label=0), part, parts)) for part in range(parts)]
    finally:
        arrays.ENTRIES = before
    assert all(pieces)
    assert np.array_equal(np.concatenate([p.features for share in pieces for p in share]), table[:, 1:])
    assert np.array_equal(np.concatenate([p.labels for share in pieces for p in share]), table[:, 0])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("names", "save"), [("Xyw", np.savez), (("data", "target", "weights"), np.savez_compressed)])
def test_dense_npz(tmp_path, size, names, save):
    save(tmp_path / "set.npz", **dict(zip(names, (X, Y, np.ones(23)), strict=True)))
    parts = held(tmp_path / "set.npz", size)
    features, labels, weights = joined(parts)
    assert np.array_equal(features, X)
    assert np.array_equal(labels, Y)
    assert np.array_equal(weights, np.ones(23))
    assert [part.labels.size for part in parts] == [23] + [0] * (size - 1)
    save(tmp_path / "alone.npz", **{names[0]: X})
    np.save(tmp_path / "y.npy", Y)
    assert np.array_equal(joined(held([tmp_path / "alone.npz", tmp_path / "y.npy"], size))[1], Y)
    assert np.array_equal(joined(held(tmp_path / "alone.npz", size, label=0))[0], X[:, 1:])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_npz(tmp_path, monkeypatch, size, form):
    monkeypatch.setattr(arrays, "ENTRIES", 11)
    matrix = scipy.sparse.random_array((23, 9), density=0.3, rng=rng, format=form)
    scipy.sparse.save_npz(tmp_path / "X.npz", matrix)
    np.save(tmp_path / "y.npy", Y)
    parts = held([tmp_path / "X.npz", tmp_path / "y.npy"], size)
    features, labels, weights = joined(parts)
    assert np.array_equal(features.toarray(), matrix.toarray())
    assert np.array_equal(labels, Y)
    assert weights is None
    assert {(part.rows, part.features, part.index_base) for part in parts} == {(23, 9, 0)}
    if size == 2:
        local = [[0, 2], [1]]
        dealt = on_threads(
            2,
            lambda c: load(DataSpec((str(tmp_path / "X.npz"), str(tmp_path / "y.npy"))), c, 3, local[c.rank]),
        )
        shards = [dealt[0].train[0], dealt[1].train[0], dealt[0].train[1]]
        assert np.array_equal(scipy.sparse.vstack([shard.features for shard in shards]).toarray(), matrix.toarray())


def test_sparse_rows_are_sorted_duplicates_summed_and_empty_columns_kept(tmp_path):
    matrix = scipy.sparse.csr_array((np.array([1, 2, 4, 8]), np.array([3, 0, 3, 1]), [0, 3, 3, 4]), shape=(3, 7))
    scipy.sparse.save_npz(tmp_path / "X.npz", matrix)
    np.save(tmp_path / "y.npy", np.arange(3))
    (part,) = held([tmp_path / "X.npz", tmp_path / "y.npy"])
    assert part.sparse.indices.tolist() == [0, 3, 1]
    assert part.sparse.values.tolist() == [2, 5, 8]
    assert (part.features, part.nonzeros) == (7, 3)
    with pytest.raises(DataError, match="at most .* features$"):
        check_room(part, 1 << 50, 1, None, Solo())


def unsafe(tmp_path, **changed):
    """Write a sparse array as ``save_npz`` would, with other parts."""
    parts = {
        "indices": np.array([0, 1], np.int32),
        "indptr": np.array([0, 1, 2], np.int32),
        "format": np.array(b"csr"),
        "shape": np.array([2, 2]),
        "data": np.ones(2),
        **changed,
    }
    np.savez(tmp_path / "X.npz", **parts)
    np.save(tmp_path / "y.npy", np.arange(2))
    return [tmp_path / "X.npz", tmp_path / "y.npy"]


@pytest.mark.parametrize(
    "changed",
    [
        {"indices": np.array([0, 2])},
        {"indices": np.array([0, -1])},
        {"indices": np.array([0, 2]), "format": np.array(b"csc")},
        {"indptr": np.array([0, 5, 2])},
        {"indptr": np.array([0, 1])},
        {"indptr": np.array([1, 1, 2])},
        {"indptr": np.array([0, 2, 1]), "format": np.array(b"csc")},
        {"format": np.array(b"xyz")},
        {"format": np.array(["csr"], dtype=object)},
        {"data": np.ones(2, dtype=complex)},
        {"data": np.array([{}, 1], dtype=object)},
        {"data": np.ones(5)},
        {"shape": np.array([2])},
        {"shape": np.array([2, 2**31 + 1])},
        {"shape": np.array([-2, 2])},
        {"data": np.ones((2, 1, 1)), "format": np.array(b"bsr"), "indices": np.array([0, 9])},
        {"row": np.array([0, 5]), "col": np.array([0, 1]), "format": np.array(b"coo")},
    ],
)
def test_sparse_arrays_that_lie_are_refused(tmp_path, changed):
    words = unsafe(tmp_path)
    assert held(words)[0].rows == 2
    with pytest.raises(DataError, match=r"X\.npz"):
        held(unsafe(tmp_path, **changed))


class Trap:
    """Unpickling it makes a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_nothing_is_unpickled(tmp_path):
    trap = np.empty((2, 2), dtype=object)
    trap[:] = Trap(str(tmp_path / "sprung"))
    np.save(tmp_path / "X.npy", trap)
    np.save(tmp_path / "y.npy", np.arange(2))
    np.savez(tmp_path / "X.npz", X=trap, y=np.arange(2))
    np.save(tmp_path / "Z.npy", np.eye(2))
    np.save(tmp_path / "t.npy", trap[0])
    for words in (tmp_path / "X.npy", tmp_path / "X.npz", [tmp_path / "Z.npy", tmp_path / "t.npy"]):
        with pytest.raises(DataError, match="Python objects"):
            held(words, 2, label=None if isinstance(words, list) else 0)
    assert not (tmp_path / "sprung").exists()


def save(path, array):
    np.save(path, array)
    return path


@pytest.mark.parametrize(
    ("table", "keys", "said"),
    [
        (X, {}, r"X\.npy: has no labels; .*data.label = -1"),
        (X, {"label": 4}, r"data.label = 4; allowed is a column's number, 0 to 3, or -4 to -1"),
        (X, {"label": "y"}, r"data.label = 'y'; allowed is a column's number"),
        (X, {"label": 0, "weight": 0}, "one is label and weight"),
        (X[:, :1], {"label": 0}, "none is left as a feature"),
        (X[0], {"label": 0}, r"has shape \(4,\)"),
        (X[None], {"label": 0}, r"has shape \(1, 23, 4\)"),
        (X * 1j, {"label": 0}, "complex128"),
        (X.astype(str), {"label": 0}, "type <U"),
        (np.zeros((2, 2), dtype="f8,i4"), {"label": 0}, "real numbers"),
        (np.zeros((2, 2), dtype="M8[s]"), {"label": 0}, "datetime64"),
        (
            np.where(X[3, 2] == X, np.nan, X),
            {"label": 0},
            r"X\.npy: row 3, column 2 \(counted from 0\): nan is missing",
        ),
        (
            np.where(X[3, 2] == X, np.inf, X),
            {"label": 2},
            r"X\.npy, column 2: row 3 \(counted from 0\): inf is missing",
        ),
        (X, {"label": 0, "weight": 1}, r"X\.npy, column 1: row \d+ \(counted from 0\): -\S+ is negative"),
        (X, {"label": 0, "labels": ("a", "b")}, "data.labels is for labels that are words"),
        (X[:0], {"label": 0}, "holds no rows"),
    ],
)
def test_arrays_that_are_no_table_are_refused(tmp_path, table, keys, said):
    path = save(tmp_path / "X.npy", table)
    for size in (1, 3):
        with pytest.raises(DataError, match=said):
            held(path, size, **keys)


@pytest.mark.parametrize(
    ("companions", "keys", "said"),
    [
        ([Y[1:]], {}, r"y0\.npy: has shape \(22,\)"),
        ([X], {}, r"y0\.npy: has shape \(23, 4\)"),
        ([Y * 1j], {}, "complex"),
        ([Y], {"label": 0}, r"y0\.npy: holds the labels, but data.label = 0"),
        ([Y, Y], {"weight": 0}, r"y1\.npy: holds the weights, but data.weight = 0"),
        ([Y, Y - 2], {}, r"y1\.npy: row 0 \(counted from 0\): -\d is negative"),
        ([Y, Y.astype(str)], {}, r"y1\.npy: has shape \(23,\) and type <U"),
        ([Y.astype(str)], {}, r"""y0\.npy: row 0 \(counted from 0\): '\d' is no number.*data.labels = \["0", "1"\]"""),
        ([Y.astype(str)], {"labels": ("1", "2")}, r"is none of data.labels = \[\"1\", \"2\"\]"),
        ([Y, Y, Y], {}, "allowed is one .npy or .npz file of features"),
    ],
)
def test_companions_that_do_not_fit_are_refused(tmp_path, companions, keys, said):
    words = [save(tmp_path / "X.npy", X), *(save(tmp_path / f"y{k}.npy", y) for k, y in enumerate(companions))]
    for size in (1, 3):
        with pytest.raises(DataError, match=said):
            held(words, size, **keys)


def test_words_as_labels(tmp_path):
    words = np.array(["no", "yes ", "no"])
    for kind in ("U4", "S4"):
        names = [save(tmp_path / "X.npy", X[:3]), save(tmp_path / "y.npy", words.astype(kind))]
        for size in (1, 2, 5):
            assert joined(held(names, size, labels=("no", "yes")))[1].tolist() == [0, 1, 0]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_gaps_by_rule(tmp_path, monkeypatch, size, sparse):
    monkeypatch.setattr(arrays, "ENTRIES", 6)
    table = X.copy()
    table[2, 1], table[2, 3], table[9, 0] = np.nan, np.inf, -np.inf
    if sparse:
        scipy.sparse.save_npz(tmp_path / "X.npz", scipy.sparse.csr_array(table))
    else:
        np.save(tmp_path / "X.npz.npy", table)
    words = [tmp_path / ("X.npz" if sparse else "X.npz.npy"), save(tmp_path / "y.npy", Y)]
    parts = held(words, size, nan="zero")
    features, labels, _ = joined(parts)
    filled = np.where(np.isfinite(table), table, 0)
    assert np.array_equal(features.toarray() if sparse else features, filled)
    assert "3 values" in parts[0].notes[0]
    parts = held(words, size, nan="drop-row")
    features, labels, _ = joined(parts)
    keep = np.isfinite(table).all(axis=1)
    assert np.array_equal(features.toarray() if sparse else features, table[keep])
    assert np.array_equal(labels, Y[keep])
    assert "2 rows left out" in parts[0].notes[0]
    with pytest.raises(DataError, match=r"row 2, column 1 \(counted from 0\): nan is missing"):
        held(words, size)


def test_kinds_go_by_content_and_name(tmp_path):
    save(tmp_path / "X.npy", X).rename(tmp_path / "plain")
    assert resolve("plain", [tmp_path]) == ArrayFiles("plain", tmp_path / "plain", None, None, True)
    for name in ("X.npy", "X.npz"):
        (tmp_path / name).write_bytes(b"1 1:2\n")
        with pytest.raises(DataError, match="is no array of NumPy or SciPy"):
            held(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "X.npz", "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(DataError, match=r"holds the arrays hello.txt; allowed are X and y"):
        held(tmp_path / "X.npz")
    np.savez(tmp_path / "X.npz", X=X, data=X)
    with pytest.raises(DataError, match="holds both X and data"):
        held(tmp_path / "X.npz")
    np.savez(tmp_path / "X.npz", X=X, y=Y)
    with pytest.raises(DataError, match="another file was named for it"):
        held([tmp_path / "X.npz", save(tmp_path / "y.npy", Y)])
    with pytest.raises(DataError, match="data.label = 0"):
        held(tmp_path / "X.npz", label=0)
    scipy.sparse.save_npz(tmp_path / "S.npz", scipy.sparse.csr_array(X))
    with pytest.raises(DataError, match="data.label = 0, but the array is sparse"):
        held(tmp_path / "S.npz", label=0)


def contents():
    """Return the bytes of small files of each kind."""
    made = []
    for write in (
        lambda file: np.save(file, X[:5]),
        lambda file: np.savez(file, X=X[:5], y=Y[:5]),
        lambda file: np.savez_compressed(file, X=X[:5], y=Y[:5]),
        lambda file: scipy.sparse.save_npz(file, scipy.sparse.csr_array(X[:5])),
        lambda file: scipy.sparse.save_npz(file, scipy.sparse.coo_array(X[:5]), compressed=False),
    ):
        file = io.BytesIO()
        write(file)
        made.append(file.getvalue())
    return made


CONTENTS = contents()


@given(st.integers(0, len(CONTENTS) - 1), st.data())
def test_fuzz_damaged_files_give_an_error_or_rows(tmp_path_factory, which, data):
    content = bytearray(CONTENTS[which])
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    folder = tmp_path_factory.getbasetemp()
    path = folder / ("fuzz.npz" if which else "fuzz.npy")
    path.write_bytes(content[: cut if data.draw(st.booleans()) else None])
    words = [path, save(folder / "fuzz_y.npy", Y[:5])] if which > 2 else path
    try:
        (part,) = held(words, label=None if which else 0, nan="zero")
    except DataError:
        return
    assert part.labels.size == part.rows == part.numbers.size
    if part.sparse is not None:
        assert (
            part.sparse.indices.size == 0 or 0 <= part.sparse.indices.min() <= part.sparse.indices.max() < part.features
        )
