"""CIFAR-10's binary records as a source."""

import json
import lzma

import numpy as np
import pytest

from mpi_opt.cli import main
from mpi_opt.datasets.records import RecordFiles, is_records, read_records
from mpi_opt.datasets.source import TextFiles, resolve
from mpi_opt.errors import DataError


def records(count, seed=0):
    draw = np.random.default_rng(seed)
    return np.hstack([draw.integers(0, 10, (count, 1)), draw.integers(0, 256, (count, 3072))]).astype(np.uint8)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.bin").write_bytes(records(7).tobytes())
    (tmp_path / "b.bin.xz").write_bytes(lzma.compress(records(5, 1).tobytes()))
    return tmp_path


def test_records_are_read_through_files_in_order(files):
    source = resolve(["a.bin", "b.bin"], [files])
    assert source == RecordFiles("a.bin and 1 more", (files / "a.bin", files / "b.bin.xz"))
    pixels, labels = read_records(source.paths)
    whole = np.vstack([records(7), records(5, 1)])
    np.testing.assert_array_equal(pixels, whole[:, 1:], strict=True)
    np.testing.assert_array_equal(labels, whole[:, 0], strict=True)


def test_text_that_is_called_so_stays_text(tmp_path):
    (tmp_path / "text.bin").write_text("+1 1:2\n")
    assert not is_records(tmp_path / "text.bin")
    assert isinstance(resolve("text.bin", [tmp_path]), TextFiles)


@pytest.mark.parametrize("label", [11, 31, 127, 200])
def test_a_first_label_that_is_none_is_named_as_such(tmp_path, label):
    (tmp_path / "odd.bin").write_bytes(bytes([label]) + bytes(3072))
    assert is_records(tmp_path / "odd.bin")
    with pytest.raises(DataError, match=f"odd.bin: record 1: label {label}; allowed are 0 to 9"):
        read_records([tmp_path / "odd.bin"])


def test_damage_is_named(files):
    (files / "short.bin").write_bytes(records(2).tobytes()[:-1])
    with pytest.raises(DataError, match=r"short.bin: holds 6145 bytes; allowed are whole records of 3073"):
        read_records([files / "short.bin"])
    wrong = records(3)
    wrong[2, 0] = 10
    (files / "wrong.bin").write_bytes(wrong.tobytes())
    with pytest.raises(DataError, match=r"wrong.bin: record 3: label 10; allowed are 0 to 9"):
        read_records([files / "wrong.bin"])
    (files / "text.txt").write_text("1 1:1\n")
    with pytest.raises(DataError, match="text.txt holds no CIFAR records like the others"):
        resolve(["a.bin", "text.txt"], [files])


def test_a_job_and_converted_files_have_the_pixels_as_shares_of_white(files, capsys, monkeypatch):
    from mpi_opt.datasets.load import DataSpec, load
    from mpi_opt.network.collectives import Solo

    monkeypatch.chdir(files)
    assert main(["data", "convert", "a.bin", "--out", "a.h5"]) == 0
    capsys.readouterr()
    assert main(["data", "info", "a.bin", "--json"]) == 0
    assert "records of CIFAR-10" in json.dumps(json.loads(capsys.readouterr().out))
    for name in ("a.bin", "a.h5"):
        loaded = load(
            DataSpec(train=name, label_kind="classes", search=(files,), partition="contiguous"), Solo(), 1, [0]
        )
        np.testing.assert_array_equal(loaded.train[0].features, records(7)[:, 1:] / 255.0)
        assert loaded.info.labels is not None


@pytest.mark.data
def test_the_real_subset(datasets):
    """Class counts and channel means of the official batch, as its readme has them."""
    source = resolve("cifar10-subset/test_batch.first1000.bin", [datasets])
    pixels, labels = read_records(source.paths)
    assert pixels.shape == (1000, 3072)
    assert np.bincount(labels).tolist() == [103, 89, 100, 103, 90, 86, 112, 102, 106, 109]
    means = pixels.reshape(-1, 3, 1024).mean(axis=(0, 2)) / 255
    np.testing.assert_allclose(means, [0.491, 0.482, 0.447], atol=0.02)
