"""From the job's word for a data set to what is read: text, tables, arrays, an IDX pair, records, or a built-in set."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mpi_opt.datasets.builtin import BUILTIN
from mpi_opt.datasets.compressed import detect, starts_as_array
from mpi_opt.datasets.idx import is_idx
from mpi_opt.datasets.records import RecordFiles, is_records
from mpi_opt.datasets.shardfile import is_hdf5
from mpi_opt.datasets.synthetic_mark import named
from mpi_opt.errors import DataError

_SUFFIXES = ("", ".bz2", ".gz", ".xz")
_PREFIX = "builtin:"
_TABLE = re.compile(r".+\.(csv|tsv)(\.gz|\.bz2|\.xz)?", re.IGNORECASE)
_ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, slots=True)
class TextFiles:
    """LIBSVM text in one or more files, rows counted through them in order; ``sizes`` in bytes as stored."""

    name: str
    paths: tuple[Path, ...]
    sizes: tuple[int, ...]
    compressed: bool


@dataclass(frozen=True, slots=True)
class TableFiles:
    """CSV text in one or more files with the same columns; ``sizes`` in bytes as stored."""

    name: str
    paths: tuple[Path, ...]
    sizes: tuple[int, ...]
    compressed: bool

    @property
    def ranges(self) -> bool:
        """Whether each process can read its own rows alone."""
        return not self.compressed


@dataclass(frozen=True, slots=True)
class ArrayFiles:
    """A ``.npy`` or ``.npz`` file, and ``.npy`` files of its rows' labels and weights where there are any.

    ``ranges``: whether each process can read its own rows alone, those of ``.npy``; ``.npz`` is a zip archive.
    """

    name: str
    features: Path
    labels: Path | None
    weights: Path | None
    ranges: bool


@dataclass(frozen=True, slots=True)
class ShardFiles:
    """Files that ``mpi-opt data convert`` wrote, rows counted through them in order."""

    name: str
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class IdxPair:
    """An IDX file of images and one of labels."""

    name: str
    images: Path
    labels: Path


@dataclass(frozen=True, slots=True)
class BuiltinSet:
    """A set that scikit-learn brings along; ``key`` without ``builtin:``."""

    name: str
    key: str


Source: TypeAlias = TextFiles | TableFiles | ArrayFiles | ShardFiles | IdxPair | RecordFiles | BuiltinSet


def search_paths(job_dir: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that relative words are looked for in, first to last.

    The job file's folder (or the current one), ``$MPI_OPT_DATASETS`` (several parted by ``:``), ``data/raw`` and
    ``../shared/datasets`` below the current folder. The only place of this room that reads the environment.
    """
    named = os.environ.get("MPI_OPT_DATASETS", "")
    folders = [
        Path.cwd() if job_dir is None else Path(job_dir),
        *(_path(part) for part in named.split(os.pathsep) if part),
        Path("data/raw"),
        Path("../shared/datasets"),
    ]
    return tuple(dict.fromkeys(folder.absolute() for folder in folders))


def resolve(words: str | Sequence[str], search: Sequence[Path]) -> Source:
    """Find what the job's ``train`` or ``test`` names.

    Parameters
    ----------
    words : str or sequence of str
        A file, glob (matches in the order of their names; a file that is called so comes first), bare name (``a9a``
        also finds ``a9a.bz2``, ``a9a/a9a.xz``; ``a9a.t`` also ``a9a/a9a.t.gz``; ``mnist`` and ``mnist.t`` the IDX
        pairs in ``mnist/``), ``builtin:NAME``, or a list of files and globs. Files called ``.csv`` or ``.tsv``
        (``.gz``, ``.bz2``, ``.xz``) are tables. One ``.npy`` or ``.npz`` file may be followed by a ``.npy`` file of
        labels and one of weights. Files called
        ``.bin`` (likewise) are CIFAR-10's records. HDF5 files are what ``mpi-opt data convert`` writes.
    search : sequence of Path
        Folders for relative words, as ``search_paths`` returns them.

    Raises
    ------
    DataError
        Nothing is there: names the word and every place looked at. Or a place cannot be looked at.
    """
    listed = [words] if isinstance(words, str) else list(words)
    if not listed or not all(listed):
        raise DataError(f"data set {words!r} names nothing; allowed is a file, glob, list of files or builtin:NAME")
    name = listed[0] if len(listed) == 1 else f"{listed[0]} and {len(listed) - 1} more"
    if len(listed) == 1 and name.startswith(_PREFIX):
        key = name.removeprefix(_PREFIX)
        if key not in BUILTIN:
            known = ", ".join(_PREFIX + known for known in BUILTIN)
            raise DataError(f"data set {name!r} is not built in; allowed are {known}")
        return BuiltinSet(name, key)
    paths = [path for word in listed for path in _find(word, search)]
    shards = [is_hdf5(path) for path in paths]
    if any(shards):
        if not all(shards):
            raise DataError(f"data set {name!r}: {paths[shards.index(False)]} is no HDF5 file like the others")
        return ShardFiles(name, tuple(paths))
    if any(map(_is_array, paths)):
        return _arrays(name, paths)
    if any(is_idx(path) for path in paths):
        if len(paths) > 1:
            raise DataError(f"data set {name!r}: IDX files cannot be joined in a list; name one file of images")
        return IdxPair(name, paths[0], _labels_of(paths[0]))
    records = [is_records(path) for path in paths]
    if any(records):
        if not all(records):
            raise DataError(f"data set {name!r}: {paths[records.index(False)]} holds no CIFAR records like the others")
        return RecordFiles(name, tuple(paths))
    compressed = [detect(path) is not None for path in paths]
    tables = [_TABLE.fullmatch(path.name) is not None for path in paths]
    if any(tables) and not all(tables):
        raise DataError(f"data set {name!r}: {paths[tables.index(False)]} is no .csv or .tsv file like the others")
    kind = TableFiles if any(tables) else TextFiles
    return kind(named(name, paths[0]), tuple(paths), tuple(path.stat().st_size for path in paths), any(compressed))


