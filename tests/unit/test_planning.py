"""A dry run's figures against counts by hand, and against what runs of the same job really send, take and hold."""

import json
import re
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from support.commands import ROOT
from support.jobs import write_job

from mpi_opt.build import build
from mpi_opt.datasets.synthetic import blocks, mark
from mpi_opt.datasets.synthetic_linear import Linear
from mpi_opt.datasets.synthetic_text import write_text
from mpi_opt.errors import DataError, JobError
from mpi_opt.forecast import cautions, course
from mpi_opt.job import load_job
from mpi_opt.network.collectives import Solo
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.planning import plan_job
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules

DIGITS = """
name = "digits"
[data]
train = "builtin:digits"
holdout = 0.2
intercept = true
[problem]
loss = "softmax"
[algorithm]
name = "d-psgd"
batch = 10
step_size = 0.5
sync_every = 4
[stop]
steps = 3
"""


def lines(text):
    """Return the lines by their first word."""
    return {line[:12].strip(): line[13:] for line in text.splitlines()[1:]}


def test_a_small_plan_word_for_word(tmp_path):
    """40 rows of 6 entries on 4 nodes: d = 6, 10 rows a node."""
    path = write_job(tmp_path)
    labels = [float(line.split()[0]) for line in (tmp_path / "train.txt").read_text().splitlines()]
    positive = sum(label > 0 for label in labels) / 40
    text = plan_job(load_job(path, ["data.holdout=", "metrics.every=5"]), nodes=4).text()
    assert (
        text
        == f"""\
small: sparq-sgd on 4 nodes
data         train.txt: 40 rows x 6 features, 240 stored entries, CSR
rows a node  10
entries      a node: 60
features     a node: 6 of 6 that occur
labels       -1 -> -1 ({1 - positive:.1%}), 1 -> 1 ({positive:.1%})
             distinct labels a node: 2 of 2
dimension    d = 6
memory       a node: 1.46 kB, of that
             data 924 B
             vectors 496 B
             message buffers 42 B
graph        ring, weights metropolis: 4 edges, neighbours 2, spectral gap 0.6667
traffic      every 3 steps at most one message a neighbour, about 7 B (floor 5, dense fp32 24), 14 B a node and round
length       60 steps (steps), 48 epochs, 20 rounds
             the busiest node hands over at most 424 B in all
rounds       not known: it depends on the step size and the data
mixing       about 10 rounds to a 100-fold smaller consensus error, uncompressed
warning      stored as CSR, but 100% of the entries are there: 2.88 kB, as a dense table 1.92 kB; \
mpi-opt data convert --dense makes one"""
    )


def test_the_small_plans_figures_by_hand(tmp_path):
    found = plan_job(load_job(write_job(tmp_path)), nodes=4)
    # float64 and int32 an entry, int32 a row and one, float64 label and int64 number a row
    assert found.memory.data == (60 * (8 + 4) + 11 * 4 + 10 * (8 + 8),) * 3
    # x, xhat, mix; two work vectors and a gradient; 8 rows' margins and slopes, the order of 10 rows
    assert found.memory.vectors.most == 8 * (3 * 6 + 3 * 6 + 2 * 8 + 10)
    built = found.built
    # two parities, two neighbours' and one's own
    assert found.memory.buffers.most == 2 * 3 * built.codec.max_bytes
    assert found.memory.total.most == 924 + 496 + found.memory.buffers.most
    # 20 rounds of two messages, and at the end the mean of the models from the master to three nodes
    assert found.length.sent == 20 * 2 * 7 + 3 * 48


