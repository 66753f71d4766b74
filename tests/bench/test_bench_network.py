"""One exchange of ready 64 KiB messages against a bare Isend/Irecv of the same bytes."""

import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "support" / "exchange_times.py"


@pytest.mark.parametrize("n", [2, 8])
def test_exchange_of_ready_messages(n, benchmark, mpirun):
    def measure():
        result = mpirun(n, [SCRIPT, str(64 * 1024), "300" if n == 2 else "30"], timeout=120).check()
        line = next(line for line in result.logs[0].splitlines() if line.startswith("TIMES "))
        return json.loads(line.removeprefix("TIMES "))

    times = benchmark.pedantic(measure, rounds=1)
    benchmark.extra_info.update(times)
    print(f"\n{n} ranks: plan {times['ours'] * 1e6:.1f} us, bare {times['bare'] * 1e6:.1f} us, x {times['ratio']:.2f}")
    if n == 2:
        assert times["ratio"] < 1.4
