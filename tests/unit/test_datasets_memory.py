"""Sets too wide for the machine: refused by name, row and number before anything of the model's length is made."""

import threading

import pytest

from mpi_opt.datasets import memory
from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.datasets.spec import Reading
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Solo

GIB = 2**30


@pytest.fixture
def stray(tmp_path):
    (tmp_path / "x").write_text("# rows\n1 1:1\n\n2 1:1\n1 3:1 2147483647:1 # stray\n2 4:1\n1 2147483647:2\n")
    return tmp_path


def told(spec):
    with pytest.raises(DataError) as caught:
        load(spec, Solo(), 2, range(2))
    return str(caught.value)


def test_a_stray_index_is_named_with_its_row(stray, monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 24.0 * GIB)
    said = told(DataSpec("x", search=(stray,)))
    assert said.startswith(
        "x: row 3 has the index 2147483647, the largest; 10 vectors of a model of 2147483647 features"
    )
    assert "take 160 GiB, and a machine of this run has 24; allowed: at most 322122547 features" in said
    assert "data.features" in said


def test_zero_based_indices_are_named_as_they_stand(stray, monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 24.0 * GIB)
    (stray / "x").write_text("1 0:1 2000000000:1\n2 1:1\n")
    assert "row 1 has the index 2000000000, the largest" in told(
        DataSpec("x", reading=Reading(index_base=0), search=(stray,))
    )


def test_classes_and_features_count(stray, monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 2.0 * GIB)
    (stray / "x").write_text("1 1:1\n2 1:1\n3 20000000:1\n")
    assert "20000000 features and 3 classes take 4 GiB" in told(DataSpec("x", label_kind="classes", search=(stray,)))
    said = told(DataSpec("x", label_kind="real", features=30_000_000, search=(stray,)))
    assert said.startswith("x: data.features = 30000000: 10 vectors of a model of 30000000 features take 2 GiB")
    assert load(DataSpec("x", label_kind="real", search=(stray,)), Solo(), 2, range(2)).info.features == 20_000_000


def test_the_machine_with_least_memory_decides_on_every_process(stray, monkeypatch):
    told = [None] * 3
    board = {"barrier": threading.Barrier(3, timeout=30), "slots": [None] * 3}

    class Threaded(Solo):
        def __init__(self, rank):
            self._rank = rank

        rank = property(lambda self: self._rank)
        size = 3

        def gather(self, item):
            board["slots"][self._rank] = item
            board["barrier"].wait()
            seen = list(board["slots"])
            board["barrier"].wait()
            return seen

        def broadcast(self, item, root=0):
            return self.gather(item)[root]

        def check(self, error):
            errors = [found for found in self.gather(error) if found is not None]
            if errors:
                raise errors[0]

    machines = iter([500.0 * GIB, 24.0 * GIB, 500.0 * GIB])
    monkeypatch.setattr(memory, "machine_memory", lambda: next(machines))

    def one(rank):
        try:
            load(DataSpec("x", search=(stray,)), Threaded(rank), 3, [rank])
        except DataError as error:
            told[rank] = str(error)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told[0].startswith("x: row 3 has the index 2147483647")
    assert told == told[:1] * 3


def test_the_machine_tells_its_memory(monkeypatch):
    assert 0.1 * GIB < memory.machine_memory() < 2**50

    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(memory.os, "sysconf", unknown)
    assert memory.machine_memory() == float("inf")
