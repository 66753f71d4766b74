"""The README's script with a module and a loader of one's own, as it stands there."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_script_of_the_readme(mpirun, tmp_path):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (script,) = (text for text in re.findall(r"```python\n(.*?)```", readme, re.S) if "DataLoader" in text)
    assert sum(bool(line.strip()) for line in script.splitlines()) <= 24
    (tmp_path / "fit_net.py").write_text(script)
    result = mpirun(2, [tmp_path / "fit_net.py"], timeout=120).check()
    (said,) = re.findall(r"^accuracy (\d+\.\d)%, (\d+) bytes sent by rank 0$", result.logs[0], re.M)
    assert float(said[0]) > 95.0
    # 160 synchronisations, one neighbour, 2,410 parameters of 32 bits would be 1.5 MB.
    assert 0 < int(said[1]) < 1_542_400 / 10
