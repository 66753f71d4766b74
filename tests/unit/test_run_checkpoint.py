"""Checkpoints: whole or not there, the newest kept, and every damage named."""

import json
import os
import threading

import numpy as np
import pytest

from mpi_opt.algorithms.parts.trigger import TriggerMemory
from mpi_opt.compression.messages import Signs
from mpi_opt.errors import DataError, MpiOptError
from mpi_opt.network.collectives import Solo
from mpi_opt.run import checkpoint
from mpi_opt.run.checkpoint import Checkpoints, found, read_manifest, read_node
from mpi_opt.run.freezing import Frozen, freeze, thaw


def piece(node=0, size=5):
    shared = np.arange(float(size)) + node
    return {
        "arrays": (shared, shared, [np.array([True, False]), np.zeros(0), np.uint16([3])]),
        "numbers": {"nan": float("nan"), "inf": -np.inf, "tiny": 5e-324, "int": 2**70, "scalar": np.float64(0.1)},
        1: None,
        "memory": TriggerMemory(3, -0.1),
        "message": Signs(9, np.array([1, 4]), np.array([True, False]), 0.3),
    }


def places(tmp_path, **changes):
    return Checkpoints(**{"folder": tmp_path / "checkpoints", "collectives": Solo(), "nodes": 2, **changes})


def write(tmp_path, step, **changes):
    return places(tmp_path, **changes).write(step, {0: piece(0), 1: piece(1)})


def same(a, b):
    frozen = Frozen(), Frozen()
    texts = [json.dumps(freeze(value, into)) for value, into in zip((a, b), frozen, strict=True)]
    assert texts[0] == texts[1]
    for x, y in zip(frozen[0].arrays, frozen[1].arrays, strict=True):
        assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())


def test_what_is_written_comes_back_as_it_was(tmp_path):
    manifest = read_manifest(write(tmp_path, 40))
    assert (manifest.step, manifest.nodes, len(manifest.files)) == (40, 2, 2)
    for node in (0, 1):
        back = read_node(manifest, node)
        same(back, piece(node))
        assert back["arrays"][0] is back["arrays"][1], "one array, met twice, is one array again"
        assert not back["message"].negative.flags.writeable or back["message"].negative.size == 2
        back["arrays"][0][:] = 7.0  # a step updates in place


def test_the_newest_are_kept(tmp_path):
    for step in (10, 20, 30):
        write(tmp_path, step)
    assert [path.name for path in found(tmp_path / "checkpoints")] == ["step_000000000030", "step_000000000020"]
    write(tmp_path, 40, keep=1)
    assert [path.name for path in found(tmp_path / "checkpoints")] == ["step_000000000040"]


@pytest.mark.parametrize("keep", [1, 2])
def test_damaged_ones_that_were_passed_over_do_not_outlive_whole_ones(tmp_path, keep):
    """A run whose checkpoints at 20 and 30 are damaged goes on from 10 and writes one at 15."""
    for step in (10, 20, 30):
        write(tmp_path, step, keep=3)
    for path in found(tmp_path / "checkpoints")[:2]:
        (path / "node_00000.h5").unlink()
    last = write(tmp_path, 15, keep=keep)
    assert [read_manifest(path).step for path in found(tmp_path / "checkpoints")] == [15, 10][:keep]
    assert [entry.name for entry in (tmp_path / "checkpoints").glob(".*")] == []
    same(read_node(read_manifest(last), 1), piece(1))


def test_damaged_ones_that_were_passed_over_do_not_count_among_those_kept(tmp_path):
    """A run whose checkpoint at 20 is damaged goes on from 10 and writes ones at 25, 30 and 35."""
    for step in (10, 20):
        write(tmp_path, step)
    (tmp_path / "checkpoints" / "step_000000000020" / "node_00000.h5").unlink()
    goes_on = places(tmp_path, spoilt={"step_000000000020"})
    for step, left in ((25, [25, 10]), (30, [30, 25]), (35, [35, 30])):
        goes_on.write(step, {0: piece(0), 1: piece(1)})
        assert [read_manifest(path).step for path in found(tmp_path / "checkpoints")] == left


def test_one_that_was_passed_over_and_is_written_again_counts(tmp_path):
    for step in (10, 20):
        write(tmp_path, step)
    goes_on = places(tmp_path, spoilt={"step_000000000020"})
    for step, left in ((20, [20, 10]), (25, [25, 20])):
        goes_on.write(step, {0: piece(0), 1: piece(1)})
        assert [read_manifest(path).step for path in found(tmp_path / "checkpoints")] == left


