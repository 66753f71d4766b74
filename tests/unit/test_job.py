"""The job file: every key checked by name, every value by range, and what is written loads to what was read."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_opt import algorithmkeys, datakeys, jobkeys, jobtext
from mpi_opt import job as job_module
from mpi_opt.compression.registry import COMPRESSORS, make_compressor
from mpi_opt.errors import JobError
from mpi_opt.job import METHODS, Job, load_job, spec, to_toml
from mpi_opt.problems.registry import LOSSES
from mpi_opt.schedulespecs import make_step_size, make_threshold
from mpi_opt.topology.registry import GRAPHS

ROOT = Path(__file__).resolve().parents[2]
SMALL = """
name = "small"
[data]
train = "a9a"
[problem]
loss = "logistic"
[algorithm]
name = "sparq-sgd"
step_size = 0.5
compressor = { name = "sign-top-k", k = 12 }
[stop]
steps = 3
"""

WHOLE = """
name = "whole"
[data]
train = "a9a"
[problem]
loss = "logistic"
[algorithm]
name = "local-newton"
[stop]
steps = 3
"""
WHOLE_PASSES = ("local-newton", "giant", "newton", "newton-cg", "lbfgs", "admm")
SGD_KEYS = (
    "batch=2",
    "step_size=0.5",
    "sync_every=2",
    "threshold=1",
    "compressor=sign",
    "consensus_rate=0.5",
    "momentum=0.5",
    "longest_silence=3",
    "overlap=true",
    "output=local",
)


def refused(*settings: str, text: str = SMALL) -> str:
    with pytest.raises(JobError) as caught:
        load_job(text, settings)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_example_of_the_design_is_read() -> None:
    job = load_job(
        """
