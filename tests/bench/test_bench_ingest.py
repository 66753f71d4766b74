"""From files to rows in memory: text and converted files, against scikit-learn's reader in one process.

Sets of the size that decides: beside a small one, opening a file and starting in step are all there is to see.
"""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from support.shardfiles import converted

from mpi_opt.datasets.reading import hold
from mpi_opt.datasets.shardfile_open import open_shards
from mpi_opt.datasets.shardfile_read import read_slice
from mpi_opt.datasets.source import resolve
from mpi_opt.datasets.spec import Reading
from mpi_opt.datasets.textfiles import read_share
from mpi_opt.network.collectives import Solo

SCRIPT = Path(__file__).parents[1] / "support" / "ingest_ranks.py"
SHARES = 8


def write_like(path: Path, name: str) -> None:
    """Write text as covtype has it (54 columns, 12 entries a row, 6 digits), or as epsilon has it (2,000, dense)."""
    rng = np.random.default_rng(0)
    rows, columns, entries = (200_000, 54, 12) if name == "covtype-like" else (1000, 2000, 2000)
    with path.open("w") as file:
        for _ in range(rows):
            index = np.arange(columns) if entries == columns else np.sort(rng.choice(columns, entries, replace=False))
            values = rng.random(entries) - 0.5
            fields = " ".join(f"{i}:{v:.6g}" for i, v in zip((index + 1).tolist(), values.tolist(), strict=True))
            file.write(f"{rng.integers(1, 3)} {fields}\n")


@pytest.fixture(scope="module", params=["covtype-like", "epsilon-like"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    write_like(folder / "x", request.param)
    converted("x", folder / "x.h5")
    return folder


def note(benchmark, folder: Path) -> None:
    if benchmark.stats is not None:  # --benchmark-disable measures nothing
        benchmark.extra_info["MB of text/s"] = round((folder / "x").stat().st_size / benchmark.stats["min"] / 1e6)


def test_scikit_learn(benchmark, folder):
    from sklearn.datasets import load_svmlight_file

    benchmark.pedantic(load_svmlight_file, args=(str(folder / "x"),), kwargs={"zero_based": False}, rounds=3)
    note(benchmark, folder)


@pytest.mark.parametrize("word", ["x", "x.h5"], ids=["text", "shards"])
def test_one_process(benchmark, folder, word):
    benchmark.pedantic(hold, args=(word, [folder], Reading(), Solo()), rounds=5, warmup_rounds=1)
    note(benchmark, folder)


def test_the_work_of_one_rank_of_eight(benchmark, folder):
    """One rank's own work, alone on its core: its share of the text against its rows of the file and opening that."""
    source, rows, theirs = resolve("x", [folder]), open_shards(folder / "x.h5").facts.rows, []

    def in_turn():
        began = time.perf_counter()
        read_share(source, 3, SHARES, 1)
        theirs.append(time.perf_counter() - began)
        return (), {}

    def read():
        read_slice([open_shards(folder / "x.h5")], rows * 3 // SHARES, rows * 4 // SHARES, 1)

    benchmark.pedantic(read, setup=in_turn, rounds=7, warmup_rounds=1)
    if benchmark.stats is not None:
        benchmark.extra_info["MB of text/s"] = round((folder / "x").stat().st_size / SHARES / min(theirs) / 1e6)
        benchmark.extra_info["x text"] = round(min(theirs) / benchmark.stats["min"], 1)
        assert min(theirs) > 10 * benchmark.stats["min"]


@pytest.mark.parametrize("ranks", [1, 8])
def test_ranks(benchmark, mpirun, folder, ranks):
    """As jobs read: from a barrier to the slowest rank. More ranks than cores wait for each other much of the time."""

    def run():
        return mpirun(ranks, [SCRIPT, folder / "x", folder / "x.h5", "5"], timeout=200).check()

    done = benchmark.pedantic(run, rounds=1)
    text, shards = json.loads(done.logs[0].splitlines()[-1])
    nbytes = (folder / "x").stat().st_size
    benchmark.extra_info["MB of text/s and rank"] = round(nbytes / text / 1e6 / ranks)
    benchmark.extra_info["MB of text/s from shards"] = round(nbytes / shards / 1e6)
    benchmark.extra_info["x text"] = round(text / shards, 1)
