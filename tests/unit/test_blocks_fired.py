"""How many blocks of the model spoke, where each decides for itself: counted, kept, gone on with, and shown."""

import csv
import io
import json
import shutil

import h5py
import numpy as np
import pytest
from support.commands import settings
from support.jobs import write_job

from mpi_opt.cli import main
from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.metrics.checking import check
from mpi_opt.metrics.read import merge, read_joined
from mpi_opt.metrics.salvage import salvage
from mpi_opt.metrics.tail import read_tail

NODES, SYNCS, BLOCKS = 3, 20, 4
BY_BLOCK = (
    "algorithm.compressor={name='blockwise',sizes=[2,2,1,1],inner={name='sign-top-k',k=1}}",
    "algorithm.trigger='tensor'",
    "algorithm.threshold=0.6",
    "checkpoint.every=30",
    "checkpoint.keep=9",
)


def simulate(job, out, *words, nodes=NODES):
    command = ["simulate", str(job), "--nodes", str(nodes), "--out", str(out), "--progress", "none", *settings(*words)]
    assert main(command) == 0
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run's folder, beside one of the same job without blocks, and which blocks spoke by their messages."""
    place = tmp_path_factory.mktemp("blocks")
    spoken = []
    compress_some = Blockwise.compress_some

    def spy(self, vector, key, speak):
        spoken.append((key.node, key.step, np.count_nonzero(speak)))
        return compress_some(self, vector, key, speak)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Blockwise, "compress_some", spy)
        simulate(write_job(place), place / "by-block", *BY_BLOCK)
    simulate(place / "job.toml", place / "whole")
    return place, spoken


def test_it_is_the_share_of_the_blocks_in_each_message(run):
    place, spoken = run
    expected = np.zeros((NODES, SYNCS))
    for node, sync, count in spoken:
        expected[node, sync] = count / BLOCKS
    read = read_joined(place / "by-block" / "metrics.h5")
    np.testing.assert_array_equal(read.syncs["blocks_fired"], expected)
    np.testing.assert_array_equal(read.syncs["fired"], expected > 0)
    assert len(np.unique(expected)) >= 4, "blocks must speak one by one for this to be a test"
    at = read.series["syncs"]
    sums = np.concatenate([np.zeros((NODES, 1)), np.cumsum(expected, axis=1)], axis=1)
    np.testing.assert_allclose(read.series["blocks_fired"], np.take_along_axis(sums, at, axis=1))


def test_a_model_that_speaks_as_one_has_no_such_series(run):
    place, _ = run
    read = read_joined(place / "whole" / "metrics.h5")
    assert "blocks_fired" not in (read.series | read.syncs)
    assert not check(place / "whole").wrong
    assert not check(place / "whole").notes


def test_files_are_sound_and_can_be_merged_and_salvaged(run, tmp_path):
    place, _ = run
    report = check(place / "by-block")
    assert (report.wrong, report.notes) == ((), ())
    whole = read_joined(place / "by-block" / "metrics.h5")
    merge(place / "by-block", tmp_path / "merged.h5")
    salvage(place / "by-block", tmp_path / "salvaged")
    for path in (tmp_path / "merged.h5", tmp_path / "salvaged" / "metrics.h5"):
        np.testing.assert_array_equal(read_joined(path).syncs["blocks_fired"], whole.syncs["blocks_fired"])
    damaged = shutil.copytree(place / "by-block", tmp_path / "damaged")
    with h5py.File(damaged / "metrics" / "rank_00001.h5", "r+") as file:
        file["series/blocks_fired"][-1] = SYNCS + 1.0
    assert any("series/blocks_fired: more than series/syncs" in fault for fault in check(damaged).wrong)


def test_tables_hold_it_where_all_runs_do(run, capsys):
    place, _ = run
    runs = [str(place / name) for name in ("by-block", "whole")]

    def exported(*folders):
        assert main(["metrics", "export", *folders, "--syncs", "--format", "csv"]) == 0
        return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    rows = exported(runs[0])
    assert len(rows) == NODES * SYNCS
    assert {row["fired"] for row in rows if float(row["blocks_fired"])} == {"1"}
    assert "blocks_fired" not in exported(*runs)[0]


