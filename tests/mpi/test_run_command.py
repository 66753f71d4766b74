"""The command as people use it, over MPI: what a run leaves, odd sizes, and how it ends when something is wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import cases
from support.commands import finals, simulate
from support.jobs import write_job

from mpi_opt.metrics.joined import read_joined
from mpi_opt.model import load_model
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.topology.mixing import make_mixing
from mpi_opt.topology.registry import make_graph


def everything(result):
    return result.output + "".join(result.logs.values())


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_run_leaves_what_lockstep_leaves(n, mpirun, tmp_path):
    job = write_job(tmp_path)
    settings = ["network.reductions=ordered", "network.check=true"]
    extra = [word for setting in settings for word in ("--set", setting)]
    mpirun(n, ["mpi-opt", "run", job, "--out", tmp_path / "mpi", *extra], timeout=60).check()
    simulate(job, n, tmp_path / "lockstep", *settings)
    np.testing.assert_array_equal(finals(tmp_path / "mpi", n), finals(tmp_path / "lockstep", n))
    over_mpi, virtual = (read_joined(tmp_path / word / "metrics.h5") for word in ("mpi", "lockstep"))
    for name, values in over_mpi.series.items():
        if "seconds" not in name and name != "control_bytes":
            np.testing.assert_array_equal(values, virtual.series[name], err_msg=name)
    assert over_mpi.series["step"][0].tolist() == [0, 20, 40, 60]
    for word in ("job.toml", "log.txt", "model.h5"):
        assert (tmp_path / "mpi" / word).exists()
    model = load_model(tmp_path / "mpi" / "model.h5")
    np.testing.assert_allclose(model.weights, finals(tmp_path / "mpi", n).mean(axis=0), rtol=1e-14)


def test_more_ranks_than_rows(mpirun, tmp_path):
    job = write_job(tmp_path, rows=3)
    mpirun(5, ["mpi-opt", "run", job, "--out", tmp_path / "out"], timeout=60).check()
    run = read_joined(tmp_path / "out" / "metrics.h5")
    assert np.isfinite(run.series["objective_worst"]).all()


@pytest.mark.parametrize("name", ["allreduce-sgd", "local-sgd", "choco-sgd", "d-psgd", "squarm-sgd"])
def test_every_method_runs_and_descends(name, mpirun, tmp_path):
    job = write_job(tmp_path)
    text = job.read_text()
    keys = {"threshold": {"squarm-sgd"}, "compressor": {"choco-sgd", "squarm-sgd"}, "sync_every": {"allreduce-sgd"}}
    kept = []
    for line in text.splitlines():
        key = line.split(" = ")[0]
        if key in ("threshold",) and name not in keys["threshold"]:
            continue
        if key in ("compressor", "consensus_rate") and name not in keys["compressor"]:
            continue
        if key == "sync_every" and name in keys["sync_every"]:
            continue
        kept.append(line)
    job.write_text("\n".join(kept).replace("sparq-sgd", name).replace("step_size = 0.3", "step_size = 0.05"))
    mpirun(3, ["mpi-opt", "run", job, "--out", tmp_path / "out"], timeout=60).check()
    objective = read_joined(tmp_path / "out" / "metrics.h5").series["objective_mean"][0]
    assert objective[-1] < 0.95 * objective[0]


def test_divergence_ends_with_code_5_and_readable_metrics(mpirun, tmp_path):
    job = write_job(tmp_path)
    settings = ["--set", "algorithm.step_size=1e200", "--set", "stop.steps=3000", "--set", "metrics.every=1000"]
    result = mpirun(3, ["mpi-opt", "run", job, "--out", tmp_path / "out", *settings], timeout=60)
    assert result.code == 5, str(result)
    said = everything(result)
    assert "diverged" in said
    assert "node" in said
    assert "algorithm.step_size" in said
    run = read_joined(tmp_path / "out" / "metrics.h5")
    assert all(status.startswith("diverged: node") for status in run.statuses)
    assert not (tmp_path / "out" / "model.h5").exists()
    assert run.series["step"][0, -1] < 1000, "found at the next control reduction, not at the next evaluation"


def test_a_rank_that_raises_ends_all(mpirun, tmp_path):
    script = tmp_path / "raises.py"
    script.write_text(
        """
import sys
import mpi_opt.problems.rowwise as module
from mpi4py import MPI
from mpi_opt.cli import main
if MPI.COMM_WORLD.rank == 1:
    calls = []
    inner = module.RowwiseProblem.sampled_gradient
    def broken(self, x, rows, out=None):
        calls.append(1)
        if len(calls) == 7:
            raise ZeroDivisionError("planted")
        return inner(self, x, rows, out)
    module.RowwiseProblem.sampled_gradient = broken
