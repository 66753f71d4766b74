"""Where a job's words lead, and files of every kind."""

import bz2
import gzip
import lzma
import struct
import sys

import numpy as np
import pytest

from mpi_opt.datasets.builtin import BUILTIN, read_builtin
from mpi_opt.datasets.compressed import detect, open_stream
from mpi_opt.datasets.idx import read_idx, read_images
from mpi_opt.datasets.source import BuiltinSet, IdxPair, TextFiles, resolve, search_paths
from mpi_opt.errors import DataError
from mpi_opt.metrics.seal import sealed

PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, "": bytes}


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def put_images(folder, stem, rows=3, suffix=".gz"):
    folder.mkdir(exist_ok=True)
    pixels = np.arange(rows * 4, dtype=np.uint8).reshape(rows, 2, 2)
    images = folder / f"{stem}-images-idx3-ubyte{suffix}"
    images.write_bytes(PACKERS[suffix](idx(pixels)))
    (folder / f"{stem}-labels-idx1-ubyte{suffix}").write_bytes(PACKERS[suffix](idx(np.arange(rows, dtype=np.uint8))))
    return images


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("name", ["set", "set.t", "set.libsvm.scale"])
def test_bare_names(tmp_path, name, suffix):
    for folder in (tmp_path, tmp_path / "set"):
        folder.mkdir(exist_ok=True)
        path = folder / (name + suffix)
        path.write_bytes(PACKERS[suffix](b"1 1:1\n"))
        found = resolve(name, [tmp_path / "nowhere", tmp_path])
        assert found == TextFiles(name, (path,), (path.stat().st_size,), bool(suffix))
        path.unlink()


def test_the_first_folder_wins_and_plain_before_packed(tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_bytes(b"1 1:1\n")
    (tmp_path / "a" / "x.gz").write_bytes(gzip.compress(b"1 1:1\n"))
    assert resolve("x", [tmp_path / "a", tmp_path / "b"]).paths == (tmp_path / "a" / "x",)
    assert resolve("x", [tmp_path / "b", tmp_path / "a"]).paths == (tmp_path / "b" / "x",)
    assert resolve(str(tmp_path / "b" / "x"), []).paths == (tmp_path / "b" / "x",)
    assert resolve("../b/x", [tmp_path / "a"]).paths == (tmp_path / "a" / ".." / "b" / "x",)


def test_globs_and_lists(tmp_path):
    for name in ("p.2", "p.1", "q"):
        (tmp_path / name).write_bytes(b"1 1:1\n")
    (tmp_path / "q.gz").write_bytes(gzip.compress(b"1 1:1\n"))
    assert [path.name for path in resolve("p.*", [tmp_path]).paths] == ["p.1", "p.2"]
    assert [path.name for path in resolve(str(tmp_path / "p.?"), []).paths] == ["p.1", "p.2"]
    listed = resolve(["q", "p.*"], [tmp_path])
    assert [path.name for path in listed.paths] == ["q", "p.1", "p.2"]
    assert (listed.name, listed.sizes, listed.compressed) == ("q and 1 more", (6, 6, 6), False)
    assert resolve(["q", "q.gz"], [tmp_path]).compressed


def test_image_pairs(tmp_path):
    train = put_images(tmp_path / "mnist", "train")
    test = put_images(tmp_path / "mnist", "t10k", suffix="")
    labels = train.with_name("train-labels-idx1-ubyte.gz")
    assert resolve("mnist", [tmp_path]) == IdxPair("mnist", train, labels)
    assert resolve("mnist.t", [tmp_path]) == IdxPair("mnist.t", test, test.with_name("t10k-labels-idx1-ubyte"))
    assert resolve(str(train), []).labels == labels
    pixels, classes = read_images(train, labels)
    assert pixels.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert classes.tolist() == [0, 1, 2]
    put_images(tmp_path / "mnist", "t10k", rows=5, suffix="")
    with pytest.raises(DataError, match="have as many rows"):
        read_images(test, labels)
    labels.unlink()
    with pytest.raises(DataError, match="labels are missing"):
        resolve("mnist", [tmp_path])


def test_broken_idx(tmp_path):
    path = tmp_path / "x"
    whole = idx(np.zeros((2, 3), dtype=np.uint8))
    for content in (whole[:-1], whole + b"\0", whole[:9]):
        path.write_bytes(content)
        with pytest.raises(DataError, match="its header says"):
            read_idx(path)
    path.write_bytes(b"\0\0\x0d\x01")
    with pytest.raises(DataError, match="00 00 0d 01"):
        read_idx(path)


def test_missing_names_every_place(tmp_path):
    (tmp_path / "a" / "a9a").mkdir(parents=True)
    with pytest.raises(DataError) as caught:
        resolve("a9a.t", [tmp_path / "a", tmp_path / "b"])
    message = str(caught.value)
    for place in ("a/a9a.t", "a/a9a.t.bz2", "a/a9a/a9a.t.xz", "b/a9a.t", "b/a9a.t.gz"):
        assert f"  {tmp_path / place}\n" in message
    assert "'a9a.t' was not found" in message
    assert "MPI_OPT_DATASETS" in message
    with pytest.raises(DataError, match="no-\\*"):
        resolve("no-*", [tmp_path])
    for nothing in ("", [], ["a", ""]):
        with pytest.raises(DataError, match="names nothing"):
            resolve(nothing, [tmp_path])
    with pytest.raises(DataError, match="not found"):
        resolve("/", [tmp_path])
    with pytest.raises(DataError, match=r"allowed are builtin:digits, builtin:breast-cancer, "):
        resolve("builtin:mnist", [tmp_path])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04abcd", "zip"),
        (b"\x28\xb5\x2f\xfdabcd", "Zstandard"),
        (sealed(b"HDF5"), "a model file"),
    ],
)
def test_other_kinds_of_files_are_refused(tmp_path, content, what):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataError, match=what):
        resolve("x", [tmp_path])