def mean_share(place):
    return read_joined(place / "by-block" / "metrics.h5").syncs["blocks_fired"].mean()


def test_commands_tell_it(run, capsys):
    place, _ = run
    share = mean_share(place)
    assert 0.05 < share < 0.95
    runs = [str(place / name) for name in ("by-block", "whole")]
    assert f"; blocks of the model: {share:.1%}" in (place / "by-block" / "log.txt").read_text()
    assert "blocks of the model" not in (place / "whole" / "log.txt").read_text()
    assert main(["compare", *runs]) == 0
    assert capsys.readouterr().out.count(f", blocks {share:.0%})") == 1
    assert main(["compare", *runs, "--format", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["runs"]
    assert first["blocks_fired"] == pytest.approx(share)
    assert second["blocks_fired"] is None
    assert main(["watch", runs[0], "--once"]) == 0
    assert f"; blocks of the model {share:.0%}" in capsys.readouterr().out
    last = read_tail(place / "by-block" / "metrics" / "rank_00001.h5", syncs=5)
    own = read_joined(place / "by-block" / "metrics.h5").syncs["blocks_fired"][1]
    assert last.blocks == pytest.approx(own[-5:].mean())


def test_the_firing_map_says_it_too(run):
    pytest.importorskip("matplotlib")
    from mpi_opt.report.figures.firing import firing
    from mpi_opt.report.reading import read_course

    place, _ = run
    caption = firing(read_course(place / "by-block"), "map").caption
    assert f"of the blocks {mean_share(place):.1%} spoke" in caption
    assert "blocks" not in firing(read_course(place / "whole"), "map").caption


def interrupted(place, out):
    """Return a copy of the run as a kill after its first checkpoint leaves it."""
    shutil.copytree(place / "by-block", out)
    (out / "model.h5").unlink()
    (out / "metrics.h5").unlink()
    return out


def test_a_resumed_run_has_the_same(run, tmp_path):
    place, _ = run
    out = interrupted(place, tmp_path / "out")
    assert main(["resume", str(out), "--progress", "none"]) == 0
    gone_on, whole = (read_joined(folder / "metrics.h5") for folder in (out, place / "by-block"))
    np.testing.assert_array_equal(gone_on.syncs["blocks_fired"], whole.syncs["blocks_fired"])
    np.testing.assert_array_equal(gone_on.series["blocks_fired"], whole.series["blocks_fired"])


def test_a_run_of_an_earlier_release_goes_on_without(run, tmp_path):
    place, _ = run
    out = interrupted(place, tmp_path / "out")
    for path in (out / "metrics").glob("rank_*.h5"):
        with h5py.File(path, "r+") as file:
            del file["series/blocks_fired"], file["syncs/blocks_fired"]
    assert main(["resume", str(out), "--progress", "none"]) == 0
    gone_on, whole = (read_joined(folder / "metrics.h5") for folder in (out, place / "by-block"))
    assert "blocks_fired" not in (gone_on.syncs | gone_on.series)
    np.testing.assert_array_equal(gone_on.syncs["fired"], whole.syncs["fired"])
    assert not check(out).wrong


def test_the_controller_holds_each_blocks_rate(run, tmp_path):
    """So the share of blocks tends to the target; nodes, of which a block or other speaks, speak more often."""
    place, _ = run
    target, gain, steps = 0.25, 0.2, 1500
    out = simulate(
        place / "job.toml",
        tmp_path / "out",
        *BY_BLOCK[:2],
        f"algorithm.threshold={{schedule='firing-rate',target={target},gain={gain}}}",
        f"stop.steps={steps}",
        "metrics.every=500",
        "algorithm.step_size=0.05",
    )
    read = read_joined(out / "metrics.h5")
    shares = read.syncs["blocks_fired"][:, steps // 6 :]  # once levels have found their place
    np.testing.assert_allclose(shares.mean(axis=1), target, atol=0.04)
    assert read.syncs["fired"].mean() > 1.5 * target
