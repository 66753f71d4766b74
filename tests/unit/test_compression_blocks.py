"""``block`` in a job: blocks of one length, the last one shorter, and what is refused under the job's own key."""

import re

import numpy as np
import pytest
from support.jobs import write_job

from mpi_opt.build import build
from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.compression.random_k import RandomK
from mpi_opt.compression.sign import SignTopK
from mpi_opt.compression.top_k import TopK
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import JobError
from mpi_opt.job import load_job
from mpi_opt.network.collectives import Solo

DIM = 6


def operator(tmp_path, compressor):
    job = load_job(write_job(tmp_path), [f"algorithm.compressor={compressor}", "algorithm.consensus_rate=0.1"])
    return build(job, Solo(), 3, range(3)).compressor


@pytest.mark.parametrize(
    ("compressor", "expected"),
    [
        ("{name='top-k',k=2,block=5}", Blockwise(TopK(2), (5, 1))),
        ("{name='top-k',k=2,block=4}", Blockwise(TopK(2), (4, 2))),
        ("{name='sign-top-k',k=3,block=2}", None),
        ("{name='random-k',k='50%',block=5}", Blockwise(RandomK("50%"), (5, 1))),
        ("{name='sign-top-k',k=2,block=3}", Blockwise(SignTopK(2), (3, 3))),
        ("{name='top-k',k=2,block=6}", TopK(2)),
        ("{name='top-k',k=2,block=7}", TopK(2)),
        ("{name='top-k',k=7,block=9}", TopK(6)),
    ],
)
def test_a_short_last_block_sends_all_it_has(tmp_path, compressor, expected):
    if expected is None:
        with pytest.raises(JobError, match=r"algorithm\.compressor\.k = 3: .*the length of a block, 2$"):
            operator(tmp_path, compressor)
        return
    made = operator(tmp_path, compressor)
    assert made == expected
    v, key = np.arange(1.0, 1.0 + DIM), Key(3, 0, Purpose.COMPRESSION, 4)
    message, codec = made.compress(v, key), made.codec(DIM, 3)
    out = np.empty(codec.max_bytes, dtype=np.uint8)
    size = sum(codec.encode(message, out))
    assert np.array_equal(codec.decode(out[:size], 0, 4).dense(), message.dense())
    if compressor == "{name='top-k',k=2,block=5}":
        assert message.dense().tolist() == [0, 0, 0, 4, 5, 6]
        assert made.omega(DIM) == 0.4


@pytest.mark.parametrize(
    ("compressor", "says"),
    [
        ("{name='top-k',k=7}", "algorithm.compressor.k = 7: must be between 1 and the dimension, 6"),
        ("{name='top-k',k=8,block=7}", "algorithm.compressor.k = 8: must be between 1 and the length of a block, 7"),
        (
            "{name='blockwise',sizes=[3,4],inner='sign'}",
            "algorithm.compressor.sizes add up to 7, must add up to the dimension, 6",
        ),
        (
            "{name='blockwise',sizes=[4,2],inner={name='top-k',k=5}}",
            "algorithm.compressor.k = 5: must be between 1 and the length of the longest block, 4",
        ),
    ],
)
def test_what_does_not_fit_is_refused_under_the_jobs_key(tmp_path, compressor, says):
    with pytest.raises(JobError, match=f"^{re.escape(says)}$"):
        operator(tmp_path, compressor)
