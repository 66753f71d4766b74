"""Text by every reader, on any number of processes, against scikit-learn's reader and a slow grammar of our own."""

import bz2
import gzip
import io
import lzma
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.datasets import load_svmlight_file
from support import grammar
from support.threads import on_threads

from mpi_opt.datasets.byteranges import share_ranges, whole_lines
from mpi_opt.datasets.checkparts import check_range
from mpi_opt.datasets.compressed import open_stream
from mpi_opt.datasets.facts import Facts
from mpi_opt.datasets.libsvm import join_rows, parse
from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.datasets.reading import hold
from mpi_opt.datasets.source import resolve
from mpi_opt.datasets.spec import Reading
from mpi_opt.datasets.textfiles import read_whole
from mpi_opt.errors import DataError
from mpi_opt.job import load_job
from mpi_opt.network.collectives import Solo
from mpi_opt.shards import load_shards

PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
SIZES = (1, 2, 3, 5, 8)


def all_held(words, folder, size, reading):
    """Return (matrix, labels, holding of rank 0) of a set read by ``size`` processes."""
    results = on_threads(size, lambda collectives: hold(words, [folder], reading, collectives))
    for result in results:
        if isinstance(result, Exception):
            raise result
    first = results[0]
    figures = {(one.rows, one.features, one.nonzeros, one.index_base, one.notes) for one in results}
    assert len(figures) == 1
    numbers = np.concatenate([one.numbers for one in results])
    assert sorted(numbers.tolist()) == list(range(first.rows))
    matrix = np.zeros((first.rows, first.features))
    for one in results:
        parts = (one.sparse.values, one.sparse.indices - one.index_base, one.sparse.indptr)
        matrix[one.numbers] = csr_array(parts, shape=(one.labels.size, first.features)).toarray()
    labels = np.empty(first.rows)
    labels[numbers] = np.concatenate([one.labels for one in results])
    return matrix, labels, first


def as_scikit_learn(text, base):
    """Return (matrix, labels) by scikit-learn's reader."""
    if not any(features for _, features in grammar.read(text, base).rows):
        rows = grammar.read(text, base).rows
        return np.zeros((len(rows), 0)), np.array([label for label, _ in rows])
    matrix, labels = load_svmlight_file(io.BytesIO(text), zero_based=base == 0)
    return matrix.toarray(), labels


label_sets = st.sampled_from(
    [["0", "1"], ["-1", "+1"], ["1", "2"], ["10", "20", "50"], ["-1.0", "1.0"], ["-1.5e0", "2.25", ".5"]]
)
values = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-9, 9).map(str), st.just("0.5")
)
features = st.dictionaries(st.integers(0, 12), values, max_size=5)
between = st.sampled_from(["", "\n", "# a comment 3:4\n", " \t\n", "\r\n"])


@st.composite
def files(draw):
    """Return (index base, texts): one to three files of a set, with all that the grammar allows."""
    labels, base = draw(label_sets), draw(st.sampled_from([0, 1]))
    end = draw(st.sampled_from(["\n", "\r\n", " \n", " # tail 1:2 qid:3\n"]))
    texts = []
    for _ in range(draw(st.integers(1, 3))):
        text = ""
        for _ in range(draw(st.integers(0, 8))):
            entries = [f"{index + base}:{value}" for index, value in sorted(draw(features).items())]
            qid = draw(st.sampled_from([[], [], ["qid:7"]]))
            text += draw(between) + draw(st.sampled_from([" ", "\t "])).join(
                [draw(st.sampled_from(labels)), *qid, *entries]
            )
            text += end
        texts.append(text[:-1] if draw(st.booleans()) else text)
    return base, texts


