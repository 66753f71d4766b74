"""SPARQ-SGD's comparison: what each row runs, factors by hand, tables to the letter, and the whole on a tiny set."""

import math
from pathlib import Path

import numpy as np
import pytest
from support.stored_runs import store

from mpi_opt.errors import EXIT_DONE, JobError
from mpi_opt.report.reading import read_course
from mpi_opt.studies.sparq import Question, answer, main
from mpi_opt.studies.sparq_figures import picture
from mpi_opt.studies.sparq_rows import RIVALS, ROWS, SPARQ, SWEEP, Jobs, rows_of
from mpi_opt.studies.sparq_tables import NEVER, Factor, Run, ask, claims, factor, in_factor, page

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "studies"
FILES = sorted((ROOT / "jobs").glob("mnist60-*.toml"))
BY_SLUG = {row.slug: row for row in ROWS}

JOB = """
name = "tiny-METHOD"
[data]
train = "train.txt"
test = "test.txt"
partition = "by-label"
[problem]
loss = "softmax"
[algorithm]
name = "METHOD"
batch = 4
step_size = 0.5
KEYS
[stop]
steps = 30
[metrics]
every = 10
nodes = 2
"""
KEYS = {
    "sparq-sgd": 'sync_every = 5\nthreshold = 0.01\ncompressor = { name = "sign-top-k", k = 4 }\n'
    'consensus_rate = 0.3\noutput = "local"',
    "choco-sgd": 'consensus_rate = 0.3\noutput = "local"',
    "d-psgd": 'output = "local"',
    "allreduce-sgd": "",
}


def quiet(line):
    pass


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Four job files on three well parted classes in five dimensions."""
    folder = tmp_path_factory.mktemp("tiny")
    draw = np.random.default_rng(0)
    for name, rows in (("train.txt", 60), ("test.txt", 30)):
        lines = []
        for row in range(rows):
            label = row % 3
            x = draw.normal(size=5) + 4.0 * np.eye(5)[label]
            lines.append(" ".join([str(label), *(f"{j + 1}:{value:.6f}" for j, value in enumerate(x))]))
        (folder / name).write_text("\n".join(lines) + "\n")
    made = []
    for method, keys in KEYS.items():
        made.append(folder / f"tiny-{method}.toml")
        made[-1].write_text(JOB.replace("METHOD", method).replace("KEYS", keys))
    return made


def question(files, folder, slugs, **more):
    jobs = Jobs.of(files)
    return Question(jobs=jobs, rows=rows_of(jobs, slugs), nodes=4, folder=folder, **more)


@pytest.fixture(scope="module")
def tiny(files, tmp_path_factory):
    """Every rival's row, and SPARQ at a higher rate, with two seeds where there are several."""
    folder = tmp_path_factory.mktemp("runs")
    asked = question(files, folder, [SPARQ.slug, *(row.slug for row in RIVALS), "sparq-rate-twice"], seeds=2)
    return asked, answer(asked, quiet)


def test_jobs_of_the_repository_make_every_row():
    jobs = Jobs.of(FILES)
    ours = jobs.sparq
    assert {row.slug for row in rows_of(jobs)} == {row.slug for row in ROWS}
    for row in rows_of(jobs):
        job = jobs.job(row, 2)
        assert (job.seed, job.name, job.algorithm.name) == (2, f"{row.slug}-seed2", row.method)
        for table in ("data", "problem", "stop", "metrics"):
            assert getattr(job, table) == getattr(ours, table), row.slug
        assert job.algorithm.step_size == ours.algorithm.step_size
        assert job.algorithm.batch == ours.algorithm.batch
        if row.method != "allreduce-sgd":
            assert job.algorithm.output == "local"
            assert job.graph == ours.graph
            assert job.algorithm.sync_every == (1 if row.sync_every == 1 else ours.algorithm.sync_every)
    kept = jobs.job(BY_SLUG["choco-top-k"], 0).algorithm.compressor
    assert kept.k == ours.algorithm.compressor.k
    assert jobs.job(BY_SLUG["sparq-k10"], 0).algorithm.compressor.k == 10
    gamma = ours.algorithm.consensus_rate
    assert jobs.job(BY_SLUG["sparq-k10"], 0).algorithm.consensus_rate == pytest.approx(gamma * 10 / 785, rel=1e-5)
    assert jobs.job(BY_SLUG["sparq-rate-half"], 0).algorithm.consensus_rate == pytest.approx(gamma / 2)
    assert jobs.job(BY_SLUG["choco-sign"], 0).algorithm.consensus_rate == 1.0


