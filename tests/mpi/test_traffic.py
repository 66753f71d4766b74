"""The bytes counted are the bytes handed to MPI, by an independent wrapper of the communicator."""

import json
from pathlib import Path

import pytest
from support import cases

SCRIPT = Path(__file__).parents[1] / "support" / "counting.py"


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_counted_bytes_are_those_handed_over(n, mpirun, tmp_path):
    names = [*cases.CASES, *cases.REDUCING]
    mpirun(n, [SCRIPT, tmp_path, "45", *names], timeout=120).check()
    spoke = silent = 0
    for rank in range(n):
        for entry in json.loads((tmp_path / f"{rank}.json").read_text()):
            assert entry["ours"] == entry["theirs"], (rank, entry["name"])
            spoke += entry["ours"]["messages"]
            silent += entry["ours"]["empty"]
    assert (spoke > 0) == (silent > 0) == (n > 1)
