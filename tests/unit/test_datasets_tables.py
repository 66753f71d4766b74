"""CSV files against Python's csv module and float, cut for any number of processes."""

import bz2
import csv
import gzip
import io
import lzma
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.jobs import write_job
from support.threads import on_threads

from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.datasets.reading import hold
from mpi_opt.datasets.source import TableFiles, resolve
from mpi_opt.datasets.spec import Reading
from mpi_opt.datasets.tablelayout import look
from mpi_opt.datasets.tables import CHUNK, csv_pieces
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import load_job, to_toml
from mpi_opt.network.collectives import Solo
from mpi_opt.shards import load_shards

PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def shares(path, reading, parts=1):
    """Return features, labels and weights of all shares, joined."""
    source = resolve(str(path), [])
    pieces = [piece for part in range(parts) for piece in csv_pieces(source, reading, part, parts)]
    weights = [piece.weights for piece in pieces]
    return (
        np.concatenate([piece.features for piece in pieces]),
        np.concatenate([piece.labels for piece in pieces]),
        None if weights[0] is None else np.concatenate(weights),
    )


def refusal(path, text, **keys):
    with pytest.raises(DataError) as caught:
        shares(write(path, text), Reading(**keys))
    return str(caught.value).replace(str(path), path.name)


numbers = st.floats(allow_nan=False, allow_infinity=False, width=64) | st.integers(-999, 999)


@st.composite
def tables(draw):
    """Return (the file, delimiter, table, whether there is a header)."""
    width = draw(st.integers(2, 5))
    table = draw(st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=1, max_size=12))
    delimiter = draw(st.sampled_from(",;\t"))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    header = draw(st.booleans())
    out = io.StringIO(newline="")
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)
    if header:
        writer.writerow(["a name; with, marks", *(f"c{k}" for k in range(1, width))])
    for row in table:
        if draw(st.integers(0, 5)) == 0:
            out.write(end)
        writer.writerow([repr(value) + draw(st.sampled_from(["", "", " "])) for value in row])
    text = out.getvalue()
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode(), delimiter, np.array(table, dtype=float)


@given(tables(), st.sampled_from(sorted(PACKERS)), st.integers(-2, 1), st.sampled_from([1, 2, 3, 5, 8]))
def test_any_number_of_processes_reads_what_was_written(tmp_path_factory, written, suffix, label, size):
    content, delimiter, table = written
    path = tmp_path_factory.mktemp("csv") / f"t.csv{suffix}"
    path.write_bytes(PACKERS[suffix](content))
    held = on_threads(size, lambda collectives: hold(str(path), [], Reading(label=label), collectives))
    for one in held:
        if isinstance(one, Exception):
            raise one
    assert len({(one.rows, one.features, one.nonzeros, one.index_base, one.notes) for one in held}) == 1
    owners = held if suffix == "" else held[:1]
    assert np.array_equal(np.concatenate([one.numbers for one in owners]), np.arange(len(table)))
    assert np.array_equal(np.concatenate([one.labels for one in owners]), table[:, label])
    rest = np.delete(table, label % table.shape[1], axis=1)
    assert np.array_equal(np.concatenate([one.dense for one in owners]), rest)
    assert (held[0].rows, held[0].features, held[0].nonzeros) == (*rest.shape, np.count_nonzero(rest))
    word = {",": "commas", ";": "semicolons", "\t": "tabs"}[delimiter]
    assert word in held[0].notes[0]
    served = np.array([one.serves for one in held])
    assert served.all() if suffix == "" else (served == (np.arange(size) == 0)[:, None]).all()


