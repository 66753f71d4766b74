"""Runs over MPI that were interrupted, once and again, end as those that were not, to the last bit."""

import json
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from support import interrupted
from support.resumable import CASES, NEWTON, QUIET, same_runs, simulated, write_case

from mpi_opt.cli import main
from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.model import load_model

N = 3
SCRIPT = Path(interrupted.__file__)


def several(mpirun, folder, orders, n=N, timeout=200):
    """Run the commands in one start of ``n`` ranks; return the exit codes, which are everybody's, and what was said."""
    (folder / "orders.json").write_text(json.dumps(orders))
    result = mpirun(n, [SCRIPT, folder / "orders.json"], timeout=timeout).check()
    parts = [re.split(r"\nexit code (\d+)\n", result.logs[rank]) for rank in range(n)]
    codes = [[int(code) for code in part[1::2]] for part in parts]
    assert codes == [codes[0]] * n, str(result)
    said = ["".join(texts) for texts in zip(*(part[0::2] for part in parts), strict=True)]
    return codes[0], said


def test_every_method_interrupted_ends_as_if_it_was_not(mpirun, tmp_path):
    """All ranks are asked the first time; every other run is asked again, one rank alone, after it was resumed.

    Resumed by another process, which has nothing left of the first one's memory. Held against lockstep, which wrote no
    checkpoint and was not interrupted.
    """
    first, second, third = {}, {}, {}
    for number, (name, (sizes, *_)) in enumerate(CASES.items()):
        out = str(tmp_path / name)
        at, again = (2, 4) if sizes is NEWTON else (8, 21)
        job = write_case(tmp_path, name)
        first[name] = {"argv": ["run", str(job), "--out", out, *QUIET], "at": at, "ranks": list(range(N))}
        second[name] = {"argv": ["resume", out, *QUIET]}
        if number % 2:
            second[name] |= {"at": again, "ranks": [number % N], "signal": 15}
            third[name] = {"argv": ["resume", out, *QUIET]}
    codes, said = several(mpirun, tmp_path, list(first.values()))
    assert codes == [75] * len(first), said
    codes, said = several(mpirun, tmp_path, [*second.values(), *third.values()])
    assert set(codes[: len(second)]) == {0, 75}, said
    assert codes.count(75) >= len(third) - 2, said
    assert codes[len(second) :] == [0] * len(third), said
    for name in CASES:
        whole = simulated(tmp_path / f"{name}.toml", tmp_path / f"{name}-whole", N, "checkpoint.every=")
        same_runs(whole, tmp_path / name, N, besides=("control_bytes",))


