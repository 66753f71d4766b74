"""Clock keys beyond which simulated seconds would not be numbers are refused by name."""

import msgspec
import pytest

from mpi_opt.errors import JobError
from mpi_opt.jobkeys import Clock
from mpi_opt.scaling.fitted import read_network


@pytest.mark.parametrize(
    "keys",
    [
        {"speed_spread": 1e4},
        {"compute": 1e308},
        {"stragglers": {"share": 1.0, "factor": 1e308}},
        {"network": "latency=1e300s,bandwidth=1Gbit"},
    ],
)
def test_what_makes_times_that_are_no_numbers_is_refused(keys):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"network": "wan"} | keys, Clock)


def test_a_network_file_with_an_infinite_number_of_ranks_is_refused(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(
        '{"format": "mpi_opt network", "version": 1, "ranks": 1e999, "pairs": [], "ring": null, "reduction": null,'
        ' "cautions": [], "library": ""}'
    )
    with pytest.raises(JobError, match=r"net\.json is not what"):
        read_network(path)
