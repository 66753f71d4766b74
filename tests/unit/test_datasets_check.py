"""``data check``: every fault with its place and count, whatever the number of processes, and true figures."""

import bz2
import gzip
import json
import lzma

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from support.threads import on_threads

from mpi_opt import cli, launch
from mpi_opt.datasets.checking import check_text
from mpi_opt.datasets.checkreport import as_json, as_text
from mpi_opt.datasets.malformed import Kind
from mpi_opt.datasets.spec import Reading
from mpi_opt.network.collectives import Solo

AUTO = Reading(index_base=None)
FAULTS = {
    "1 2:\x01": Kind.BINARY,
    "\x00\x02": Kind.BINARY,
    "5.1,3.5,1": Kind.COMMA_SEPARATED,
    "a,b,label": Kind.COMMA_SEPARATED,
    "1,2 3:1": Kind.SEVERAL_LABELS,
    "1:2 3:1": Kind.LABEL_MISSING,
    "-NaN 3:1": Kind.LABEL_NOT_FINITE,
    "inf 3:1": Kind.LABEL_NOT_FINITE,
    "1e309 3:1": Kind.LABEL_TOO_LARGE,
    "yes 3:1": Kind.LABEL_NO_NUMBER,
    "1 3:1 4": Kind.NO_COLON,
    "1 -3:1": Kind.NEGATIVE_INDEX,
    "1 +3:1": Kind.INDEX_NO_NUMBER,
    "1 3.5:1": Kind.INDEX_NO_NUMBER,
    "1 2147483648:1": Kind.INDEX_TOO_LARGE,
    "1 3:1 3:2": Kind.INDEX_REPEATED,
    "1 3:1 2:2": Kind.INDEX_DESCENDS,
    "1 3:nan": Kind.VALUE_NOT_FINITE,
    "1 3:-Infinity": Kind.VALUE_NOT_FINITE,
    "1 3:1.#INF00": Kind.VALUE_NOT_FINITE,
    "1 3:1e999": Kind.VALUE_TOO_LARGE,
    "1 3:0x1p3": Kind.VALUE_NO_NUMBER,
    "1 3:infinit": Kind.VALUE_NO_NUMBER,
    "1 3:1.#INF0x": Kind.VALUE_NO_NUMBER,
}
"""Lines with one fault each."""


def checked(words, folder, size=1, reading=AUTO):
    """Return the report of ``size`` processes, which all must have."""
    if isinstance(words, str):
        words = [words]
    results = on_threads(size, lambda collectives: check_text(words, [folder], reading, collectives))
    for result in results:
        if isinstance(result, Exception):
            raise result
    assert all(result == results[0] for result in results)
    return results[0]


@pytest.mark.parametrize("line", FAULTS, ids=[repr(line) for line in FAULTS])
def test_each_kind_of_fault(tmp_path, line):
    text = f"1 1:1\n\n{line}\r\n2 1:1\n"
    (tmp_path / "x").write_text(text, newline="")
    report = checked("x", tmp_path, reading=Reading())
    assert report.counts == {FAULTS[line]: 1}
    (told,) = report.told
    assert (told.file, told.line, told.kind) == (str(tmp_path / "x"), 3, FAULTS[line])
    column = {"1 3:1 4": 7, "1 3:1 3:2": 7, "1 3:1 2:2": 7}.get(line, 1 if "LABEL" in told.kind.name else None)
    column = column or (1 if line[0] in "\x005a" else 3)
    assert told.column == column
    assert str(told).startswith(f"{tmp_path / 'x'}:3:{column}: ")
    assert (report.total.rows, report.total.faulty_rows, report.total.lines) == (2, 1, 4)


def test_an_index_below_the_base(tmp_path):
    (tmp_path / "x").write_text("1 0:1 1:1\n2 1:1\n1 0:3\n")
    report = checked("x", tmp_path, 2, Reading(index_base=1))
    assert report.counts == {Kind.INDEX_BELOW_BASE: 2}
    assert [told.line for told in report.told] == [1, 3]
    assert "index_base = 0" in report.told[0].message
    assert "auto" in report.told[0].message
    report = checked("x", tmp_path, 2)
    assert (report.faults, report.index_base, report.features) == (0, 0, 2)
    assert 'index_base = 0 (or "auto")' in as_text(report, "refuse")