@pytest.mark.parametrize("header", ["", "a,label,c\r\n", '\n"a ""b""",label,c\n'])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_cut_at_every_offset(tmp_path, header, mark):
    content = mark + (header + '1,2,3.5\r\n\r\n-4,5e-3,"6"\n \n7,8,9\n10,11,12').encode()
    path = write(tmp_path / "t.csv", content)
    want = np.array([[1, 3.5], [-4, 6], [7, 9], [10, 12]]), np.array([2, 0.005, 8, 11])
    for parts in range(1, 2 * len(content)):
        features, labels, weights = shares(path, Reading(label=1), parts)
        assert np.array_equal(features, want[0])
        assert np.array_equal(labels, want[1])
        assert weights is None


def test_large_files_are_read_in_chunks(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4000, 9))
    text = "".join(",".join(map(repr, row)) + "\n" for row in table.tolist())
    assert len(text) > 2 * CHUNK
    (tmp_path / "a.csv").write_text(text[: text.index("\n", 1000) + 1])
    (tmp_path / "b.csv").write_text(text[text.index("\n", 1000) + 1 :])
    source = resolve([str(tmp_path / "*.csv")], [])
    pieces = list(csv_pieces(source, Reading(label=-1), 0, 1))
    assert max(len(piece.labels) for piece in pieces) < 2000
    assert np.array_equal(np.concatenate([piece.features for piece in pieces]), table[:, :-1])
    for size in (2, 5):
        held = on_threads(size, lambda c: hold([str(tmp_path / "*.csv")], [], Reading(label=-1), c))
        assert np.array_equal(np.concatenate([one.dense for one in held]), table[:, :-1])
        assert np.array_equal(np.concatenate([one.numbers for one in held]), np.arange(4000))


def test_the_same_shards_as_from_libsvm_text(tmp_path):
    rng = np.random.default_rng(1)
    table, labels = rng.normal(size=(31, 4)), rng.integers(0, 2, 31)
    write(
        tmp_path / "t.csv",
        "y,a,b,c,d\n"
        + "".join(f"{y}," + ",".join(map(repr, x)) + "\n" for y, x in zip(labels, table.tolist(), strict=True)),
    )
    write(
        tmp_path / "t.txt",
        "".join(
            f"{y} " + " ".join(f"{k + 1}:{x!r}" for k, x in enumerate(row)) + "\n"
            for y, row in zip(labels, table.tolist(), strict=True)
        ),
    )
    for kind in ({"partition": "shuffled"}, {"partition": "by-label"}, {"holdout": 0.3}):
        one, other = (load(DataSpec(str(tmp_path / name), **kind), Solo(), 3, range(3)) for name in ("t.csv", "t.txt"))
        for a, b in zip((*one.train, *(one.test or ())), (*other.train, *(other.test or ())), strict=True):
            assert np.array_equal(a.features, b.features.toarray())
            assert np.array_equal(a.labels, b.labels)
            assert np.array_equal(a.rows, b.rows)
        assert one.info.labels == other.info.labels
        assert one.info.rows == other.info.rows


