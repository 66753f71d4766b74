"""Clock keys beyond which simulated seconds would not be numbers are refused by name."""

import msgspec
import pytest

from mpi_opt.jobkeys import Clock


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
