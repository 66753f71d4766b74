"""docs/report.md as its reader follows it."""

from support.commands import ROOT
from support.pages import Reader, blocks


def test_every_command_of_the_page(mpirun, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "jobs").symlink_to(ROOT / "jobs")
    reader = Reader(folder, tmp_path / "bin")
    assert reader.follow(blocks(ROOT / "docs" / "report.md"), {}) == 3
    assert (folder / "report" / "quickstart-sparq-firing.png").is_file()
