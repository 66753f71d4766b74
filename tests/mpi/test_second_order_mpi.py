"""Second-order methods over MPI: the same as lockstep, which is held to the twin elsewhere; bytes counted apart."""

import functools
from pathlib import Path

import numpy as np
import pytest
from support import second_order as so

from mpi_opt.network.lockstep import Lockstep

SCRIPT = Path(__file__).parents[1] / "support" / "second_order_ranks.py"
SIZES = (1, 2, 3, 4, 5)


@functools.cache
def lockstep(name, n):
    network = Lockstep([()] * n, None)
    seen, _ = so.drive(so.make(name, n), network, so.CASES[name].steps)
    return seen, network.traffic


def each_rank(tmp_path, mode, n):
    """Yield name, rank, what the rank kept, what lockstep saw and counted for that node."""
    for number, name in enumerate(so.CASES):
        seen, traffic = lockstep(name, n)
        for rank in range(n):
            with np.load(tmp_path / f"{mode}_{number}_{rank}.npz") as got:
                yield f"{name}, rank {rank}", rank, got, seen, traffic[rank]


def same_course(what, got, seen, traffic):
    """Rounds, bytes and end are those of lockstep, and the bytes those that MPI was given."""
    np.testing.assert_array_equal(got["counts"], [[step.rounds, step.short] for step in seen], err_msg=what)
    expected = [traffic.payload_bytes, traffic.messages, traffic.rounds + traffic.short_rounds]
    np.testing.assert_array_equal(got["ours"], expected, err_msg=what)
    np.testing.assert_array_equal(got["theirs"], expected, err_msg=what)


@pytest.mark.parametrize("n", SIZES)
def test_ordered_reductions_bit_for_bit_and_mpis_own_order_nearly(n, mpirun, tmp_path):
    mpirun(n, [SCRIPT, tmp_path, *so.CASES], timeout=120).check()
    for what, rank, got, seen, traffic in each_rank(tmp_path, "ordered", n):
        same_course(what, got, seen, traffic)
        np.testing.assert_array_equal(got["w"], [step.w[rank] for step in seen], err_msg=what)
        assert str(got["ended"]) == seen[-1].ended
    for what, rank, got, seen, traffic in each_rank(tmp_path, "mpi", n):
        same_course(what, got, seen, traffic)
        expected = np.array([step.w[rank] for step in seen])
        np.testing.assert_allclose(got["w"], expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max(), err_msg=what)
