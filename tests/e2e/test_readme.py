"""What the README and the pages say is there."""

import re

import pytest
from support.commands import ROOT

from mpi_opt import cli

README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(("group", "title"), [("data", "Data"), ("model", "Models")])
def test_every_command_of_the_group_has_its_place(group, title, capsys):
    with pytest.raises(SystemExit):
        cli.main([group, "--help"])
    named = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert len(named) >= 3
    section = README.split(f"\n## {title}\n")[1].split("\n## ")[0]
    for name in named:
        assert f"`{name} " in section or f"`{group} {name}`" in README, name


@pytest.mark.parametrize(
    "page",
    [
        *("README.md", "CONTRIBUTING.md", "data/README.md", "jobs/README.md", "tests/README.md"),
        *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
    ],
)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)", text):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in slugs, f"{target}#{anchor}"
