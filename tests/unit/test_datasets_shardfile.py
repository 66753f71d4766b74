"""Converted files: what is read of them is what the source says, however many processes read or wrote them."""

import json
import os

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.datasets import load_svmlight_file
from support.shardfiles import assert_same, converted, held, joined, raise_first, write_text
from support.threads import on_threads

from mpi_opt.datasets import shardfile, shardfile_blocks, shardfile_collect, shardfile_spool, shardfile_write
from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.datasets.shardfile_open import open_shards
from mpi_opt.datasets.shardfile_read import pieces_of, read_slice, verify
from mpi_opt.datasets.spec import Reading
from mpi_opt.errors import DataError

SIZES = (1, 2, 3, 5, 8)


@pytest.fixture
def small(monkeypatch):
    """Blocks and pieces so small that a small set has many."""
    monkeypatch.setattr(shardfile, "BLOCK", 64)
    monkeypatch.setattr(shardfile_write, "BLOCK", 64)
    monkeypatch.setattr(shardfile_spool, "PIECE", 7)
    monkeypatch.setattr(shardfile_collect, "PIECE", 7)
    monkeypatch.setattr(shardfile_spool, "IN_MEMORY", 100)
    monkeypatch.setattr(shardfile_blocks, "_AT_ONCE", 2)


@pytest.mark.parametrize("same", [False, True], ids=["values", "constant"])
@pytest.mark.parametrize("size", SIZES)
def test_reading_equals_the_text(tmp_path, small, size, same):
    write_text(tmp_path / "x", same=same)
    converted("x", tmp_path / "x.h5")
    text = joined(held("x", tmp_path))
    assert_same(text, joined(held("x.h5", tmp_path, size)))


@settings(max_examples=60)
@given(data=st.data())
def test_any_set_and_any_slice(tmp_path_factory, data):
    """A random set of text to a file and back; then any range of rows is those rows."""
    finite = st.floats(allow_nan=False, allow_infinity=False)
    number = data.draw(st.sampled_from([finite, st.just(1.0), st.sampled_from([0.0, -0.0, 1.0])]))
    columns = st.integers(1, data.draw(st.sampled_from([3, 300, 70_000, 2**31 - 1])))
    row = st.tuples(finite, st.dictionaries(columns, number, max_size=5))
    rows = data.draw(st.lists(row, min_size=1, max_size=12).filter(lambda rows: any(entries for _, entries in rows)))
    folder = tmp_path_factory.mktemp("any")
    text = "".join(
        " ".join([repr(label), *(f"{i}:{v!r}" for i, v in sorted(entries.items()))]) + "\n" for label, entries in rows
    )
    (folder / "x").write_text(text)
    base = data.draw(st.sampled_from([None, 0, 1]))
    reading = Reading(base)
    converted("x", folder / "x.h5", reading=reading)
    whole = joined(held("x", folder, reading=reading))
    assert_same(whole, joined(held("x.h5", folder, data.draw(st.sampled_from(SIZES)))))
    contents = open_shards(folder / "x.h5")
    verify(contents)
    begin = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(begin, len(rows)))
    part = read_slice([contents], begin, end)
    entries = [sorted(entries.items()) for _, entries in rows[begin:end]]
    assert part.labels.tolist() == [label for label, _ in rows[begin:end]]
    assert np.diff(part.sparse.indptr).tolist() == [len(some) for some in entries]
    assert (part.sparse.indices + whole[1]["index_base"]).tolist() == [i for some in entries for i, _ in some]
    assert part.sparse.values.tobytes() == np.array([v for some in entries for _, v in some], dtype=float).tobytes()


