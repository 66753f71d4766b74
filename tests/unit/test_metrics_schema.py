"""The schema is one list: no name twice, every counter of the network in it."""

import re
from dataclasses import fields
from pathlib import Path

from mpi_opt.metrics import schema
from mpi_opt.metrics.attributes import run_attributes
from mpi_opt.network.base import Traffic


def test_names_are_unique_and_every_column_is_explained():
    for columns in (schema.SERIES, schema.SYNCS):
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


def test_the_page_about_the_results_folder_lists_every_series_with_its_unit():
    page = (Path(__file__).parents[2] / "docs" / "results-folder.md").read_text(encoding="utf-8")
    kinds = {"i8": "int64", "f8": "float64", "u1": "uint8"}
    found = set(re.findall(r"^\| `(\w+)` \| (int64|float64|uint8) \| (\S+) \|", page, re.MULTILINE))
    assert found == {(c.name, kinds[c.kind], c.unit) for c in (*schema.SERIES, *schema.SYNCS)}
    assert all(f"| `{name}` |" in page for name in schema.ATTRIBUTES)