@settings(max_examples=40, deadline=None)
@given(files(), st.lists(st.sampled_from(list(PACKERS)), min_size=3, max_size=3))
def test_every_reader_gives_what_scikit_learn_gives(tmp_path_factory, made, packers):
    base, texts = made
    folder = tmp_path_factory.mktemp("set")
    words = []
    for number, (text, packer) in enumerate(zip(texts, packers, strict=False)):
        words.append(f"part{number}{packer}")
        (folder / words[-1]).write_bytes(PACKERS[packer](text.encode()))
    joined = "\n".join(texts).encode()
    expected, labels = as_scikit_learn(joined, base)
    qids = grammar.read(joined).qids
    for size in SIZES:
        if labels.size == 0:
            with pytest.raises(DataError, match="holds no rows"):
                all_held(words, folder, size, Reading(index_base=base))
            continue
        matrix, found, holding = all_held(words, folder, size, Reading(index_base=base))
        np.testing.assert_array_equal(matrix, expected)
        np.testing.assert_array_equal(found, labels)
        assert holding.notes == ((f"{holding.name}: {qids} qid: fields ignored",) if qids else ())
        auto = all_held(words, folder, size, Reading(index_base=None))[2]
        assert auto.index_base == int(not re.search(rb"\s0+:", re.sub(rb"#.*", b"", joined)))


def test_a_cut_at_every_offset(tmp_path):
    text = b"# c\n1 1:2 qid:4 3:4\r\n\n-1\n 2.5 2:.5 # x\r\n\r\n0 0:1 1:nan\n1 7:1 6:1\n# end\n1 0:3"
    (tmp_path / "x").write_bytes(text)
    path = tmp_path / "x"
    whole = check_range(path, 0, None, 0, "drop-row")
    assert (whole.facts.rows, whole.facts.dropped_rows, whole.facts.faulty_rows) == (4, 1, 1)
    kept = text.replace(b"1 7:1 6:1", b"#")
    (tmp_path / "y").write_bytes(kept)
    rows = parse(kept, index_base=0, nan="drop-row")
    for cut in range(len(text) + 1):
        one, two = check_range(path, 0, cut, 0, "drop-row"), check_range(path, cut, len(text), 0, "drop-row")
        assert one.facts + two.facts == whole.facts
        assert (one.counts + two.counts).tolist() == whole.counts.tolist()
        places = [*one.told, *(place._replace(line=place.line + one.facts.lines) for place in two.told)]
        assert places == whole.told
        for second in range(cut, len(text) + 1, 17):
            parts = [
                check_range(path, *ends, 0, "drop-row").facts for ends in ((0, cut), (cut, second), (second, None))
            ]
            assert sum(parts, start=Facts()) == whole.facts
    for cut in range(len(kept) + 1):
        parts = []
        for first, last in ((0, cut), (cut, len(kept))):
            with (tmp_path / "y").open("rb") as stream:
                texts = list(whole_lines(stream, tmp_path / "y", first, last, 1 << 16))
            parts += [parse(data, index_base=0, nan="drop-row") for _, data in texts]
            assert (
                b"".join(data for _, data in texts) == kept[texts[0][0] : texts[-1][0] + len(texts[-1][1])]
                if texts
                else True
            )
        got = join_rows(parts)
        for name in ("indptr", "indices", "values", "labels"):
            assert np.array_equal(getattr(got, name), getattr(rows, name))
        assert got.seen == rows.seen


@given(st.lists(st.integers(0, 50), max_size=6), st.integers(1, 9))
@settings(max_examples=50, deadline=None)
def test_shares_tile_the_files(sizes, parts):
    ranges = [piece for part in range(parts) for piece in share_ranges(sizes, part, parts)]
    covered = [(file, byte) for file, first, last in ranges for byte in range(first, last)]
    assert covered == [(file, byte) for file, size in enumerate(sizes) for byte in range(size)]


# --- what is not finite -----------------------------------------------------------------------------------------------

STRANGE = ["nan", "NaN", "-inf", "+Infinity", "1e999", "-1" + "0" * 400, "1.#INF00", "-1.#IND", "1.#QNAN0"]
FINE = ["1", "-0.5", "2e-3", "1e308", "0", "4.9e-324"]


def spoiled(rng, rows=60, bad_labels=True):
    """Return lines of (label, features) in which some labels and values are not finite."""
    lines = []
    for _ in range(rows):
        label = rng.choice(STRANGE) if bad_labels and rng.random() < 0.1 else rng.choice(["1", "2"])
        indices = np.flatnonzero(rng.random(9) < 0.5) + 1
        lines.append((label, [(i, rng.choice(STRANGE) if rng.random() < 0.1 else rng.choice(FINE)) for i in indices]))
    lines[0] = ("1", [(1, "1"), (9, "1")])
    return lines