@pytest.mark.parametrize("name", ["overlap", "firing-rate", "adaptive"])
def test_simulated_runs_are_resumed_in_one_process(name, tmp_path):
    sizes = CASES[name][0]
    job = write_case(tmp_path, name)
    whole = simulated(job, tmp_path / "whole", N, "checkpoint.every=")
    command = ["simulate", str(job), "--nodes", str(N), "--out", str(tmp_path / "cut"), *QUIET]
    with interrupted.asking(2 if sizes is NEWTON else 8, 10):
        assert main(command) == 75
    with interrupted.asking(4 if sizes is NEWTON else 21, 2):
        assert main(["resume", str(tmp_path / "cut"), *QUIET]) == 75
    assert main(["resume", str(tmp_path / "cut"), *QUIET]) == 0
    (tmp_path / "cut" / "metrics.h5").unlink()  # as after a kill at the very end
    assert main(["resume", str(tmp_path / "cut")]) == 0
    same_runs(whole, tmp_path / "cut", N)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_cannot_be_resumed_is_refused_with_the_way_out(mpirun, tmp_path):
    job, out = str(write_case(tmp_path, "sparq-sgd")), tmp_path / "cut"
    codes, said = several(
        mpirun,
        tmp_path,
        [
            {"argv": ["run", job, "--out", str(tmp_path / "done"), *QUIET]},
            {"argv": ["resume", str(tmp_path / "done")]},
            {"argv": ["resume", str(tmp_path)]},
            {"argv": ["run", job, "--out", str(out), *QUIET], "at": 13, "ranks": [1]},
            {"argv": ["resume", str(out), "--set", "algorithm.batch=5"]},
            {"argv": ["run", job, "--out", str(out)]},
            {"argv": ["run", job, "--out", "/proc/mpi_opt/out"]},
        ],
    )
    assert codes == [0, 0, 2, 75, 2, 2, 2], said
    assert re.search(r"done: the run has ended, there is nothing to resume$", said[1], re.M), said[1]
    assert re.search(r"holds no run: job\.toml: No such file or directory; allowed: a folder that a run", said[2])
    assert (
        "algorithm.batch=5: would make it another run; allowed on resuming: stop.*, metrics.*, checkpoint.*" in said[4]
    )
    assert re.search(r"already holds an unfinished run \(.*checkpoints.*\): give another --out", said[5])
    assert "cannot write to the result folder /proc/mpi_opt/out: " in said[6]
    before = contents(out)
    shutil.copytree(out, tmp_path / "hurt")
    (tmp_path / "hurt" / "metrics" / "rank_00000.h5").write_bytes(b"as after a loss of power")
    codes, said = several(
        mpirun,
        tmp_path,
        [
            {"argv": ["resume", str(out)]},
            {"argv": ["resume", str(out), "--allow-repartition", *QUIET]},
            {"argv": ["resume", str(tmp_path / "hurt")]},
            {"argv": ["resume", str(tmp_path / "hurt"), "--allow-repartition", *QUIET]},
        ],
        n=2,
    )
    assert codes == [4, 0, 4, 0], said
    assert "hurt ran on 3 ranks, this is 2" in said[2]  # by its checkpoint's word
    assert re.search(
        r"ran on 3 ranks, this is 2: mpiexec -n 3 mpi-opt resume \S*cut, or .*--allow-repartition", said[0]
    )
    assert contents(out) == before
    mended = [load_model(tmp_path / f"{name}-on-2" / "model.h5").weights for name in ("cut", "hurt")]
    assert mended[0].tobytes() == mended[1].tobytes()
    log = (tmp_path / "cut-on-2" / "log.txt").read_text()
    assert "begun anew on 2 nodes instead of 3, at step 20: every node at the mean of the old nodes' models" in log
    old = read_rank(out / "metrics" / "rank_00000.h5")
    new = [read_rank(tmp_path / "cut-on-2" / "metrics" / f"rank_{node:05d}.h5") for node in (0, 1)]
    assert old.series["step"][-1] == new[0].series["step"][0] == 20
    assert new[0].series["step"].tolist() == new[1].series["step"].tolist() == [20, 30, 33]
    for name in ("objective_average", "gradient_norm"):
        np.testing.assert_allclose(new[0].series[name][0], old.series[name][-1], rtol=1e-12)
    assert np.isfinite(load_model(tmp_path / "cut-on-2" / "model.h5").weights).all()
    assert new[0].series["objective_average"][-1] < old.series["objective_average"][-1]


def test_damaged_checkpoints_are_passed_over_and_named(mpirun, tmp_path):
    job, out = write_case(tmp_path, "sparq-sgd"), tmp_path / "cut"
    whole = simulated(job, tmp_path / "whole", N, "checkpoint.every=")
    codes, said = several(
        mpirun, tmp_path, [{"argv": ["run", str(job), "--out", str(out), *QUIET], "at": 21, "ranks": [2]}]
    )
    assert codes == [75], said
    assert [path.name for path in sorted((out / "checkpoints").iterdir())] == ["step_000000000024", "step_000000000030"]
    names = ("missing", "changed", "short", "all", "none")
    for name in names:
        shutil.copytree(out, tmp_path / name)
    newest = Path("checkpoints") / "step_000000000030"
    (tmp_path / "missing" / newest / "node_00001.h5").unlink()
    spoil(tmp_path / "changed" / newest / "node_00002.h5")
    with h5py.File(tmp_path / "short" / "metrics" / "rank_00001.h5", "r+") as file:  # as after a loss of power
        file["committed"][0] -= 1
    spoil(tmp_path / "all" / newest / "manifest.json")
    (tmp_path / "all" / "checkpoints" / "step_000000000024" / "node_00000.h5").unlink()
    shutil.rmtree(tmp_path / "none" / "checkpoints")
    again = [{"argv": ["resume", str(tmp_path / name), *QUIET]} for name in names]
    codes, said = several(mpirun, tmp_path, again)
    assert codes == [0, 0, 0, 3, 0], said
    for name, file in (("missing", "node_00001"), ("changed", "node_00002"), ("short", "rank_00001")):
        log = (tmp_path / name / "log.txt").read_text()
        assert re.search(rf"checkpoint step_000000000030 is passed over: \S*{file}\.h5: ", log), log
        assert "resumed from the checkpoint at step 24" in log
        same_runs(whole, tmp_path / name, N, besides=("control_bytes",))
    assert re.search(
        r"no checkpoint is whole: .*0030 .*manifest\.json: damaged.*0024 .*node_00000\.h5: missing", said[3]
    )
    assert "no checkpoint was written yet: the run begins again" in (tmp_path / "none" / "log.txt").read_text()
    same_runs(whole, tmp_path / "none", N, besides=("control_bytes",))


def spoil(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
