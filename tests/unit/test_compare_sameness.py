"""Which runs compare at all, and what is noted where they are not alike."""

import pytest
from support.stored_runs import store

from mpi_opt.comparing import Request, compare
from mpi_opt.errors import JobError
from mpi_opt.report.formats import as_text

FIGURES = [0.9, 0.3, 0.25]
ERRORS = [0.5, 0.2, 0.1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Make a run with these settings, once each."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def get(name, *settings, **other):
        key = (name, settings, repr(other))
        if key not in made:
            made[key] = store(folder / name, FIGURES, settings=settings, errors=ERRORS, **other)
        return made[key]

    return get


def notes(*runs, **asked):
    return list(compare(Request(runs=runs, **asked)).notes)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["problem.l2=0.5"], "problem.l2 is 1/N and 0.5"),
        (["problem.loss=squared-hinge"], "problem.loss is logistic and squared-hinge"),
        (["prepare.columns=standard"], "prepare.columns is none and standard"),
        (["data.intercept=true"], "data.intercept is False and True"),
        (["data.holdout=0.5"], "data.holdout is not given and 0.5"),
        (["problem.class_weight=balanced"], "problem.class_weight is not given and balanced"),
    ],
)
@pytest.mark.parametrize("measure", ["objective", "gradient-norm"])
def test_objectives_of_other_functions_do_not_compare(run, settings, told, measure):
    other = run(f"other{abs(hash(told))}", *settings)
    with pytest.raises(JobError, match="run and other.* do not minimise the same function.*" + told):
        compare(Request(runs=[run("run"), other], measure=measure))


def test_errors_compare_between_losses_but_not_between_data(run):
    other = run("hinge", "problem.loss=squared-hinge", "problem.l2=0.5", gradient=0.7)
    told = notes(run("run"), other, measure="error", target=0.2)
    assert (
        "run and hinge do not state the same problem: problem.l2 is 1/N and 0.5; "
        "problem.loss is logistic and squared-hinge"
    ) in told
    with pytest.raises(JobError, match="not on the same data, .*: data.test is not given and other.txt"):
        compare(Request(runs=[run("run"), run("tested", "data.test=other.txt")], measure="accuracy"))
    with pytest.raises(JobError, match="not on the same data, .*: data.holdout"):
        compare(Request(runs=[run("run"), run("held", "data.holdout=0.3")], measure="accuracy"))


def test_other_words_for_the_same_rows_are_noted(run):
    told = notes(run("run"), run("copied", "data.train=copy.txt"))
    assert told == ["run and copied do not state the same problem: data.train is rows.txt and copy.txt"]


def test_the_gradient_at_the_start_tells_the_rows(run):
    with pytest.raises(JobError, match="the gradient at w = 0 is not the same, so the rows are not"):
        compare(Request(runs=[run("run"), run("changed", gradient=0.5 + 1e-6)]))
    with pytest.raises(JobError, match="data.train is rows.txt and copy.txt; the gradient at w = 0 is not the same"):
        compare(Request(runs=[run("run"), run("copied2", "data.train=copy.txt", gradient=0.6)]))
    with pytest.raises(JobError, match="not on the same data"):
        compare(Request(runs=[run("run"), run("changed", gradient=0.5 + 1e-6)], measure="error"))
    assert not notes(run("run"), run("rounded", gradient=0.5 + 1e-12))


def test_rows_held_out_by_the_seed(run):
    pair = run("seed0", "data.holdout=0.3"), run("seed1", "data.holdout=0.3", "seed=1", gradient=0.6)
    with pytest.raises(JobError, match=r"seed \(draws the rows that data.holdout takes away\) is 0 and 1"):
        compare(Request(runs=pair, target=0.1, reference="0.2"))
    told = notes(*pair, measure="error", target=0.2)
    assert any("seed (draws the rows" in note for note in told)


