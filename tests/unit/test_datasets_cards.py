"""The cards in ``data/``: read, held against the files at hand, and found by the words that they name."""

import bz2
import gzip
import hashlib
import io
import lzma
import re
from contextlib import suppress
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpi_opt.datasets.builtin import read_builtin
from mpi_opt.datasets.cards import Card, load_card, parse_card, shipped_cards
from mpi_opt.datasets.source import BuiltinSet, resolve
from mpi_opt.errors import DataError, JobError

DATA = Path(__file__).resolve().parents[2] / "data"
CARDS = sorted(path for path in DATA.glob("*.md") if path.read_text().startswith("+++\n"))
NAMES = [path.stem for path in CARDS]
UNPACK = {".bz2": bz2.decompress, ".gz": gzip.decompress, ".xz": lzma.decompress}

SMALL = """+++
name = "small"
about = "-"
origin = "-"
licence = "none stated"
citation = "-"
task = "binary"
features = 3

[train]
word = "small"
rows = 3
labels = { "-1" = 1, "+1" = 2 }

[[files]]
save = "small.bz2"
addresses = ["https://example.org/~who/small.bz2"]
text_bytes = 12
+++

# small
"""


def plain(path):
    unpack = UNPACK.get(path.suffix)
    data = path.read_bytes()
    return data if unpack is None else unpack(data)


def sha(data):
    return hashlib.sha256(data).hexdigest()


def at_hand(datasets, card, word):
    """Return the file of the folder that holds the LIBSVM text ``word``, or ``None``."""
    return next(iter(sorted((datasets / card.name).glob(f"{word}.*z*"))), None)


def test_the_sets_of_this_release():
    wanted = {"a9a", "w8a", "ijcnn1", "covtype.binary", "epsilon", "rcv1", "mnist", "news20", "mushrooms", "digits"}
    assert set(NAMES) == wanted


@pytest.mark.parametrize("path", CARDS, ids=NAMES)
def test_every_card(path, tmp_path):
    card = load_card(str(path))
    text = path.read_text()
    assert card.name == path.stem
    assert text.rpartition("+++\n")[2].startswith(f"\n# {card.name}\n")
    for rows, key in ((card.train, "train"), (card.test, "test")):
        if rows is not None:
            assert f'`{key} = "{rows.word}"`' in text, "the prose says what to write in a job"
    # the command's layout is one that the words are found in
    for file in card.files:
        place = tmp_path / card.name / file.save
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"\0\0\x08\1" if "ubyte" in file.save else b"1 1:1\n")
    for rows in filter(None, (card.train, card.test)):
        assert isinstance(resolve(rows.word, [tmp_path]), BuiltinSet) == (not card.files)


@pytest.mark.parametrize("path", CARDS, ids=NAMES)
def test_what_is_not_known_is_said_so(path):
    card = load_card(str(path))
    if any(file.sha256 is None for file in card.files):
        assert "not known here" in " ".join(path.read_text().split())


def test_the_table_in_the_readme():
    table = (DATA / "README.md").read_text()
    for path in CARDS:
        card = load_card(str(path))
        (line,) = [line for line in table.splitlines() if line.startswith(f"| [{card.name}](")]
        assert f"]({path.name}) " in line
        rows = f"{card.train.rows:,}" + (f" ({card.test.rows:,})" if card.test else "")
        assert f"| {rows} | {card.features:,}, " in line


