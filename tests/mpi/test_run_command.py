"""The command as people use it, over MPI: what a run leaves, odd sizes, and how it ends when something is wrong."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import cases
from support.commands import finals, settings, simulate
from support.jobs import write_job

from mpi_opt.metrics.joined import read_joined
from mpi_opt.model import load_model
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.topology.mixing import make_mixing
from mpi_opt.topology.registry import make_graph

SEVERAL = Path(__file__).parents[1] / "support" / "several.py"
LOWER = "lower algorithm.step_size, or algorithm.consensus_rate where there is one"


def everything(result):
    return result.output + "".join(result.logs.values())


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (1, []),
        (2, []),
        (3, []),
        (5, []),
        (4, ["algorithm.overlap=true", "stop.steps=61"]),
        (3, ['algorithm.output="weighted"', "algorithm.momentum=0.5"]),
        (3, ['algorithm.output="local"', "algorithm.overlap=true"]),
    ],
)
def test_run_leaves_what_lockstep_leaves(n, words, mpirun, tmp_path):
    job = write_job(tmp_path)
    words = ["network.reductions=ordered", "network.check=true", *words]
    mpirun(n, ["mpi-opt", "run", job, "--out", tmp_path / "mpi", *settings(*words)], timeout=60).check()
    simulate(job, n, tmp_path / "lockstep", *words)
    iterates = finals(tmp_path / "mpi", n)
    np.testing.assert_array_equal(iterates, finals(tmp_path / "lockstep", n))
    over_mpi, virtual = (read_joined(tmp_path / word / "metrics.h5") for word in ("mpi", "lockstep"))
    for name, values in over_mpi.series.items():
        if "seconds" not in name and name != "control_bytes":
            np.testing.assert_array_equal(values, virtual.series[name], err_msg=name)
    for name, values in over_mpi.syncs.items():
        np.testing.assert_array_equal(values, virtual.syncs[name], err_msg=name)
    steps = over_mpi.series["step"][0].tolist()
    assert steps == ([0, 20, 40, 60, 61] if "stop.steps=61" in words else [0, 20, 40, 60])
    assert over_mpi.series["round"][0, -1] == 20
    for word in ("job.toml", "log.txt", "model.h5"):
        assert (tmp_path / "mpi" / word).exists()
    model, other = (load_model(tmp_path / word / "model.h5").weights for word in ("mpi", "lockstep"))
    np.testing.assert_array_equal(model, other)
    if 'algorithm.output="local"' in words:
        np.testing.assert_array_equal(model, iterates[0])
    elif 'algorithm.output="weighted"' in words:
        assert np.abs(model - iterates.mean(axis=0)).max() > 1e-3
    else:
        np.testing.assert_allclose(model, iterates.mean(axis=0), rtol=1e-14)


def test_more_ranks_than_rows(mpirun, tmp_path):
    job = write_job(tmp_path, rows=3)
    mpirun(5, ["mpi-opt", "run", job, "--out", tmp_path / "out"], timeout=60).check()
    run = read_joined(tmp_path / "out" / "metrics.h5")
    assert np.isfinite(run.series["objective_worst"]).all()


def test_every_method_runs_and_descends(mpirun, tmp_path):
    gone = {
        "allreduce-sgd": ("threshold", "compressor", "consensus_rate", "sync_every"),
        "local-sgd": ("threshold", "compressor", "consensus_rate"),
        "choco-sgd": ("threshold",),
        "d-psgd": ("threshold", "compressor", "consensus_rate"),
        "squarm-sgd": (),
    }
    job = write_job(tmp_path)
    lines, commands = job.read_text().splitlines(), []
    for name, keys in gone.items():
        text = "\n".join(line for line in lines if line.split(" = ")[0] not in keys)
        path = tmp_path / f"{name}.toml"
        path.write_text(text.replace("sparq-sgd", name).replace("step_size = 0.3", "step_size = 0.05"))
        commands.append(["run", str(path), "--out", str(tmp_path / name)])
    (tmp_path / "commands.json").write_text(json.dumps(commands))
    result = mpirun(3, [SEVERAL, tmp_path / "commands.json"], timeout=100).check()
    assert [code for _, code in told(result, 3)] == [0] * len(gone), str(result)
    for name in gone:
        objective = read_joined(tmp_path / name / "metrics.h5").series["objective_mean"][0]
        assert objective[-1] < 0.95 * objective[0], name


def test_divergence_ends_with_code_5_and_readable_metrics(mpirun, tmp_path):
    job = write_job(tmp_path)
    words = settings("algorithm.step_size=1e200", "stop.steps=3000", "metrics.every=1000")
    result = mpirun(3, ["mpi-opt", "run", job, "--out", tmp_path / "out", *words], timeout=60)
    assert result.code == 5, str(result)
    said = everything(result)
    assert re.search(rf"^diverged: node 0 is not finite at step 3: {LOWER} \(60 steps, 20 rounds, ", said, re.M), said
    assert result.logs[1] + result.logs[2] == "", "told once"
    run = read_joined(tmp_path / "out" / "metrics.h5")
    assert run.statuses == (f"diverged: node 0 is not finite at step 3: {LOWER}",) * 3
    assert not (tmp_path / "out" / "model.h5").exists()
    assert run.series["step"][0].tolist() == [0, 60], "reported at step 30, acted on at 60, not at the next evaluation"


def test_divergence_of_a_single_node_names_it_and_spares_the_others(mpirun, tmp_path):
    """Rows that only the last node holds send its model beyond all bounds; it falls silent before it tells anyone."""
    job = write_job(tmp_path)
    rows = (tmp_path / "train.txt").read_text().splitlines()
    rows[-3:] = [re.sub(r" 2:\S+", " 2:1e200", row) for row in rows[-3:]]
    (tmp_path / "train.txt").write_text("\n".join(rows) + "\n")
    result = mpirun(4, ["mpi-opt", "run", job, "--out", tmp_path / "out"], timeout=60)
    assert result.code == 5, str(result)
    assert f"diverged: node 3 is not finite at step 3: {LOWER} (20 steps, 6 rounds, " in everything(result)
    models = finals(tmp_path / "out", 4)
    assert np.abs(models[:3]).max() < 10
    assert np.abs(models[3]).max() > 1e150
    fired = read_joined(tmp_path / "out" / "metrics.h5").syncs["fired"]
    assert fired[:3].any(axis=1).all()
    assert not fired[3].any()


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
    assert result.seconds < 30
    said = everything(result)
    assert "mpi-opt: error: unexpected failure on rank 1 of 3\nTraceback (most recent call last):\n" in said
    assert said.count("ZeroDivisionError: planted") == 1


REFUSED = [
    (
        ["algorithm.thresold=1"], 2,
        r"algorithm\.thresold: unknown key; did you mean '?threshold'?\?",
    ),
    (["data.train=absent.txt"], 3, r"data set 'absent\.txt' was not found"),
    (["algorithm.compressor.k=7"], 2, r"algorithm\.compressor\.k = 7: must be between 1 and the dimension, 6$"),
    (
        ["algorithm.consensus_rate=1.5"], 2,
        r'algorithm\.consensus_rate = 1\.5: allowed: "auto" or a number above 0 and at most 1$',
    ),
    (
        ["algorithm.consensus_rate=0"], 2,
        r'algorithm\.consensus_rate = 0: allowed: "auto" or a number above 0 and at most 1$',
    ),
    (
        ["graph.name=hypercube"], 2,
        r'graph\.name = "hypercube" with 3 nodes; allowed: a power of two \(nearest: 2, 4\)$',
    ),
    (
        ["graph.edges=[[0,1]]", "graph.name="], 2,
        r"edges: the edges join nodes 0\.\.1, but there are 3 nodes .*; allowed: a graph of exactly 3 nodes$",
    ),
    (
        ["graph.edges=[[0,1],[1,2],[1,0]]", "graph.name="], 2,
        r"edges\[2\]: edge 1 0 is there already at .*edges\[0\]; allowed: each edge once, either way round$",
    ),
    (
        ["graph.name=star", "graph.weights=uniform"], 2,
        r'graph\.weights = "uniform" on graph star, whose degrees run from 1 to 2; allowed on regular graphs only',
    ),
]  # fmt: skip
"""Settings of a job that is refused, the exit code, and what is said."""


def told(result, n):
    """Return what was said by all ranks together before each exit code, with the codes, which must be everybody's."""
    parts = [re.split(r"\nexit code (\d+)\n", result.logs[rank]) for rank in range(n)]
    codes = [[int(code) for code in part[1::2]] for part in parts]
    assert codes == [codes[0]] * n, str(result)
    return list(zip(map("".join, zip(*(part[0::2] for part in parts), strict=True)), codes[0], strict=False))


