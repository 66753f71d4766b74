"""docs/tutorial.md as its reader follows it: every command in order, in one folder, each output as shown."""

import bz2
import re

import pytest
from support.commands import ROOT
from support.pages import Reader, agree, blocks, missing

PAGE = ROOT / "docs" / "tutorial.md"


def unpacked(datasets, name):
    places = [place / f"{name}{end}" for place in (datasets, datasets / "a9a") for end in ("", ".bz2")]
    path = next(place for place in places if place.is_file())
    return bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(900)  # some thirty starts of MPI
def test_every_command_of_the_page(mpirun, datasets, tmp_path):
    mirror, folder = tmp_path / "mirror", tmp_path / "here"
    mirror.mkdir()
    folder.mkdir()
    for name in ("a9a", "a9a.t"):  # as the web has them
        (mirror / name).write_bytes(unpacked(datasets, name))
    fetch = f"mpi-opt data fetch {ROOT / 'data' / 'a9a.md'} --from {mirror}"
    reader = Reader(folder, tmp_path / "bin", {"MPI_OPT_DATASETS": ""})
    page = blocks(PAGE)
    ran = reader.follow(page, {"mpi-opt data fetch a9a": fetch})
    assert ran == sum(len(block.text.splitlines()) for block in page if block.language == "sh")
    shown = [block.text.splitlines()[0] for block in page if block.language in ("toml", "python")]
    assert all(re.fullmatch(r"# \S+\.(toml|py)", line) for line in shown), "a file that no test saves"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("accuracy  0.849948", "accuracy 0.849950", True),
        ("accuracy  0.849948", "accuracy 0.8496", False),
        ("(5 steps, 5 rounds, 0.39 s)", "(5 steps, 5 rounds, 12.04 s)", True),
        ("(5 steps, 5 rounds, 0.39 s)", "(6 steps, 5 rounds, 0.39 s)", False),
        ("error 15.76% (sd 0.41%)", "error 15.76% (sd 0.41%)", True),
        ("error 15.76% (sd 0.41%)", "error 15.86% (sd 0.41%)", False),
        ("32,561 rows", "32,461 rows", False),
        ("gradient norm 1.31e-09 <= 1e-06", "gradient norm 4.4e-10 <= 1e-06", True),
        ("on 4 nodes, ...", "on 4 nodes, MPICH Version: 5", True),
        ("on 4 nodes, ...", "on 3 nodes, MPICH Version: 5", False),
        ("labels 1 -1", "labels -1 1", False),
    ],
)
def test_what_counts_as_shown(shown, printed, same):
    assert agree(shown, printed) is same


def test_lines_are_looked_for_in_order():
    assert missing("a 1\n...\nc 3\n", "a 1\nb 2\nc 3\n") is None
    assert missing("a 1\nc 3\n", "a 1\nb 2\nc 3\n") == "c 3"
    assert missing("...\nc 3\na 1\n", "a 1\nb 2\nc 3\n") == "a 1"
    assert "b 2" in missing("a 1\n", "a 1\nb 2\n")
