"""A dry run's figures against counts by hand, and against what a run of the same job really sends."""

import re

import numpy as np
import pytest
from support.jobs import JOB, write_job

from mpi_opt.build import build
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import load_job
from mpi_opt.network.collectives import Solo
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.planning import plan_job
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules

DIGITS = """
name = "digits"
[data]
train = "builtin:digits"
holdout = 0.2
intercept = true
[problem]
loss = "softmax"
[algorithm]
name = "d-psgd"
batch = 10
step_size = 0.5
sync_every = 4
[stop]
steps = 3
"""


def lines(text):
    """Return the lines by their first word."""
    return {line[:12].strip(): line[13:] for line in text.splitlines()[1:]}


def test_sparse_rows_and_a_compressed_message(tmp_path):
    """40 rows of 6 entries on 4 nodes: d = 6, 10 rows a node."""
    text = plan_job(load_job(write_job(tmp_path)), nodes=4)
    assert text.splitlines()[0] == "small: sparq-sgd on 4 nodes"
    said = lines(text)
    assert said["data"] == "train.txt: 40 rows x 6 features, 240 stored entries, CSR"
    assert said["rows a node"] == "10"
    assert said["labels"] == "-1 -> -1, 1 -> 1"
    assert said["dimension"] == "d = 6"
    # float64 and int32 an entry, int32 a row and one, float64 label and int64 number a row
    data = 60 * (8 + 4) + 11 * 4 + 10 * (8 + 8)
    # x, xhat, mix and two work arrays
    vectors = 5 * 6 * 8
    assert said["memory"].startswith(f"a node: data {data} B to {data} B, vectors {vectors} B, message buffers ")
    assert said["graph"] == "ring, weights metropolis: 4 edges, neighbours 2, spectral gap 0.6667"
    # 2 of 6 entries: a byte of header, a bitmap and two signs in a byte, a scale
    one = int(re.search(r"about (\d+) B", said["traffic"])[1])
    assert said["traffic"] == (
        f"every 3 steps at most one message a neighbour, about {one} B (floor 5, dense fp32 24), "
        f"{2 * one} B a node and round"
    )
    assert 6 <= one <= 7
    buffers = int(re.search(r"message buffers (\d+) B", said["memory"])[1])
    assert buffers % (2 * 3) == 0, "two parities, two neighbours' and one's own"
    assert buffers // 6 >= one


def test_dense_rows_and_a_whole_vector():
    """1,438 rows of 64 pixels on 3 nodes; 10 classes of 65 weights."""
    said = lines(plan_job(load_job(DIGITS), nodes=3))
    assert said["data"].startswith("builtin:digits: 1438 rows x 64 features, ")
    assert said["data"].endswith(", dense")
    assert said["test"] == "builtin:digits: 359 rows"
    assert said["rows a node"] == "479 to 480"
    assert said["dimension"] == "d = 650"
    # 480 rows of 64 float64, a label and a number: 253,440 B; 5 vectors of 5,200 B; 6 buffers of 2,601 B
    assert said["memory"] == "a node: data 253 kB to 253 kB, vectors 26 kB, message buffers 15.6 kB"
    assert said["traffic"] == (
        "every 4 steps at most one message a neighbour, about 2601 B (floor 2600, dense fp32 2600), "
        "5.2 kB a node and round"
    )


def test_unequal_degrees_count_the_busiest_node(tmp_path):
    said = lines(plan_job(load_job(write_job(tmp_path), ['graph.name="star"']), nodes=5))
    one = int(re.search(r"about (\d+) B", said["traffic"])[1])
    assert said["traffic"].endswith(f"{4 * one} B a node and round")
    assert "neighbours 1 to 4" in said["graph"]
    assert said["rows a node"] == "8"


def test_by_label_shards_hold_fewer_labels(tmp_path):
    text = plan_job(load_job(write_job(tmp_path), ['data.partition="by-label"']), nodes=4)
    assert "             distinct labels a node: 1 to 2 of 2" in text.splitlines()


def test_momentum_and_check_take_room(tmp_path):
    plain = lines(plan_job(load_job(write_job(tmp_path)), nodes=4))["memory"]
    more = lines(plan_job(load_job(write_job(tmp_path), ["algorithm.momentum=0.5"]), nodes=4))["memory"]
    assert "vectors 240 B" in plain
    assert "vectors 288 B" in more


def reducing(tmp_path):
    path = write_job(tmp_path)
    gone = ("threshold", "compressor", "consensus_rate")
    kept = [line for line in JOB.splitlines() if not line.startswith(gone)]
    path.write_text("\n".join(kept).replace("sparq-sgd", "local-sgd"))
    return path


def test_a_reduction_moves_what_is_said(tmp_path):
    """Up travel the model and its weight; down the mean alone."""
    job = load_job(reducing(tmp_path))
    said = lines(plan_job(job, nodes=4))
    assert said["traffic"] == "every 3 steps: 56 B from each worker, as much back to each (the model and its weight)"
    assert "graph" not in said
    assert said["memory"].endswith("message buffers 0 B")
    built = build(job, Solo(), 4, range(4))
    network = Lockstep(built.neighbours(), built.codec)
    plan = Plan(
        network=network, algorithm=built.algorithm, nodes=built.nodes, problems=built.problems,
        x0=np.zeros(6),
        rules=StopRules(steps=3), average_output=False,
    )  # fmt: skip
    run(plan)
    assert [traffic.payload_bytes for traffic in network.traffic] == [3 * 48, 48 + 8, 48 + 8, 48 + 8]


def test_what_a_run_would_refuse_is_refused(tmp_path):
    job = write_job(tmp_path)
    with pytest.raises(JobError, match="power of two"):
        plan_job(load_job(job, ['graph.name="hypercube"']), nodes=3)
    with pytest.raises(JobError, match="compressor"):
        plan_job(load_job(job, ["algorithm.compressor.k=7"]), nodes=3)
    with pytest.raises(DataError, match=r"absent\.txt"):
        plan_job(load_job(job, ['data.train="absent.txt"']), nodes=3)


def test_nothing_is_written_and_the_rate_found_is_told(tmp_path):
    job = write_job(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    text = plan_job(load_job(job, ['algorithm.consensus_rate="auto"']), nodes=4)
    assert re.search(r"^note +.*consensus.?rate", text, re.MULTILINE)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
