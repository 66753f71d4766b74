"""Claims against the best rival and the tables made of them, on figures made by hand."""

import pytest

from mpi_opt.errors import JobError
from mpi_opt.studies.claims import Verdict, held_in_words, in_words, judge
from mpi_opt.studies.common import fill, table
from mpi_opt.studies.course import Point, least, reach
from mpi_opt.studies.kept import Course, Kept, Setting
from mpi_opt.studies.newton_tables import claims, judged, needed, page, power, reached, sets, tally, verdicts


def whole(value):
    return f"{value:.0f}"


@pytest.mark.parametrize(
    ("ours", "rivals", "expected", "text"),
    [
        (3, {"A": 10, "B": 6}, Verdict(3, "B", 6, True), "3 of 6 (B), 50 %"),
        (6, {"A": 10, "B": 12}, Verdict(6, "A", 10, False), "6 of 10 (A), 60 %"),  # less is asked for, not as much
        (20, {"A": 10, "B": None}, Verdict(20, "A", 10, False), "20 of 10 (A), 200 %"),
        (2, {"A": 10, "B": 10}, Verdict(2, "A", 10, True), "2 of 10 (A), 20 %"),
        (2, {"A": None, "B": None}, Verdict(2, "", None, True), "2, no rival"),
        (5.99, {"A": 10}, Verdict(5.99, "A", 10, True), "6 of 10 (A), 59.9 %"),
        (102, {"A": 10}, Verdict(102, "A", 10, False), "102 of 10 (A), 1020 %"),
        (None, {"A": 10, "B": 4}, Verdict(None, "B", 4, False), "not reached; 4 (B)"),
        (None, {"A": None}, Verdict(None, "", None, None), "not reached"),
    ],
)
def test_verdicts(ours, rivals, expected, text):
    verdict = judge(ours, rivals, 0.6)
    assert verdict == expected
    assert in_words(verdict, whole) == text
    assert held_in_words(verdict.held) == {True: "yes", False: "**no**", None: "–"}[expected.held]


def course(name, *points, note=""):
    return Course(
        name, note, [Point(1.0 + gap, rounds, short, sent, times) for gap, rounds, short, sent, times in points]
    )


@pytest.fixture
def kept():
    """F* = 1. Rounds to 1e-2, 1e-3, 1e-6: LocalNewton 2 6 -, GIANT 4 8 20, L-BFGS 5 9 18, ADMM 2 30 -, Newton 3 4 6."""
    setting = Setting("toy", 100, "shuffled", 1000, 7, 4500, 1.0, 0.25)
    found = Kept(setting, {})
    start = (0.5, 0, 0, 0, (0.0, 0.0))
    blown = (float("nan"), 121, 0, 5000, (61.0, 6.0))
    for each in (
        course("adaptive + giant", start, (1e-2, 2, 1, 999, (1.0, 0.1)), (5e-4, 6, 2, 3000, (2.0, 0.2))),
        course("GIANT", (9e-3, 4, 2, 2000, (3.0, 0.3)), (1e-3, 8, 4, 4000, (6.0, 0.6)), (0.0, 20, 10, 9000, (15, 1.5))),
        course("L-BFGS", (9e-3, 5, 0, 500, (2.6, 0.3)), (9e-4, 9, 1, 900, (5.2, 0.6)), (9e-7, 18, 1, 1800, (9.5, 1.0))),
        course("ADMM", (9e-3, 2, 1, 400, (1.5, 0.2)), (8e-4, 30, 1, 6000, (17.0, 2.0))),
        course("exact Newton", (9e-3, 3, 0, 9e5, (1.2, 0.1)), (1e-4, 4, 0, 1e6, (1.6, 0.2)), (0, 6, 0, 18e5, (2.4, 1))),
        course("local SGD", (2e-1, 120, 0, 5000, (60.0, 6.0)), blown, note="step 4/L"),
    ):  # fmt: skip
        found.add(each)
    return found


def test_reach_takes_the_first_point_at_or_below(kept):
    points = kept.courses["adaptive + giant"].points
    assert reach(points, 1.0 + 1e-2) == points[1]
    assert reach(points, 1.0) is None
    assert reached(kept, "nobody", 1.0) is None
    assert least(kept.courses["local SGD"].points) == 1.2  # what is not a number is passed over


def test_rounds_and_seconds_have_their_own_best_rival(kept):
    rounds, time = judged(kept, "adaptive + giant", 1e-2)
    assert (rounds, time) == (Verdict(2, "ADMM", 2, False), Verdict(1.0, "ADMM", 1.5, False))
    rounds, time = judged(kept, "adaptive + giant", 1e-3)
    assert (rounds.rival, rounds.held) == ("GIANT", False)  # 6 of 8
    assert (time.rival, time.held, time.share) == ("L-BFGS", True, pytest.approx(2.0 / 5.2))


