"""Operators by name: what job files may write and what they are told when it is wrong."""

import numpy as np
import pytest

from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.compression.registry import COMPRESSORS, make_compressor
from mpi_opt.compression.sign import Sign, SignTopK
from mpi_opt.compression.top_k import TopK
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import JobError


def test_names_are_those_of_the_job_file():
    assert list(COMPRESSORS) == [
        "identity",
        "top-k",
        "random-k",
        "sign",
        "sign-top-k",
        "qsgd",
        "qsgd-top-k",
        "blockwise",
    ]


def test_makes_operators():
    assert make_compressor("top-k", {"k": "0.5%", "value_bits": 64}) == TopK("0.5%", 64)
    blockwise = make_compressor("blockwise", {"sizes": [7840, 10], "inner": {"name": "sign-top-k", "k": "1%"}})
    assert blockwise == Blockwise(SignTopK("1%"), (7840, 10))
    assert hash(blockwise) == hash(Blockwise(SignTopK("1%"), (7840, 10)))


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("top_k", {"k": 1}, "'top_k'.*'top-k'"),
        ("zzz", {}, "'zzz'.*known are identity"),
        ("top-k", {"K": 1}, "compressor.K.*'k'|known are k"),
        ("top-k", {"k": 1, "value_bit": 32}, "did you mean 'value_bits'"),
        ("top-k", {}, "needs the parameter k"),
        ("qsgd", {}, "needs the parameter levels"),
        ("top-k", {"k": 0}, "k = 0: must be at least 1"),
        ("top-k", {"k": -3}, "k = -3"),
        ("top-k", {"k": 1.5}, "k = 1.5"),
        ("top-k", {"k": True}, "k = True"),
        ("random-k", {"k": None}, "k = None"),
        ("top-k", {"k": "1"}, "k = '1'"),
        ("top-k", {"k": "0%"}, "k = '0%'"),
        ("top-k", {"k": "101%"}, "100%"),
        ("top-k", {"k": "x%"}, "k = 'x%'"),
        ("top-k", {"k": "1/0%"}, "k = '1/0%'"),
        ("qsgd", {"levels": 0}, "levels = 0"),
        ("qsgd", {"levels": 65536}, "65535"),
        ("qsgd", {"levels": 4.0}, "levels = 4.0"),
        ("identity", {"value_bits": 16}, "value_bits = 16: must be 32 or 64"),
        ("identity", {"value_bits": "32"}, "value_bits = '32'"),
        ("identity", {"value_bits": [32]}, "must be 32 or 64"),
        ("identity", {"k": 3}, "compressor.k: identity has no such parameter"),
        ("blockwise", {"sizes": [3]}, "needs the parameter inner"),
        ("blockwise", {"sizes": [3], "inner": {"k": 1}}, "inner.name = None"),
        ("blockwise", {"sizes": [3], "inner": {"name": "topk", "k": 1}}, "did you mean 'top-k'"),
        ("blockwise", {"sizes": [3], "inner": "sign"}, "inner = 'sign'"),
        ("blockwise", {"sizes": [], "inner": {"name": "sign"}}, "sizes = "),
        ("blockwise", {"sizes": [3, 0], "inner": {"name": "sign"}}, "at least 1"),
        ("blockwise", {"sizes": 3, "inner": {"name": "sign"}}, "sizes = 3"),
        ("blockwise", {"sizes": "33", "inner": {"name": "sign"}}, "sizes = '33'"),
    ],
)
def test_mistakes_are_named(name, params, says):
    with pytest.raises(JobError, match=says):
        make_compressor(name, params)


@pytest.mark.parametrize(
    ("k", "dim", "count"), [("1%", 270_896, 2709), ("0.1%", 10, 1), ("100%", 7, 7), (" 12.5 % ", 8, 1), (3, 3, 3)]
)
def test_shares_are_rounded(k, dim, count):
    assert TopK(k).omega(dim) == count / dim


def test_blocks_must_fit_the_dimension():
    with pytest.raises(JobError, match="add up to 6.*7"):
        Blockwise(TopK(3), [4, 2]).codec(7, 0)
    with pytest.raises(JobError, match="k = 5.*4"):
        Blockwise(TopK(5), [4, 2])
    with pytest.raises(JobError, match="kept has 1 entries.*2"):
        Blockwise(TopK(1), [4, 2], kept=[1])
    with pytest.raises(JobError, match="kept: Sign has no k"):
        Blockwise(Sign(), [4, 2], kept=[1, 1])


def test_each_block_keeps_its_own_k_and_a_short_one_all_it_has():
    v, key = np.arange(1.0, 8.0), Key(0, 0, Purpose.COMPRESSION, 0)
    assert Blockwise(TopK(3), [4, 2, 1]).compress(v, key).dense().tolist() == [0, 2, 3, 4, 5, 6, 7]
    own = Blockwise(TopK(3), [4, 2, 1], kept=["25%", 1, 5])
    assert own.compress(v, key).dense().tolist() == [0, 0, 0, 4, 0, 6, 7]
    assert own.omega(7) == 1 / 4
