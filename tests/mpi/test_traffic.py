"""The bytes counted are the bytes handed to MPI, by an independent wrapper of the communicator."""

import json
from pathlib import Path

import pytest
from support import cases

SCRIPT = Path(__file__).parents[1] / "support" / "counting.py"
STEPS, CONTROLS, EVALUATIONS = 45, 11, 6
"""Steps; control reductions, every 4 of them, and evaluations, every 7 of them."""


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_counted_bytes_are_those_handed_over(n, mpirun, tmp_path):
    names = [*cases.CASES, *cases.REDUCING]
    mpirun(n, [SCRIPT, tmp_path, str(STEPS), *names], timeout=120).check()
    spoke = silent = 0
    for rank in range(n):
        for entry in json.loads((tmp_path / f"{rank}.json").read_text()):
            assert entry["ours"] == entry["theirs"], (rank, entry["name"])
            spoke += entry["ours"]["messages"]
            silent += entry["ours"]["empty"]
            # Three flags a reduction; a model to the next node, one to the mean or from it to all, one to neighbours.
            assert entry["ours"]["control"] == (CONTROLS * 24 if n > 1 else 0)
            neighbours = min(2, n - 1)
            moved = 8 * ((n > 1) * 19 + (1 if rank else n - 1) * 11 + neighbours * 5)
            assert entry["ours"]["evaluation"] == EVALUATIONS * moved
    assert (spoke > 0) == (silent > 0) == (n > 1)
