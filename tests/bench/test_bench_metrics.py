"""What recording costs within a step. Target: a synchronisation index in 3 us, a hundredth of a small step."""

from mpi_opt.metrics import schema
from mpi_opt.metrics.recorder import Recorder


def test_one_synchronisation_index(benchmark, tmp_path):
    given = dict.fromkeys(schema.ATTRIBUTES, "text") | {"seed": 7, "node": 0, "nodes": 1, "threads": 1}
    with Recorder(tmp_path / "r.h5", attributes=given, dim=1, buffer_syncs=100_000) as recorder:

        def thousand():
            for step in range(1000):
                recorder.sync(step, True, 1.0, 2.0, 3)

        benchmark.pedantic(thousand, rounds=50, warmup_rounds=1)
    if benchmark.stats is not None:  # --benchmark-disable measures nothing
        assert benchmark.stats["min"] / 1000 < 3e-6
