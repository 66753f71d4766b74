"""Damaged files are refused by name, and a conversion that does not come to its end leaves none."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from support.shardfiles import assert_same, converted, held, joined, write_text

from mpi_opt.datasets import shardfile, shardfile_spool, shardfile_write
from mpi_opt.datasets.shardfile_open import open_shards
from mpi_opt.datasets.shardfile_read import read_slice, verify
from mpi_opt.errors import DataError, JobError


def everything(path):
    contents = open_shards(path)
    rows = contents.facts.rows
    part = read_slice([contents], 0, rows)
    arrays = [part.labels, part.weights, part.dense]
    if part.sparse is not None:
        arrays += [part.sparse.indptr, part.sparse.indices, part.sparse.values]
    return contents.facts, [None if array is None else array.tobytes() for array in arrays]


@pytest.fixture(params=["csr", "constant", "dense", "weights"])
def whole(request, tmp_path, monkeypatch):
    """A file of each kind, in several blocks."""
    monkeypatch.setattr(shardfile, "BLOCK", 128)
    monkeypatch.setattr(shardfile_write, "BLOCK", 128)
    if request.param == "weights":
        (tmp_path / "x.csv").write_text("y,a,w\n" + "\n".join(f"{k % 2},{k},{k}" for k in range(40)))
        from mpi_opt.datasets.spec import Reading

        converted("x.csv", tmp_path / "x.h5", reading=Reading(weight="w"))
    else:
        write_text(tmp_path / "x", same=request.param == "constant")
        converted("x", tmp_path / "x.h5", layout="dense" if request.param == "dense" else None)
    return tmp_path / "x.h5"


def test_an_altered_byte_is_refused_or_changes_nothing(whole):
    data, expected = whole.read_bytes(), everything(whole)
    at = sorted(random.Random(0).sample(range(len(data)), min(600, len(data))))
    refused = harmless = 0
    altered = whole.with_name("altered.h5")
    for position in at:
        changed = bytearray(data)
        changed[position] ^= 1 << (position % 8)
        altered.write_bytes(changed)
        try:
            found = everything(altered)
        except DataError as error:
            refused += str(error).startswith(str(altered))
        else:
            assert found == expected, position
            harmless += 1
    assert refused + harmless == len(at)
    assert refused > 0.7 * len(at)


def test_every_byte_of_the_arrays_is_watched(whole):
    data = whole.read_bytes()
    altered = whole.with_name("altered.h5")
    for name, place in open_shards(whole).places.items():
        size = place.items * place.dtype.itemsize
        for position in {0, 1, size // 2, size - 1}:
            changed = bytearray(data)
            changed[place.at + position] ^= 0x40
            altered.write_bytes(changed)
            with pytest.raises(DataError, match=rf"altered\.h5: damaged: {name} have changed in bytes"):
                everything(altered)


def test_a_file_cut_short_at_any_length_is_refused(whole):
    data = whole.read_bytes()
    short = whole.with_name("short.h5")
    for length in sorted({*range(0, len(data), 37), *range(len(data) - 20, len(data)), 8, 48}):
        short.write_bytes(data[:length])
        if length < 8:  # no HDF5 file: taken for text
            with pytest.raises(DataError, match=r"short\.h5"):
                held("short.h5", whole.parent)
            continue
        with pytest.raises(DataError, match=r"short\.h5"):
            everything(short)


def test_damage_met_by_one_process_ends_all(whole):
    contents = open_shards(whole)
    place = contents.places["labels"]
    data = bytearray(whole.read_bytes())
    data[place.at + 8 * place.items - 1] ^= 1
    whole.write_bytes(data)
    from support.threads import on_threads

    from mpi_opt.datasets.reading import hold
    from mpi_opt.datasets.spec import Reading

    for result in on_threads(3, lambda c: hold(str(whole), [], Reading(), c)):
        assert isinstance(result, DataError)
        assert "labels have changed" in str(result)


def test_other_hdf5_files_are_refused(tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.attrs["format"] = "mpi_opt model"
    with pytest.raises(DataError, match=r"m\.h5: an HDF5 file of format 'mpi_opt model'; allowed as data is"):
        held("m.h5", tmp_path)
    write_text(tmp_path / "x")
    converted("x", tmp_path / "x.h5")
    with pytest.raises(DataError, match="no HDF5 file like the others"):
        held(["x", "x.h5"], tmp_path)


def test_changes_by_hand_are_refused(tmp_path):
    write_text(tmp_path / "x")
    converted("x", tmp_path / "x.h5")
    for name, value in (("features", 5), ("index_base", 0), ("rows", 3)):
        shutil.copy(tmp_path / "x.h5", tmp_path / "y.h5")
        with h5py.File(tmp_path / "y.h5", "r+") as file:
            file.attrs[name] = value
        with pytest.raises(DataError, match=r"y\.h5: damaged or changed by hand"):
            held("y.h5", tmp_path)
    shutil.copy(tmp_path / "x.h5", tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5", "r+") as file:
        del file["values"]
        file["values"] = np.zeros(file["indices"].shape)
    with pytest.raises(DataError, match=r"y\.h5: damaged"):
        held("y.h5", tmp_path)
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        file.attrs["format_version"] = 99
    with pytest.raises(DataError, match=r"x\.h5: data file of version 99, this mpi_opt reads versions up to 1"):
        held("x.h5", tmp_path)


def test_what_only_verify_sees(tmp_path, monkeypatch):
    """A file that was written wrong, with checksums that fit."""
    write_text(tmp_path / "x")
    from mpi_opt.datasets.shardfile_collect import Collector

    arrays = Collector._arrays

    def wrong(self, facts, base):
        found = arrays(self, facts, base)
        kind, parts = found["indices"]
        return found | {"indices": (kind, (part[::-1] for part in parts))}

    monkeypatch.setattr(Collector, "_arrays", wrong)
    converted("x", tmp_path / "x.h5")
    with pytest.raises(DataError, match=r"x\.h5: columns do not ascend within row"):
        verify(open_shards(tmp_path / "x.h5"))
    monkeypatch.setattr(Collector, "_arrays", lambda self, facts, base: arrays(self, facts, base) | {
        "indices": (np.dtype(np.uint8), (part + 5 for part in self._indices))})  # fmt: skip
    converted("x", tmp_path / "y.h5")
    with pytest.raises(DataError, match=r"y\.h5: damaged: indices go beyond 8"):
        held("y.h5", tmp_path)


# --- conversions that end early ---------------------------------------------------------------------------------------

SLOW = """
import sys, time
from pathlib import Path
from mpi_opt.datasets import shardfile_write
from mpi_opt.datasets.converting import Wanted, convert
from mpi_opt.datasets.spec import Reading
from mpi_opt.network.collectives import Solo