name = "a9a-sparq"
seed = 7
[data]
train = "a9a"
test = "a9a.t"
partition = { name = "dirichlet", alpha = 0.1 }
intercept = true
[problem]
loss = "softmax"
l2 = 1
[graph]
name = "torus"
weights = "lazy"
rows = 2
cols = 4
[algorithm]
name = "sparq-sgd"
batch = 5
step_size = { schedule = "inverse", a = 100, b = 1.0 }
sync_every = 5
threshold = 2
compressor = "sign"
consensus_rate = 0.2
[stop]
steps = 200
seconds = 10
[metrics]
every = 20
nodes = 3
"""
    )
    assert (job.name, job.seed, job.data.train, job.data.test, job.data.intercept) == (
        "a9a-sparq",
        7,
        "a9a",
        "a9a.t",
        True,
    )
    assert job.data.partition == datakeys.Partition(name="dirichlet", alpha=0.1)
    assert (job.problem.loss, job.problem.l2) == ("softmax", 1.0)
    assert (job.graph.name, job.graph.weights, job.graph.rows, job.graph.cols) == ("torus", "lazy", 2, 4)
    assert job.algorithm.step_size == algorithmkeys.InverseStep(a=100.0, b=1.0)
    assert job.algorithm.threshold == algorithmkeys.ConstantThreshold(value=2.0)
    assert job.algorithm.compressor == algorithmkeys.Sign()
    assert (job.algorithm.batch, job.algorithm.sync_every, job.algorithm.consensus_rate) == (5, 5, 0.2)
    assert (job.stop.steps, job.stop.seconds, job.stop.rounds) == (200, 10.0, None)
    assert (job.metrics.every, job.metrics.nodes) == (20, 3)


def test_defaults() -> None:
    job = load_job(SMALL)
    assert (job.seed, job.problem.l2, job.data.partition.name, job.data.intercept) == (0, "1/N", "shuffled", False)
    assert (job.graph.name, job.graph.weights) == ("ring", "metropolis")
    algorithm = job.algorithm
    assert (algorithm.batch, algorithm.sync_every, algorithm.consensus_rate, algorithm.momentum) == (
        "full",
        5,
        "auto",
        0.0,
    )
    assert (algorithm.longest_silence, algorithm.overlap, algorithm.output) == (None, False, "average")
    assert (job.network.reductions, job.network.check) == ("mpi", False)


def test_defaults_of_whole_passes() -> None:
    algorithm = load_job(WHOLE).algorithm
    assert (algorithm.local_steps, algorithm.finish, algorithm.solver) == ("adaptive", "auto", "auto")
    assert (algorithm.damping, algorithm.averaging, algorithm.hessian_every) == ("auto", "support", 1)
    assert (algorithm.master, algorithm.step_size, algorithm.batch) == ("working", None, "full")
    assert load_job(WHOLE, ["algorithm.name=lbfgs"]).algorithm.memory == 10
    network = load_job(WHOLE).network
    assert (network.latency, network.bandwidth) == (None, None)


def test_presets() -> None:
    no_compressor = "algorithm.compressor="
    choco = load_job(SMALL, ["algorithm.name=choco-sgd"]).algorithm
    assert (choco.sync_every, choco.threshold) == (1, algorithmkeys.ConstantThreshold(value=0.0))
    dpsgd = load_job(SMALL, ["algorithm.name=d-psgd", no_compressor, "algorithm.sync_every=4"]).algorithm
    assert (dpsgd.compressor, dpsgd.consensus_rate, dpsgd.sync_every) == (algorithmkeys.Identity(), 1.0, 4)
    assert dpsgd.threshold == algorithmkeys.ConstantThreshold(value=0.0)
    squarm = load_job(SMALL, ["algorithm.name=squarm-sgd"]).algorithm
    assert (squarm.momentum, squarm.sync_every) == (0.9, 5)


def test_methods_fit_the_structs() -> None:
    fields = set(algorithmkeys.Algorithm.__struct_fields__)
    for method in METHODS.values():
        assert method.keys <= fields
        assert set(method.defaults) <= method.keys


def test_words_fit_the_registries() -> None:
    """The job's words are written out a second time, so that help and errors need no heavy import."""
    info = msgspec.inspect.type_info(Job)

    def words(*path: str) -> set[str]:
        kind: msgspec.inspect.Type = info
        for key in path:
            assert isinstance(kind, msgspec.inspect.StructType)
            kind = next(field.type for field in kind.fields if field.name == key)
        found = set()
        todo = [kind]
        while todo:
            kind = todo.pop()
            if isinstance(kind, msgspec.inspect.Metadata):
                todo.append(kind.type)
            elif isinstance(kind, msgspec.inspect.UnionType):
                todo += kind.types
            elif isinstance(kind, msgspec.inspect.StructType):
                found.add(str(kind.tag))
            elif isinstance(kind, msgspec.inspect.LiteralType):
                found |= set(map(str, kind.values))
        return found

    assert words("problem", "loss") == set(LOSSES)
    assert words("graph", "name") | {"edges"} == set(GRAPHS)
    assert words("algorithm", "compressor") == set(COMPRESSORS)
    assert words("algorithm", "name") == set(METHODS)


# --- unknown keys -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "near"),
    [
        ("algorithm.thresold=1", "threshold"),
        ("algorithm.sync-every=1", "sync_every"),
        ("sed=1", "seed"),
        ("grph.name=ring", "graph"),
        ("data.trian=x", "train"),
        ("problem.los=x", "loss"),
        ("stop.step=1", "steps"),
        ("metrics.ever=1", "every"),
        ("network.reduction=mpi", "reductions"),
        ("algorithm.compressor.kk=1", "k"),
        ("algorithm.step_size={schedule='inverse',a=1,b=1,warmup=3}", "warm_up"),
        ("data.partition={name='dirichlet',alpa=1}", "alpha"),
    ],
)
def test_unknown_key_names_the_nearest(setting: str, near: str) -> None:
    message = refused(setting)
    assert message.startswith(setting.partition("=")[0].partition(".")[0])
    assert "unknown key" in message
    assert f"did you mean '{near}'?" in message
    assert "Allowed: " in message


def test_message_of_an_unknown_key_is_the_promised_one() -> None:
    assert refused("algorithm.thresold=1").startswith(
        "algorithm.thresold: unknown key; did you mean 'threshold'? Allowed: name,"
    )