def text_of(lines):
    return "".join(" ".join([label, *(f"{i}:{v}" for i, v in features)]) + "\n" for label, features in lines).encode()


@pytest.mark.parametrize("packer", ["", ".xz"])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_rows_dropped_and_values_zeroed(tmp_path, monkeypatch, packer, size):
    """The same as files from which those rows were deleted, and in which those values were written as 0."""
    monkeypatch.setattr("mpi_opt.datasets.textfiles.CHUNK", 200)
    rng = np.random.default_rng(size)
    lines = spoiled(rng)
    (tmp_path / ("x" + packer)).write_bytes(PACKERS[packer](text_of(lines)))
    kept = [line for line in lines if line[0] not in STRANGE and not any(value in STRANGE for _, value in line[1])]
    assert 10 < len(kept) < len(lines) - 10
    (tmp_path / "kept").write_bytes(text_of(kept))
    reading = Reading(nan="drop-row")
    dropped = all_held("x", tmp_path, size, reading)
    expected = all_held("kept", tmp_path, 1, Reading())
    np.testing.assert_array_equal(dropped[0], expected[0])
    np.testing.assert_array_equal(dropped[1], expected[1])
    count = len(lines) - len(kept)
    said = f'x: {count} rows left out: a label or value of theirs is not finite (data.nan = "drop-row")'
    assert dropped[2].notes == (said,)
    assert dropped[2].nonzeros == expected[2].nonzeros

    with pytest.raises(DataError, match=r"x(\.xz)?:\d+:1: label .*drop-row"):
        all_held("x", tmp_path, size, Reading(nan="zero"))
    lines = spoiled(rng, bad_labels=False)
    (tmp_path / ("x" + packer)).write_bytes(PACKERS[packer](text_of(lines)))
    mended = [(label, [(i, "0" if value in STRANGE else value) for i, value in entries]) for label, entries in lines]
    (tmp_path / "mended").write_bytes(text_of(mended))
    zeroed, expected = all_held("x", tmp_path, size, Reading(nan="zero")), all_held("mended", tmp_path, 1, Reading())
    np.testing.assert_array_equal(zeroed[0], expected[0])
    np.testing.assert_array_equal(zeroed[1], expected[1])
    count = sum(value in STRANGE for _, entries in lines for _, value in entries)
    assert zeroed[2].notes == (f'x: {count} values that are not finite taken as 0 (data.nan = "zero")',)
    assert zeroed[2].nonzeros == expected[2].nonzeros
    first = next(j for j, line in enumerate(lines) if any(value in STRANGE for _, value in line[1]))
    with pytest.raises(DataError, match=rf":{first + 1}:\d+: value .* (not finite|beyond the range)"):
        all_held("x", tmp_path, size, Reading())


@pytest.mark.parametrize("rule", ["drop-row", "zero"])
@pytest.mark.parametrize("bad", ["1 2:x", "1 2:1 1:nan", "1 2:nane", "1 2:1.#INFx", "x 1:nan", "1,2 1:nan", "1 0:nan"])
def test_other_faults_stay_faults(rule, bad):
    with pytest.raises(DataError, match=r"^t:3:"):
        parse(b"1 1:1\n1 1:nan\n" + bad.encode() + b"\n", "t", nan=rule)


def test_all_rows_dropped(tmp_path):
    (tmp_path / "x").write_bytes(b"1 1:nan\nnan 2:1\n")
    for size in (1, 3):
        with pytest.raises(DataError, match=r"holds no rows \(2 were left out for what is not finite\)"):
            all_held("x", tmp_path, size, Reading(nan="drop-row"))


def test_microsofts_infinity_is_not_cut_at_its_mark():
    assert parse(b"1 1:1. # c\n").values.tolist() == [1.0]
    assert parse(b"1 1:1# c\n").values.tolist() == [1.0]
    with pytest.raises(DataError, match=r"t:1:3: value '1\.#INF' in '1:1\.#INF' is not finite"):
        parse(b"1 1:1.#INF 2:4\n", "t")


# --- the index base ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("packer", ["", ".gz"])
def test_a_zero_in_a_dropped_row_counts(tmp_path, size, packer):
    (tmp_path / ("x" + packer)).write_bytes(PACKERS[packer](b"1 1:1\n" * 20 + b"1 0:nan\n2 2:1\n"))
    matrix, _, holding = all_held("x", tmp_path, size, Reading(index_base=None, nan="drop-row"))
    assert holding.index_base == 0
    assert matrix.shape == (21, 3)