def test_tables(kept):
    assert needed([kept], ["wan", "10gbe"]).splitlines() == [
        "| split | method | rounds to 1e-2 | bytes | s, 20 ms | s, 10 GbE "
        "| rounds to 1e-3 | bytes | s, 20 ms | s, 10 GbE | rounds to 1e-6 | bytes | s, 20 ms | s, 10 GbE | least gap |",
        "|" + "---|" * 15,
        "| shuffled | adaptive + giant | 2 + 1 | 999 B | 1 | 0.1 | 6 + 2 | 3 kB | 2 | 0.2 | – |  |  |  | 5.0e-04 |",
        "| shuffled | GIANT | 4 + 2 | 2 kB | 3 | 0.3 | 8 + 4 | 4 kB | 6 | 0.6 | 20 + 10 | 9 kB | 15 | 1.5 |  |",
        "| shuffled | L-BFGS | 5 | 500 B | 2.6 | 0.3 | 9 + 1 | 900 B | 5.2 | 0.6 | 18 + 1 | 1.8 kB | 9.5 | 1 |  |",
        "| shuffled | ADMM | 2 + 1 | 400 B | 1.5 | 0.2 | 30 + 1 | 6 kB | 17 | 2 | – |  |  |  | 8.0e-04 |",
        "| shuffled | local SGD (step 4/L) | – |  |  |  | – |  |  |  | – |  |  |  | 2.0e-01 |",
        "| shuffled | exact Newton | 3 | 900 kB | 1.2 | 0.1 | 4 | 1 MB | 1.6 | 0.2 | 6 | 1.8 MB | 2.4 | 1 |  |",
    ]
    assert verdicts([kept], "adaptive + giant").splitlines() == [
        "| set | split | target | rounds | < 60 %? | seconds | < 40 %? | exact Newton |",
        "|" + "---|" * 8,
        "| toy | shuffled | 1e-2 | 2 of 2 (ADMM), 100 % | **no** | 1 of 1.5 (ADMM), 66.7 % | **no** | 3; 1.2 s |",
        "| toy | shuffled | 1e-3 | 6 of 8 (GIANT), 75 % | **no** | 2 of 5.2 (L-BFGS), 38.5 % | yes | 4; 1.6 s |",
        "| toy | shuffled | 1e-6 | not reached; 18 (L-BFGS) | **no** | not reached; 9.5 (L-BFGS) | **no** | 6; 2.4 s |",
    ]
    assert sets([kept]).splitlines()[-1] == "| toy | 1,000 x 7 | 10 | 4.5 | 1.0000000000 |"


def test_tally_by_who_counts_as_a_rival(kept):
    """Without ADMM, 2 of 4 rounds and 1.0 of 2.6 s hold to 1e-2; exact Newton's 1.6 s to 1e-3 take that claim away."""
    assert tally([kept]).splitlines() == [
        "| form | split | rows | rounds and time held, five rivals | rounds and time held, without ADMM "
        "| rounds and time held, with exact Newton too |",
        "|" + "---|" * 6,
        "| adaptive + giant | shuffled | 3 | 0 and 1 | 1 and 2 | 0 and 0 |",
    ]


def test_claims_in_short(kept):
    lines = claims([kept], "make it").splitlines()
    assert lines[2:4] == [
        "| LocalNewton: < 60 % of the rounds | toy, 100 nodes, shuffled | **no** | 1e-2: 2 of 2 (ADMM), 100 %; "
        "1e-3: 6 of 8 (GIANT), 75 %; 1e-6: not reached; 18 (L-BFGS) | `make it` |",
        "| LocalNewton: < 40 % of the time | toy, 100 nodes, shuffled | at 1e-3; **not** at 1e-2, 1e-6 | "
        "1e-2: 1 of 1.5 (ADMM), 66.7 %; 1e-3: 2 of 5.2 (L-BFGS), 38.5 %; 1e-6: not reached; 9.5 (L-BFGS) | `make it` |",
    ]
    assert lines[-1].startswith("| adaptive + giant | shuffled | 3 |")


def test_page_claims_nothing_where_a_rival_was_not_run(kept):
    heads = [line for line in page([kept], ["wan", "10gbe"]).splitlines() if line.startswith("#")]
    assert heads == ["### toy"]


def test_page_has_only_the_forms_that_were_run(kept):
    kept.add(course("Newton-CG", (1.0, 120, 0, 1, (60.0, 6.0))))
    heads = [line for line in page([kept], ["wan", "10gbe"]).splitlines() if line.startswith("#")]
    assert heads == [
        "### toy",
        "### Claims, adaptive + giant: the paper's adaptive form",
        "### How often the claims held",
    ]


@pytest.mark.parametrize(("value", "text"), [(1e-2, "1e-2"), (0.001, "1e-3"), (2.5e-6, "2.5e-6"), (10.0, "1e1")])
def test_power(value, text):
    assert power(value) == text


def test_table():
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_fill_changes_its_part_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("top\n<!-- it -->\nold\n\\1 old\n<!-- end of it -->\nbottom\n")
    fill(page, "it", "new \\1")
    assert page.read_text() == "top\n<!-- it -->\n\nnew \\1\n\n<!-- end of it -->\nbottom\n"
    before = page.read_bytes()
    fill(page, "it", "new \\1")
    assert page.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["", "<!-- it -->\n", "<!-- end of it -->\n<!-- it -->\n", "<!-- it -->\n<!-- it -->\n<!-- end of it -->"]
)
def test_fill_refuses_a_page_without_the_part(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(JobError, match="needs one line '<!-- it -->'"):
        fill(page, "it", "new")
    with pytest.raises(JobError, match="No such file"):
        fill(tmp_path / "none.md", "it", "new")