def test_faults_are_counted_over_processes_and_the_first_told_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr("mpi_opt.datasets.checkparts.CHUNK", 64)
    rng = np.random.default_rng(0)
    kinds, expected, words = list(FAULTS), [], []
    for number, (packer, suffix) in enumerate(
        ((bytes, ""), (gzip.compress, ".gz"), (lzma.compress, ".xz"), (bytes, ""))
    ):
        lines = ["1 1:1 2:0.5"] * 60
        for at in rng.choice(60, 6 if number else 11, replace=False):
            lines[at] = kinds[rng.integers(len(kinds))]
        words.append(f"part{number}{suffix}")
        (tmp_path / words[-1]).write_bytes(packer("\n".join(lines).encode()))
        expected += [(words[-1], j + 1, FAULTS[line]) for j, line in enumerate(lines) if line in FAULTS]
    reports = [checked(words, tmp_path, size, Reading()) for size in (1, 2, 3, 5, 8)]
    assert all(report == reports[0] for report in reports)
    report = reports[0]
    assert report.faults == len(expected) == 29
    assert report.counts == {kind: sum(one[2] is kind for one in expected) for kind in report.counts}
    assert [(told.file.rpartition("/")[2], told.line, told.kind) for told in report.told] == expected[:20]
    assert report.total.rows == 240 - 29
    text = as_text(report, "refuse")
    assert "29 faults:" in text
    assert "the first 20:" in text
    assert text.count(f"{tmp_path}/part") == 4 + 20


def test_a_table_and_rubbish_are_counted_without_a_loop(tmp_path):
    rng = np.random.default_rng(1)
    (tmp_path / "table").write_text("".join(f"{a:.3f},{b:.3f},1\n" for a, b in rng.random((40_000, 2))))
    report = checked("table", tmp_path, 3)
    assert report.counts == {Kind.COMMA_SEPARATED: 40_000}
    assert len(report.told) == 20
    (tmp_path / "rubbish").write_bytes(rng.integers(0, 256, 200_000, dtype=np.uint8).tobytes())
    report = checked("rubbish", tmp_path, 2)
    assert report.counts[Kind.BINARY] > 1000
    assert all(len(str(told)) < 600 for told in report.told)


