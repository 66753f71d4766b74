"""Ten of the kills of ``make torture``."""

import pytest
from support.torture import Torture


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_ten_kills_lose_nothing(tmp_path):
    torture = Torture(tmp_path, seed=20)
    torture.go(10)
    print(torture.table())
    assert torture.wrong == []
    assert sum(tally.rows + tally.checkpoints for tally in torture.tally.values()) == 0
    assert max(max(tally.seconds) for tally in torture.tally.values() if tally.seconds) < 20