sys.exit(main(sys.argv[1:]))
"""
    )
    job = write_job(tmp_path)
    import mpi_opt.problems.rowwise as module

    assert hasattr(module, "RowwiseProblem"), "the planted failure needs this class"
    result = mpirun(3, [script, "run", job, "--out", tmp_path / "out"], timeout=60)
    assert not result.timed_out
    assert result.code == 6, str(result)
    assert result.seconds < 20
    assert "ZeroDivisionError: planted" in everything(result)
    assert "rank 1 of 3" in everything(result)


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        (["algorithm.thresold=1"], 2, ["thresold", "threshold"]),
        (["data.train=absent.txt"], 3, ["absent.txt"]),
        (["algorithm.compressor.k=7"], 2, ["7", "6"]),
        (["algorithm.consensus_rate=1.5"], 2, ["consensus_rate", "1.5"]),
        (["algorithm.consensus_rate=0"], 2, ["consensus_rate", "0"]),
        (["graph.name=hypercube"], 2, ["hypercube", "3", "power of two"]),
        (["graph.edges=[[0,1]]", "graph.name="], 2, ["connected"]),
    ],
)
def test_wrong_jobs_are_refused(settings, code, words, mpirun, tmp_path):
    job = write_job(tmp_path)
    extra = [word for setting in settings for word in ("--set", setting)]
    result = mpirun(3, ["mpi-opt", "run", job, "--out", tmp_path / "out", *extra], timeout=60)
    assert result.code == code, str(result)
    said = everything(result)
    assert said.count("mpi-opt: error:") == 1, str(result)
    for word in words:
        assert word in said, str(result)
    assert not (tmp_path / "out").exists(), "a refused job leaves no folder"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1 2:0.5 x:1", ["train.txt:41", "x"]),
        ("1 0:0.5", ["train.txt:41", "0"]),
        ("1 3:1 2:1", ["train.txt:41"]),
        ("1 2:nan", ["train.txt:41", "nan"]),
        ("3 2:1", ["3"]),
    ],
)
def test_wrong_data_are_refused(line, words, mpirun, tmp_path):
    job = write_job(tmp_path)
    with (tmp_path / "train.txt").open("a") as file:
        file.write(line + "\n")
    result = mpirun(3, ["mpi-opt", "run", job, "--out", tmp_path / "out"], timeout=60)
    assert result.code == 3, str(result)
    said = everything(result)
    assert said.count("mpi-opt: error:") == 1, str(result)
    for word in words:
        assert word in said, str(result)


def test_a_finished_run_is_not_overwritten(mpirun, tmp_path):
    job = write_job(tmp_path)
    command = ["mpi-opt", "run", job, "--out", tmp_path / "out"]
    mpirun(2, command, timeout=60).check()
    before = (tmp_path / "out" / "model.h5").read_bytes()
    refused = mpirun(2, command, timeout=60)
    assert refused.code == 2
    assert "finished run" in everything(refused)
    assert (tmp_path / "out" / "model.h5").read_bytes() == before
    mpirun(2, [*command, "--overwrite"], timeout=60).check()


def test_metrics_can_be_read_while_the_run_goes_on(mpirun, tmp_path):
    import threading
    import time

    from mpi_opt.metrics.read import read_rank

    job = write_job(tmp_path)
    more = ["--set", "stop.steps=1000000", "--set", "stop.seconds=6", "--set", "metrics.every=200"]
    done = {}

    def run():
        done["result"] = mpirun(2, ["mpi-opt", "run", job, "--out", tmp_path / "out", *more], timeout=60)

    thread = threading.Thread(target=run)
    thread.start()
    path, seen = tmp_path / "out" / "metrics" / "rank_00001.h5", set()
    while thread.is_alive():
        if path.exists():
            rank = read_rank(path)
            seen.add(len(rank.series["step"]))
        time.sleep(0.2)
    thread.join()
    done["result"].check()
    assert len(seen) > 2, f"rows seen while it ran: {sorted(seen)}"
    assert "seconds" in everything(done["result"])


def test_the_users_own_script(mpirun, tmp_path):
    """The script of the README, as it stands there."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    script = readme.split("```python\n", 1)[1].split("```", 1)[0]
    (tmp_path / "fit.py").write_text(script)
    result = mpirun(4, [tmp_path / "fit.py"], timeout=60).check()
    assert "accuracy" in everything(result)


def test_minimize_gives_all_ranks_one_average(mpirun, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import json, numpy as np
from mpi4py import MPI
from support import cases
from support.commands import finals, simulate
import mpi_opt
comm = MPI.COMM_WORLD
made = cases.make("base", comm.size)
seen = []
result = mpi_opt.minimize(made.problems[comm.rank], made.algorithm, comm=comm, steps=40, x0=made.x0,
                          seed=cases.SEED, every=15, callback=lambda t, x: seen.append(t))
np.savez({str(tmp_path)!r} + f"/{{comm.rank}}.npz", x=result.x, average=result.average, seen=seen)
"""
    )
    mpirun(3, [script], timeout=60).check()
    made = cases.make("base", 3)
    mixing = make_mixing(make_graph("ring", 3, {}, 0), "metropolis")
    made = replace(made, nodes=[replace(node, weights=mixing.row(node.index)) for node in made.nodes])
    _, _, final, _ = cases.drive(made, Lockstep(made.neighbours, made.codec), 40)
    for rank in range(3):
        with np.load(tmp_path / f"{rank}.npz") as got:
            np.testing.assert_array_equal(got["x"], final[rank])
            np.testing.assert_allclose(got["average"], final.mean(axis=0), rtol=1e-14)
            assert got["seen"].tolist() == [0, 15, 30, 40]


def test_minimize_ends_all_when_one_raises(mpirun, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        """
from mpi4py import MPI
from support import cases
from support.commands import finals, simulate
import mpi_opt
comm = MPI.COMM_WORLD
made = cases.make("base", comm.size)
def callback(t, x):
    if comm.rank == 2 and t:
        raise KeyError("planted")
mpi_opt.minimize(made.problems[comm.rank], made.algorithm, comm=comm, steps=40, callback=callback)
"""
    )
    result = mpirun(3, [script], timeout=60)
    assert not result.timed_out
    assert result.code != 0
    assert "planted" in everything(result)