@pytest.mark.data
@pytest.mark.parametrize("path", CARDS, ids=NAMES)
def test_cards_against_the_files_at_hand(path, datasets):
    from sklearn.datasets import load_svmlight_file

    card = load_card(str(path))
    compared = 0
    for file in card.files:
        served = datasets / card.name / file.save
        word = re.sub(r"\.(bz2|gz|xz)$", "", file.save)
        if served.exists() and file.sha256:
            assert (served.stat().st_size, sha(served.read_bytes())) == (file.bytes, file.sha256)
            compared += 1
        there = served if served.exists() else at_hand(datasets, card, word)
        if there is not None:
            text = plain(there)
            expected = (file.text_bytes, file.text_sha256) if file.packed else (file.bytes, file.sha256)
            assert (len(text), sha(text)) == expected
            compared += 1
    for rows in filter(None, (card.train, card.test)):
        there = at_hand(datasets, card, rows.word)
        if there is not None and "ubyte" not in there.name:
            x, y = load_svmlight_file(io.BytesIO(plain(there)), zero_based=False)
            largest = rows.largest_index or card.features
            assert (*x.shape, x.nnz) == (rows.rows, largest, rows.nonzeros)
            if rows.labels is not None:
                values, counts = np.unique(y, return_counts=True)
                assert dict(zip(values, counts, strict=True)) == {float(k): v for k, v in rows.labels.items()}
            compared += 1
    assert compared > 0 or path.stem in {"covtype.binary", "epsilon", "rcv1", "digits"}


@pytest.mark.data
def test_mnist_against_its_images(datasets):
    card = load_card(str(DATA / "mnist.md"))
    for rows, stem in ((card.train, "train"), (card.test, "t10k")):
        pixels = np.frombuffer(plain(datasets / f"mnist/{stem}-images-idx3-ubyte.gz"), np.uint8, offset=16)
        labels = np.frombuffer(plain(datasets / f"mnist/{stem}-labels-idx1-ubyte.gz"), np.uint8, offset=8)
        assert pixels.size == rows.rows * card.features
        assert rows.nonzeros in (None, np.count_nonzero(pixels))
        assert list(np.bincount(labels)) == [rows.labels[str(digit)] for digit in range(10)]


def test_digits_against_scikit_learn():
    card = load_card(str(DATA / "digits.md"))
    features, labels, _ = read_builtin("digits")
    assert (*features.shape, np.count_nonzero(features)) == (card.train.rows, card.features, card.train.nonzeros)
    assert list(np.bincount(labels.astype(int))) == list(card.train.labels.values())


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_small_card():
    card = parse_card(SMALL, "small.md")
    assert card.files[0].packed == ".bz2"
    assert card.train.labels == {"-1": 1, "+1": 2}
    assert parse_card(SMALL.replace("\n", "\r\n"), "small.md") == card


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("+++\nname", "name", "small.md:1: is no card"),
        ("+++\n\n#", "\n#", "the line +++ that ends its head is missing"),
        ("features = 3", "features = ", "small.md: the head is not valid TOML: Invalid value (at line 8, column 12)"),
        ("features = 3", "features = 0", "small.md: features = 0: Expected `int` >= 1"),
        ("features = 3", "featurs = 3", "small.md: Object contains unknown field `featurs`"),
        ("features = 3\n", "", "missing required field `features`"),
        ('task = "binary"', 'task = "other"', "task = 'other': Expected `str` matching regex"),
        ("rows = 3", "rows = 4", "small.md: train: labels: 3 rows have one, the set has 4"),
        ('"-1" = 1', '"x" = 1', "'x' is not a number"),
        ('word = "small"', 'word = ""', "train.word = ''"),
        ("text_bytes = 12", 'sha256 = "12"', "files[0].sha256 = '12': Expected `str` matching regex"),
        ("text_bytes = 12", f'sha256 = "{"A" * 64}"', "files[0].sha256"),
        (
            'save = "small.bz2"',
            'save = "small"',
            "files[0]: save = 'small': text_bytes and text_sha256 belong to packed",
        ),
        ('"https:', '"ftp:', "allowed are http://HOST/... and https://HOST/..."),
        ('"https:', '"file:', "allowed are http://HOST/... and https://HOST/..."),
        ("//example.org", "//", "allowed are http://HOST/... and https://HOST/..."),
        ("who/small.bz2", "who/", "must end in the name of a file"),
        ("who/small.bz2", "who/small.bz2?x=1", "must end in the name of a file"),
        ("//example", "//me:secret@example", "must hold no user name"),
        ("who/small", "w o/small", "must hold no user name, blanks"),
    ],
)
def test_wrong_cards(old, new, message):
    assert SMALL.count(old) >= 1
    with pytest.raises(DataError) as told:
        parse_card(SMALL.replace(old, new, 1), "small.md")
    assert message in str(told.value)