@pytest.mark.parametrize("kind", [
    {"partition": "contiguous"},
    {"partition": "shuffled", "seed": 3},
    {"partition": "by-label"},
    {"partition": "dirichlet", "alpha": 0.3, "seed": 2},
    {"partition": "shuffled", "holdout": 0.3, "seed": 1},
], ids=lambda kind: "-".join(map(str, kind.values())))  # fmt: skip
def test_shards_of_nodes_are_those_of_the_text(tmp_path, small, kind):
    write_text(tmp_path / "x")

    def loaded(word, size):
        spec = DataSpec(word, search=(tmp_path,), **kind)
        local = [list(range(5 * p // size, 5 * (p + 1) // size)) for p in range(size)]
        found = on_threads(size, lambda c: load(spec, c, 5, local[c.rank]))
        shards = [shard for part in found for shard in part.train]
        return shards + [shard for part in found for shard in part.test or ()], found[0].info

    converted("x", tmp_path / "x.h5")
    expected, info = loaded("x", 1)
    for size in SIZES[:4]:
        shards, other = loaded("x.h5", size)
        assert (other.rows, other.features, other.nonzeros, other.labels, other.index_base, other.sparse) == (
            info.rows, info.features, info.nonzeros, info.labels, info.index_base, info.sparse
        )  # fmt: skip
        for one, two in zip(expected, shards, strict=True):
            assert one.features.toarray().tobytes() == two.features.toarray().tobytes()
            assert one.labels.tobytes() == two.labels.tobytes()
            assert one.rows.tobytes() == two.rows.tobytes()


def test_other_programs_read_it(tmp_path):
    """By plain h5py, against scikit-learn's reader."""
    write_text(tmp_path / "x")
    converted("x", tmp_path / "x.h5")
    matrix, labels = load_svmlight_file(str(tmp_path / "x"), zero_based=False)
    with h5py.File(tmp_path / "x.h5") as file:
        found = csr_array((file["values"][:], file["indices"][:], file["indptr"][:]), (38, file.attrs["features"]))
        assert (found != csr_array(matrix)).nnz == 0
        assert found.nnz == matrix.nnz
        assert file["labels"][:].tolist() == labels.tolist()
        assert [file[name].dtype.name for name in ("indptr", "indices", "values")] == ["int32", "uint8", "float64"]
        counts = dict(json.loads(file.attrs["label_counts"]))
        assert counts == {label: int((labels == label).sum()) for label in (-1.0, 1.0)}
        (source,) = json.loads(file.attrs["provenance"])["sources"]
    assert source["bytes"] == (tmp_path / "x").stat().st_size
    assert len(source["sha256"]) == 64


@pytest.mark.parametrize("form", ["plain", "xz", "csv"])
def test_the_file_does_not_depend_on_the_number_of_processes(tmp_path, monkeypatch, small, form):
    import lzma

    from mpi_opt.datasets import converting_pieces, tables, textfiles

    monkeypatch.setattr(converting_pieces, "TEXT", 300)
    monkeypatch.setattr(textfiles, "CHUNK", 100)
    monkeypatch.setattr(tables, "CHUNK", 100)
    write_text(tmp_path / "x")
    word = "x"
    if form == "xz":
        (tmp_path / "x.xz").write_bytes(lzma.compress((tmp_path / "x").read_bytes()))
        word = "x.xz"
    if form == "csv":
        matrix, labels = load_svmlight_file(str(tmp_path / "x"), zero_based=False)
        table = np.column_stack([labels, matrix.toarray()])
        np.savetxt(tmp_path / "x.csv", table, delimiter=",", fmt="%.17g", header="y,a,b,c,d,e,f,g,h,i", comments="")
        word = "x.csv"
    contents = []
    for size in (1, 2, 3):
        raise_first(on_threads(size, lambda c: converted(word, tmp_path / "y.h5", c)))
        with h5py.File(tmp_path / "y.h5") as file:
            attributes = {name: value for name, value in file.attrs.items() if name not in ("provenance", "sha256")}
            contents.append(({name: (file[name].dtype, file[name][()].tobytes()) for name in file}, attributes))
    assert contents[0] == contents[1] == contents[2]
    assert_same(joined(held(word, tmp_path)), joined(held("y.h5", tmp_path, 3)))


def test_several_files_are_one_set(tmp_path, small):
    write_text(tmp_path / "x", rows=20)
    write_text(tmp_path / "y", rows=3, columns=12, seed=1)
    write_text(tmp_path / "z", rows=1, columns=12, seed=2)
    for name in "xyz":
        converted(name, tmp_path / f"{name}.h5")
    text = joined(held(["x", "y", "z"], tmp_path))
    for size in SIZES:
        assert_same(text, joined(held(["[xy].h5", "z.h5"], tmp_path, size)))
    # and they can be made one
    converted(["x.h5", "y.h5", "z.h5"], tmp_path / "all.h5")
    assert_same(text, joined(held("all.h5", tmp_path, 2)))


def test_pointers_are_wide_where_entries_are_many(tmp_path, monkeypatch, small):
    write_text(tmp_path / "x")
    text = joined(held("x", tmp_path))
    for most, name in ((text[1]["nonzeros"], "int32"), (text[1]["nonzeros"] - 1, "int64")):
        monkeypatch.setattr(shardfile, "INT32_MOST", most)
        converted("x", tmp_path / "x.h5")
        assert open_shards(tmp_path / "x.h5").places["indptr"].dtype.name == name
        assert_same(text, joined(held("x.h5", tmp_path, 3)))


@pytest.mark.parametrize(("columns", "name"), [(256, "uint8"), (257, "uint16"), (65536, "uint16"), (65537, "int32")])
def test_columns_are_as_narrow_as_they_can_be(tmp_path, columns, name):
    (tmp_path / "x").write_text(f"1 1:2 {columns}:0.5\n0 {columns}:1e-300\n")
    converted("x", tmp_path / "x.h5")
    assert open_shards(tmp_path / "x.h5").places["indices"].dtype.name == name
    assert_same(joined(held("x", tmp_path)), joined(held("x.h5", tmp_path)))


def test_float32_says_what_it_changed(tmp_path):
    (tmp_path / "x").write_text("1 1:0.5 2:0.1\n-1 1:0.1 3:16777217\n")
    made = converted("x", tmp_path / "x.h5", single=True)
    assert made.facts.changed == 3
    assert any("3 values changed" in note for note in made.notes)
    part = held("x.h5", tmp_path)[0].sparse
    assert part.values.dtype == np.float64
    assert part.values.tolist() == [0.5, float(np.float32(0.1)), float(np.float32(0.1)), 16777216.0]
    (tmp_path / "y").write_text("1 1:1e39\n")
    with pytest.raises(DataError, match="1e\\+39 is beyond the range of float32"):
        converted("y", tmp_path / "y.h5", single=True)
    assert not (tmp_path / "y.h5").exists()


@pytest.mark.parametrize("same", [False, True], ids=["values", "constant"])
def test_dense_and_sparse_when_told(tmp_path, small, same):
    write_text(tmp_path / "x", same=same)
    matrix, _ = load_svmlight_file(str(tmp_path / "x"), zero_based=False)
    converted("x", tmp_path / "d.h5", layout="dense")
    for size in SIZES:
        arrays, figures = joined(held("d.h5", tmp_path, size))
        assert np.array_equal(arrays["dense"], matrix.toarray())
        assert figures["nonzeros"] == matrix.count_nonzero()
    converted("d.h5", tmp_path / "s.h5", layout="csr")
    arrays, figures = joined(held("s.h5", tmp_path, 2))
    assert figures["index_base"] == 1
    assert arrays["indices"].tolist() == (matrix.indices + 1).tolist()
    assert arrays["values"].tolist() == matrix.data.tolist()
    wide = converted("x", tmp_path / "w.h5", layout="dense", features=12)
    assert wide.facts.features == 12
    with pytest.raises(DataError, match="has 9 features, but 8 are wanted"):
        converted("x", tmp_path / "n.h5", features=8)


def test_index_base_goes_with_the_file(tmp_path):
    write_text(tmp_path / "x", base=0)
    write_text(tmp_path / "y")
    converted("x", tmp_path / "x.h5", reading=Reading(None))
    assert_same(joined(held("x", tmp_path, reading=Reading(0))), joined(held("x.h5", tmp_path)))
    converted("y", tmp_path / "y.h5", reading=Reading(None))
    with pytest.raises(DataError, match=r"x\.h5 and .*y\.h5 cannot be one set: index_base is 0 in the first and 1"):
        held(["x.h5", "y.h5"], tmp_path)


def test_weights_of_rows(tmp_path, small):
    lines = [f"{k % 2},{k}.5,{k + 1},{k / 4}" for k in range(11)]
    (tmp_path / "x.csv").write_text("y,a,b,w\n" + "\n".join(lines) + "\n")
    made = converted("x.csv", tmp_path / "x.h5", reading=Reading(weight="w"))
    assert made.facts.weighted
    for size in SIZES:
        arrays, _ = joined(held("x.h5", tmp_path, size))
        assert arrays["weights"].tolist() == [k / 4 for k in range(11)]
        assert arrays["dense"].tolist() == [[k + 0.5, k + 1] for k in range(11)]
    converted("x.csv", tmp_path / "y.h5")
    with pytest.raises(DataError, match="weighted is True in the first and False in the second"):
        held(["x.h5", "y.h5"], tmp_path)


def test_pixels_stay_bytes(tmp_path):
    rng = np.random.default_rng(0)
    pixels, classes = rng.integers(0, 256, (13, 2, 3), dtype=np.uint8), np.arange(13, dtype=np.uint8) % 4
    head = b"\0\0\x08"
    (tmp_path / "a-images-idx3-ubyte").write_bytes(
        head + b"\3" + np.array(pixels.shape, ">u4").tobytes() + pixels.tobytes()
    )
    (tmp_path / "a-labels-idx1-ubyte").write_bytes(head + b"\1" + np.array([13], ">u4").tobytes() + classes.tobytes())
    converted("a-images-idx3-ubyte", tmp_path / "a.h5")
    arrays, figures = joined(held("a.h5", tmp_path, 3))
    assert arrays["dense"].dtype == np.uint8
    assert figures["divisor"] == 255.0
    assert_same(joined(held("a-images-idx3-ubyte", tmp_path)), (arrays, figures))
    converted("a.h5", tmp_path / "s.h5", layout="csr")
    arrays, _ = joined(held("s.h5", tmp_path))
    assert arrays["values"].tolist() == (pixels[pixels > 0] / 255.0).tolist()


def test_a_process_reads_its_rows_and_little_more(tmp_path, monkeypatch):
    monkeypatch.setattr(shardfile, "BLOCK", 256)
    monkeypatch.setattr(shardfile_write, "BLOCK", 256)
    write_text(tmp_path / "x", rows=2000)
    nbytes = converted("x", tmp_path / "x.h5").nbytes
    contents = open_shards(tmp_path / "x.h5")
    read = []
    plain = os.preadv

    def counted(handle, buffers, at):
        read.append(plain(handle, buffers, at))
        return read[-1]

    monkeypatch.setattr(os, "preadv", counted)
    for part in range(8):
        read.clear()
        read_slice([contents], 2001 * part // 8, 2001 * (part + 1) // 8)
        assert sum(read) < nbytes / 8 + 4 * 2 * 256
    assert list(pieces_of([contents], 500))[-1][1] == 2001


def test_a_set_without_rows_or_features_is_refused(tmp_path):
    (tmp_path / "x").write_text("# nothing\n")
    with pytest.raises(DataError, match="holds no rows"):
        converted("x", tmp_path / "x.h5")
    (tmp_path / "y").write_text("1\n-1\n")
    with pytest.raises(DataError, match="no row has any feature"):
        converted("y", tmp_path / "y.h5")
    assert converted("y", tmp_path / "y.h5", features=3).facts.features == 3
    arrays, figures = joined(held("y.h5", tmp_path, 5))
    assert arrays["labels"].tolist() == [1.0, -1.0]
    assert (figures["features"], figures["nonzeros"]) == (3, 0)
    verify(open_shards(tmp_path / "y.h5"))
