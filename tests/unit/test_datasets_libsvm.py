"""The LIBSVM parser against Python's float, a writer of our own, and scikit-learn's reader."""

import bz2
import io
import lzma
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpi_opt.datasets.decimals import round_products
from mpi_opt.datasets.libsvm import LARGEST, cut_lines, join_rows, parse
from mpi_opt.errors import DataError


def as_lists(rows):
    return [
        (rows.labels[i], list(zip(rows.indices[a:b].tolist(), rows.values[a:b].tolist(), strict=True)))
        for i, (a, b) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True))
    ]


def same_bits(a, b):
    return np.array_equal(np.asarray(a).view(np.int64), np.asarray(b).view(np.int64))


finite = st.floats(allow_nan=False, allow_infinity=False)
written = st.one_of(
    finite.map(repr),
    finite.map(lambda x: f"{x:.6g}"),
    finite.map(lambda x: f"{x:+.19e}"),
    finite.map(lambda x: f"{x:.17G}"),
    st.integers(-(10**25), 10**25).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=12).map(
        lambda x: f"{x:f}"
    ),
    st.sampled_from(
        [
            "0",
            "-0",
            "+0.0",
            "-.5",
            "5.",
            "1e0",
            "1E+05",
            "1e-400",
            "-1e-400",
            "00012.50",
            ".000000000000000000000000012",
        ]
        + ["9007199254740993", "9007199254740992.99999999999", "4.9e-324", "2.4703282292062328e-324", "1e22", "1e23"]
        + ["1.7976931348623157e308", "0." + "0" * 300 + "17", "1" + "0" * 300, "1e-00000000000000000000000005"]
        + [
            "8.5e22",
            "1.00000000000000011102230246251565404236316680908203125",
            "0e999999999999999999999",
            "3e-100000000000000000000000005",
        ]
    ),
)
row = st.tuples(written, st.dictionaries(st.integers(1, LARGEST), written, max_size=6).map(lambda d: sorted(d.items())))
blanks = st.sampled_from([" ", "  ", "\t", " \t "])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(row, max_size=12),
    blanks,
    st.sampled_from(["\n", "\r\n", " \n", "\n\n", " # 3:4 qid:x\n", "\n#1 2:3\n"]),
    st.booleans(),
    st.sampled_from(["", "qid:17", "qid:abc"]),
)
def test_written_rows_are_read_back(rows, blank, end, last, qid):
    text = end.join(blank.join([label, *([qid] if qid else []), *(f"{i}:{v}" for i, v in fs)]) for label, fs in rows)
    text = text + end if last else text
    got = parse(text.encode())
    assert got.labels.size == len(rows)
    assert same_bits(got.labels, [float(label) for label, _ in rows])
    assert got.indices.tolist() == [i for _, features in rows for i, _ in features]
    assert same_bits(got.values, [float(v) for _, features in rows for _, v in features])
    assert got.indptr.tolist() == np.cumsum([0, *(len(features) for _, features in rows)]).tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(written, min_size=1, max_size=200))
def test_numbers_are_rounded_as_float_does(tokens):
    got = parse(("1 " + " ".join(f"{i}:{t}" for i, t in enumerate(tokens, start=1))).encode()).values
    assert same_bits(got, [float(t) for t in tokens])