@pytest.mark.parametrize("suffix", PACKERS)
def test_compression_goes_by_content(tmp_path, suffix):
    text = b"1 1:1\n" * 5000
    path = tmp_path / "misnamed.zip"
    path.write_bytes(PACKERS[suffix](text))
    assert (detect(path) is None) == (suffix == "")
    with open_stream(path) as stream:
        assert stream.read() == text
    if suffix:
        path.write_bytes(PACKERS[suffix](text)[:-9])
        with pytest.raises(DataError, match="cut short"), open_stream(path) as stream:
            stream.read()
    with pytest.raises(DataError, match="cannot be read"), open_stream(tmp_path / "gone"):
        pass


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_damage_inside_is_a_data_error(tmp_path, suffix):
    packed = bytearray(PACKERS[suffix](bytes(range(256)) * 20))
    packed[len(packed) // 2] ^= 255
    (tmp_path / "x").write_bytes(packed)
    with pytest.raises(DataError, match="damaged"), open_stream(tmp_path / "x") as stream:
        stream.read()


def test_a_python_without_lzma(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(lzma.compress(b"1 1:1"))
    monkeypatch.setitem(sys.modules, "lzma", None)
    with pytest.raises(DataError, match="built without lzma"), open_stream(tmp_path / "x"):
        pass


def test_search_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPI_OPT_DATASETS", f"/data/one:{tmp_path}/two")
    assert search_paths(tmp_path / "jobs") == (
        tmp_path / "jobs",
        tmp_path.__class__("/data/one"),
        tmp_path / "two",
        tmp_path / "data/raw",
        tmp_path / "../shared/datasets",
    )
    monkeypatch.delenv("MPI_OPT_DATASETS")
    assert search_paths() == (tmp_path, tmp_path / "data/raw", tmp_path / "../shared/datasets")


@pytest.mark.parametrize(
    ("key", "shape", "classes"),
    [("digits", (1797, 64), 10), ("breast-cancer", (569, 30), 2), ("iris", (150, 4), 3), ("wine", (178, 13), 3)],
)
def test_builtin_sets(key, shape, classes):
    assert resolve("builtin:" + key, []) == BuiltinSet("builtin:" + key, key)
    features, labels, divisor = read_builtin(key)
    assert features.shape == shape
    assert features.flags.c_contiguous
    assert np.unique(labels).tolist() == list(range(classes))
    assert divisor == (features.max() if key == "digits" else 1.0)
    assert key in BUILTIN