put = shardfile_write._put

def slowly(file, at, data):
    put(file, at, data)
    print("wrote", flush=True)
    time.sleep(0.01)

shardfile_write._put = slowly
folder = Path(sys.argv[1])
convert(["x"], [folder], Reading(), Wanted(folder / "x.h5", overwrite=True), Solo())
print("done", flush=True)
"""


@pytest.mark.parametrize("writes", [1, 6, 12, 17])
def test_a_killed_conversion_leaves_no_file(tmp_path, writes):
    write_text(tmp_path / "x")
    (tmp_path / "x.h5").write_text("what was there")
    with subprocess.Popen([sys.executable, "-c", SLOW, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        for _ in range(writes):
            assert process.stdout.readline() == "wrote\n"
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)
        assert "done" not in process.stdout.read()
    assert (tmp_path / "x.h5").read_text() == "what was there"
    # what lies beside it has another name, and is no HDF5 file yet
    for left in tmp_path.glob(".x.h5.*"):
        assert not shardfile.is_hdf5(left)


LIMITED = """
import resource, sys
from pathlib import Path
from mpi_opt.datasets import shardfile_spool
from mpi_opt.datasets.converting import Wanted, convert
from mpi_opt.datasets.spec import Reading
from mpi_opt.errors import JobError
from mpi_opt.network.collectives import Solo

shardfile_spool.IN_MEMORY = int(sys.argv[3])
folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    convert(["x"], [folder], Reading(), Wanted(folder / "x.h5", overwrite=True), Solo())
except JobError as error:
    print(error)
"""


@pytest.mark.parametrize("in_memory", [100, 10**6], ids=["spools", "file"])
@pytest.mark.parametrize("limit", [0, 1000, 6000])
def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, limit, in_memory):
    write_text(tmp_path / "x", rows=400)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path, str(limit), str(in_memory)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"cannot write {tmp_path / 'x.h5'}: ")
    assert os.listdir(tmp_path) == ["x"]


def test_a_full_disk_without_reserving(tmp_path, monkeypatch):
    """As on file systems that cannot take room beforehand."""
    write_text(tmp_path / "x", rows=400)

    def full(file, at, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shardfile_write, "_put", full)
    with pytest.raises(JobError, match=r"cannot write .*x\.h5: No space left on device. Needed is"):
        converted("x", tmp_path / "x.h5")
    assert os.listdir(tmp_path) == ["x"]


def test_a_source_that_changes_meanwhile_is_refused(tmp_path, monkeypatch):
    from mpi_opt.datasets import converting

    write_text(tmp_path / "x")
    plain = converting._Work.try_finish

    def late(self, *args):
        time.sleep(0.01)
        write_text(tmp_path / "x", seed=9)
        return plain(self, *args)

    monkeypatch.setattr(converting._Work, "try_finish", late)
    with pytest.raises(DataError, match=r"x: changed while it was read"):
        converted("x", tmp_path / "x.h5")
    assert os.listdir(tmp_path) == ["x"]


def test_memory_does_not_grow_with_the_set(tmp_path, monkeypatch):
    """Ten times as many rows, the same peak: what is read goes to unnamed files at once."""
    import tracemalloc

    from mpi_opt.datasets import converting_pieces

    monkeypatch.setattr(shardfile_spool, "IN_MEMORY", 1 << 12)
    monkeypatch.setattr(shardfile_spool, "PIECE", 1 << 11)
    monkeypatch.setattr(converting_pieces, "TEXT", 1 << 16)
    peaks = []
    for rows in (3_000, 30_000):
        write_text(tmp_path / "x", rows=rows)
        tracemalloc.start()
        converted("x", tmp_path / "x.h5")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert_same(joined(held("x", tmp_path)), joined(held("x.h5", tmp_path)))