def test_many_hard_decimals_are_rounded_as_float_does():
    """Shortest and 17-digit forms over all magnitudes, and decimals right beside the middle of two doubles."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 2**63, 6000).view(np.float64)
    numbers = numbers[np.isfinite(numbers)].tolist() + rng.random(4000).tolist()
    tokens = [form(x) for x in numbers for form in (repr, lambda x: f"{x:.16e}", lambda x: f"{x:.18e}")]
    for x in rng.random(500).tolist():
        half = int(math.ldexp(x, 60) if x > 0.01 else 2**59 + 1)
        tokens += [str(2**53 + 2 * (half % 2**52) + 1), f"{2**53 + 2 * (half % 2**52) + 1}e-5"]
        middle = f"{math.nextafter(x, 1) + x!r}"
        tokens += [middle, middle[:-1] + "5"]
    rows = parse("\n".join(["1 1:" + t for t in tokens]).encode())
    assert same_bits(rows.values, [float(t) for t in tokens])


def test_products_are_rounded_as_float_does():
    """Mantissas of every length at every power: one in 2,000 needs all 128 bits of the power of five."""
    rng = np.random.default_rng(3)
    mantissas = rng.integers(1, 2**64, 40_000, dtype=np.uint64) >> rng.integers(0, 64, 40_000).astype(np.uint64)
    for lowest, highest in ((-30, 30), (-345, 311)):
        powers = rng.integers(lowest, highest, mantissas.size)
        values, sure = round_products(mantissas, powers)
        expected = np.array([float(f"{m}e{q}") for m, q in zip(mantissas.tolist(), powers.tolist(), strict=True)])
        assert same_bits(values[sure], expected[sure])
        normal = (mantissas > 0) & np.isfinite(expected) & (expected >= np.finfo(float).smallest_normal)
        assert sure[normal].all()
        assert not sure[~normal].any()


def test_ties_go_to_even():
    odd = 2 * np.random.default_rng(4).integers(2**52, 2**53, 3000, dtype=np.uint64) + 1
    pairs = [(m, 0) for m in odd.tolist()]
    pairs += [(m * 5**p, -p) for m in odd.tolist() for p in (1, 2, 3, 4) if m * 5**p < 2**64]
    pairs += [(m // 5**p, p) for m in odd.tolist() for p in (1, 2, 3, 5) if m % 5**p == 0]
    mantissas, powers = np.array([m for m, _ in pairs], dtype=np.uint64), np.array([q for _, q in pairs])
    values, sure = round_products(mantissas, powers)
    assert sure.all()
    assert same_bits(values, [float(f"{m}e{q}") for m, q in pairs])


def test_layout():
    text = b"# head\r\n+1 1:2 3:4 # tail 5:6\r\n\r\n-1\r\n  2.5e0\tqid:3  2:.5 \r\n0 7:1"
    assert as_lists(parse(text)) == [(1.0, [(1, 2.0), (3, 4.0)]), (-1.0, []), (2.5, [(2, 0.5)]), (0.0, [(7, 1.0)])]
    assert as_lists(parse(b"")) == []
    assert as_lists(parse(b"\n \n# 1 2:3")) == []
    assert as_lists(parse(b"1 0:3 5:1", index_base=0)) == [(1.0, [(0, 3.0), (5, 1.0)])]
    assert parse(f"1 {LARGEST}:1".encode()).indices.tolist() == [LARGEST]
    assert as_lists(parse(b"1 0000000000000000012:1")) == [(1.0, [(12, 1.0)])]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 0:3", ["index 0", "'0:3'", "index_base = 0"]),
        ("1 3:1 2:1", ["'2:1'", "after index 3", "ascend"]),
        ("1 3:1 3:1", ["'3:1'", "repeats index 3"]),
        ("1 3", ["'3'", "no colon"]),
        ("1 2:1 x", ["'x'", "no colon"]),
        ("1 3:", ["''", "'3:'", "not a number"]),
        ("1 3: 5", ["'3:'", "not a number"]),
        ("1 :5", ["':5'", "whole number"]),
        ("1 3:abc", ["'abc'", "not a number"]),
        ("1 3:1:2", ["'1:2'", "not a number"]),
        ("1 3:1e", ["'1e'", "not a number"]),
        ("1 3:1e+", ["'1e+'", "not a number"]),
        ("1 3:--1", ["'--1'", "not a number"]),
        ("1 3:.", ["'.'", "not a number"]),
        ("1 3:1.2.3", ["'1.2.3'", "not a number"]),
        ("1 3:1_0", ["'1_0'", "not a number"]),
        ("1 3:0x1p3", ["'0x1p3'", "not a number"]),
        ("1 3:1,2", ["'1,2'", "not a number"]),
        ("1 3:NaN", ["'NaN'", "not finite"]),
        ("1 3:-inf", ["'-inf'", "not finite"]),
        ("1 3:1e999", ["'1e999'", "range of doubles"]),
        ("1 3:1e" + "0" * 13 + "1" + "0" * 13 + "5", ["range of doubles"]),
        ("1 3:" + "9" * 400, ["range of doubles"]),
        ("1 -3:1", ["'-3:1'", "negative"]),
        ("1 +3:1", ["'+3:1'", "whole number"]),
        ("1 1.5:1", ["'1.5:1'", "whole number"]),
        ("1 2147483648:1", ["2147483648", "too large", "2147483647"]),
        ("1 99999999999999999999999:1", ["too large"]),
        ("1 " + "9" * 5000 + ":1", ["too large"]),
        ("1,2 3:1", ["'1,2'", "several labels"]),
        ("3:1 4:1", ["'3:1'", "label should be"]),
        ("nan 3:1", ["'nan'", "not finite"]),
        ("cat 3:1", ["'cat'", "not a number"]),
        ("\ufeff1 3:1", ["\\ufeff1", "not a number"]),
        ("1 3:\x00", ["'3:\\x00'", "binary"]),
    ],
)
@pytest.mark.parametrize("before", ["", "# c\n\n1 2:3\r\n-1\n", "1 1:1\n" * 100_000], ids=["first", "fifth", "blocks"])
def test_malformed_lines_are_named(line, says, before):
    with pytest.raises(DataError) as caught:
        parse((before + line + "\n1 1:1\nrubbish\n").encode(), "x.txt", 11)
    message = str(caught.value)
    column = 7 if line in ("1 3:1 2:1", "1 3:1 3:1", "1 2:1 x") else 1 if "label" in message else 3
    assert message.startswith(f"x.txt:{11 + before.count(chr(10))}:{column}: ")
    assert all(part in message for part in says), message
    assert len(message) < 350


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("0123456789:.+-eE #\tqid:nN\n\r,a"), max_size=60))
def test_any_text_is_rows_or_an_error(text):
    try:
        rows = parse(text.encode())
    except DataError:
        return
    lines = [line.partition("#")[0].split() for line in text.split("\n")]
    lines = [[field for field in line if not field.startswith("qid:")] for line in lines]
    assert as_lists(rows) == [
        (float(line[0]), [(int(i), float(v)) for i, _, v in (field.partition(":") for field in line[1:])])
        for line in lines
        if line
    ]


@given(st.lists(st.sampled_from([b"1 1:1\n", b"\n", b"-1 2:0.25 9:1e3\n", b"0"]), max_size=20), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_blocks_do_not_matter(lines, size):
    text = b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)
    blocks = list(cut_lines(np.frombuffer(text, dtype=np.uint8), size))
    assert b"".join(block.tobytes() for block in blocks) == text
    assert all(block[-1] == 10 for block in blocks)
    assert as_lists(join_rows([parse(block) for block in blocks])) == as_lists(parse(text))


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [
        "a9a/a9a.bz2",
        "a9a/a9a.t.bz2",
        "ijcnn1/ijcnn1.xz",
        "covtype.binary-subset/covtype.libsvm.binary.scale.first20000.bz2",
    ],
)
def test_real_files_as_scikit_learn_reads_them(datasets: Path, name):
    from sklearn.datasets import load_svmlight_file

    packed = (datasets / name).read_bytes()
    text = (bz2 if name.endswith("bz2") else lzma).decompress(packed)
    matrix, labels = load_svmlight_file(io.BytesIO(text), zero_based=False)
    rows = parse(text)
    assert same_bits(rows.values, matrix.data)
    assert np.array_equal(rows.indices - 1, matrix.indices)
    assert np.array_equal(rows.indptr, matrix.indptr)
    assert same_bits(rows.labels, labels)