@pytest.mark.parametrize(
    ("settings", "other", "told"),
    [
        (["algorithm.sync_every=1"], {}, "H (algorithm.sync_every) differs: 5 (run), 1 (other); rounds and bytes"),
        (
            ['algorithm.compressor={name="sign-top-k", k=2, value_bits=64}'],
            {},
            "the width of values (bits) differs: 32 (run), 64 (other); bytes differ for that alone",
        ),
        (
            ['algorithm.compressor={name="blockwise", sizes=[1, 1], inner={name="identity", value_bits=64}}'],
            {},
            "the width of values (bits) differs: 32 (run), 64 (other); bytes differ for that alone",
        ),
        (["algorithm.batch=full"], {}, "algorithm.batch differs: 8 (run), full (other)"),
        (
            ['algorithm.step_size={schedule="inverse", a=100, b=1.0}'],
            {},
            "algorithm.step_size differs: constant (value = 0.3) (run), inverse (a = 100, b = 1) (other)",
        ),
        (["algorithm.output=weighted"], {}, "algorithm.output differs: average (run), weighted (other)"),
        (["seed=4"], {}, "seed differs: 0 (run), 4 (other); other batches were drawn"),
        ([], {"nodes": 5}, "the number of nodes differs: 3 (run), 5 (other); bytes are sums over them"),
        (["data.partition=by-label"], {}, "data.partition differs: shuffled (run), by-label (other)"),
        (["graph.name=complete"], {}, "graph.name differs: ring (run), complete (other)"),
        (["metrics.nodes=2"], {}, "metrics.nodes differs: all (run), 2 (other); mean and worst are of that many"),
        ([], {"library": "Other MPI"}, "the way nodes talk differs: Some MPI 1.0 (run), Other MPI (other); seconds"),
        (
            [],
            {"attributes": {"version_mpi_opt": "2"}},
            "the version of mpi_opt differs: 1.0 (run), 2 (other); its wire",
        ),
        ([], {"every": 10}, "evaluations are not at the same steps: every 20 steps (run), every 10 steps (other); a "),
        ([], {"library": "lockstep"}, "simulated in one process, seconds are of nodes taken in turn, not of a network"),
        ([], {"status": "diverged: node 2"}, "other diverged: node 2"),
        ([], {"status": "running"}, "other goes on or was killed: its rows end at step 40"),
    ],
)
def test_what_is_not_alike_is_noted(run, tmp_path, settings, other, told):
    found = notes(run("run"), store(tmp_path / "other", FIGURES, settings=settings, **other))
    assert any(note.startswith(told) for note in found), found
    assert len(found) <= 2


def test_sums_travel_wider_than_messages(run):
    plain = ["threshold", "compressor", "consensus_rate"]
    local = run("local", "algorithm.name=local-sgd", *(f"algorithm.{key}=" for key in plain))
    assert notes(run("run"), local) == [
        "the width of values (bits) differs: 32 (run), 64 (local); bytes differ for that alone"
    ]
    gone = [*plain, "batch", "step_size", "sync_every"]
    newton = run("newton", "algorithm.name=newton", *(f"algorithm.{key}=" for key in gone))
    assert len(notes(run("run"), newton)) == 1
    answer = compare(Request(runs=[newton]))
    assert answer.records[0]["sync_every"] is answer.records[0]["compressor"] is None
    # no H, and nobody decides whether to speak
    shown = " ".join(as_text(answer).splitlines()[4].split())
    assert shown == "newton newton 3 - 8 24 - 4.8 kB 48 B 2.4 kB 48 B 1 1"


def test_a_sample_of_the_nodes_is_noted_where_all_sample_alike(run):
    told = notes(run("few", "metrics.nodes=1"), run("few2", "metrics.nodes=1"))
    words = "mean and worst are of 1 of its 3 nodes, drawn anew at each evaluation (metrics.nodes)"
    assert told == [f"few: {words}", f"few2: {words}"]
    assert not notes(run("most", "metrics.nodes=3"), run("most2", "metrics.nodes=3"))


def test_like_runs_have_no_notes(run):
    assert not notes(run("run"), run("again"))
