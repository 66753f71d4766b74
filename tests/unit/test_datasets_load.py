"""Loading over any number of processes: the shards never depend on it. Processes are threads here."""

import bz2
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack
from support.threads import on_threads

from mpi_opt.datasets.deal import PIECE
from mpi_opt.datasets.labels import apply_map, label_map
from mpi_opt.datasets.libsvm import BLOCK
from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.datasets.source import TextFiles, resolve
from mpi_opt.datasets.spec import Reading
from mpi_opt.datasets.textfiles import read_share, read_whole, texts
from mpi_opt.errors import DataError, JobError, LaunchError
from mpi_opt.network.collectives import Solo


def loaded_by(spec, nodes, size):
    """Return (train shards, test shards, info, test_info, warnings) of a load over ``size`` processes."""
    local = [range(nodes)] if size == 1 else [range(rank, nodes, size)[::-1] for rank in range(size)]
    results = on_threads(size, lambda collectives: load(spec, collectives, nodes, local[collectives.rank]))
    for result in results:
        if isinstance(result, Exception):
            raise result
    facts = [(result.info, result.test_info, result.warnings) for result in results]
    assert all(fact == facts[0] for fact in facts)

    def joined(which):
        if getattr(results[0], which) is None:
            return None
        by_node = {}
        for group, result in zip(local, results, strict=True):
            by_node.update(zip(group, getattr(result, which), strict=True))
        return [by_node[node] for node in range(nodes)]

    return joined("train"), joined("test"), *facts[0]


def assert_same(shards, others):
    assert (shards is None) == (others is None)
    for a, b in zip(shards or [], others or [], strict=True):
        assert np.array_equal(a.rows, b.rows)
        assert np.array_equal(a.labels, b.labels)
        assert a.features.shape == b.features.shape
        if isinstance(a.features, np.ndarray):
            assert np.array_equal(a.features, b.features)
            assert a.features.flags.c_contiguous
        else:
            assert np.array_equal(a.features.indptr, b.features.indptr)
            assert np.array_equal(a.features.indices, b.features.indices)
            assert np.array_equal(a.features.data, b.features.data)