@pytest.mark.parametrize(
    ("settings", "key", "takers"),
    [
        (["algorithm.name=choco-sgd", "algorithm.threshold=1"], "threshold", "sparq-sgd, squarm-sgd"),
        (["algorithm.name=d-psgd"], "compressor", "sparq-sgd, choco-sgd, squarm-sgd"),
        (
            ["algorithm.name=allreduce-sgd", "algorithm.compressor=", "algorithm.sync_every=2"],
            "sync_every",
            "local-sgd",
        ),
        (["algorithm.name=local-sgd", "algorithm.compressor=", "algorithm.overlap=true"], "overlap", "d-psgd"),
    ],
)
def test_key_without_meaning_names_who_takes_it(settings: list[str], key: str, takers: str) -> None:
    message = refused(*settings)
    assert message.startswith(f"algorithm.{key}: has no meaning for {settings[0].partition('=')[2]}; taken by ")
    assert takers in message


@pytest.mark.parametrize("name", [name for name in METHODS if name not in WHOLE_PASSES])
def test_step_size_is_needed_where_it_has_a_meaning(name: str) -> None:
    message = refused("algorithm.compressor=", "algorithm.step_size=", f"algorithm.name={name}")
    assert message == (
        f"algorithm.step_size: missing; allowed for {name}: a number > 0, or a table {{ schedule = ... }}"
    )


@pytest.mark.parametrize("name", WHOLE_PASSES)
@pytest.mark.parametrize("key", SGD_KEYS)
def test_methods_of_whole_passes_take_no_key_of_the_sgd_methods(name: str, key: str) -> None:
    message = refused(f"algorithm.name={name}", f"algorithm.{key}", text=WHOLE)
    key = key.partition("=")[0]
    assert message.startswith(f"algorithm.{key}: has no meaning for {name}; taken by ")
    assert "sparq-sgd" in message or key == "output"
    assert not any(other in message.partition("taken by ")[2].split(", ") for other in WHOLE_PASSES)


@pytest.mark.parametrize(
    ("key", "takers"),
    [
        ("local_steps=2", "local-newton"),
        ("finish=giant", "local-newton"),
        ("solver=cg", "local-newton, giant"),
        ("damping=0", "local-newton, giant"),
        ("averaging=plain", "local-newton, giant"),
        ("hessian_every=2", "local-newton, newton"),
        ("memory=5", "lbfgs"),
        ("master=dedicated", ", ".join(WHOLE_PASSES)),
    ],
)
def test_keys_of_whole_passes_have_a_meaning_for_their_takers_alone(key: str, takers: str) -> None:
    word = key.partition("=")[0]
    for name in METHODS:
        settings = [f"algorithm.name={name}", f"algorithm.{key}"]
        text = WHOLE if name in WHOLE_PASSES else SMALL
        if name in takers.split(", "):
            assert f"\n{word} = " in to_toml(load_job(text, settings))
        else:
            message = refused("algorithm.compressor=", *settings, text=text)
            assert message == f"algorithm.{word}: has no meaning for {name}; taken by {takers}"


def test_checkpoints_are_written_every_ten_minutes_unless_told() -> None:
    assert load_job(SMALL).checkpoint == jobkeys.Checkpoint(minutes=10.0, every=None, keep=2)
    job = load_job(SMALL, ["checkpoint.minutes=never", "checkpoint.every=50", "checkpoint.keep=1"])
    assert (job.checkpoint.minutes, job.checkpoint.every, job.checkpoint.keep) == ("never", 50, 1)
    assert load_job(to_toml(job)) == job


def test_the_end_of_a_slurm_job_is_no_rule_by_itself() -> None:
    assert load_job(SMALL, ["stop.seconds=slurm", "stop.steps=3"]).stop.seconds == "slurm"
    assert "at least one of" in refused("stop={seconds='slurm'}")


# --- bad values -------------------------------------------------------------------------------------------------------