def test_one_of_the_same_step_is_replaced(tmp_path):
    path = write(tmp_path, 10)
    (path / "node_00001.h5").write_bytes(b"damaged")
    write(tmp_path, 10)
    same(read_node(read_manifest(path), 1), piece(1))
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == ["step_000000000010"]


def test_what_a_kill_left_half_made_is_no_checkpoint_and_goes(tmp_path):
    half = tmp_path / "checkpoints" / ".step_000000000099.making"
    half.mkdir(parents=True)
    (half / "node_00000.h5").write_bytes(b"x")
    assert found(tmp_path / "checkpoints") == []
    write(tmp_path, 10)
    assert not half.exists()


@pytest.mark.parametrize("name", ["node_00000.h5", "node_00001.h5", "manifest.json"])
@pytest.mark.parametrize("how", ["missing", "cut", "changed"])
def test_every_damage_is_named(tmp_path, name, how):
    place = write(tmp_path, 10) / name
    data = bytearray(place.read_bytes())
    if how == "missing":
        place.unlink()
    else:
        if how == "changed":
            data[len(data) // 2] ^= 4
        place.write_bytes(data[: -3 if how == "cut" else None])

    def read():
        manifest = read_manifest(place.parent)
        return [read_node(manifest, node) for node in (0, 1)]

    with pytest.raises(DataError, match=name):
        read()


@pytest.mark.skipif(os.name != "posix", reason="file size limits")
def test_a_full_disk_is_an_error_and_earlier_ones_stand(tmp_path, monkeypatch):
    path = write(tmp_path, 10)
    real = checkpoint.replace_file

    def full(place, data, **rest):
        if "node_00001" in place.name:
            raise OSError(28, "No space left on device", str(place))
        real(place, data, **rest)

    monkeypatch.setattr(checkpoint, "replace_file", full)
    with pytest.raises(MpiOptError, match=r"node_00001.*No space left.*Earlier checkpoints stand"):
        write(tmp_path, 20)
    assert found(tmp_path / "checkpoints") == [path]
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == [path.name]
    read_node(read_manifest(path), 1)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(MpiOptError, match=r"checkpoints cannot be written: .*Earlier checkpoints stand"):
        write(tmp_path, 10)


@pytest.mark.parametrize("value", [object(), {1, 2}, threading.Lock(), np.random.default_rng(0)])
def test_what_cannot_be_held_is_refused_by_name(value):
    with pytest.raises(TypeError, match=f"cannot hold .*{type(value).__name__}"):
        freeze({"state": value}, Frozen())


@pytest.mark.parametrize(
    "text",
    [
        {"class": "os:system", "items": ["true"]},
        {"class": "subprocess:Popen", "fields": {}},
        {"class": "mpi_opt.cli:main", "items": []},
        {"class": "mpi_opt.metrics.files:os.system", "items": ["true"]},
        {"class": "mpi_opt.nothing:X", "fields": {}},
        {"class": "mpi_opt.__main__:X", "fields": {}},  # it would start the command
        {"class": "mpi_opt.run.freezing:np.random.SeedSequence", "fields": {}},
        {"class": "mpi_opt.cli:os.stat_result", "items": [[0] * 10]},
        {"class": "mpi_opt.algorithms.parts.trigger:TriggerMemory", "fields": {}},  # of another version
        {"class": "mpi_opt.network.base:Traffic", "items": []},
        {"array": 3},
        {"what": 3},
        {},
        [],
    ],
)
def test_a_text_of_another_kind_makes_nothing(text):
    with pytest.raises(ValueError, match="no state of this version"):
        thaw(text, [])


def test_what_cannot_be_removed_does_not_end_a_run(tmp_path, monkeypatch):
    """A network file system may keep a file of a half-made one that somebody had open."""
    half = tmp_path / "checkpoints" / ".step_000000000099.making"
    half.mkdir(parents=True)
    real = checkpoint.shutil.rmtree

    def held(path, ignore_errors=False):
        if path == half:
            if not ignore_errors:
                raise OSError(39, "Directory not empty", str(path))
        else:
            real(path, ignore_errors)

    monkeypatch.setattr(checkpoint.shutil, "rmtree", held)
    assert read_manifest(write(tmp_path, 10)).step == 10
