"""The tables of ``docs/metrics-schema.md``, made of the schema. ``python -m support.schemapage`` writes them anew."""

import re
from pathlib import Path

from mpi_opt.metrics import schema

PAGE = Path(__file__).parents[2] / "docs" / "metrics-schema.md"
_TYPES = {"i8": "int64", "f8": "float64", "u1": "uint8"}


def tables():
    """Return the tables by the names of their marks in the page."""
    found = {}
    for group, columns in schema.GROUPS:
        rows = ["| name | type | unit | total | meaning |", "|---|---|---|---|---|"]
        for column in columns:
            total = "yes" if group == "series" and column.name in schema.TOTALS else ""
            meaning = column.description.replace("|", "\\|")
            rows.append(f"| `{column.name}` | {_TYPES[column.kind]} | {column.unit} | {total} | {meaning} |")
        found[group] = rows
    rows = [
        f"| `{name}` | {meaning} |".replace(" |lambda| ", r" \|lambda\| ")
        for name, meaning in schema.ATTRIBUTES.items()
    ]
    found["attributes"] = ["| name | meaning |", "|---|---|", *rows]
    found["version"] = [f"The version of the schema is **{schema.VERSION}**."]
    return {name: "\n".join(rows) for name, rows in found.items()}


def with_tables(text):
    """Return the page with its tables made anew."""
    for name, table in tables().items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        assert mark.search(text), f"no place for {name} in {PAGE.name}"
        text = mark.sub(lambda found, table=table: found[1] + table + found[2], text)
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