def test_json_says_the_same(tmp_path):
    found = plan_job(
        load_job(write_job(tmp_path), ["stop.seconds=9", 'problem.class_weight={"-1"=2.0,"1"=1.0}']), nodes=3
    )
    values = json.loads(json.dumps(found.values()))
    assert (values["job"], values["method"], values["nodes"], values["dimension"]) == ("small", "sparq-sgd", 3, 6)
    assert values["data"]["rows"] == 40
    assert [entry["weight"] for entry in values["data"]["labels"]] == [2.0, 1.0]
    assert sum(entry["rows"] for entry in values["data"]["labels"]) == 40
    assert values["a_node_holds"]["rows"] == {"least": 13, "mean": 40 / 3, "most": 14}
    assert values["memory"]["total"]["most"] == found.memory.total.most
    assert values["traffic"]["busiest_node_round"] == 2 * values["traffic"]["message"]["message"]
    assert values["graph"]["spectral_gap"] == pytest.approx(1.0)
    assert values["length"] == {
        "steps": 60, "rounds": 20, "epochs": 60 / (40 / 24), "by": "steps", "others": ["seconds"],
        "sent": found.length.sent,
    }  # fmt: skip
    assert values["warnings"] == list(found.warnings)
    text = found.text()
    assert "weights      label -1: 2 a row, label 1: 1 a row" in text
    assert "length       at most 60 steps (steps), 36 epochs, 20 rounds; may end before by seconds" in text


def test_dense_rows_and_a_whole_vector():
    """1,438 rows of 64 pixels on 3 nodes; 10 classes of 65 weights."""
    said = lines(plan_job(load_job(DIGITS), nodes=3).text())
    assert said["data"].startswith("builtin:digits: 1438 rows x 64 features, ")
    assert said["data"].endswith(", dense")
    assert said["test"] == "builtin:digits: 359 rows"
    assert said["rows a node"] == "479 to 480, mean 479"
    assert said["dimension"] == "d = 650"
    assert said["traffic"] == (
        "every 4 steps at most one message a neighbour, about 2601 B (floor 2600, dense fp32 2600), "
        "5.2 kB a node and round"
    )


def test_unequal_degrees_count_the_busiest_node(tmp_path):
    said = lines(plan_job(load_job(write_job(tmp_path), ['graph.name="star"']), nodes=5).text())
    one = int(re.search(r"about (\d+) B", said["traffic"])[1])
    assert said["traffic"].endswith(f"{4 * one} B a node and round")
    assert "neighbours 1 to 4, mean 1.6" in said["graph"]
    assert said["rows a node"] == "8"


def test_preparation_and_validation_are_shown(tmp_path):
    path = write_job(tmp_path)
    path.write_text(
        path.read_text() + '[prepare]\ncolumns = "standard"\nrows = "l2"\n[validation]\nfolds = 4\nl2 = [0.1, 0.01]\n'
    )
    found = plan_job(load_job(path), nodes=2)
    text = found.text()
    assert re.search(r"^prepared     columns standard(, centred)?, rows l2$", text, re.MULTILINE)
    assert "validation   4 folds x 2 values of l2 are trained before" in text
    assert found.values()["validation"] == {"folds": 4, "l2": [0.1, 0.01]}


# --- against runs -----------------------------------------------------------------------------------------------------

GOSSIP = 'step_size=0.1,consensus_rate=0.4,compressor={name="top-k",k=2}'
METHODS = {
    "d-psgd": "step_size=0.1,sync_every=2",
    "choco-sgd": GOSSIP,
    "sparq-sgd": GOSSIP + ",sync_every=3,threshold=5.0",
    "allreduce-sgd": "step_size=0.1",
    "local-sgd": "step_size=0.1,sync_every=3",
    "newton": "",
    "giant": "",
    "lbfgs": "",
    "admm": "",
    "local-newton": 'finish="none",local_steps=2',
}


def made(folder, name, settings, *overrides, loss="logistic", train="train.txt"):
    """Return a job of one method."""
    inner = f'name="{name}"' + (f",{settings}" if settings else "")
    text = (
        f'name="a"\nalgorithm={{{inner}}}\nproblem.loss="{loss}"\nstop.steps=6\n'
        f'data.train="{train}"\ndata.folder="{folder}"\n'
    )
    return load_job(text, list(overrides))


