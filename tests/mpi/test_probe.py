"""The probe over real ranks: one answer everywhere, within bounds, and it sees a slower network."""

import json

import numpy as np
import pytest

from mpi_opt.network.probe import partners, probe

SCRIPT = """
import json, sys, time
from mpi4py import MPI
from mpi_opt.network.probe import probe

class Slow:
    # A communicator whose messages take `latency` seconds and move `rate` bytes a second, at the sender's cost.
    def __init__(self, comm, latency, rate):
        self.comm, self.latency, self.rate = comm, latency, rate
    def __getattr__(self, name):
        return getattr(self.comm, name)
    def Send(self, message, dest, tag):
        time.sleep(self.latency + message[1] / self.rate)
        self.comm.Send(message, dest=dest, tag=tag)

comm = MPI.COMM_WORLD.Dup()
if len(sys.argv) > 2:
    comm = Slow(comm, float(sys.argv[2]), float(sys.argv[3]))
began = time.perf_counter()
latency, bandwidth = probe(comm, MPI)
seconds = time.perf_counter() - began
left = comm.Iprobe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
comm.Barrier()
with open(f"{sys.argv[1]}/{comm.rank}.json", "w") as file:
    json.dump([latency, bandwidth, seconds, left], file)
"""


def measured(mpirun, folder, n, *network):
    mpirun(n, ["-c", SCRIPT, folder, *network], timeout=60).check()
    ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(n)]
    assert all(rank[:2] == ranks[0][:2] for rank in ranks), "ranks differ"
    assert not any(rank[3] for rank in ranks), "a message was left behind"
    return ranks[0][0], ranks[0][1], max(rank[2] for rank in ranks)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_shared_memory(n, mpirun, tmp_path):
    latency, bandwidth, _ = measured(mpirun, tmp_path, n)
    # Busy machines are slow, but no shared memory is a wide-area network.
    assert 1e-8 < latency < 0.1
    assert 1e6 < bandwidth < 1e12


@pytest.mark.parametrize("n", [2, 3])
def test_slow_network(n, mpirun, tmp_path):
    latency, bandwidth, _ = measured(mpirun, tmp_path, n, "0.02", "12.5e6")
    # No message is faster than it may be; on a busy machine it is slower.
    assert 0.0199 < latency < 0.1
    assert 2e6 < bandwidth < 20e6


def test_very_slow_network_is_not_flooded(mpirun, tmp_path):
    """At a megabit a second, a megabyte would take eight seconds."""
    latency, bandwidth, seconds = measured(mpirun, tmp_path, 2, "0.001", "125e3")
    assert 0.00099 < latency < 0.1
    assert 50e3 < bandwidth < 150e3
    assert seconds < 8


def test_one_rank():
    class One:
        size, rank = 1, 0

    assert probe(One(), None) == (0.0, np.inf)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("aa", [1]),
        ("aaa", [1, 2]),
        ("aaaaa", [1, 2, 4]),
        ("aabb", [2]),
        ("abcabc", [1, 2]),
        ("aabbccddee", [2, 4, 8]),
        ("abcdefgh", [1, 4, 7]),
    ],
)
def test_partners(hosts, expected):
    assert partners(list(hosts)) == expected


def test_partners_are_few_and_others():
    for n in (2, 60, 1000):
        for hosts in (["h"] * n, [str(i) for i in range(n)], [str(i // 7) for i in range(n)]):
            chosen = partners(hosts)
            assert 1 <= len(set(chosen)) == len(chosen) <= 3
            assert all(0 < rank < n for rank in chosen)
