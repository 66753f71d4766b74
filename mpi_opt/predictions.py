"""Predictions as text, one line a row in the set's order, whatever the number of processes.

With ``what`` = "probability", and "score" of several classes, a first line ``labels ...`` says what the numbers are of.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.converting_pieces import paths_of
from mpi_opt.datasets.source import resolve
from mpi_opt.errors import DataError, JobError
from mpi_opt.metrics.files import check_apart, target
from mpi_opt.model import Model
from mpi_opt.network.collectives import Collectives
from mpi_opt.predicting import Scored
from mpi_opt.predictor import decide, probabilities
from mpi_opt.types import Vector
from mpi_opt.words import number_text

What: TypeAlias = Literal["label", "probability", "score"]

_PIECE = 1 << 16
"""Numbers that are made text and sent to the writer at a time."""


def write_predictions(
    model: Model, found: Scored, what: What, out: Path | None, collectives: Collectives, *, words: bool = True
) -> None:
    """Write one line for each row of the set, in its order; called by all processes together.

    Rank 0 writes, and is sent a bounded piece of text at a time. A file takes its name when it is whole.

    Parameters
    ----------
    model : Model
    found : Scored
    what : {"label", "probability", "score"}
    out : Path or None
        A file, or standard output.
    collectives : Collectives
    words : bool
        Whether labels that stand for words are written as these; else as numbers.

    Raises
    ------
    JobError
        On every process: the file cannot be written, or the model gives no probabilities.
    """
    labels = [model.called(label) if words else number_text(label) for label in model.order]
    lines = _lines(model, found.margins, what, np.array(labels, dtype=object))
    step = max(1, _PIECE // (len(model.order) + 1))
    held = collectives.gather(found.labels.size)
    with _output(out, collectives) as sink:
        _put(sink, _header(model, what, labels), collectives)
        for process, rows in enumerate(held):
            for begin in range(0, rows, step):
                mine = lines(begin, begin + step) if process == collectives.rank else b""
                nothing = np.empty(0, dtype=np.uint8)
                pieces = [np.frombuffer(mine, dtype=np.uint8), *[nothing] * (collectives.size - 1)]
                _put(sink, collectives.all_to_all(pieces)[process].tobytes(), collectives)


def check_what(model: Model, what: What, name: str = "the model") -> None:
    """Refuse what the model, called ``name`` in errors, cannot give, before anything is read.

    Raises
    ------
    JobError
        Probabilities of a loss that has none.
    """
    if what == "probability":
        probabilities(model, np.zeros(0) if model.columns == 1 else np.zeros((model.columns, 0)), name)


def check_place(out: Path, model: Path, words: Sequence[str], search: Sequence[Path], collectives: Collectives) -> None:
    """Refuse to write predictions over the model or the data; called by all processes together, before reading.

    Raises
    ------
    JobError
        On every process: ``out`` is one of the files that are read.
    """
    error = None
    if collectives.rank == 0:
        try:
            check_apart(out, (model, *paths_of(resolve(list(words), search))))
        except (DataError, JobError) as caught:
            error = caught
    collectives.check(error)


def _header(model: Model, what: What, labels: Sequence[str]) -> bytes:
    """Return the first line of text: labels in the order of the numbers behind them, where there are several."""
    if what == "probability" or (what == "score" and model.columns > 1):
        return " ".join(["labels", *labels]).encode() + b"\n"
    return b""


def _lines(model: Model, z: Vector, what: What, labels: npt.NDArray[np.object_]) -> Callable[[int, int], bytes]:
    """Return the map from a range of rows to their lines."""

    def numbers(begin: int, end: int) -> bytes:
        return "".join([f"{value!r}\n" for value in z[begin:end].tolist()]).encode()

    def labels_only(begin: int, end: int) -> bytes:
        return "".join([f"{text}\n" for text in labels[decide(z[..., begin:end])]]).encode()

    def with_numbers(begin: int, end: int) -> bytes:
        part = z[..., begin:end]
        table = probabilities(model, part) if what == "probability" else part
        rows = zip(labels[decide(part)], table.T.tolist(), strict=True)
        return "".join([f"{text} {' '.join(map(repr, row))}\n" for text, row in rows]).encode()

    if not model.order or (what == "score" and model.columns == 1):
        return numbers
    return labels_only if what == "label" else with_numbers


def _put(sink: BinaryIO | None, text: bytes, collectives: Collectives) -> None:
    """Write on rank 0, which has the sink; what goes wrong there is everybody's."""
    error = None
    if sink is not None:
        try:
            sink.write(text)
        except OSError as failed:
            error = JobError(f"cannot write predictions: {failed.strerror}")
    collectives.check(error)


@contextmanager
def _output(out: Path | None, collectives: Collectives) -> Iterator[BinaryIO | None]:
    """Hand rank 0 what to write to, others ``None``; a file that is not finished leaves nothing behind."""
    if out is None:
        error, stream = None, sys.stdout if collectives.rank == 0 else None
        if collectives.rank == 0 and stream is None:
            error = JobError("cannot write predictions: standard output is closed; name a file with --out")
        collectives.check(error)
        yield None if stream is None else stream.buffer
        try:
            if stream is not None:
                stream.flush()
        except OSError as failed:
            error = JobError(f"cannot write predictions: {failed.strerror}")
        collectives.check(error)
        return
    fresh = place = out
    sink, error = None, None
    try:
        if collectives.rank == 0:
            try:
                place = target(out)
                fresh = place.with_name(f".{place.name}.{os.getpid()}.new")
                sink = fresh.open("wb")
            except OSError as failed:
                error = JobError(f"cannot write {out}: {failed.strerror}")
        collectives.check(error)
        yield sink
        if sink is not None:
            try:
                sink.close()
                os.replace(fresh, place)
            except OSError as failed:
                error = JobError(f"cannot write {out}: {failed.strerror}")
        collectives.check(error)
    finally:
        if sink is not None:
            sink.close()
            fresh.unlink(missing_ok=True)