BAD = [
    ("name=a/b", "name"),
    ("name=.hidden", "name"),
    ('name=""', "name"),
    ("name=3", "name"),
    ('name="a\\n"', "name"),
    ("seed=-1", "seed"),
    ("seed=1.5", "seed"),
    ("seed=true", "seed"),
    ("seed=99999999999999999999", "seed"),
    ("data=3", "data"),
    ("data.train=3", "data.train"),
    ("data.train=[]", "data.train"),
    ('data.train=""', "data.train"),
    ("data.train=['a', 3]", "data.train[1]"),
    ("data.test=true", "data.test"),
    ("data.holdout=0", "data.holdout"),
    ("data.holdout=1", "data.holdout"),
    ("data.holdout=true", "data.holdout"),
    ("data.partition=random", "data.partition.name"),
    ("data.partition=dirichlet", "data.partition.alpha"),
    ("data.partition={name='dirichlet',alpha=0}", "data.partition.alpha"),
    ("data.partition={name='shuffled',alpha=1}", "data.partition.alpha"),
    ("data.partition=3", "data.partition"),
    ("data.intercept=1", "data.intercept"),
    ("data.features=0", "data.features"),
    ("data.index_base=2", "data.index_base"),
    ("data.index_base=true", "data.index_base"),
    ("data.folder=3", "data.folder"),
    ("problem.loss=hinge", "problem.loss"),
    ("problem.l2=-1", "problem.l2"),
    ("problem.l2=1/n", "problem.l2"),
    ("problem.l2=nan", "problem.l2"),
    ("problem.l2=true", "problem.l2"),
    ("graph.name=circle", "graph.name"),
    ("graph.weights=random", "graph.weights"),
    ("graph.weights=edges", "graph.weights"),
    ("graph.degree=3", "graph.degree"),
    ("graph={name='random-regular',degree=0}", "graph.degree"),
    ("graph={name='erdos-renyi',p=1.5}", "graph.p"),
    ("graph={name='erdos-renyi',p=0}", "graph.p"),
    ("graph={name='torus',p=0.5}", "graph.p"),
    ("graph={name='torus',rows=0}", "graph.rows"),
    ("graph={name='ring',edges='x'}", "graph.edges"),
    ("graph={edges=''}", "graph.edges"),
    ("graph={edges=3}", "graph.edges"),
    ("algorithm.name=sgd", "algorithm.name"),
    ("algorithm.name=3", "algorithm.name"),
    ("algorithm.batch=0", "algorithm.batch"),
    ("algorithm.batch=half", "algorithm.batch"),
    ("algorithm.batch=1.0", "algorithm.batch"),
    ("algorithm.batch=true", "algorithm.batch"),
    ("algorithm.step_size=0", "algorithm.step_size"),
    ("algorithm.step_size=-1", "algorithm.step_size"),
    ("algorithm.step_size=true", "algorithm.step_size"),
    ("algorithm.step_size=inf", "algorithm.step_size"),
    ("algorithm.step_size=big", "algorithm.step_size"),
    ("algorithm.step_size={a=1,b=1}", "algorithm.step_size.schedule"),
    ("algorithm.step_size={schedule='linear'}", "algorithm.step_size.schedule"),
    ("algorithm.step_size={schedule='inverse',a=1}", "algorithm.step_size.b"),
    ("algorithm.step_size={schedule='inverse',a=0,b=1}", "algorithm.step_size.a"),
    ("algorithm.step_size={schedule='step',initial=1,factor=0.1}", "algorithm.step_size.every"),
    ("algorithm.step_size={schedule='step',initial=1,factor=0.1,every=2,milestones=[3]}", "algorithm.step_size.every"),
    ("algorithm.step_size={schedule='step',initial=1,factor=0.1,milestones=[3,2]}", "algorithm.step_size.milestones"),
    ("algorithm.step_size={schedule='cosine',initial=1,final=-1,steps=3}", "algorithm.step_size.final"),
    ("algorithm.step_size={schedule='constant',value=1,warm_up=0}", "algorithm.step_size.warm_up"),
    ("algorithm.sync_every=0", "algorithm.sync_every"),
    ("algorithm.sync_every=true", "algorithm.sync_every"),
    ("algorithm.threshold=-1", "algorithm.threshold"),
    ("algorithm.threshold=false", "algorithm.threshold"),
    ("algorithm.threshold={schedule='polynomial',c0=1,eps=1}", "algorithm.threshold.eps"),
    ("algorithm.threshold={schedule='firing-rate',target=0}", "algorithm.threshold.target"),
    ("algorithm.threshold={schedule='stepwise',initial=1,increase=1,every=0}", "algorithm.threshold.every"),
    ("algorithm.compressor=3", "algorithm.compressor"),
    ("algorithm.compressor=topk", "algorithm.compressor.name"),
    ("algorithm.compressor={k=3}", "algorithm.compressor.name"),
    ("algorithm.compressor={name=[1]}", "algorithm.compressor.name"),
    ("algorithm.compressor=top-k", "algorithm.compressor.k"),
    ("algorithm.compressor.k=0", "algorithm.compressor.k"),
    ("algorithm.compressor.k=1.5", "algorithm.compressor.k"),
    ("algorithm.compressor.k=true", "algorithm.compressor.k"),
    ("algorithm.compressor.k=0%", "algorithm.compressor.k"),
    ("algorithm.compressor.k=101%", "algorithm.compressor.k"),
    ("algorithm.compressor.k=half", "algorithm.compressor.k"),
    ("algorithm.compressor.value_bits=16", "algorithm.compressor.value_bits"),
    ("algorithm.compressor={name='qsgd',levels=70000}", "algorithm.compressor.levels"),
    ("algorithm.compressor={name='blockwise',sizes=[],inner='sign'}", "algorithm.compressor.sizes"),
    ("algorithm.compressor={name='blockwise',sizes=[3,0],inner='sign'}", "algorithm.compressor.sizes[1]"),
    ("algorithm.compressor={name='blockwise',sizes=[3],inner='blockwise'}", "algorithm.compressor.inner.name"),
    ("algorithm.consensus_rate=0", "algorithm.consensus_rate"),
    ("algorithm.consensus_rate=1.01", "algorithm.consensus_rate"),
    ("algorithm.consensus_rate=best", "algorithm.consensus_rate"),
    ("algorithm.consensus_rate=true", "algorithm.consensus_rate"),
    ("algorithm.momentum=1", "algorithm.momentum"),
    ("algorithm.momentum=-0.1", "algorithm.momentum"),
    ("algorithm.longest_silence=0", "algorithm.longest_silence"),
    ("algorithm.overlap=1", "algorithm.overlap"),
    ("algorithm.output=mean", "algorithm.output"),
    ("stop={}", "stop"),
    ("stop.steps=0", "stop.steps"),
    ("stop.steps=1.0", "stop.steps"),
    ("stop.rounds=0", "stop.rounds"),
    ("stop.epochs=0", "stop.epochs"),
    ("stop.seconds=true", "stop.seconds"),
    ("stop.seconds=pbs", "stop.seconds"),
    ("stop.megabytes=-1", "stop.megabytes"),
    ("stop.gradient_norm=0", "stop.gradient_norm"),
    ("stop.objective=-inf", "stop.objective"),
    ("stop.patience=0", "stop.patience"),
    ("stop.steps=2020-01-01", "stop.steps"),
    ("metrics.every=0", "metrics.every"),
    ("metrics.nodes=0", "metrics.nodes"),
    ("metrics.nodes=some", "metrics.nodes"),
    ("network.reductions=fast", "network.reductions"),
    ("network.check=1", "network.check"),
    ("checkpoint.minutes=0", "checkpoint.minutes"),
    ("checkpoint.minutes=often", "checkpoint.minutes"),
    ("checkpoint.every=0", "checkpoint.every"),
    ("checkpoint.keep=0", "checkpoint.keep"),
]


