"""The comparison of modules: factors and tables by hand, a trial against the run that `simulate` makes of its job."""

import json

import numpy as np
import pytest

from mpi_opt.errors import EXIT_DONE, JobError
from mpi_opt.execute import simulate_job
from mpi_opt.job import load_job
from mpi_opt.report.reading import read_course
from mpi_opt.studies.nets import main, train, trials
from mpi_opt.studies.nets_tables import Look, Trial, claims, page, savings
from mpi_opt.training import Orders

JOB = """
name = "tiny-METHOD"
[data]
train = "train.txt"
test = "test.txt"
[problem]
loss = "softmax"
[algorithm]
name = "METHOD"
batch = 4
step_size = 0.3
KEYS
[stop]
steps = 40
[metrics]
every = 10
"""
SPARQ = (
    'momentum = 0.9\noutput = "local"\nthreshold = 0.5\nconsensus_rate = 0.3\n'
    'compressor = { name = "blockwise", sizes = "tensors", inner = { name = "sign-top-k", k = 4 } }'
)
NODES = 4


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Jobs of two methods on three well parted classes in five dimensions."""
    folder = tmp_path_factory.mktemp("tiny")
    draw = np.random.default_rng(0)
    for name, rows in (("train.txt", 60), ("test.txt", 30)):
        lines = []
        for row in range(rows):
            x = draw.normal(size=5) + 2.0 * np.eye(5)[row % 3]
            lines.append(" ".join([str(row % 3), *(f"{j + 1}:{value:.6f}" for j, value in enumerate(x))]))
        (folder / name).write_text("\n".join(lines) + "\n")
    for method, keys in (("sparq-sgd", SPARQ), ("d-psgd", 'output = "local"')):
        (folder / f"tiny-{method}.toml").write_text(JOB.replace("METHOD", method).replace("KEYS", keys))
    return sorted(folder.glob("*.toml"), reverse=True)


def quiet(line):
    pass


def trial(method, seed, looks, **more):
    made = tuple(Look(step=s, sent=b, average=a, mean=m, worst=w) for s, b, a, m, w in looks)
    given = {"sync_every": 5, "compressor": None, "fired": 1.0, "diverged": False} | more
    return Trial(job=method, method=method, seed=seed, looks=made, **given)


START = (0, 0, 0.9, 0.9, 0.9)
HAND = [
    trial("sparq-sgd", 0, [START, (50, 2000, 0.03, 0.05, 0.08), (99, 4000, 0.018, 0.02, 0.024)], fired=0.5),
    trial("sparq-sgd", 1, [START, (50, 1000, 0.04, 0.05, 0.09), (99, 2000, 0.021, 0.022, 0.03)], fired=0.7),
    trial("d-psgd", 0, [START, (99, 600_000, 0.02, 0.02, 0.02)], sync_every=1),
    trial("d-psgd", 1, [START, (99, 300_000, 0.02, 0.02, 0.04)], sync_every=1),
]  # fmt: skip


def test_savings_are_taken_seed_by_seed():
    assert savings(HAND[:2], HAND[2:], 0.03, "average") == [300.0, 150.0]
    assert savings(HAND[:2], HAND[2:], 0.03, "worst") == [150.0, 150.0]  # the last never got there: all it sent
    assert savings(HAND[:2], HAND[2:], 0.02, "average") == [150.0, 0.0]
    assert savings(HAND[:1], HAND[2:], 0.03, "mean") == [150.0]


def test_a_claim_holds_if_it_does_with_every_seed():
    lines = [line.split(" | ") for line in claims(HAND, 0.03).splitlines()[2:]]
    found = {line[0].removeprefix("| "): (line[1], line[2], line[3].removesuffix(" |")) for line in lines}
    assert found["at least 98.0% of the test images, averaged model"] == ("98.05% (97.90% to 98.20%)", "2", "**no**")
    assert found["at least 97.5% of the test images, worst node"][2] == "**no**"
    held = found["100 times fewer bytes than d-psgd to 97%, averaged model"]
    assert held == ("225 (150 to 300)", "2", "yes")
    assert found["3 times fewer bytes than choco-sgd to 97%, averaged model"][:2] == ("–", "0")
    with pytest.raises(JobError, match="no trial of sparq-sgd"):
        claims(HAND[2:], 0.03)


def test_tables_tell_medians_and_spread():
    text = page(HAND, 0.03)
    assert "| sparq-sgd | 5 | – | 2 | 60% (50% to 70%) | 3 kB (2 kB to 4 kB) | 98.05% (97.90% to 98.20%)" in text
    assert "| d-psgd | 1 | 99 | 450 kB (300 kB to 600 kB) | 225 (150 to 300) |" in text
    assert "| 1 of 2 runs | – | – |" in text


def test_a_trial_is_the_run_that_simulate_makes(files, tmp_path):
    for file in files:
        job = load_job(file, ["seed=3"])
        ours = train(job, NODES, quiet)
        simulate_job(job, Orders(out=tmp_path / job.name, progress="none"), nodes=NODES)
        course = read_course(tmp_path / job.name)
        sent = (course.own["payload_bytes"] + course.own["header_bytes"]).sum(axis=0)
        assert [look.step for look in ours.looks] == course.shared["step"].tolist()
        assert [look.sent for look in ours.looks] == sent.tolist()
        for place in ("average", "mean", "worst"):
            found = [getattr(look, place) for look in ours.looks]
            np.testing.assert_allclose(found, course.shared[f"test_error_{place}"], rtol=1e-12)
        assert ours.fired == pytest.approx(course.own["fired"][:, -1].sum() / course.own["syncs"][:, -1].sum())
    assert ours.compressor == "identity"


def test_trials_are_kept_and_not_repeated(files, tmp_path, capsys):
    asked = [*map(str, files), "--nodes", str(NODES), "--seeds", "2", "--target", "0.3", "--out", str(tmp_path)]
    assert main([*asked, "--read-only"]) == 2
    assert "no trial of these jobs with these settings is there" in capsys.readouterr().err
    assert main(asked) == EXIT_DONE
    first = capsys.readouterr()
    assert "tiny-d-psgd, seed 1: step 40" in first.err
    assert "sign-top-k 4, by tensors" in first.out
    assert main([*asked, "--read-only"]) == EXIT_DONE
    again = capsys.readouterr()
    assert (again.out, again.err) == (first.out, "")
    changed = trials(files, ["stop.steps=20"], seeds=2, nodes=NODES, folder=tmp_path, compute=False, say=quiet)
    assert not changed
    with pytest.raises(JobError, match=r"tiny-sparq-sgd-seed0.json: a trial of other settings; allowed: another --out"):
        trials(files, ["stop.steps=20"], seeds=1, nodes=NODES, folder=tmp_path, compute=True, say=quiet)
    kept = json.loads((tmp_path / "tiny-d-psgd-seed0.json").read_text())
    assert "folder" not in kept["job"]


def test_pages_are_filled(files, tmp_path):
    told, claimed = tmp_path / "page.md", tmp_path / "claims.md"
    parts = [f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in ("tables", "others")]
    told.write_text("".join(parts))
    words = "SPARQ-SGD's claims on modules"
    claimed.write_text(f"<!-- {words} -->\n<!-- end of {words} -->\n")
    asked = [*map(str, files), "--nodes", str(NODES), "--seeds", "1", "--out", str(tmp_path / "runs")]
    assert main([*asked, "--page", str(told), "--claims", str(claimed)]) == EXIT_DONE
    first, second = told.read_text().split("<!-- end of tables -->")
    assert "#### Until 97% of the test images" in first
    assert "#### Until 97% of the test images" not in second
    assert main([*asked, "--target", "0.1", "--page", str(told), "--part", "others"]) == EXIT_DONE
    assert told.read_text().startswith(first)
    assert "#### Until 90% of the test images" in told.read_text()
    assert "| claim | found | seeds | held |" in claimed.read_text()


@pytest.mark.parametrize(
    ("change", "words"), [("stop.steps=\nstop.rounds=3", "stop.steps"), ("data.test=", "data.test")]
)
def test_what_cannot_be_compared_is_refused(files, change, words):
    with pytest.raises(JobError, match=words):
        train(load_job(files[0], change.splitlines()), NODES, quiet)
