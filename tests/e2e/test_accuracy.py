"""Accuracies on real data by the README's own commands: jobs of this checkout trained on 4 ranks, then scored."""

import json
import re

import pytest
from support.commands import ROOT
from support.pages import Reader, blocks

MODELS = next(block.text for block in blocks(ROOT / "README.md") if "mpi-opt evaluate" in block.text)
# A shuffled SGD run takes sums in the order of the MPI library at hand: a few images of 10,000 may fall otherwise.
CLOSE = {"a9a-newton": 5e-5, "w8a-newton": 5e-5, "mnist-squarm": 2e-3}


def pairs():
    """Yield name, training command, scoring command and the accuracy told for each set."""
    lines = MODELS.splitlines()
    for train, score in zip(lines[::2], lines[1::2], strict=True):
        command, told = score.split("# accuracy ")
        yield re.search(r"runs/([\w-]+)/", command)[1], train, command.rstrip(), float(told)


PAIRS = [*pairs()]


def test_all_three_sets_are_told():
    assert {pair[0] for pair in PAIRS} == set(CLOSE)


@pytest.mark.parametrize(("name", "train", "score", "told"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_accuracy(name, train, score, told, mpirun, datasets, tmp_path):
    (tmp_path / "jobs").symlink_to(ROOT / "jobs")
    reader = Reader(tmp_path, tmp_path / "bin", {"MPI_OPT_DATASETS": str(datasets)})
    reader.types(train)
    printed = reader.types(f"{score} --json")
    figures = json.loads(printed[printed.index("{") :])
    assert figures["accuracy"] == pytest.approx(told, abs=CLOSE[name])
    rows = sum(map(sum, figures["confusion"]))
    right = sum(row[label] for label, row in enumerate(figures["confusion"]))
    assert right / rows == pytest.approx(figures["accuracy"], abs=1e-12)