@pytest.mark.parametrize(("setting", "path"), BAD, ids=[setting for setting, _ in BAD])
def test_bad_value_names_key_value_and_what_is_allowed(setting: str, path: str) -> None:
    message = refused(setting)
    assert re.match(re.escape(path) + r"[ :.]", message), message
    assert re.search("[Aa]llowed: |missing|give (either|one)|only |taken by ", message), message
    written = setting.partition("=")[2]
    if written.replace(".", "").isdecimal() and "taken by" not in message:
        assert f"= {written}" in message


BAD_WHOLE = [
    ("algorithm.local_steps=0", "algorithm.local_steps"),
    ("algorithm.local_steps=1.0", "algorithm.local_steps"),
    ("algorithm.local_steps=true", "algorithm.local_steps"),
    ("algorithm.local_steps=auto", "algorithm.local_steps"),
    ("algorithm.finish=lbfgs", "algorithm.finish"),
    ("algorithm.finish=true", "algorithm.finish"),
    ("algorithm.finish={name='giant'}", "algorithm.finish"),
    ("algorithm.solver=lu", "algorithm.solver"),
    ("algorithm.solver=1", "algorithm.solver"),
    ("algorithm.damping=-1", "algorithm.damping"),
    ("algorithm.damping=true", "algorithm.damping"),
    ("algorithm.damping=nan", "algorithm.damping"),
    ("algorithm.damping=none", "algorithm.damping"),
    ("algorithm.averaging=mean", "algorithm.averaging"),
    ("algorithm.averaging=false", "algorithm.averaging"),
    ("algorithm.hessian_every=0", "algorithm.hessian_every"),
    ("algorithm.hessian_every=never", "algorithm.hessian_every"),
    ("algorithm={name='lbfgs',memory=0}", "algorithm.memory"),
    ("algorithm={name='lbfgs',memory=2.5}", "algorithm.memory"),
    ("algorithm.master=0", "algorithm.master"),
    ("algorithm.master=idle", "algorithm.master"),
    ("network.latency=-1", "network.latency"),
    ("network.latency=true", "network.latency"),
    ("network.latency=inf", "network.latency"),
    ("network.latency=fast", "network.latency"),
    ("network.bandwidth=0", "network.bandwidth"),
    ("network.bandwidth=-1", "network.bandwidth"),
    ("network.bandwidth=false", "network.bandwidth"),
    ("network.bandwidth=inf", "network.bandwidth"),
]


