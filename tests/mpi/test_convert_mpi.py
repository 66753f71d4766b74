"""Conversion and converted files over real ranks: the same file, the same models, and errors told once."""

import os

import h5py
import numpy as np
import pytest
from support.commands import finals
from support.shardfiles import write_text

from mpi_opt.datasets.shardfile_open import open_shards

JOB = """
name = "small"
data = {{ train = "{train}", partition = "shuffled" }}
problem = {{ loss = "logistic", l2 = 0.1 }}
algorithm = {{ name = "allreduce-sgd", step_size = 0.1, batch = 3 }}
network.reductions = "ordered"
stop.steps = 7
"""


def convert(mpirun, ranks, folder, out, *options):
    return mpirun(
        ranks,
        ["mpi-opt", "data", "convert", folder / "x", "--out", folder / out, *options],
        env={"MPI_OPT_DATASETS": str(folder)},
        timeout=60,
    )


def test_the_same_file_and_the_same_models(mpirun, tmp_path):
    write_text(tmp_path / "x", rows=14_000, columns=20)
    assert (tmp_path / "x").stat().st_size > 1 << 20, "several pieces of text"
    found = []
    for ranks in (1, 3):
        done = convert(mpirun, ranks, tmp_path, f"{ranks}.h5").check()
        assert sum("14001 rows, 20 features" in log for log in done.logs.values()) == 1
        with h5py.File(tmp_path / f"{ranks}.h5") as file:
            found.append({name: file[name][()].tobytes() for name in file})
    assert found[0] == found[1]
    iterates = []
    for train in ("x", "3.h5"):
        (tmp_path / "job.toml").write_text(JOB.format(train=train))
        mpirun(3, ["mpi-opt", "run", tmp_path / "job.toml", "--out", tmp_path / f"run-{train}"], timeout=60).check()
        iterates.append(finals(tmp_path / f"run-{train}", 3))
    np.testing.assert_array_equal(*iterates)


@pytest.mark.parametrize("ranks", [2, 5])
def test_damage_that_one_rank_meets_is_told_once(mpirun, tmp_path, ranks):
    write_text(tmp_path / "x", rows=3000)
    convert(mpirun, 1, tmp_path, "x.h5").check()
    place = open_shards(tmp_path / "x.h5").places["labels"]
    data = bytearray((tmp_path / "x.h5").read_bytes())
    data[place.at + 8 * place.items - 1] ^= 1
    (tmp_path / "x.h5").write_bytes(data)
    (tmp_path / "job.toml").write_text(JOB.format(train="x.h5"))
    done = mpirun(ranks, ["mpi-opt", "run", tmp_path / "job.toml", "--out", tmp_path / "run"], timeout=60)
    assert done.code == 3
    said = done.output + "".join(done.logs.values())
    assert said.count("x.h5: damaged: labels have changed") == 1


def test_a_fault_in_the_text_ends_all_ranks(mpirun, tmp_path):
    write_text(tmp_path / "x", rows=14_000, columns=20)
    with (tmp_path / "x").open("a") as file:
        file.write("1 3:x\n")
    done = convert(mpirun, 3, tmp_path, "x.h5")
    assert done.code == 3
    said = done.output + "".join(done.logs.values())
    assert said.count("x:14002:") == 1
    assert os.listdir(tmp_path) == ["x"]


def test_a_target_that_cannot_be_written_ends_all_ranks(mpirun, tmp_path):
    write_text(tmp_path / "x", rows=50)
    done = convert(mpirun, 2, tmp_path, "no/x.h5")
    assert done.code == 2
    assert (done.output + "".join(done.logs.values())).count("its folder does not exist") == 1