def test_rivals_stand_at_one_step_and_at_the_same_number():
    chocos = {(row.compressor, row.sync_every) for row in RIVALS if row.method == "choco-sgd"}
    assert chocos == {(operator, steps) for operator in ("sign", "top-k", "sign-top-k") for steps in (1, -1)}


def test_a_k_that_is_sparqs_own_is_not_run_twice():
    same = 'algorithm.compressor={ name = "sign-top-k", k = 78 }'
    ours = next(file for file in FILES if file.stem == "mnist60-sparq")
    jobs = Jobs({**Jobs.of(FILES).paths, "sparq-sgd": ours}, (same,))
    assert {row.slug for row in ROWS} - {row.slug for row in rows_of(jobs)} == {"sparq-k78"}


@pytest.mark.parametrize(
    ("setting", "row", "words"),
    [("consensus_rate=auto", "sparq-rate-half", "consensus_rate"), ("compressor=sign", "choco-top-k", "compressor.k")],
)
def test_sparqs_job_has_what_rows_are_made_of(setting, row, words):
    with pytest.raises(JobError, match=words):
        Jobs(Jobs.of(FILES).paths, (f"algorithm.{setting}",)).job(BY_SLUG[row], 0)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [(slice(1, None), "no job of"), ([0, 0, 1, 2, 3], "is also that of")],
)
def test_jobs_that_are_missing_or_there_twice(files, chosen, words):
    picked = files[chosen] if isinstance(chosen, slice) else [files[k] for k in chosen]
    with pytest.raises(JobError, match=words):
        Jobs.of(picked)


def test_an_unknown_row_is_refused(files):
    with pytest.raises(JobError, match="--rows nonsense: unknown; allowed: sparq, "):
        rows_of(Jobs.of(files), ["nonsense"])


def test_tiny_runs_are_counted_as_the_methods_send(tiny):
    _, found = tiny
    d, nodes, steps = 3 * 5, 4, 30
    last = {run.row.slug: run for run in found if run.seed == 0}
    sent = {slug: run.course.sent[:, -1].sum() for slug, run in last.items()}
    dense = last["dpsgd"].course.total("payload_bytes")[-1]
    assert dense == nodes * 2 * steps * 4 * d
    assert last["dpsgd-same"].course.total("payload_bytes")[-1] * 5 == dense
    assert sent["sparq"] <= sent["choco-sign-top-k-same"] < sent["choco-top-k-same"] < sent["dpsgd-same"]
    assert last["sparq-rate-twice"].rate == pytest.approx(0.6)
    assert sorted(run.seed for run in found if run.row is SPARQ) == [0, 1]
    assert [run.seed for run in found if run.row.slug == "dpsgd"] == [0]


def test_tiny_tables_have_their_columns_and_say_what_was_not_reached(tiny):
    _, found = tiny
    text = page(found, [0.5, 0.0])
    for heading in (
        "At the end of the runs",
        "Until a test error of 0.5",
        "Until a test error of 0",
        "The consensus rate",
    ):
        assert f"### {heading}\n" in text
    head = next(line for line in text.splitlines() if "x SPARQ's bytes" in line)
    for column in (
        "method",
        "H",
        "reached",
        "rounds",
        "messages",
        "sent by all",
        "a node",
        "floor",
        "averaged model: sent",
    ):
        assert f" {column} |" in head
    assert NEVER in text
    widths = {
        line.count("|") for line in text.split("### Until a test error of 0.5")[1].split("###")[0].splitlines() if line
    }
    assert len(widths) == 1
    for row in RIVALS:
        assert f"| {row.name} |" in text
    told = claims(found, [0.5, 0.0])
    assert told.count("\n") == 1 + len(RIVALS)


def test_runs_that_are_there_are_not_repeated(tiny, files, capsys):
    asked, found = tiny
    before = {path: path.stat().st_mtime_ns for path in asked.folder.glob("*/metrics.h5")}
    again = answer(asked, quiet)
    assert [run.course.label for run in again] == [run.course.label for run in found]
    assert {path: path.stat().st_mtime_ns for path in asked.folder.glob("*/metrics.h5")} == before
    code = main([*map(str, files), "--nodes", "4", "--seeds", "2", "--out", str(asked.folder), "--read-only"])
    assert code == EXIT_DONE
    assert "### Until a test error of 0.12" in capsys.readouterr().out


def test_a_run_of_another_job_is_made_anew(files, tmp_path):
    first = answer(question(files, tmp_path, ["dpsgd"], seeds=1), quiet)
    jobs = Jobs.of(files, ["stop.steps=10"])
    asked = Question(jobs=jobs, rows=rows_of(jobs, ["dpsgd"]), nodes=4, seeds=1, folder=tmp_path, compute=False)
    assert answer(asked, quiet) == []
    shorter = Question(jobs=jobs, rows=asked.rows, nodes=4, seeds=1, folder=tmp_path)
    (run,) = answer(shorter, quiet)
    assert int(first[0].course.shared["step"][-1]) == 30
    assert int(run.course.shared["step"][-1]) == 10