@pytest.mark.parametrize("name", ["../x", "a/b", "/etc/passwd", "..", ".x", "", "a\\b", "x\n", "-x", "~", "x" * 101])
@pytest.mark.parametrize("key", ["name", "save"])
def test_names_lead_nowhere_else(name, key):
    import json

    text = re.sub(rf"^{key} = .*$", lambda _: f"{key} = {json.dumps(name)}", SMALL, count=1, flags=re.MULTILINE)
    with pytest.raises(DataError, match=rf"{key} = .*Expected `str`"):
        parse_card(text, "small.md")


@pytest.mark.parametrize("ending", [".part", ".state", ".refused"])
def test_names_that_the_command_needs_itself(ending):
    with pytest.raises(DataError, match="must not end in"):
        parse_card(SMALL.replace('save = "small.bz2"', f'save = "x{ending}"'), "small.md")


def test_two_files_of_one_name():
    again = '[[files]]\nsave = "small.bz2"\naddresses = ["https://example.org/x"]\n+++\n\n#'
    with pytest.raises(DataError, match=r"two are saved as 'small.bz2'"):
        parse_card(SMALL.replace("+++\n\n#", again), "small.md")


@given(
    st.text() | st.binary().map(lambda raw: raw.decode("latin-1")) | st.text().map(lambda head: f"+++\n{head}\n+++\n")
)
def test_any_text_is_a_card_or_an_error(text):
    with suppress(DataError):
        assert isinstance(parse_card(text, "x.md"), Card)


@settings(deadline=None)
@given(st.integers(0, len(SMALL) - 1), st.characters(max_codepoint=255))
def test_one_changed_sign(at, sign):
    try:
        card = parse_card(SMALL[:at] + sign + SMALL[at + 1 :], "x.md")
    except DataError:
        return
    assert "/" not in card.name + card.files[0].save if card.files else True


# --- by name ----------------------------------------------------------------------------------------------------------


def test_cards_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    assert shipped_cards() == ()
    with pytest.raises(JobError, match="no cards are installed by name; name the file of a card, such as data/a9a.md"):
        load_card("a9a")
    (tmp_path / "cards").mkdir()
    for path in CARDS:
        (tmp_path / "cards" / path.name).write_bytes(path.read_bytes())
    assert shipped_cards() == tuple(sorted(NAMES))
    assert [load_card(name).name for name in shipped_cards()] == sorted(NAMES)
    with pytest.raises(JobError, match="did you mean 'covtype.binary'"):
        load_card("covtype")


def test_cards_that_cannot_be_read(tmp_path):
    with pytest.raises(JobError, match="there is no such file"):
        load_card(str(tmp_path / "x.md"))
    with pytest.raises(DataError, match="cannot be read"):
        load_card(f"{tmp_path}/")
    (tmp_path / "x.md").write_bytes(b"\xff")
    with pytest.raises(DataError, match="cannot be read"):
        load_card(str(tmp_path / "x.md"))


def test_the_card_in_the_documentation_is_one():
    page = (DATA.parent / "docs" / "data-files.md").read_text()
    head = page.partition("### Cards")[2].partition("```toml\n")[2].partition("```")[0]
    head = head.replace('addresses = ["https://..."]', 'addresses = ["https://example.org/a9a"]')
    head = head.replace('sha256 = "..."\n', f'sha256 = "{"0" * 64}"\n').replace('save = "a9a" ', 'save = "a9a.gz" ')
    assert parse_card(f"+++\n{head}\n+++\n", "docs").train.rows == 32561