@pytest.mark.parametrize(
    ("text", "keys", "said"),
    [
        ("a,b,y\n1,x,0\n", {}, "t.csv:2:3: 'x' in column 'b' is not a number"),
        ('a,b,y\n"1",2,0\n"3"," 4_0",1\n', {}, "t.csv:3:5: ' 4_0' in column 'b' is not a number"),
        ("a;b;y\n1;2;0\n1;2,5;0\n", {}, "t.csv:3:3: '2,5' in column 'b' is not a number: a decimal comma"),
        ("1,2,3\n\n4,5\n", {"label": 0}, "t.csv:3:1: has 2 fields, but the first row has 3"),
        ("1,2,3\n4,5,6,\n", {"label": 0}, "t.csv:2:1: has 4 fields"),
        ("1,2,3\n4,\x005,6\n", {"label": 0}, "t.csv:1: holds a NUL byte"),
        ("1,2\n" * 50 + "4,\x005\n", {"label": 0}, "t.csv:51:1: holds a NUL byte"),
        ("\ufeffa,y\n1,2\n".encode("utf-16-le"), {}, "NUL byte"),
        ("1,2,3\n4,,6\n", {"label": 0}, "t.csv:2:3: '' in column 1 (counted from 0) is missing"),
        ("1,2,3\n4,inf,6\n", {"label": 0}, "t.csv:2:3: 'inf' in column 1 (counted from 0) is missing or not finite"),
        ("1,2,3\n4,1e999,6\n", {"label": 0}, "t.csv:2:3: '1e999'"),
        ("1,2,3\n?,5,6\n", {"label": 0, "nan": "zero"}, "t.csv:2:1: '?' in column 0"),
        ("1,2\n3,4\n", {}, "data.label = 0 for the first or -1 for the last"),
        ("a,b\n3,4\n", {}, "no column is called label, y, target or class"),
        ("y,Class,a\n3,4,5\n", {}, "2 columns are called label, y, target or class"),
        ("a,b\n3,4\n", {"label": "c"}, "no column for data.label = \"c\": its columns are 'a', 'b'"),
        ("a,a\n3,4\n", {"label": "a"}, "2 columns are called so"),
        ("1,2\n3,4\n", {"label": "c"}, "it has no header"),
        ("1,2\n3,4\n", {"label": 2}, "data.label = 2; allowed is 0 to 1, or -2 to -1"),
        ("1,2\n3,4\n", {"label": 0, "weight": -3}, "data.weight = -3; allowed is 0 to 1"),
        ("1,2\n3,4\n", {"label": 0, "weight": -2}, "name the same column"),
        ("1,2\n3,4\n", {"label": 0, "weight": 1}, "none is a feature"),
        ("1,2,3\n3,-4,5\n", {"label": 0, "weight": 1}, "t.csv:2:3: '-4' in column 1 (counted from 0) is negative"),
        ("1 1:2 3:4\n2 1:3\n", {}, "is LIBSVM text"),
        ("1\t1:2\t3:4\n2\t1:3\n", {}, "is LIBSVM text"),
        ("12\n13\n", {}, "has one column"),
        ("", {}, "holds no rows"),
        ("\n \n", {}, "holds no rows"),
        ('a,y\n"1\n",2\n3,4\n', {}, "t.csv:2:1: a quoted field has no end in its line"),
        ('a,y\n1,2\n3,"4\n', {}, "t.csv:3:1: a quoted field has no end in its line"),
        ('"a\n",y\n1,2\n', {}, "is no row of a table in one line"),
        ('a,y\n1,"2"3\n', {}, "t.csv:2:1: is no row of a table"),
        ("a,y\r1,2\r", {}, "is no row of a table"),
        ("a,y\n1,yes\n2,no\n", {}, "t.csv:2:3: 'yes' in column 'y' is not a number; say which words the labels are"),
        ("a,y\n1,yes\n2,no\n", {}, 'data.labels = ["no", "yes"]'),
        ("a,y\n1,yes\n2,on\n", {"labels": ("no", "yes")}, "t.csv:3:3: 'on' in column 'y' is none of data.labels"),
        ("a,y\n1,yes\n2,\n", {"labels": ("no", "yes")}, "t.csv:3:3: '' in column 'y' is missing"),
    ],
)
def test_faults_are_named_with_their_place(tmp_path, text, keys, said):
    assert said in refusal(tmp_path / "t.csv", text, **keys)


def test_an_error_of_one_process_is_everybodys_with_the_true_line(tmp_path):
    lines = [f"{k},{k}\n" for k in range(900)]
    lines[700] = "700,x\n"
    path = write(tmp_path / "t.csv", "".join(lines))
    for size in (1, 2, 3, 8):
        said = on_threads(size, lambda c: hold(str(path), [], Reading(label=0), c))
        assert {str(one) for one in said} == {str(said[0])}
        assert f"{path}:701:5: 'x'" in str(said[0])


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("size", [1, 3])
def test_a_header_alone_is_no_set(tmp_path, size, suffix):
    path = write(tmp_path / f"t.csv{suffix}", PACKERS[suffix](b"a,b,y\n\n"))
    for said in on_threads(size, lambda c: hold(str(path), [], Reading(), c)):
        assert isinstance(said, DataError), said
        assert "holds no rows" in str(said)