def test_wrong_jobs_are_refused(mpirun, tmp_path):
    job = write_job(tmp_path)
    commands = [["run", str(job), "--out", str(tmp_path / "out"), *settings(*changes)] for changes, _, _ in REFUSED]
    (tmp_path / "commands.json").write_text(json.dumps(commands))
    result = mpirun(3, [SEVERAL, tmp_path / "commands.json"], timeout=100).check()
    answers = told(result, 3)
    assert len(answers) == len(REFUSED), str(result)
    for (changes, expected, sentence), (said, code) in zip(REFUSED, answers, strict=True):
        assert code == expected, (changes, said)
        assert said.count("mpi-opt: error: ") == 1, said
        assert re.search("^mpi-opt: error: " + ".*" * ("edges" in sentence) + sentence, said.strip(), re.M), said
    assert not (tmp_path / "out").exists(), "a refused job leaves no folder"


def test_a_wrong_job_ends_the_command_with_its_code(mpirun, tmp_path):
    job = write_job(tmp_path)
    result = mpirun(3, ["mpi-opt", "run", job, "--out", tmp_path / "out", *settings("graph.name=hypercube")])
    assert result.code == 2, str(result)
    assert everything(result).count("mpi-opt: error: graph.name = ") == 1
    assert not (tmp_path / "out").exists()