def write_set(path, rows=37, columns=9, classes=(1, 2), seed=0, unlabelled=False):
    """Write a small sparse set with empty rows, comments and mixed line ends; return its matrix and labels."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((rows, columns)) < 0.4, rng.normal(size=(rows, columns)), 0.0)
    dense[:, -1] = 1.0
    dense[3 % rows] = 0.0
    labels = rng.choice(np.array(classes, dtype=float), rows)
    labels[: len(classes)] = classes
    lines = []
    for j in range(rows):
        entries = " ".join(f"{c + 1}:{float(dense[j, c])!r}" for c in np.flatnonzero(dense[j]))
        lines.append(f"{labels[j]:g} {entries}" + (" # note", "\r", "\n", "")[j % 4])
    path.write_text("# a set\n" + "\n".join(lines), newline="")
    return dense, labels


KINDS = [
    {"partition": "contiguous"},
    {"partition": "shuffled", "seed": 3},
    {"partition": "by-label"},
    {"partition": "dirichlet", "alpha": 0.3, "seed": 2},
    {"partition": "shuffled", "holdout": 0.3, "seed": 1},
    {"partition": "by-label", "holdout": 0.2},
]


@pytest.mark.parametrize("how", ["plain", "list", "packed"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(str(value) for value in kind.values()))
def test_shards_do_not_depend_on_the_number_of_processes(tmp_path, kind, how):
    dense, labels = write_set(tmp_path / "x", classes=(1, 2))
    words: str | tuple[str, ...] = "x"
    if how == "packed":
        (tmp_path / "x.bz2").write_bytes(bz2.compress((tmp_path / "x").read_bytes()))
        words = "x.bz2"
    elif how == "list":
        lines = (tmp_path / "x").read_bytes().split(b"\n")
        for part, (a, b) in enumerate([(0, 20), (20, 21), (21, 21), (21, len(lines))]):
            (tmp_path / f"part.{part}").write_bytes(b"\n".join(lines[a:b]))
        words = ("part.[01]", "part.2", "part.3")
    test = None if "holdout" in kind else "y"
    write_set(tmp_path / "y", rows=11, columns=7, seed=4)
    spec = DataSpec(train=words, test=test, search=(tmp_path,), **kind)
    first = loaded_by(spec, 5, 1)
    train, tests, info, test_info, warnings = first
    for size in (2, 3, 5):
        other = loaded_by(spec, 5, size)
        assert_same(train, other[0])
        assert_same(tests, other[1])
        assert (info, test_info, warnings) == other[2:]
    # and they are the file's rows
    held = [] if test else [row for shard in tests for row in shard.rows.tolist()]
    assert sorted([row for shard in train for row in shard.rows.tolist()] + held) == list(range(37))
    for shard in train + ([] if test else tests):
        assert np.array_equal(shard.features.toarray(), dense[shard.rows])
        assert np.array_equal(shard.labels, 2 * labels[shard.rows] - 3)
        assert shard.features.has_sorted_indices
        assert isinstance(shard.features, csr_array)
        assert shard.features.data.dtype == np.float64
        assert shard.features.indices.dtype == shard.features.indptr.dtype == np.int32
    assert (info.features, info.index_base, info.sparse, info.labels) == (9, 1, True, {1.0: -1.0, 2.0: 1.0})
    assert info.nonzeros == sum(shard.features.nnz for shard in train)
    assert test_info.nonzeros == sum(shard.features.nnz for shard in tests)
    assert (info.rows, test_info.rows) == ((37, 11) if test else (37 - len(held), len(held)))
    assert all(shard.features.shape[1] == 9 for shard in tests)


def test_order_inside_shards(tmp_path):
    _, labels = write_set(tmp_path / "x")
    rows = [shard.rows.tolist() for shard in loaded_by(DataSpec("x", search=(tmp_path,)), 4, 2)[0]]
    assert rows == [list(range(37 * i // 4, 37 * (i + 1) // 4)) for i in range(4)]
    by_label = loaded_by(DataSpec("x", partition="by-label", search=(tmp_path,)), 4, 3)[0]
    assert [row for shard in by_label for row in shard.rows] == np.argsort(labels, kind="stable").tolist()


def test_by_label_after_a_hold_out(tmp_path):
    _, labels = write_set(tmp_path / "x")
    spec = DataSpec("x", partition="by-label", holdout=0.3, search=(tmp_path,))
    train, test, *_ = loaded_by(spec, 3, 2)
    rows = np.concatenate([shard.rows for shard in train])
    kept = np.sort(rows)
    assert rows.tolist() == kept[np.argsort(labels[kept], kind="stable")].tolist()
    assert (np.diff(np.concatenate([shard.rows for shard in test])) > 0).all()


def test_each_host_reads_packed_files_once(tmp_path, monkeypatch):
    dense, _ = write_set(tmp_path / "x")
    (tmp_path / "x.bz2").write_bytes(bz2.compress((tmp_path / "x").read_bytes()))
    (tmp_path / "x").unlink()
    names, read = threading.local(), []
    monkeypatch.setattr("socket.gethostname", lambda: names.host)

    def counted(source):
        for text in texts(source):
            read.append((names.host, text.at))
            yield text

    monkeypatch.setattr("mpi_opt.datasets.packed.texts", counted)
    monkeypatch.setattr("mpi_opt.datasets.textfiles.CHUNK", 40)  # several rounds, more on the smaller host

    def task(collectives):
        names.host = "aabab"[collectives.rank]
        spec = DataSpec("x", partition="dirichlet", alpha=1.0, holdout=0.2, search=(tmp_path,))
        return load(spec, collectives, 5, [collectives.rank])

    results = on_threads(5, task)
    at = [place for host, place in read if host == "a"]
    assert len(at) > 6
    assert at == sorted(set(at))
    assert at == [place for host, place in read if host == "b"]
    rows = [row for result in results for shard in result.train + result.test for row in shard.rows.tolist()]
    assert sorted(rows) == list(range(37))
    for result in results:
        assert result.info.rows + result.test_info.rows == 37
        for shard in result.train + result.test:
            assert np.array_equal(shard.features.toarray(), dense[shard.rows])


@pytest.mark.parametrize("size", [1, 3])
def test_more_nodes_than_rows(tmp_path, size):
    (tmp_path / "x").write_bytes(b"-1 1:1\n1 2:1\n1 2:3\n")
    train, _, info, _, warnings = loaded_by(DataSpec("x", search=(tmp_path,)), 7, size)
    assert [shard.labels.size for shard in train] == [0, 0, 1, 0, 1, 0, 1]
    assert all(shard.features.shape == (shard.labels.size, 2) for shard in train)
    assert vstack([shard.features for shard in train]).toarray().tolist() == [[1, 0], [0, 1], [0, 3]]
    assert warnings[:2] == (
        "4 of 7 nodes hold no rows: 0, 1, 3, 5; there are 3 rows",
        "3 of 7 nodes hold rows of one class only: 2, 4, 6",
    )
    assert info.rows == 3


@pytest.mark.parametrize("size", [1, 4])
def test_one_byte_shares(tmp_path, size):
    """More processes than bytes, and a file that is one line."""
    (tmp_path / "x").write_bytes(b"1")
    with pytest.raises(DataError, match="no row has any feature"):
        loaded_by(DataSpec("x", label_kind="real", search=(tmp_path,)), 4, size)
    train = loaded_by(DataSpec("x", label_kind="real", features=3, search=(tmp_path,)), 4, size)[0]
    assert [shard.features.shape for shard in train] == [(0, 3), (0, 3), (0, 3), (1, 3)]


def test_every_cut_of_a_small_file(tmp_path):
    write_set(tmp_path / "a", rows=8)
    write_set(tmp_path / "b", rows=5, seed=1)
    for words in ("a", ["a", "b"]):
        source = resolve(words, [tmp_path])
        whole = read_whole(source, 1)
        total = sum(source.sizes)
        for parts in [*range(1, 30), total - 1, total, total + 3, 2 * total]:
            shares = [read_share(source, part, parts, 1) for part in range(parts)]
            assert np.array_equal(np.concatenate([share.labels for share in shares]), whole.labels)
            assert np.array_equal(np.concatenate([share.values for share in shares]), whole.values)
            assert np.array_equal(np.concatenate([share.indices for share in shares]), whole.indices)
            lengths = np.concatenate([np.diff(share.indptr) for share in shares])
            assert np.array_equal(lengths, np.diff(whole.indptr))


def test_chunks_do_not_matter(tmp_path, monkeypatch):
    write_set(tmp_path / "a", rows=20)
    (tmp_path / "a.bz2").write_bytes(bz2.compress((tmp_path / "a").read_bytes()))
    expected = read_whole(resolve("a", [tmp_path]), 1)
    for chunk in (1, 2, 7, 50):
        monkeypatch.setattr("mpi_opt.datasets.textfiles.CHUNK", chunk)
        for word in ("a", "a.bz2"):
            source = resolve(word, [tmp_path])
            assert isinstance(source, TextFiles)
            got = read_whole(source, 1)
            assert np.array_equal(got.values, expected.values)
            assert np.array_equal(got.indptr, expected.indptr)


@pytest.mark.parametrize("name", ["x", "x.bz2", "builtin:digits"])
@pytest.mark.parametrize("size", [1, 3])
def test_pieces_do_not_matter(tmp_path, name, size, monkeypatch):
    write_set(tmp_path / "x", rows=60)
    (tmp_path / "x.bz2").write_bytes(bz2.compress((tmp_path / "x").read_bytes()))
    spec = DataSpec(name, partition="shuffled", label_kind="real", search=(tmp_path,))
    expected = loaded_by(spec, 4, 1)[0]
    for piece in (1, 7, 200):
        monkeypatch.setattr("mpi_opt.datasets.deal.PIECE", piece if name[0] == "x" else 900 * piece)
        monkeypatch.setattr("mpi_opt.datasets.textfiles.CHUNK", 30 * piece)
        for shard, wanted in zip(loaded_by(spec, 4, size)[0], expected, strict=True):
            assert np.array_equal(shard.rows, wanted.rows)
            assert np.array_equal(shard.labels, wanted.labels)
            dense, known = (part.features if name[0] == "b" else part.features.toarray() for part in (shard, wanted))
            assert np.array_equal(dense, known)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("size", [1, 2])
def test_rows_are_held_twice_at_most(tmp_path, packed, size):
    """Counted over all processes: as read, as dealt, and some MB of buffers; the shuffle comes on every process."""
    rng = np.random.default_rng(0)
    row = " ".join(f"{i}:{v:.6g}" for i, v in enumerate(rng.normal(size=40), start=1))
    text = "".join(f"{j % 2} {row}\n" for j in range(12_000)).encode()
    (tmp_path / "x").write_bytes(bz2.compress(text, 1) if packed else text)
    del text
    tracemalloc.start()
    train = loaded_by(DataSpec("x", partition="shuffled", search=(tmp_path,)), 2, size)[0]
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    shards = sum(
        getattr(shard.features, part).nbytes for shard in train for part in ("data", "indices", "indptr")
    ) + sum(shard.labels.nbytes + shard.rows.nbytes for shard in train)
    assert kept < 1.1 * shards
    assert peak < 2.2 * shards + size * (20 * BLOCK + 40 * PIECE) + packed * 4e6


def test_what_comes_before_damage_is_looked_at_first(tmp_path, monkeypatch):
    monkeypatch.setattr("mpi_opt.datasets.textfiles.CHUNK", 50)
    rng = np.random.default_rng(0)
    lines = [f"1 1:{value}" for value in rng.normal(size=30_000).tolist()]
    lines[3] = "1 nonsense"
    damaged = bz2.compress("\n".join(lines).encode(), 1)
    (tmp_path / "x.bz2").write_bytes(damaged[: len(damaged) // 2])
    results = on_threads(3, lambda c: load(DataSpec("x", search=(tmp_path,)), c, 3, [c.rank]))
    assert all("x.bz2:4:" in str(result) for result in results)
    lines[3] = lines[4]
    damaged = bz2.compress("\n".join(lines).encode(), 1)
    (tmp_path / "x.bz2").write_bytes(damaged[: len(damaged) // 2])
    monkeypatch.setattr("mpi_opt.datasets.textfiles.CHUNK", 1 << 16)
    results = on_threads(3, lambda c: load(DataSpec("x", search=(tmp_path,)), c, 3, [c.rank]))
    assert all("damaged" in str(result) for result in results)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_errors_name_the_true_line_and_reach_all(tmp_path, size, packed, monkeypatch):
    monkeypatch.setattr("mpi_opt.datasets.textfiles.CHUNK", 64)
    lines = ["1 1:2 3:4" if j % 2 else "-1" for j in range(200)]
    lines[150] = "1 3:1 2:1"
    lines[180] = "1 nonsense"
    text = "\n".join(lines).encode()
    (tmp_path / "ok").write_bytes(b"1 1:1\n-1 2:1\n")
    (tmp_path / "x").write_bytes(bz2.compress(text) if packed else text)
    spec = DataSpec(("ok", "x"), search=(tmp_path,))
    results = on_threads(size, lambda c: load(spec, c, size, [c.rank]))
    assert all(isinstance(result, DataError) for result in results)
    assert {str(result) for result in results} == {
        f"{tmp_path / 'x'}:151:7: '2:1' comes after index 3; indices must ascend within a line"
    }


def test_index_base(tmp_path):
    (tmp_path / "zero").write_bytes(b"1 0:5 2:1\n-1 1:1\n")
    (tmp_path / "one").write_bytes(b"1 1:5 2:1\n-1 1:1\n")
    (tmp_path / "late").write_bytes(b"1 1:5 2:1\n" * 9 + b"-1 0:1\n")
    with pytest.raises(DataError, match=r"zero:1:3: index 0 .* say index_base = 0, or index_base = \"auto\""):
        loaded_by(DataSpec("zero", search=(tmp_path,)), 2, 2)
    for base, word, first, features in (
        (0, "zero", [5, 0, 1], 3),
        (None, "zero", [5, 0, 1], 3),
        (None, "one", [5, 1], 2),
    ):
        for size in (1, 2):
            train, test, info, test_info, _ = loaded_by(
                DataSpec(word, test="one", reading=Reading(index_base=base), search=(tmp_path,)), 2, size
            )
            assert train[0].features.toarray().tolist() == [first]
            assert info.features == features
            assert info.index_base == test_info.index_base == (1 if word == "one" else 0)
            assert test[0].features.toarray()[0].tolist() == ([0, 5, 1] if word == "zero" else [5, 1])
    for size in (1, 2, 4):  # the zero is seen by one process only
        assert (
            loaded_by(DataSpec("late", reading=Reading(index_base=None), search=(tmp_path,)), 4, size)[2].index_base
            == 0
        )


def test_labels_must_fit(tmp_path):
    def put(*labels):
        (tmp_path / "x").write_text("".join(f"{label} 1:1\n" for label in labels))

    def mapped(kind, size=3):
        loaded = loaded_by(DataSpec("x", label_kind=kind, search=(tmp_path,)), 3, size)
        return loaded[2].labels, [label for shard in loaded[0] for label in shard.labels]

    put(3, 1, 3, 7)
    with pytest.raises(DataError, match=r"x: has 3 distinct labels \(1, 3, 7\).*exactly two.*softmax"):
        mapped("binary")
    assert mapped("classes") == ({1.0: 0.0, 3.0: 1.0, 7.0: 2.0}, [1, 0, 1, 2])
    assert mapped("real") == (None, [3, 1, 3, 7])
    put(4, 4)
    with pytest.raises(DataError, match=r"has 1 distinct labels \(4\)"):
        mapped("binary")
    put("+1", "-1.0", 1, "1e0")
    assert mapped("binary") == ({-1.0: -1.0, 1.0: 1.0}, [1, -1, 1, 1])
    put(0, 1)
    assert mapped("binary") == ({0.0: -1.0, 1.0: 1.0}, [-1, 1])
    put(0.5, 1)
    with pytest.raises(DataError, match=r"0\.5, 1\) are no classes.*whole numbers"):
        mapped("classes")
    put(4, 4)
    with pytest.raises(DataError, match=r"x: has 1 distinct label \(4\), but the softmax loss takes two classes"):
        mapped("classes")
    put(*range(30))
    with pytest.raises(DataError, match=r"30 distinct labels \(0, 1, .* 11, \.\.\.\)"):
        mapped("binary")
    with pytest.raises(DataError, match="more than 10,000 distinct"):
        label_map(np.arange(10_002.0), "classes", "x", Solo())
    with pytest.raises(DataError, match="y: label 5 is not in the training set, which has 1, 2"):
        apply_map(np.array([1.0, 5.0]), {1.0: -1.0, 2.0: 1.0}, "y")


def test_sets_that_do_not_fit(tmp_path):
    write_set(tmp_path / "x")
    (tmp_path / "wide").write_text("1 12:1\n")
    (tmp_path / "strange").write_text("1 1:1\n2 1:1\n3 2:2\n")
    (tmp_path / "none").write_text("# nothing\n\n")
    where = {"search": (tmp_path,)}
    with pytest.raises(DataError, match=r"wide: goes up to column 12 .*x has 9 features"):
        loaded_by(DataSpec("x", test="wide", **where), 2, 2)
    assert loaded_by(DataSpec("x", test="wide", features=12, **where), 2, 2)[3].features == 12
    with pytest.raises(DataError, match=r"x: has 9 features, but data\.features = 8; allowed is at least 9"):
        loaded_by(DataSpec("x", features=8, **where), 2, 1)
    with pytest.raises(DataError, match="has 64 features, but data.features = 65; allowed is 64"):
        loaded_by(DataSpec("builtin:digits", features=65, label_kind="classes"), 2, 1)
    with pytest.raises(DataError, match="train set x has 9 features"):
        loaded_by(DataSpec("x", test="builtin:iris", **where), 2, 1)
    with pytest.raises(DataError, match="none: holds no rows"):
        loaded_by(DataSpec("none", **where), 2, 2)
    with pytest.raises(DataError, match="0.1 of 3 rows leaves 3 to train on and 0 to test on"):
        loaded_by(DataSpec("strange", label_kind="classes", holdout=0.1, **where), 2, 1)
    with pytest.raises(DataError, match="leaves 0 to train on"):
        loaded_by(DataSpec("strange", label_kind="classes", holdout=0.9, **where), 2, 1)
    for size in (1, 2, 3):
        results = on_threads(size, lambda c: load(DataSpec("x", test="strange", **where), c, c.size, [c.rank]))
        assert {str(result) for result in results} == {"strange: label 3 is not in the training set, which has 1, 2"}
        results = on_threads(size, lambda c: load(DataSpec("absent", **where), c, c.size, [c.rank]))
        assert all(isinstance(result, DataError) and "absent" in str(result) for result in results)
        results = on_threads(size, lambda c: load(DataSpec("x", **where), c, 3, [0]))
        assert all(isinstance(result, LaunchError) for result in results)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"holdout": 1.0}, "holdout = 1.0"),
        ({"holdout": 0.2, "test": "y"}, "allowed is one of them"),
        ({"partition": "random"}, "'random'.*contiguous, shuffled"),
        ({"partition": "dirichlet"}, "alpha belongs"),
        ({"alpha": 0.1}, "alpha belongs"),
        ({"partition": "dirichlet", "alpha": 0.0}, "alpha = 0.0.*positive"),
        ({"partition": "dirichlet", "alpha": float("nan")}, "positive"),
        ({"partition": "dirichlet", "alpha": 1.0, "label_kind": "real"}, "splits classes"),
        ({"label_kind": "ordinal"}, "ordinal"),
        ({"features": 0}, "features = 0"),
    ],
)
def test_words_that_are_not_allowed(values, says):
    with pytest.raises(JobError, match=says):
        DataSpec("x", **values)


@pytest.mark.parametrize(
    ("values", "says"), [({"index_base": 2}, "index_base = 2"), ({"nan": "keep"}, "'keep'.*refuse, drop-row, zero")]
)
def test_ways_of_reading_that_are_not_allowed(values, says):
    with pytest.raises(JobError, match=says):
        Reading(**values)


@pytest.mark.parametrize("kind", KINDS[2:5], ids=lambda kind: kind["partition"])
def test_digits_over_any_number_of_processes(kind):
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    spec = DataSpec("builtin:digits", label_kind="classes", **kind)
    train, tests, info, test_info, _ = loaded_by(spec, 4, 1)
    other = loaded_by(spec, 4, 3)
    assert_same(train, other[0])
    assert_same(tests, other[1])
    for shard in train + (tests or []):
        assert np.array_equal(shard.features, pixels[shard.rows] / 16)
        assert np.array_equal(shard.labels, digits[shard.rows])
    assert (info.features, info.sparse, info.classes) == (64, False, 10)
    if tests:
        assert (info.rows, test_info.rows) == (1797 - 539, 539)
        assert info.nonzeros + test_info.nonzeros == np.count_nonzero(pixels)


@pytest.mark.data
def test_a9a_has_the_published_counts(datasets: Path):
    train, test, info, test_info, warnings = loaded_by(DataSpec("a9a", test="a9a.t", search=(datasets,)), 4, 2)
    assert (info.rows, info.features, info.nonzeros) == (32_561, 123, 451_592)
    assert (test_info.rows, test_info.features, test_info.nonzeros) == (16_281, 123, 225_731)
    assert sum(int((shard.labels == 1).sum()) for shard in train) == 7_841
    assert sum(int((shard.labels == 1).sum()) for shard in test) == 3_846
    assert [shard.labels.size for shard in train] == [8140, 8140, 8140, 8141]
    assert warnings == ("3 of 4 nodes lack some of the 123 features that occur: node 0 holds 121, the mean is 122",)


@pytest.mark.data
def test_mnist_has_the_published_counts(datasets: Path):
    spec = DataSpec("mnist", test="mnist.t", label_kind="classes", partition="by-label", search=(datasets,))
    train, test, info, test_info, warnings = loaded_by(spec, 10, 1)
    assert (info.rows, info.features, info.nonzeros, info.sparse) == (60_000, 784, 8_994_156, False)
    assert (test_info.rows, test_info.features) == (10_000, 784)
    counts = np.bincount(np.concatenate([shard.labels for shard in train]).astype(int))
    assert counts.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    counts = np.bincount(np.concatenate([shard.labels for shard in test]).astype(int))
    assert counts.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert train[0].features.max() == 1.0
    assert set(np.unique(train[0].features * 255)) <= set(range(256))
    assert warnings[0] == "2 of 10 nodes hold rows of one class only: 1, 7"