@pytest.mark.parametrize("size", [1, 3])
def test_rows_with_gaps_are_dropped_or_filled_and_counted(tmp_path, size):
    path = write(tmp_path / "t.csv", "y,a,b\n1,NA,2\n0,3,4\n,5,6\n1,7,-inf\n0, ,nan\n1,8,9\n")

    def read(rule):
        held = on_threads(size, lambda c: hold(str(path), [], Reading(nan=rule), c))
        return held if isinstance(held[0], Exception) else (held, np.concatenate([one.dense for one in held]))

    held, dense = read("drop-row")
    assert np.array_equal(dense, [[3, 4], [8, 9]])
    assert np.array_equal(np.concatenate([one.numbers for one in held]), [0, 1])
    assert any("4 rows left out" in note for note in held[0].notes)
    assert ":4:1: ''" in str(read("zero")[0])
    path.write_text(path.read_text().replace("\n,5", "\n0,5"))
    held, dense = read("zero")
    assert np.array_equal(dense, [[0, 2], [3, 4], [5, 6], [7, 0], [0, 0], [8, 9]])
    assert any("4 values that are not finite taken as 0" in note for note in held[0].notes)
    path.write_text("y,a\n1,\n0,\n")
    assert "2 were left out" in str(read("drop-row")[0])


def test_words_as_labels_and_weights(tmp_path):
    path = write(tmp_path / "t.tsv", 'w\ta\tclass\n2\t1\tyes\n0\t2\t"no"\n.5\t3\t yes \n')
    for size in (1, 2, 5):
        held = on_threads(size, lambda c: hold(str(path), [], Reading(weight="w", labels=("yes", "no")), c))
        assert np.array_equal(np.concatenate([one.labels for one in held]), [0, 1, 0])
        assert np.array_equal(np.concatenate([one.weights for one in held]), [2, 0, 0.5])
        assert np.array_equal(np.concatenate([one.dense for one in held]), [[1], [2], [3]])
        assert held[0].names == ("a",)
    # words known as labels make no header
    path = write(tmp_path / "u.csv", "1,yes\n2,no\n")
    assert np.array_equal(shares(path, Reading(label=1, labels=("no", "yes")))[1], [1, 0])
    for words in (("a",), ("a", "a")):
        with pytest.raises(JobError, match=r"data\.labels"):
            Reading(labels=words)