SPOILED = [
    ("1 2:0.5 x:1", r"train\.txt:41:9: index in 'x:1' is not a whole number; a feature is index:value, as in 3:0\.5$"),
    ("1 0:0.5", r"train\.txt:41:3: index 0 in '0:0\.5', but indices should count from 1"),
    ("1 3:1 2:1", r"train\.txt:41:7: '2:1' comes after index 3; indices must ascend within a line$"),
    ("1 2:nan", r"train\.txt:41:3: value 'nan' in '2:nan' is not finite; .*drop-row.*zero"),
    (
        "3 2:1",
        r"train\.txt: has 3 distinct labels \(-1, 1, 3\), but logistic and squared-hinge losses take exactly two",
    ),
]
"""A line behind forty good ones, and what is said."""


def test_wrong_data_are_refused(mpirun, tmp_path):
    commands = []
    for number, (line, _) in enumerate(SPOILED):
        folder = tmp_path / str(number)
        folder.mkdir()
        job = write_job(folder)
        with (folder / "train.txt").open("a") as file:
            file.write(line + "\n")
        commands.append(["run", str(job), "--out", str(folder / "out")])
    (tmp_path / "commands.json").write_text(json.dumps(commands))
    result = mpirun(3, [SEVERAL, tmp_path / "commands.json"], timeout=100).check()
    answers = told(result, 3)
    assert len(answers) == len(SPOILED), str(result)
    for number, ((line, sentence), (said, code)) in enumerate(zip(SPOILED, answers, strict=True)):
        assert code == 3, (line, said)
        assert said.count("mpi-opt: error: ") == 1, said
        assert re.search(r"^mpi-opt: error: \S*" + sentence, said.strip(), re.M), said
        assert not (tmp_path / str(number) / "out").exists()


def test_a_finished_run_is_not_overwritten(mpirun, tmp_path):
    job = write_job(tmp_path)
    command = ["mpi-opt", "run", job, "--out", tmp_path / "out"]
    mpirun(2, command, timeout=60).check()
    before = (tmp_path / "out" / "model.h5").read_bytes()
    refused = mpirun(2, command, timeout=60)
    assert refused.code == 2
    assert re.search(
        r"^mpi-opt: error: \S*out already holds a finished run \(.*model\.h5.*\): ", everything(refused), re.M
    )
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
    assert re.search(r"^done: 6\.\d seconds \(\d+ steps, ", everything(done["result"]), re.M)