def test_one_base_for_all_files_of_a_job(tmp_path):
    (tmp_path / "a").write_text("1 1:1 2:1\n2 1:1\n")
    (tmp_path / "b").write_text("1 0:1\n")
    (tmp_path / "t").write_text("1 1:1\n")
    spec = DataSpec(("a", "b"), test="t", reading=Reading(index_base=None), search=(tmp_path,))
    for size in (1, 3):
        loaded = on_threads(size, lambda c: load(spec, c, c.size, [c.rank]))[0]
        assert loaded.info.index_base == loaded.test_info.index_base == 0
        assert loaded.info.features == 3
    with pytest.raises(DataError, match=r"b:1:3: index 0 .* say index_base = 0, or index_base = \"auto\""):
        load(DataSpec("a", test="b", reading=Reading(index_base=None), search=(tmp_path,)), Solo(), 1, [0])


def test_the_job_says_how_text_is_read(tmp_path):
    (tmp_path / "x").write_text("1 0:1 2:nan\n2 qid:3 0:1\n1 1:2\n2 1:3\n")
    (tmp_path / "job.toml").write_text(
        'name = "j"\ndata = { train = "x", test = "x", index_base = "auto", nan = "zero" }\n'
        'problem.loss = "logistic"\nalgorithm = { name = "newton" }\nstop.rounds = 1\n'
    )
    loaded = load_shards(load_job(tmp_path / "job.toml", []), Solo(), 1, [0])
    assert loaded.info.index_base == 0
    assert loaded.train[0].features.shape == (4, 3)
    notes = ('x: 1 values that are not finite taken as 0 (data.nan = "zero")', "x: 1 qid: fields ignored")
    assert loaded.warnings[:4] == notes + notes
    for key, value in (("nan", "mean"), ("index_base", "2")):
        with pytest.raises(Exception, match=rf"data\.{key}.*allowed"):
            load_job(tmp_path / "job.toml", [f"data.{key}={value}"])


# --- bounded fuzzing --------------------------------------------------------------------------------------------------

GOOD = b"# head\n+1 1:2 3:4.5e-1 qid:7 9:1\n-1\n\n2 2:-.5 # c\r\n1 1:0 2147483647:1\n0 7:1e308 8:5."
PIECES = [b"\n", b"\r\n", b" ", b"\t", b"#", b":", b"qid:", b"nan", b"1.#INF", b"inf", b"1e999", b"0", b"-1", b"\x00"]
PIECES += [b"\xff", b",", b"e", b".", b"+", b"99999999999", b"1:1", b"\x0b", b"\x1c", b"1_0", b"\xd9\xa1", b"q", b"0x1"]


