"""MPI and lockstep give the same bits, at odd and even sizes; lockstep is held to the twins elsewhere."""

from pathlib import Path

import numpy as np
import pytest
from support import cases

from mpi_opt.network.lockstep import Lockstep

SCRIPT = Path(__file__).parents[1] / "support" / "trajectories.py"
STEPS = 60
SIZES = (1, 2, 3, 4, 5, 8)


def same_as_lockstep(folder, n, names):
    """Compare iterates, firings, models and bytes of every case and rank."""
    for number, name in enumerate(names):
        made = cases.make(name, n)
        network = Lockstep(made.neighbours, made.codec)
        X, fired, final, _ = cases.drive(made, network, STEPS)
        for rank in range(n):
            with np.load(folder / f"{number}_{rank}.npz") as got:
                what = f"{name}, rank {rank}"
                np.testing.assert_array_equal(got["X"], X[:, rank], err_msg=what)
                np.testing.assert_array_equal(got["fired"], fired[:, rank], err_msg=what)
                np.testing.assert_array_equal(got["final"], final[rank], err_msg=what)
                t = network.traffic[rank]
                sent = [t.messages, t.silences, t.payload_bytes, t.header_bytes]
                np.testing.assert_array_equal(got["sent"], sent, err_msg=what)


@pytest.mark.parametrize("n", SIZES)
def test_every_case_bit_for_bit(n, mpirun, tmp_path):
    names = [*cases.CASES, *cases.REDUCING]
    mpirun(n, [SCRIPT, tmp_path, str(STEPS), "ordered", *names], timeout=120).check()
    same_as_lockstep(tmp_path, n, names)


@pytest.mark.parametrize("n", [3, 4])
def test_messages_that_arrive_behind_local_steps(n, mpirun, tmp_path):
    """Rounds that Testall completes between two steps, and those that are waited for, give lockstep's bits."""
    names = [name for name in cases.CASES if "overlap" in name]
    mpirun(n, [SCRIPT, tmp_path, str(STEPS), "poked", *names], timeout=120).check()
    same_as_lockstep(tmp_path, n, names)
    for number, name in enumerate(names):
        found = rounds = 0
        for rank in range(n):
            with np.load(tmp_path / f"{number}_{rank}.npz") as got:
                found, rounds = found + int(got["completed"]), rounds + int(got["rounds"])
        assert rounds == n * (STEPS // cases.CASES[name].sync_every)
        assert 0 < found <= rounds, f"{name}: {found} of {rounds} rounds completed by Testall"


@pytest.mark.parametrize("n", [3, 4])
def test_mpis_own_order_of_reduction(n, mpirun, tmp_path):
    names = list(cases.REDUCING)
    mpirun(n, [SCRIPT, tmp_path, str(STEPS), "mpi", *names], timeout=60).check()
    for number, name in enumerate(names):
        made = cases.make(name, n)
        X, _, _, _ = cases.drive(made, Lockstep(made.neighbours, None), STEPS)
        for rank in range(n):
            with np.load(tmp_path / f"{number}_{rank}.npz") as got:
                np.testing.assert_allclose(got["X"], X[:, rank], rtol=1e-12, atol=1e-14)
