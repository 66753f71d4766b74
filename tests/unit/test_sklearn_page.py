"""What docs/scikit-learn.md shows works as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "scikit-learn.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_there_is_one_script_for_ranks():
    assert len(BLOCKS) == 3
    assert [block.startswith("# fit.py") for block in BLOCKS] == [False, True, False]


@pytest.mark.parametrize("block", [block for block in BLOCKS if not block.startswith("# fit.py")])
def test_code_for_one_process(block, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_script_for_ranks(mpirun, tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(BLOCKS[1])
    told = mpirun(3, [script], cwd=tmp_path).check().logs
    assert re.search(r"rounds, accuracy 9\d\.\d%", told[0])
    assert not told[1]
    assert (tmp_path / "model.h5").exists()