@st.composite
def mutated(draw):
    data = bytearray(draw(st.sampled_from([GOOD, GOOD.replace(b" ", b"  "), b"1 1:1\n2 2:2\n"])))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 3)):
            case 0:
                data[at:at] = draw(st.sampled_from(PIECES))
            case 1:
                del data[at : at + draw(st.integers(1, 8))]
            case 2:
                data[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case _:
                other = draw(st.integers(0, len(data)))
                data[at:at] = data[other : other + draw(st.integers(1, 12))]
    return bytes(data)


@settings(max_examples=250, deadline=None)
@given(
    st.one_of(
        mutated(), mutated(), st.binary(max_size=80), st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)
    ),
    st.sampled_from([0, 1]),
)
def test_any_bytes_are_read_right_or_refused(tmp_path_factory, data, base):
    """Accepted exactly when the grammar accepts, with its numbers; every fault where the grammar sees one."""
    expected = grammar.read(data, base)
    rows = error = None
    try:
        rows = parse(data, "t", 1, base)
    except DataError as caught:
        error = str(caught)
    if rows is None:
        assert expected.faults, error
        line, column = expected.faults[0]
        assert error.startswith(f"t:{line}:{column}: ")
        assert len(error) < 400
    else:
        assert not expected.faults
        cuts = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        entries = [list(zip(rows.indices[a:b].tolist(), rows.values[a:b].tolist(), strict=True)) for a, b in cuts]
        assert list(zip(rows.labels.tolist(), entries, strict=True)) == expected.rows
        assert rows.seen.qids == expected.qids
        # scikit-learn takes qid: behind the label only, and the mark in 1.#INF for a comment
        if rows.values.size and b".#" not in data and b"qid:" not in data:
            matrix, labels = load_svmlight_file(io.BytesIO(data), zero_based=True)
            assert np.array_equal(matrix.data, rows.values)
            assert np.array_equal(matrix.indices, rows.indices)
            assert np.array_equal(matrix.indptr, rows.indptr)
            assert np.array_equal(labels, rows.labels)
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_bytes(data)
    part = check_range(path, 0, None, base, "refuse")
    if part.broken is None:  # else the bytes happen to begin like another kind of file
        assert part.counts.sum() == len(expected.faults)
        assert [(place.line, place.column) for place in part.told] == expected.faults[:20]
        assert part.facts.rows + part.facts.faulty_rows == len(expected.rows)


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("mpi_opt.datasets.textfiles.CHUNK", 100)
    monkeypatch.setattr("mpi_opt.datasets.checkparts.CHUNK", 100)
    monkeypatch.setattr("mpi_opt.datasets.byteranges.LONGEST", 1000)
    (tmp_path / "x").write_bytes(b"1 1:1\n" + bytes(5000))
    (tmp_path / "y").write_bytes(b"1 1:1" + b" " * 900 + b"\n2 2:1\n")
    assert read_whole(resolve("y", [tmp_path]), 1).labels.tolist() == [1.0, 2.0]
    for size in (1, 3):
        results = on_threads(size, lambda c: hold("x", [tmp_path], Reading(), c))
        assert len({str(result) for result in results}) == 1
        assert "x: a line that begins 6 bytes into the text does not end within 1000 bytes" in str(results[0])
    assert "does not end within" in check_range(tmp_path / "x", 0, None, 1, "refuse").broken


# --- compressed files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packer", [".gz", ".bz2", ".xz"])
def test_files_of_many_streams(tmp_path, packer, monkeypatch):
    monkeypatch.setattr("mpi_opt.datasets.unpacking._CHUNK", 7)
    lines = [b"1 1:%d\n" % j for j in range(3000)]
    streams = [PACKERS[packer](b"".join(lines[j : j + 500])) for j in range(0, 3000, 500)]
    between = b"" if packer == ".bz2" else bytes(8)
    (tmp_path / "x").write_bytes(between.join([*streams, PACKERS[packer](b""), b""]))
    assert read_whole(resolve("x", [tmp_path]), 1).values.tolist() == list(range(3000))
    with open_stream(tmp_path / "x") as stream:
        text, rng = b"".join(lines), np.random.default_rng(0)
        for at in [0, 3, 0, *rng.integers(0, len(text) + 9, 20).tolist()]:
            stream.seek(at)
            assert stream.read(50) == text[at : at + 50]
            assert stream.tell() == min(at + 50, len(text))
    whole = b"".join(streams)
    for damaged in (
        whole[: len(streams[0])] + b"x" + whole[len(streams[0]) + 1 :],
        whole + b"more",
        whole[:-1],
        whole[: len(streams[0]) + 9],
    ):
        (tmp_path / "x").write_bytes(damaged)
        with pytest.raises(DataError, match="x: cannot be read, perhaps it is damaged or cut short"):
            read_whole(resolve("x", [tmp_path]), 1)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from([".gz", ".bz2", ".xz"]), st.integers(0), st.integers(1, 255), st.integers(0, 3), st.booleans())
def test_a_changed_byte_is_never_read_as_other_rows(tmp_path_factory, packer, at, change, cut, twice):
    text = b"1 1:2 3:4.5e-1 9:1\n-1\n2 2:-.5\n" * 3
    data = bytearray(PACKERS[packer](text) * (2 if twice else 1))
    at %= len(data)
    data[at] ^= change
    if cut:
        del data[at : at + cut]
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(data)
    try:
        rows = read_whole(resolve(str(path), []), 1)
    except DataError:
        return
    # bytes without a meaning (gzip's time, name of system) may change
    expected = parse(text * (2 if twice else 1))
    assert np.array_equal(rows.values, expected.values)
    assert np.array_equal(rows.labels, expected.labels)