def really(job, nodes, steps):
    """Run a job in lockstep and return its traffic and the steps taken."""
    built = build(job, Solo(), nodes, range(nodes))
    network = Lockstep(built.neighbours(), built.codec)
    outcome = run(
        Plan(
            network=network, algorithm=built.algorithm, nodes=built.nodes, problems=built.timed,
            x0=np.zeros(built.problems[0].dim), rules=StopRules(steps=steps), average_output=built.averages,
            steps_per_epoch=built.steps_per_epoch,
        )
    )  # fmt: skip
    return network.traffic, outcome


@pytest.fixture
def noisy(tmp_path):
    """A set whose optimum no method reaches in a few steps."""
    list(
        write_text(
            tmp_path / "train.txt", mark(recipe := Linear(rows=200, features=9, label_noise=0.2)), blocks(recipe)
        )
    )
    return tmp_path


@pytest.mark.parametrize("name", METHODS)
def test_a_run_sends_what_is_said(name, noisy):
    steps = 6 if name not in ("newton", "giant") else 3
    job = made(noisy, name, METHODS[name], f"stop.steps={steps}")
    found = plan_job(job, nodes=4)
    traffic, _ = really(job, 4, steps)
    sent = [each.payload_bytes + each.header_bytes for each in traffic]
    if name == "sparq-sgd":
        assert 0 < max(sent) <= found.length.sent, "an upper bound: silence sends nothing"
    elif name == "lbfgs":
        assert 0 <= max(sent) - found.length.sent <= 6 * 3 * 8 * 20, "short line searches are not foreseen"
    else:
        assert max(sent) == found.length.sent
    extra = name in ("d-psgd", "choco-sgd", "sparq-sgd", "local-sgd")
    assert traffic[0].rounds - extra == found.length.rounds


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("giant", 'averaging="plain"'),
        ("newton", "hessian_every=3"),
        ("local-newton", 'finish="none",averaging="plain",local_steps="adaptive"'),
        ("local-newton", 'finish="giant"'),
        ("local-newton", 'finish="newton"'),
        ("newton-cg", ""),
    ],
)
def test_single_reductions_are_as_long_as_is_said(name, settings, noisy):
    """The sizes that the driver sees are those of the plan, but for what comes once at first."""
    job = made(noisy, name, settings)
    found = plan_job(job, nodes=3).traffic
    sizes = set()
    built = build(job, Solo(), 3, range(3))
    for problem, node in zip(built.timed, built.nodes, strict=True):
        state = built.algorithm.init(problem, np.zeros(problem.dim))
        step = built.algorithm.step(state, problem, node)
        request = next(step)
        sizes.add(type(request).__name__)
    traffic, _ = really(job, 3, 4)
    ups = {each.up for each in found.reductions} | {each.up + each.first for each in found.reductions}
    total = traffic[1].payload_bytes
    # a worker's bytes are a sum of these sizes (and of the short sum that looks for shards of one class)
    assert _is_sum(total, sorted(ups | {16})), (total, ups)


def _is_sum(total, parts):
    reach = np.zeros(total + 1, dtype=bool)
    reach[0] = True
    for part in parts:
        for at in range(part, total + 1):
            reach[at] |= reach[at - part]
    return bool(reach[total])


@pytest.mark.parametrize("name", [*METHODS, "newton-cg", "local"])
@pytest.mark.parametrize("shape", ["tall", "wide", "classes"])
def test_memory_is_near_what_steps_take(name, shape, tmp_path):
    """Peaks of traced allocations of three steps on one node, beside the data."""
    rows, features = {"tall": (20_000, 20), "wide": (600, 900), "classes": (3000, 60)}[shape]
    softmax = shape == "classes"
    recipe = Linear(
        rows=rows, features=features, density=0.2, label_noise=0.2, task="softmax" if softmax else "logistic", classes=5
    )
    list(write_text(tmp_path / "train.txt", mark(recipe), blocks(recipe)))
    settings = METHODS.get(name, "")
    name, settings = ("local-newton", 'finish="newton"') if name == "local" else (name, settings)
    job = made(tmp_path, name, settings, loss="softmax" if softmax else "logistic")
    found = plan_job(job, nodes=1).memory
    built = build(job, Solo(), 1, range(1))
    network = Lockstep(built.neighbours(), built.codec)
    plan = Plan(
        network=network, algorithm=built.algorithm, nodes=built.nodes, problems=built.timed,
        x0=np.zeros(built.problems[0].dim), rules=StopRules(steps=3), average_output=False,
    )  # fmt: skip
    tracemalloc.start()
    run(plan)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    said = found.vectors.most + found.matrices.most
    assert 0.5 < peak / (said + 20_000) < 1.5