def test_the_users_own_script(mpirun, tmp_path):
    """The script of the README, as it stands there."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    script = readme.split("```python\n", 1)[1].split("```", 1)[0]
    (tmp_path / "fit.py").write_text(script)
    result = mpirun(4, [tmp_path / "fit.py"], timeout=60).check()
    assert re.search(r"^accuracy 9\d\.\d%", everything(result), re.M), str(result)


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
    assert result.code == 6, str(result)
    said = everything(result)
    assert "rank 2 of 3 failed; ending all ranks\nTraceback (most recent call last):\n" in said
    assert said.count("KeyError: 'planted'") >= 1


def test_wrong_arguments_of_minimize_reach_all_ranks(mpirun, tmp_path):
    """Each is wrong on a single rank, or differs between ranks; all get the same error, none hangs, and all go on."""
    script = tmp_path / "script.py"
    script.write_text(
        """
import json, sys
import numpy as np
from mpi4py import MPI
from support import cases
import mpi_opt
from mpi_opt.errors import DivergedError, JobError
comm = MPI.COMM_WORLD
made = cases.make("base", comm.size)
problem, odd = made.problems[comm.rank], comm.rank == 1
class Bare:
    dim, rows = problem.dim, problem.rows
class Infinite:
    def __init__(self):
        self.calls = 0
    def __getattr__(self, name):
        return getattr(problem, name)
    def sampled_gradient(self, x, rows, out=None):
        g = problem.sampled_gradient(x, rows, out)
        self.calls += 1
        if self.calls > 4:
            g[:] = np.inf
        return g
tries = [
    dict(steps=0 if odd else 5),
    dict(steps=5, every=0 if odd else 1),
    dict(steps=6 if odd else 5),
    dict(steps=5, x0=np.zeros(3) if odd else None),
    dict(steps=5, x0=np.full(problem.dim, float(odd))),
    dict(steps=5, seed=int(odd)),
    dict(steps=5, graph="hypercube"),
    dict(steps=5, graph="rin"),
    dict(steps=5, graph=[(0, 1)]),
    dict(steps=5, weights="heavy"),
    dict(steps=5, problem=Bare() if odd else problem),
    dict(steps=20, problem=Infinite() if odd else problem),
]
said = []
for arguments in tries:
    try:
        mpi_opt.minimize(arguments.pop("problem", problem), made.algorithm, comm=comm, **arguments)
    except (JobError, DivergedError) as error:
        said.append([type(error).__name__, str(error)])
    else:
        said.append(["nothing", ""])
result = mpi_opt.minimize(problem, made.algorithm, comm=comm, steps=5)
said.append(["done", str(result.steps)])
with open(f"{sys.argv[1]}/{comm.rank}.json", "w") as file:
    json.dump(said, file)
"""
    )
    result = mpirun(3, [script, tmp_path], timeout=60)
    assert not result.timed_out, str(result)
    result.check()
    first, *others = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    assert others == [first, first]
    sentences = [
        r"steps = 0, every = 10; allowed: at least 1$",
        r"steps = 5, every = 0; allowed: at least 1$",
        r"steps differs between ranks 0 and 1 \(5 and 6\); allowed: the same on all ranks$",
        r"x0 has shape \(3,\); allowed: \(12,\)$",
        r"x0 differs between ranks 0 and 1; allowed: the same on all ranks$",
        r"seed differs between ranks 0 and 1 \(0 and 1\); allowed: the same on all ranks$",
        r"\"hypercube\" with 3 nodes; allowed: a power of two",
        r"\brin\b.*\bring\b",
        r"edges.*3 nodes.*disconnected",
        r"heavy.*metropolis",
        r"SparqSGD needs sampled_gradient of a problem; Bare lacks it",
        r"node 1 is not finite at step 6: " + LOWER,
        r"^5$",
    ]
    assert [kind for kind, _ in first] == ["JobError"] * 11 + ["DivergedError", "done"], first
    for (_, text), sentence in zip(first, sentences, strict=True):
        assert re.search(sentence, text), text