def test_a_run_that_diverges_is_said_to(files, tmp_path):
    jobs = Jobs.of(files, ["algorithm.step_size=1e200"])
    asked = Question(jobs=jobs, rows=rows_of(jobs, ["sparq", "dpsgd"]), nodes=4, seeds=1, folder=tmp_path)
    found = answer(asked, quiet)
    assert [run.course.word for run in found] == ["diverged", "diverged"]
    assert NEVER in page(found, [0.1])


def test_nothing_there_is_an_error(files, tmp_path, capsys):
    assert main([*map(str, files), "--out", str(tmp_path), "--read-only"]) == JobError.exit_code
    assert "no finished run" in capsys.readouterr().err


def test_factors_by_hand():
    ours = {"sent_bytes": 100}
    assert factor({"sent_bytes": 1500}, ours, "sent_bytes") == Factor(15.0)
    assert factor({"sent_bytes": None, "last_sent_bytes": 250}, ours, "sent_bytes") == Factor(2.5, bound=True)
    assert factor({"sent_bytes": 5}, {"sent_bytes": None}, "sent_bytes") == Factor(0.0)
    assert math.isnan(factor({"sent_bytes": None}, {"sent_bytes": None}, "sent_bytes").least)
    assert math.isnan(factor({"sent_bytes": 5}, {"sent_bytes": 0}, "sent_bytes").least)
    assert [in_factor(each) for each in (Factor(15.0), Factor(2.5, True), Factor(0.0), Factor(math.nan))] == [
        "15",
        "at least 2.5",
        "SPARQ not there",
        "–",
    ]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """SPARQ with two seeds, a rival that sends tenfold, and one that never gets there."""
    folder = tmp_path_factory.mktemp("stored")
    dense = ["algorithm.name=d-psgd", *(f"algorithm.{key}=" for key in ("threshold", "compressor", "consensus_rate"))]
    objectives = [0.9] * 4

    def run(slug, seed, errors, payload, settings=()):
        path = store(
            folder / f"{slug}-seed{seed}",
            objectives,
            settings=[f"seed={seed}", *settings],
            errors=errors,
            payload=payload,
        )
        return Run(BY_SLUG[slug], seed, read_course(path))

    return [
        run("sparq", 0, [0.9, 0.4, 0.2, 0.1], 10),
        run("sparq", 1, [0.9, 0.5, 0.3, 0.1], 10),
        run("choco-sign-same", 0, [0.9, 0.4, 0.2, 0.1], 120),
        run("dpsgd-same", 0, [0.9, 0.8, 0.7, 0.6], 1000, dense),
        run("sparq-k10", 0, [0.9, 0.9, 0.8, 0.8], 1),
    ]


def test_records_of_stored_runs(stored):
    # the nodes' mean is 1.5 times the average's: 0.6 0.3 0.15 and 0.75 0.45 0.15, reached at rows 2 and 3
    record = ask(stored, 0.31)[SPARQ]
    assert (record["reached"], record["round_min"], record["round_max"]) == (2, 8, 12)
    rival = ask(stored, 0.3)[BY_SLUG["dpsgd-same"]]
    assert (rival["reached"], rival["sent_bytes"]) == (0, None)


@pytest.mark.parametrize("name", ["page", "claims"])
def test_tables_to_the_letter(stored, name):
    text = {"page": page, "claims": claims}[name](stored, [0.6, 0.31])
    assert text + "\n" == (GOLDEN / f"sparq.{name}.md").read_text(encoding="utf-8")


def test_picture_shows_the_runs_of_the_first_seed(stored):
    pytest.importorskip("matplotlib")
    figure = picture(stored)
    above, below = figure.axes
    assert (above.get_ylabel(), below.get_xlabel()) == ("test error", "bytes sent by a node")
    names = [line.get_label() for line in above.get_lines()]
    assert names == ["SPARQ-SGD, H = 5", "CHOCO-SGD Sign, H = 5", "D-PSGD, H = 5"]
    np.testing.assert_allclose(above.get_lines()[0].get_ydata(), [1.35, 0.6, 0.3, 0.15])
    np.testing.assert_allclose(below.get_lines()[0].get_ydata(), [0.9, 0.4, 0.2, 0.1])
    assert above.get_xscale() == "log"


def test_swept_rows_stay_out_of_the_rivals_tables():
    assert {row.part for row in SWEEP} == {"k"}
    assert all(not row.main for row in SWEEP)