@pytest.mark.parametrize(
    ("rules", "steps", "rounds", "by"),
    [
        ({"steps": 10}, 10, 3, "steps"),
        ({"rounds": 4}, 12, 4, "rounds"),
        ({"epochs": 1.5}, 10, 3, "epochs"),
        ({"steps": 50, "rounds": 2, "epochs": 9}, 6, 2, "rounds"),
        ({"steps": 7, "seconds": 1e6, "patience": 9}, 7, 2, "steps"),
    ],
)
def test_a_run_is_as_long_as_is_said(rules, steps, rounds, by, noisy):
    given = ["stop.steps=", *(f"stop.{name}={value}" for name, value in rules.items())]
    job = made(noisy, "local-sgd", "step_size=0.1,sync_every=3,batch=8", *given)
    found = plan_job(job, nodes=4).length
    assert (found.steps, found.rounds, found.by) == (steps, rounds, by)
    assert found.others == tuple(name for name in rules if name in ("seconds", "patience"))
    built = build(job, Solo(), 4, range(4))
    network = Lockstep(built.neighbours(), built.codec)
    outcome = run(
        Plan(
            network=network, algorithm=built.algorithm, nodes=built.nodes, problems=built.timed, x0=np.zeros(9),
            rules=StopRules(**rules), average_output=False, steps_per_epoch=built.steps_per_epoch,
        )
    )  # fmt: skip
    assert outcome.steps == steps
    assert network.traffic[0].rounds == rounds
    assert found.epochs == pytest.approx(steps * 4 * 8 / 200)


def test_rules_that_bound_no_steps(noisy):
    job = made(noisy, "newton-cg", "", "stop.steps=", "stop.rounds=30", "stop.gradient_norm=1e-6")
    found = plan_job(job, nodes=3)
    assert (found.length.steps, found.length.rounds, found.length.sent) == (None, 30, None)
    assert "length       at most 30 rounds; may end before by gradient_norm" in found.text()
    job = made(noisy, "newton", "", "stop.steps=", "stop.objective=0.1")
    assert "length       no rule bounds the steps; may end before by objective" in plan_job(job, nodes=3).text()


# --- rounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finish", "dim", "rows", "nodes", "measured"),
    [
        ("newton", 123, 32_561, 16, 4),
        ("newton", 22, 49_990, 16, 4),
        ("newton", 22, 49_990, 100, 3),
        ("newton", 300, 49_749, 16, 7),
        ("newton-cg", 123, 32_561, 16, 50),
        ("newton-cg", 123, 32_561, 100, 60),
        ("newton-cg", 22, 49_990, 100, 21),
        ("newton-cg", 300, 49_749, 100, 36),
        ("giant", 123, 32_561, 16, 14),
        ("giant", 123, 32_561, 100, 18),
        ("giant", 22, 49_990, 16, 5),
        ("giant", 22, 49_990, 100, 8),
        ("giant", 300, 49_749, 16, 19),
    ],
)
def test_expected_rounds_are_within_a_factor_of_two_of_those_measured(finish, dim, rows, nodes, measured):
    """The counts of docs/compare-newton.md: shuffled rows, to 1e-6."""
    built = SimpleNamespace(
        loaded=SimpleNamespace(info=SimpleNamespace(rows=rows, nonzeros=10 * rows)),
        problems=[SimpleNamespace(dim=dim)],
        nodes=[SimpleNamespace(count=nodes)],
        job=SimpleNamespace(algorithm=SimpleNamespace(master="working")),
    )
    assert 0.5 <= course._finished(built, finish) / measured <= 2.0