def _is_array(path: Path) -> bool:
    return path.suffix.lower() in _ARRAYS or starts_as_array(path)


def _arrays(name: str, paths: list[Path]) -> ArrayFiles:
    strange = [path for path in paths[1:] if path.suffix.lower() != ".npy"]
    if len(paths) > 3 or strange or not _is_array(paths[0]):
        raise DataError(
            f"data set {name!r}: {', '.join(map(str, paths))}; allowed is one .npy or .npz file of features, "
            "then perhaps a .npy file of labels, then perhaps a .npy file of weights"
        )
    labels, weights = (*paths[1:], None, None)[:2]
    return ArrayFiles(name, paths[0], labels, weights, starts_as_array(paths[0]))


def _path(word: str) -> Path:
    """Return the path that a word means, ``~`` and ``~NAME`` being home folders."""
    try:
        return Path(word).expanduser()
    except RuntimeError as error:
        raise DataError(f"{word!r}: whose home folder is {Path(word).parts[0]}? Allowed are users there are") from error


def _find(word: str, search: Sequence[Path]) -> list[Path]:
    """Return the files of one word: of the first folder that has any."""
    looked: list[str] = []
    path = _path(word)
    folders = [Path("/")] if path.is_absolute() else search
    for folder in folders:
        try:
            places, found = _look(word, folder / path)
        except OSError as error:
            raise DataError(f"data set {word!r}: cannot look at {error.filename}: {error.strerror}") from error
        looked += map(str, places)
        if found:
            return found
    raise DataError(
        f"data set {word!r} was not found. Looked for:\n  "
        + "\n  ".join(looked)
        + "\nName an existing file, or set MPI_OPT_DATASETS to the folder that holds it."
    )


def _look(word: str, full: Path) -> tuple[list[Path], list[Path]]:
    """Return the places that ``word`` means below one folder, and the files there."""
    if any(mark in word for mark in "*?[") and not full.is_file():
        relative = full.relative_to(full.anchor)
        return [full], sorted(match for match in Path(full.anchor).glob(str(relative)) if match.is_file())
    candidates = _candidates(full)
    return candidates, [candidate for candidate in candidates if candidate.is_file()][:1]


def _candidates(full: Path) -> list[Path]:
    """Return where the word that gave ``full`` may be, best first."""
    if not full.name:
        return [full]
    places = [full.with_name(full.name + suffix) for suffix in _SUFFIXES]
    # a9a.t lives in the folder a9a, covtype.libsvm.scale in covtype.libsvm or covtype
    stem, folders = full.name, []
    while stem:
        folders.append(full.with_name(stem))
        stem = stem.rpartition(".")[0]
    for folder in folders:
        if folder.is_dir():
            places += [folder / (full.name + suffix) for suffix in _SUFFIXES]
            images = "t10k-images" if full.name.endswith(".t") else "train-images"
            places += [folder / f"{images}{mark}idx3-ubyte{suffix}" for mark in "-." for suffix in _SUFFIXES]
    return places


def _labels_of(images: Path) -> Path:
    """Return the label file that belongs to a file of IDX images, by the usual naming."""
    if "-images" not in images.name:
        raise DataError(
            f"{images}: an IDX file of images is called NAME-images-idx3-ubyte, its labels NAME-labels-idx1-ubyte"
        )
    plain = images.name.replace("-images", "-labels").replace("idx3", "idx1")
    for suffix in _SUFFIXES[1:]:
        plain = plain.removesuffix(suffix)
    candidates = [images.with_name(plain + suffix) for suffix in _SUFFIXES]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise DataError(f"{images}: its labels are missing; looked for " + ", ".join(str(path) for path in candidates))