@pytest.mark.parametrize(("setting", "path"), BAD_WHOLE, ids=[setting for setting, _ in BAD_WHOLE])
def test_bad_value_of_whole_passes_names_key_value_and_what_is_allowed(setting: str, path: str) -> None:
    message = refused(setting, text=WHOLE)
    assert message.startswith(f"{path} = "), message
    assert "llowed: " in message, message


def test_latency_and_bandwidth_are_given_together() -> None:
    assert refused("network.latency=1e-3", text=WHOLE).startswith("network.bandwidth: missing beside network.latency")
    assert refused("network.bandwidth=1e6", text=WHOLE).startswith("network.latency: missing beside network.bandwidth")
    network = load_job(WHOLE, ["network.latency=0", "network.bandwidth=12_500_000"]).network
    assert (network.latency, network.bandwidth) == (0.0, 12.5e6)
    assert isinstance(network.bandwidth, float)


@pytest.mark.parametrize("key", ["name", "data.train", "problem.loss", "algorithm.name", "algorithm.step_size"])
def test_missing_key(key: str) -> None:
    assert refused(f"{key}=").startswith(f"{key}: missing")


@pytest.mark.parametrize("table", ["data", "problem", "algorithm", "stop"])
def test_missing_table(table: str) -> None:
    assert refused(f"{table}=").startswith(f"{table}: missing")


def test_test_and_holdout_exclude_each_other() -> None:
    assert "data.holdout" in refused("data.test=a9a.t", "data.holdout=0.2")


def test_weighted_output_of_local_sgd() -> None:
    assert "local-sgd" in refused("algorithm.name=local-sgd", "algorithm.compressor=", "algorithm.output=weighted")