def test_what_is_not_known_is_not_invented(noisy):
    def rounds(name, settings, **others):
        return plan_job(made(noisy, name, settings, **others), nodes=4).rounds

    assert rounds("allreduce-sgd", "step_size=0.1").about is None
    assert rounds("local-newton", 'finish="none"').about is None
    assert rounds("local-newton", 'finish="newton"').about == round(1 + 1.1 * np.log(9) - 0.9)
    assert rounds("local-newton", 'finish="newton"', loss="squared").about is None
    assert "6 on a9a" in rounds("newton", "").basis
    job = made(noisy, "local-newton", 'finish="newton"', 'data.partition="by-label"')
    alone = plan_job(job, nodes=4)
    assert alone.held.one_class > 0.5
    assert alone.rounds.about is None
    assert "one class" in alone.rounds.basis


@pytest.mark.parametrize(("graph", "rate", "nodes"), [("ring", 1.0, 12), ("star", 0.7, 6), ("complete", 0.5, 5)])
def test_mixing_rounds_are_those_of_gossip(graph, rate, nodes, noisy):
    job = made(noisy, "choco-sgd", f"step_size=0.1,consensus_rate={rate}", f'graph.name="{graph}"')
    found = plan_job(job, nodes=nodes)
    W = found.built.mixing.matrix()
    x = np.random.default_rng(0).normal(size=(nodes, 40_000))
    start, count = np.sum((x - x.mean(axis=0)) ** 2), 0
    while np.sum((x - x.mean(axis=0)) ** 2) > 0.01 * start:
        x += rate * (W @ x - x)
        count += 1
    assert abs(found.rounds.mixing - count) <= 1
    assert f"mixing       about {found.rounds.mixing} rounds" in found.text()


# --- warnings ---------------------------------------------------------------------------------------------------------


def warned(job, nodes=2):
    return " | ".join(plan_job(job, nodes=nodes).warnings)


def test_storage_that_does_not_fit_is_told(tmp_path, noisy):
    assert "stored as CSR, but 100% of the entries are there: 21.6 kB, as a dense table 14.4 kB" in warned(
        made(noisy, "newton", "")
    )
    table = np.zeros((50, 10))
    table[:, 0] = np.arange(50) % 7
    np.savez(tmp_path / "t.npz", X=table, y=np.arange(50) % 2)
    np.save(tmp_path / "X.npy", table)
    np.save(tmp_path / "y.npy", np.arange(50) % 2)
    job = load_job(
        f'name="a"\ndata={{train=["X.npy","y.npy"],folder="{tmp_path}"}}\nproblem.loss="logistic"\nalgorithm.name="newton"\nstop.steps=1'
    )
    nonzero = np.count_nonzero(table)
    assert f"stored dense, but {1 - nonzero / 500:.0%} of the entries are 0: 4 kB, as CSR {12 * nonzero} B" in warned(
        job
    )


def test_columns_scaled_unlike_are_told(tmp_path):
    rows = [f"{1 if k % 2 else -1} 1:{0.001 * (1 + k % 3)} 3:{2000 - k}" for k in range(40)]
    (tmp_path / "train.txt").write_text("\n".join(rows))
    said = warned(made(tmp_path, "newton", ""))
    assert (
        "columns are scaled unlike: largest magnitudes from 0.003 (column 1) to 2e+03 (column 3), a factor of "
        "6.67e+05; "
        '[prepare] columns = "standard" or "max-abs" evens them'
    ) in said
    assert "scaled unlike" not in warned(made(tmp_path, "newton", "", 'prepare.columns="max-abs"'))


def test_unequal_labels_are_told(tmp_path):
    rows = [f"{3 if k % 10 else 7} {1 + k % 4}:1" for k in range(100)]
    (tmp_path / "train.txt").write_text("\n".join(rows))
    said = warned(made(tmp_path, "newton", ""))
    told = "10.00% of the rows have the label 7, 90.00% 3"
    assert f'{told}: problem.class_weight = "balanced" gives' in said
    assert f"{told}, and there is no intercept to take that up: data.intercept = true adds one" in said
    assert "intercept" not in warned(made(tmp_path, "newton", "", "data.intercept=true"))
    assert "class_weight" not in warned(made(tmp_path, "newton", "", 'problem.class_weight="balanced"'))


