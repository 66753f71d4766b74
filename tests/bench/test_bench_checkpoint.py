"""What checkpoints cost a run of 4 ranks with a million weights. Target: 3 % of the time at the default interval."""

import re
import statistics
from pathlib import Path

from support.commands import settings
from support.resumable import write_case

from mpi_opt.jobkeys import Checkpoint

SCRIPT = Path(__file__).parents[1] / "support" / "checkpoint_times.py"


def test_a_million_weights_on_four_ranks(benchmark, mpirun, tmp_path):
    """Model, momentum, estimate and the neighbours' sum: four vectors a rank, 32 MB, and the exchange in flight."""
    job = write_case(tmp_path, "overlap", steps=19, every=100, kept=2)
    words = settings("data.features=1000000", 'algorithm.compressor.k="1%"')
    command = [SCRIPT, "run", job, "--out", tmp_path / "out", "--progress", "none", *words]
    said = []

    def run():
        said.append(mpirun(4, command, timeout=200).check())

    benchmark.pedantic(run, rounds=1)
    times = [float(word) for word in re.search(r"^checkpoints (.*)$", said[0].logs[0], re.M)[1].split()]
    held = sum(path.stat().st_size for path in (tmp_path / "out" / "checkpoints").rglob("*.h5")) / 2
    share = statistics.median(times) / (60 * Checkpoint().minutes)
    print(
        f"\n{len(times)} checkpoints of {held / 1e6:.0f} MB: median {statistics.median(times):.2f} s, longest "
        f"{max(times):.2f} s; {share:.3%} of the time at one in {Checkpoint().minutes:g} minutes"
    )
    assert share < 0.03