def test_files_of_one_set_have_the_same_columns(tmp_path):
    write(tmp_path / "a.csv", "x,y\n1,2\n")
    write(tmp_path / "b.csv", "3;4\n")
    source = resolve([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")], [])
    assert isinstance(source, TableFiles)
    assert look(source, Reading()).delimiters == (",", ";")
    joined = [csv_pieces(source, Reading(), part, 3) for part in range(3)]
    assert np.array_equal(np.concatenate([p.features for share in joined for p in share]), [[1], [3]])
    for text, said in (("y,x\n3,4\n", "those of other files 'x', 'y'"), ("3,4,5\n", "has 3 columns")):
        write(tmp_path / "b.csv", text)
        with pytest.raises(DataError, match=said):
            look(source, Reading())
    write(tmp_path / "c.txt", "1 1:2\n")
    with pytest.raises(DataError, match="no .csv or .tsv file"):
        resolve([str(tmp_path / "a.csv"), str(tmp_path / "c.txt")], [])


def test_a_test_table_has_the_train_tables_columns(tmp_path):
    write(tmp_path / "a.csv", "x,z,y\n1,2,0\n3,4,1\n")
    write(tmp_path / "b.csv", "y,z,x\n1,2,0\n")
    write(tmp_path / "c.csv", "y,x,z\n1,2,0\n")
    spec = DataSpec(str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    with pytest.raises(DataError, match=r"feature 0 \(counted from 0\) is called 'z', but 'x'"):
        load(spec, Solo(), 1, [0])
    assert load(DataSpec(spec.train, str(tmp_path / "c.csv")), Solo(), 1, [0]).test_info.rows == 1


def test_an_unnamed_first_column_is_told(tmp_path):
    path = write(tmp_path / "t.csv", ",a,y\n0,1,2\n1,3,4\n")
    assert "remove it if it only numbers the rows" in hold(str(path), [], Reading(), Solo()).notes[0]


def test_keys_of_tables_are_refused_for_text(tmp_path):
    path = write(tmp_path / "t", "1 1:2\n")
    for keys in ({"label": 0}, {"weight": 1}, {"labels": ("a", "b")}):
        with pytest.raises(DataError, match=f"data.{next(iter(keys))} is for tables"):
            hold(str(path), [], Reading(**keys), Solo())


def slow(content):
    """Return the rows of a table without a header by csv and float alone; ``None`` where that fails."""
    try:
        text = content.decode("utf-8-sig")
        rows = [
            row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if "".join(row).strip() or row[1:]
        ]
        return [[float(field) if field.strip() else math.nan for field in row] for row in rows]
    except (ValueError, csv.Error):
        return None


PLAIN = [b"1", b"2.5", b",", b",", b",", b"\n", b"\n", b"\r\n", b"1,2\n", b"\r"]
ODD = [
    b"\r",
    b'"',
    b"-",
    b"e",
    b"nan",
    b"_",
    b" ",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"#",
    b"0x1",
    b";",
    b"\t",
    b":",
    b"'",
]
STRANGE = [b"\\", b"1e400", b"\xd9\xa3", b"\x0b", b"\x1c", b"\xc2\x85"]


@given(st.lists(st.sampled_from(PLAIN + ODD + STRANGE), max_size=14).map(b"".join), st.integers(1, 4))
@example(b"\r\n", 0)
@example(b'1,"2\n3,4"\n', 1)
@example(b"1,2\r3,4\n", 1)
@example(b"1,2\x1c3,4\n", 1)
@example(b"1,2\xc2\x853,4\n", 1)
def test_fuzz_gives_an_error_or_the_numbers_of_csv(tmp_path_factory, tail, parts):
    content = b"1,2\n3,4\n" + tail
    path = write(tmp_path_factory.getbasetemp() / "fuzz.csv", content)
    try:
        features, labels, _ = shares(path, Reading(label=0, nan="drop-row"), max(parts, 1))
    except DataError:
        return
    want = slow(content)
    assert want is not None
    want = [row for row in want if all(map(math.isfinite, row))]
    assert np.array_equal(np.column_stack([labels, features]), want)


def test_keys_of_a_job(tmp_path):
    write(tmp_path / "t.csv", "w,a,b,kind\n1,2,3,no\n4,5,6,yes\n7,,9,no\n")
    keys = ["data.train=t.csv", "data.weight=0", "data.label=kind", 'data.labels=["no", "yes"]', "data.nan=drop-row"]
    job = load_job(write_job(tmp_path), keys)
    assert load_job(to_toml(job)).data == job.data
    loaded = load_shards(job, Solo(), 1, [0])
    (shard,) = loaded.train
    assert np.array_equal(shard.features, [[2, 3], [5, 6]])
    assert np.array_equal(shard.labels, [-1, 1])
    assert np.array_equal(shard.weights / shard.weights[0], [1, 4])
    assert [note.partition(": ")[2][:9] for note in loaded.warnings[:2]] == ["4 columns", "1 rows le"]
    for key, said in (("data.label=1.5", "name, or its number"), ('data.labels=["no"]', "two words or more")):
        with pytest.raises(JobError, match=said):
            load_job(tmp_path / "job.toml", [key])
    with pytest.raises(JobError, match="a word is there twice"):
        load_job(tmp_path / "job.toml", ['data.labels=["no", "no"]'])
