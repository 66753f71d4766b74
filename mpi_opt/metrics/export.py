"""A table of metrics written as CSV, JSON or Parquet, with the runs' attributes beside or within."""

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from mpi_opt.errors import JobError
from mpi_opt.metrics import schema
from mpi_opt.metrics.files import target
from mpi_opt.metrics.tables import FORMAT, Part, Table


def about(table: Table) -> dict[str, Any]:
    """Return what goes with a table: format, columns with type, unit and meaning, and the runs' attributes."""
    return {
        "format": FORMAT,
        "schema_version": schema.VERSION,
        "table": table.kind,
        "columns": [column._asdict() for column in table.columns],
        "runs": [{name: _json_value(value) for name, value in run.items()} for run in table.runs],
    }


def write_table(table: Table, form: str, out: Path) -> int:
    """Write a table into a file, which takes its name when it is whole, and return the number of rows.

    ``FILE.about.json`` beside a CSV file holds what `about` returns; the other forms hold it themselves.

    Raises
    ------
    JobError
        The file cannot be written, or pyarrow, which writes Parquet, is not installed.
    DataError
        As `Table.parts`.
    """
    write = FORMS[form]
    with _replaced(out) as fresh:
        rows = write(table, fresh)
        if form == "csv":
            with _replaced(out.with_name(f"{out.name}.about.json")) as beside:
                beside.write_text(json.dumps(about(table), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return rows


def stream_csv(table: Table, stream: TextIO) -> int:
    """Write a table as CSV (RFC 4180, lines ending as on Unix): a line of names, NaN as nothing, all digits."""
    rows = csv.writer(stream, lineterminator="\n")
    names = [column.name for column in table.columns]
    rows.writerow(names)
    count = 0
    for part in table.parts():
        columns = [_plain(part, name, lambda value: "" if value != value else value) for name in names]
        rows.writerows(zip(*columns, strict=True))
        count += len(columns[0])
    return count


def stream_json(table: Table, stream: TextIO) -> int:
    """Write a table as one JSON object: what `about` returns, and ``rows``, an object each; not finite is null."""
    stream.write(json.dumps(about(table), allow_nan=False)[:-1] + ', "rows": [')
    names = [column.name for column in table.columns]
    count = 0
    for part in table.parts():
        for values in zip(*(_plain(part, name, _json_value) for name in names), strict=True):
            stream.write((",\n" if count else "\n") + json.dumps(dict(zip(names, values, strict=True))))
            count += 1
    stream.write("\n]}\n")
    return count


def _csv(table: Table, path: Path) -> int:
    with path.open("w", encoding="utf-8", newline="") as stream:
        return stream_csv(table, stream)


def _json(table: Table, path: Path) -> int:
    with path.open("w", encoding="utf-8") as stream:
        return stream_json(table, stream)


def _parquet(table: Table, path: Path) -> int:
    """Write Parquet: one row group a node, `about` under the key ``mpi_opt``, unit and meaning with each column."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise JobError(
            "--format parquet: needs pyarrow, which is not installed: pip install 'mpi_opt[export]'; "
            "csv and json need nothing"
        ) from None
    types = {"text": pyarrow.string(), "i8": pyarrow.int64(), "f8": pyarrow.float64(), "u1": pyarrow.uint8()}
    fields = [
        pyarrow.field(c.name, types[c.type], metadata={"unit": c.unit, "description": c.description})
        for c in table.columns
    ]
    form = pyarrow.schema(fields, metadata={"mpi_opt": json.dumps(about(table), allow_nan=False)})
    count = 0
    with path.open("wb") as stream, parquet.ParquetWriter(stream, form) as writer:
        for part in table.parts():
            arrays = [pyarrow.array(part[field.name], type=field.type) for field in form]
            count += len(arrays[0])
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=form))
    return count


FORMS: Mapping[str, Callable[[Table, Path], int]] = {"csv": _csv, "json": _json, "parquet": _parquet}
"""What writes each form."""

STREAMS: Mapping[str, Callable[[Table, TextIO], int]] = {"csv": stream_csv, "json": stream_json}
"""The forms that are text."""


def _plain(part: Part, name: str, change: Callable[[Any], Any]) -> list[Any]:
    """Return a column as Python values; only floats are looked at one by one."""
    values = part[name]
    if isinstance(values, list):
        return values
    plain: list[Any] = values.tolist()
    return [change(value) for value in plain] if values.dtype.kind == "f" else plain


def _json_value(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Hand out a name to write to, and rename it to ``path`` behind that."""
    try:
        place = target(path)
        fresh = place.with_name(f".{place.name}.{os.getpid()}.new")
        try:
            yield fresh
            os.replace(fresh, place)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise JobError(f"--out: cannot write {path}: {error.strerror or error}") from error
