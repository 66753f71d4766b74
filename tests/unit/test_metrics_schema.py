"""The schema is one list: no name twice, every counter of the network in it."""

import re
from dataclasses import fields

import pytest
from support.rankfiles import write_rank
from support.schemapage import PAGE, with_tables

from mpi_opt.metrics import schema
from mpi_opt.metrics.attributes import run_attributes
from mpi_opt.metrics.read import join
from mpi_opt.network.base import Traffic


def test_names_are_unique_and_every_column_is_explained():
    for _, columns in schema.GROUPS:
        names = [column.name for column in columns]
        assert len(set(names)) == len(names)
        assert all(column.unit and column.description for column in columns)


def test_every_count_of_the_network_is_a_series():
    traffic = Traffic(rounds=3, messages=4, payload_bytes=5, wait_seconds=0.5)
    values = schema.traffic_values(traffic)
    kinds = {column.name: column.kind for column in schema.SERIES}
    assert values.keys() <= kinds.keys()
    assert len(values) == len(fields(Traffic))
    assert (values["round"], values["messages"], values["payload_bytes"], values["wait_seconds"]) == (3, 4, 5, 0.5)
    assert all(isinstance(value, int) == (kinds[name] == "i8") for name, value in values.items())


def test_run_attributes_are_those_of_the_schema():
    made = run_attributes(
        job="a = 1",
        name="x",
        seed=1,
        node=2,
        nodes=3,
        mpi_library="MPICH",
        threads=1,
        command=["mpi-opt", "run", "my job.toml"],
        started="2026-01-01T00:00:00+00:00",
    )
    assert made.keys() == schema.ATTRIBUTES.keys()
    assert made["command"] == "mpi-opt run 'my job.toml'"
    assert made["version_hdf5"].count(".") >= 2


def test_the_page_of_the_schema_has_the_schemas_own_tables():
    text = PAGE.read_text(encoding="utf-8")
    assert text == with_tables(text), "made anew by: PYTHONPATH=.:tests python -m support.schemapage"
    assert all(f"| `{column.name}` |" in text for _, columns in schema.GROUPS for column in columns)


def test_totals_are_series():
    assert {column.name for column in dict(schema.GROUPS)["series"]} >= schema.TOTALS
    assert {column.name for column in schema.SERIES if column.name.endswith(("_bytes", "seconds"))} <= schema.TOTALS


def test_the_pages_examples_for_xarray_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    for name in ("NAME", "A", "B"):
        for node in range(2):
            write_rank(tmp_path / "runs" / name, node, 2, 3 + (name == "B"))
        join(tmp_path / "runs" / name)
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, PAGE.name, "exec"), {})
    printed = capsys.readouterr().out
    assert "host0" in printed
    assert printed.splitlines()[-1] == "('run', 'node', 'evaluation')"