def test_how_a_table_was_read_is_a_note_unless_a_column_has_no_name(tmp_path):
    job = write_job(tmp_path)
    job.write_text(job.read_text().replace("train.txt", "train.csv"))
    rows = "".join(f"{j},{j % 3},{j % 2}\n" for j in range(12))
    for first, where in (("a", "notes"), ("", "warnings")):
        (tmp_path / "train.csv").write_text(f"{first},b,y\n{rows}")
        found = plan_job(load_job(job), nodes=2)
        told = {name: [text for text in getattr(found, name) if "parted by" in text] for name in ("notes", "warnings")}
        assert {name: len(texts) for name, texts in told.items()} == {"notes": 0, "warnings": 0, where: 1}


def test_sorted_and_uneven_shards_are_told_and_by_runs_too(tmp_path):
    rows = [f"{1 if k < 20 else 2} {1 + k // 10}:1" for k in range(40)]
    (tmp_path / "train.txt").write_text("\n".join(rows))
    job = made(tmp_path, "newton", "", 'data.partition="contiguous"')
    told = build(job, Solo(), 4, range(4)).notes
    for what in (
        "the file is sorted by label",
        "4 of 4 nodes hold rows of one class",
        "4 of 4 nodes lack some of the 4",
    ):
        assert what in warned(job, 4)
        assert any(what in note for note in told)
    assert "3 of 43 nodes hold no rows" in warned(job, 43)
    assert "there are 40 rows" in warned(job, 43)


def test_a_hessian_that_does_not_fit_is_told(tmp_path):
    recipe = Linear(rows=50, features=10_000, density=0.001, seed=2)
    list(write_text(tmp_path / "train.txt", mark(recipe), blocks(recipe)))
    said = warned(made(tmp_path, "giant", "", "data.features=10000"))
    assert "d = 10000 is too large for a Hessian (three matrices take 2.4 GB): directions come from conjugate" in said
    said = warned(made(tmp_path, "giant", 'solver="cholesky"', "data.features=10000"))
    assert '"cholesky" makes them all the same' in said
    assert "too large" not in warned(made(tmp_path, "allreduce-sgd", "step_size=0.1", "data.features=10000"))


def test_more_memory_than_there_is_is_told(noisy, monkeypatch):
    monkeypatch.setattr(cautions, "machine_memory", lambda: 1000.0)
    assert "and this machine has 1 kB" in warned(made(noisy, "newton", ""))


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_what_a_run_would_refuse_is_refused(tmp_path):
    job = write_job(tmp_path)
    with pytest.raises(JobError, match="power of two"):
        plan_job(load_job(job, ['graph.name="hypercube"']), nodes=3)
    with pytest.raises(JobError, match="compressor"):
        plan_job(load_job(job, ["algorithm.compressor.k=7"]), nodes=3)
    with pytest.raises(DataError, match=r"absent\.txt"):
        plan_job(load_job(job, ['data.train="absent.txt"']), nodes=3)


def test_nothing_is_written_and_the_rate_found_is_told(tmp_path):
    job = write_job(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    text = plan_job(load_job(job, ['algorithm.consensus_rate="auto"']), nodes=4).text()
    assert re.search(r"^note +.*consensus.?rate", text, re.MULTILINE)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def examples():
    """Return the command and the output of each example of the page."""
    page = (ROOT / "docs" / "plan.md").read_text()
    return re.findall(r"```\n\$ mpi-opt plan (\S+) --nodes (\d+)\n(.*?)\n```", page, re.DOTALL)


@pytest.mark.data
def test_the_page_shows_what_the_command_prints(datasets, monkeypatch):
    monkeypatch.setenv("MPI_OPT_DATASETS", str(datasets))
    found = examples()
    assert len(found) == 2
    for job, nodes, shown in found:
        text = plan_job(load_job(ROOT / job), nodes=int(nodes)).text()
        clock = re.compile(r"found in [0-9.]+ s")
        assert clock.sub("", text) == clock.sub("", shown)