def test_broken_toml_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("name = \n")
    with pytest.raises(JobError, match=r"broken\.toml.*line 1"):
        load_job(path)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"none\.toml.*No such file"):
        load_job(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(JobError, match=r"binary\.toml.*UTF-8"):
        load_job(tmp_path / "binary.toml")


# --- numbers, overrides, folders --------------------------------------------------------------------------------------


def test_whole_numbers_are_numbers() -> None:
    settings = [
        "algorithm.step_size=1",
        "algorithm.consensus_rate=1",
        "stop.seconds=3",
        "problem.l2=0",
        "algorithm.momentum=0",
    ]
    job = load_job(SMALL, settings)
    values = (job.algorithm.consensus_rate, job.stop.seconds, job.problem.l2, job.algorithm.momentum)
    assert values == (1.0, 3.0, 0.0, 0.0)
    assert all(isinstance(value, float) for value in values)


def test_overrides_win_in_order_and_make_tables() -> None:
    job = load_job(
        SMALL, ["seed=1", "seed=2", "graph.name=star", "metrics.every = 7", "data.train=../x/y.txt", "stop.steps=1_000"]
    )
    assert (job.seed, job.graph.name, job.metrics.every, job.data.train, job.stop.steps) == (
        2,
        "star",
        7,
        "../x/y.txt",
        1000,
    )
    job = load_job(SMALL, ["algorithm.compressor={name='top-k',k='1%'}", "problem.l2=1/N", "data.train=['a', 'b']"])
    assert (job.algorithm.compressor, job.data.train) == (algorithmkeys.TopK(k="1%"), ["a", "b"])
    assert load_job(SMALL, ["algorithm.compressor.k=5"]).algorithm.compressor == algorithmkeys.SignTopK(k=5)


def test_empty_override_removes() -> None:
    assert load_job(SMALL, ["stop.steps=", "stop.rounds=4"]).stop == jobkeys.Stop(rounds=4)
    assert load_job(SMALL, ["stop.patience="]).stop.patience is None


@pytest.mark.parametrize(
    "setting",
    ["seed", "=3", "a..b=3", "a b=3", "name.x=3", "data.train.x=1", "data.train=[1", 'name="x', "stop={steps=1"],
)
def test_malformed_override(setting: str) -> None:
    assert setting in refused(setting).replace('\\"', '"')


def test_value_of_an_override_cannot_smuggle_keys() -> None:
    raw: jobtext.Plain = {}
    jobtext.override(raw, "name=1\nseed = 3")
    assert raw == {"name": "1\nseed = 3"}


def test_folder_is_the_job_files(tmp_path: Path) -> None:
    path = tmp_path / "jobs" / "small.toml"
    path.parent.mkdir()
    path.write_text(SMALL)
    assert load_job(path).folder == tmp_path / "jobs"
    assert load_job(path, ["data.folder=../data"]).folder == tmp_path / "data"
    assert load_job(SMALL).folder == Path.cwd()
    moved = tmp_path / "run" / "job.toml"
    moved.parent.mkdir()
    moved.write_text(to_toml(load_job(path)))
    assert load_job(moved) == load_job(path)


def test_edges() -> None:
    assert load_job(SMALL, ["graph.edges=net.txt"]).graph == jobkeys.Graph(edges="net.txt")
    job = load_job(SMALL, ["graph.edges=[[0, 1], [1, 2, 0.25]]", "graph.weights=edges"])
    assert job.graph.edges == [[0, 1], [1, 2, 0.25]]
    assert load_job(to_toml(job)) == job


# --- writing ----------------------------------------------------------------------------------------------------------

STEP_SIZES = [
    "0.5",
    "{schedule='inverse',a=100,b=1,warm_up=3}",
    "{schedule='step',initial=1,factor=0.1,every=5}",
    "{schedule='step',initial=1,factor=0.1,milestones=[3,5]}",
    "{schedule='cosine',initial=1,final=0,steps=9}",
]
THRESHOLDS = [
    "0",
    "{schedule='polynomial',c0=100,eps=0.5}",
    "{schedule='stepwise',initial=1,increase=0.1,every=5,until=50}",
    "{schedule='firing-rate',target=0.4}",
]
OPERATORS = [
    "identity",
    "{name='identity',value_bits=64}",
    "sign",
    "{name='top-k',k='0.5%'}",
    "{name='random-k',k=1,block=3}",
    "{name='qsgd',levels=16}",
    "{name='qsgd-top-k',k=3,levels=16}",
    "{name='blockwise',sizes=[3,4],inner='sign'}",
    "{name='blockwise',sizes=[3,4],inner={name='top-k',k='5%'}}",
]


@pytest.mark.parametrize("value", STEP_SIZES)
def test_step_sizes_are_built_and_written(value: str) -> None:
    job = load_job(SMALL, [f"algorithm.step_size={value}"])
    assert load_job(to_toml(job)) == job
    assert job.algorithm.step_size is not None
    assert make_step_size(spec(job.algorithm.step_size))(3) > 0.0


@pytest.mark.parametrize("value", THRESHOLDS)
def test_thresholds_are_built_and_written(value: str) -> None:
    job = load_job(SMALL, [f"algorithm.threshold={value}"])
    assert load_job(to_toml(job)) == job
    make_threshold(spec(job.algorithm.threshold))


@pytest.mark.parametrize("value", OPERATORS)
def test_compressors_are_built_and_written(value: str) -> None:
    job = load_job(SMALL, [f"algorithm.compressor={value}"])
    assert load_job(to_toml(job)) == job
    params = spec(job.algorithm.compressor)
    params.pop("block", None)
    make_compressor(params.pop("name"), params)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_written_with_its_keys_alone(name: str) -> None:
    text = WHOLE if name in WHOLE_PASSES else SMALL
    job = load_job(text, ["algorithm.compressor=", f"algorithm.name={name}"])
    text = to_toml(job)
    assert load_job(text) == job
    written = set(jobtext.parse(text, "text")["algorithm"])
    optional = {"longest_silence"}  # has no value that switches it off
    assert METHODS[name].keys - optional <= written <= METHODS[name].keys


@pytest.mark.parametrize(
    "settings",
    [
        *[[f"algorithm.local_steps={value}"] for value in ("adaptive", 1, 7)],
        *[[f"algorithm.finish={value}"] for value in ("none", "giant", "newton", "newton-cg", "auto")],
        *[[f"algorithm.solver={value}"] for value in ("auto", "cholesky", "cg")],
        *[[f"algorithm.damping={value}"] for value in ("auto", 0, 1e-300, 0.25)],
        *[[f"algorithm.averaging={value}"] for value in ("support", "plain")],
        *[[f"algorithm.master={value}"] for value in ("working", "dedicated")],
        ["algorithm.finish=newton", "algorithm.hessian_every=3"],
        ["algorithm.name=lbfgs", "algorithm.memory=3"],
        ["network.latency=2e-6", "network.bandwidth=12.5e9"],
    ],
    ids=", ".join,
)
def test_keys_of_whole_passes_are_written(settings: list[str]) -> None:
    job = load_job(WHOLE, settings)
    assert load_job(to_toml(job)) == job
    table, _, key = settings[-1].partition("=")[0].partition(".")
    assert getattr(getattr(job, table), key) == jobtext.parse(to_toml(job), "text")[table][key]


WORDS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.one_of(WORDS, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(WORDS, v, max_size=3), max_leaves=6)


@given(st.dictionaries(WORDS, VALUES, max_size=5))
def test_writer_and_toml_reader_agree(tables: jobtext.Plain) -> None:
    assert jobtext.parse(jobtext.write(tables), "text") == tables


@given(
    st.builds(
        jobkeys.Stop,
        steps=st.integers(1),
        epochs=st.none() | st.floats(1e-300, 1e300),
        objective=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    ),
    st.integers(0, 2**63 - 1),
    st.floats(0, 1, exclude_max=True),
)
def test_round_trip_keeps_every_bit(stop: jobkeys.Stop, seed: int, momentum: float) -> None:
    job = load_job(SMALL)
    algorithm = msgspec.structs.replace(job.algorithm, momentum=momentum)
    job = msgspec.structs.replace(job, stop=stop, seed=seed, algorithm=algorithm)
    assert load_job(to_toml(job)) == job


# --- what stands beside the code --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((ROOT / "jobs").glob("*.toml")), ids=lambda path: path.stem)
def test_jobs_of_the_repository(path: Path) -> None:
    job = load_job(path)
    assert job.name == path.stem
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", job.name)
    assert f"`{path.name}`" in (ROOT / "jobs" / "README.md").read_text()
    assert load_job(to_toml(job)) == job


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "job-file.md").read_text()
    sections = dict(zip(*[iter(re.split(r"^## `\[(\w+)\]`$", text, flags=re.MULTILINE)[1:])] * 2, strict=True))
    info = msgspec.inspect.type_info(Job)
    assert isinstance(info, msgspec.inspect.StructType)
    tables = {field.name: field.type for field in info.fields}
    for name, kind in tables.items():
        table = next(iter(_structs(kind)), None)
        if table is None:
            assert f"| `{name}` |" in text
            continue
        for field in table.fields:
            assert re.search(rf"^\| (`\w+`, )?`{field.name}`[ ,]", sections[name], re.MULTILINE), f"{name}.{field.name}"
            for struct in _structs(field.type):
                assert f'"{struct.tag}"' in sections[name] or struct.tag is None
                for inner in struct.fields:
                    assert f"`{inner.name}`" in sections[name] or inner.name in sections[name], inner.name


def _structs(kind: msgspec.inspect.Type) -> list[msgspec.inspect.StructType]:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _structs(kind.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        return [struct for inner in kind.types for struct in _structs(inner)]
    return [kind] if isinstance(kind, msgspec.inspect.StructType) else []


def test_documented_method_table() -> None:
    text = (ROOT / "docs" / "job-file.md").read_text()
    for name in METHODS:
        assert f'| `"{name}"` |' in text
    assert job_module.__doc__ is not None