def test_files_that_are_not_there_or_damaged(tmp_path):
    (tmp_path / "good").write_text("1 1:1\n2 1:1\n")
    packed = bz2.compress(b"1 1:1\n" * 100_000)
    (tmp_path / "cut.bz2").write_bytes(packed[: len(packed) // 2])
    text = "".join(f"1 1:{v:.15g}\n" for v in np.random.default_rng(0).random(20_000))
    packed = gzip.compress(text.encode())
    (tmp_path / "late.gz").write_bytes(packed[:-2000])
    (tmp_path / "other").write_bytes(b"PK\x03\x04abc")
    (tmp_path / "empty").write_bytes(b"")
    words = ["none", "good", "cut.bz2", "late.gz", "other", "empty"]
    for size in (1, 3):
        report = checked(words, tmp_path, size)
        assert report.counts == {Kind.UNREADABLE: 4}
        assert [told.file.rpartition("/")[2] for told in report.told] == ["none", "cut.bz2", "late.gz", "other"]
        assert "damaged or cut short" in report.told[1].message
        assert report.told[2].line == report.files[3].facts.lines + 1 > 10_000
        assert "zip archive" in report.told[3].message
        assert report.total.rows == 2 + report.files[3].facts.rows
    assert checked("builtin:digits", tmp_path).counts == {Kind.UNREADABLE: 1}


@pytest.mark.parametrize("size", [2, 3, 8])
def test_behind_what_cannot_be_read_lines_are_not_known(tmp_path, monkeypatch, size):
    monkeypatch.setattr("mpi_opt.datasets.checkparts.CHUNK", 100)
    monkeypatch.setattr("mpi_opt.datasets.byteranges.LONGEST", 1000)
    (tmp_path / "x").write_bytes(b"1 1:1\n" + bytes(2000) + b"\n" + b"1 1:1\n" * 500 + b"oops\n")
    report = checked("x", tmp_path, size)
    assert report.counts == {Kind.UNREADABLE: 1, Kind.LABEL_NO_NUMBER: 1}
    (told,) = report.told
    assert (told.kind, told.line) == (Kind.UNREADABLE, 2)


def test_a_set_without_rows_is_a_fault(tmp_path):
    (tmp_path / "x").write_text("# nothing\n\n")
    for size in (1, 2):
        assert checked("x", tmp_path, size).counts == {Kind.NO_ROWS: 1}


@pytest.mark.parametrize("size", [1, 2, 5])
def test_files_that_differ_in_their_base(tmp_path, size):
    (tmp_path / "a").write_text("1 1:1\n2 x:1\n")
    (tmp_path / "b").write_text("1\n# c\n1 2:3 qid:1\n2  0:1 4:1\n1 0:3\n")
    (tmp_path / "c").write_text("1 5:1\n2\n")
    (tmp_path / "d").write_text("1\n2\n")
    report = checked(["a", "b", "c", "d"], tmp_path, size)
    assert report.counts == {Kind.INDEX_NO_NUMBER: 1, Kind.CONFLICTING_BASES: 1}
    told = report.told[1]
    assert (told.file, told.line, told.column) == (str(tmp_path / "b"), 4, 4)
    assert f"{tmp_path / 'a'} and 1 more are all 1 or more" in told.message
    assert report.index_base == 0
    assert checked(["a", "b", "c", "d"], tmp_path, size, Reading(index_base=0)).faults == 1
    assert checked(["b", "d"], tmp_path, size).faults == 0
    assert checked(["a", "c"], tmp_path, size).index_base == 1


def test_what_a_rule_for_nan_leaves(tmp_path):
    (tmp_path / "x").write_text("1 1:nan 2:inf\n2 1:1\nnan 2:1\n1 1:nan 1:2\n")
    for size in (1, 3):
        report = checked("x", tmp_path, size, Reading(nan="drop-row"))
        assert report.counts == {Kind.INDEX_REPEATED: 1}
        assert (report.total.rows, report.total.dropped_rows, report.total.faulty_rows) == (1, 2, 1)
        report = checked("x", tmp_path, size, Reading(nan="zero"))
        assert report.counts == {Kind.LABEL_NOT_FINITE: 1, Kind.INDEX_REPEATED: 1}
        assert (report.total.rows, report.total.zeroed_values, report.total.zeros) == (2, 2, 2)


def test_figures_are_scikit_learns(tmp_path):
    rng = np.random.default_rng(5)
    for case in range(8):
        rows = int(rng.integers(1, 60))
        labels = rng.integers(0, 2 + case % 3, rows)
        if case % 2:
            labels = np.sort(labels)
        lines = []
        for label in labels:
            index = np.flatnonzero(rng.random(20) < 0.2) + 1
            lines.append(" ".join([str(label), *(f"{i}:{rng.integers(0, 3)}" for i in index)]))
        lines[0] += " 25:1"
        text = ("\r\n" if case % 2 else "\n").join(lines)
        (tmp_path / "x").write_text(text, newline="")
        matrix, targets = load_svmlight_file(str(tmp_path / "x"), zero_based=False)
        for size in (1, 2, 5, 8):
            report = checked("x", tmp_path, size)
            facts = report.total
            assert report.faults == 0
            assert (facts.rows, report.features) == matrix.shape
            assert facts.nonzeros == matrix.nnz
            assert facts.zeros == np.count_nonzero(matrix.data == 0)
            assert facts.label_only == np.count_nonzero(np.diff(matrix.indptr) == 0)
            assert facts.longest == np.diff(matrix.indptr).max()
            assert (facts.smallest, facts.largest) == (matrix.indices.min() + 1, matrix.indices.max() + 1)
            assert facts.labels == dict(zip(*np.unique(targets, return_counts=True), strict=True))
            assert facts.ascends == bool((np.diff(targets) >= 0).all())
            assert facts.descends == bool((np.diff(targets) <= 0).all())
            assert facts.crlf == (rows - 1 if case % 2 else 0)
            assert (facts.lines, facts.bytes, facts.open_end, facts.empty_lines) == (rows, len(text), True, 0)


def test_labels_are_counted_up_to_a_bound(tmp_path):
    (tmp_path / "x").write_text("".join(f"{j}.5 1:1\n" for j in range(1000)))
    for size in (1, 8):
        report = checked("x", tmp_path, size)
        assert report.total.labels is None
        assert report.total.ascends
        assert "more than 256 different ones" in as_text(report, "refuse")
        assert json.loads(as_json(report, "refuse"))["total"]["labels"] is None


@pytest.mark.data
def test_real_files(datasets):
    folder = datasets / "a9a"
    report = check_text([str(folder / "a9a.bz2"), str(folder / "a9a.t.bz2")], [], AUTO, Solo())
    assert report.faults == 0
    assert (report.total.rows, report.features, report.index_base) == (32_561 + 16_281, 123, 1)
    assert report.total.nonzeros == 451_592 + 225_731
    assert report.total.labels == {-1.0: 24_720 + 12_435, 1.0: 7_841 + 3_846}


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    for name in launch.KNOWN_VARIABLES:
        if not name.endswith("_NUM_THREADS"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launch, "running_world", lambda: None)
    monkeypatch.setattr("mpi_opt.commands.check.quiet_pipes", lambda: None)
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = cli.main(["data", "check", *words])
        out, err = capsys.readouterr()
        assert err == ""
        return code, out

    return run


def test_the_command_says_what_there_is(command, tmp_path):
    (tmp_path / "x").write_text("1 0:1 2:0\n-1 qid:3\n# c\n1 1:2\r\n1 4:1")
    code, out = command("x")
    assert code == 0
    assert out.splitlines()[0] == f"{tmp_path / 'x'}: 4 rows, 4 entries, indices 0 to 4"
    for line in ("rows           4", 'features       5, counted from 0: say index_base = 0 (or "auto") in the job'):
        assert line in out.splitlines()
    for part in ("-1 (1), 1 (3)", "explicit zeros 1", "label only     1", "qid            1", "CRLF           1"):
        assert part in out
    assert out.endswith("\nno faults\n")
    code, out = command("x", "--index-base", "1")
    assert code == 3
    assert f"{tmp_path / 'x'}:1:3: index 0 in '0:1'" in out


def test_one_json_document(command, tmp_path):
    (tmp_path / "x").write_text("1 1:1\n2 1:nan\n")
    code, out = command("x", "none", "--json")
    assert code == 3
    document = json.loads(out)
    assert document["ok"] is False
    assert document["faults"]["count"] == 2
    assert document["faults"]["by_kind"] == {"value-not-finite": 1, "unreadable": 1}
    first = document["faults"]["first"][0]
    assert (first["file"], first["line"], first["column"], first["kind"]) == (
        str(tmp_path / "x"), 2, 3, "value-not-finite",
    )  # fmt: skip
    assert document["faults"]["first"][1]["line"] is None
    assert [file["rows"] for file in document["files"]] == [1, 0]
    assert document["total"]["labels"] == [{"label": 1.0, "rows": 1}]
    code, out = command("x", "--json", "--nan", "drop-row")
    assert code == 0
    assert json.loads(out)["total"]["dropped_rows"] == 1


def test_wrong_options_are_refused(command, monkeypatch, capsys):
    for words in (["data", "check"], ["data", "check", "x", "--nan", "mean"], ["data", "check", "x", "--index-base=2"]):
        assert cli.main(words) == 2
