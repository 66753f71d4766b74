"""What the model is told of a scaling test, and what it says: work from clean points, networks, speed-up."""

import json
import shutil
from pathlib import Path

import pytest
from support.stored_runs import JOB, store

from mpi_opt.errors import JobError
from mpi_opt.forecast.work import work_of
from mpi_opt.job import load_job, to_toml
from mpi_opt.scaletest.answer import answer
from mpi_opt.scaletest.forecasting import choose_basis, neighbours
from mpi_opt.scaletest.networks import networks_of, with_own
from mpi_opt.scaletest.study import Study, make_study, read_study
from mpi_opt.scaling.cost import PROFILES
from mpi_opt.scaling.merit import NOISY, ONCE, OVERSUBSCRIBED, Merit
from mpi_opt.scaling.stepmodel import predict_step


def merit(ranks, *marks, step=1.0):
    return Merit(ranks=ranks, runs=2, step=step, marks=marks)


def test_only_clean_points_are_fitted_and_a_marked_one_only_alone():
    assert choose_basis([merit(1), merit(2), merit(4, NOISY), merit(8, OVERSUBSCRIBED)]) == (merit(1), merit(2))
    alone = [merit(1), merit(2, ONCE), merit(4, NOISY), merit(8, OVERSUBSCRIBED), merit(16, step=None)]
    assert choose_basis(alone) == (merit(4, NOISY),)
    assert choose_basis([merit(1), merit(8, OVERSUBSCRIBED)]) == ()


def test_networks_are_names_figures_and_files(tmp_path):
    assert [network.name for network in networks_of([])] == list(PROFILES)
    assert networks_of(["none"]) == []
    named, given = networks_of(["wan", "latency=1ms, bandwidth=8Mbit"])
    assert (named.profile, named.here) == (PROFILES["wan"], False)
    assert (given.profile.latency, given.profile.bandwidth) == (1e-3, 1e6)
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(JobError, match="x.json is not what mpi-opt info --network --json writes"):
        networks_of([str(tmp_path / "x.json")])
    with pytest.raises(JobError, match="--network: network 'none, wan'"):
        networks_of(["none, wan"])


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    (folder / "job.toml").write_text(JOB.replace("NAME", "small"))
    settings = ["stop.steps=100", "algorithm.batch=full"]
    made = make_study(
        folder / "job.toml", settings, ranks=(2, 4, 8), mode="strong", repeats=2, out=folder / "runs" / "small-scale"
    )
    made.save()
    for point in made.plan.points():
        # on 4 ranks the repeats lie apart, so only 2 and 8 are clean
        slow = {2: 4.0, 4: 3.0 + point.repeat, 8: 2.0}[point.ranks]
        store(made.place(point), [0.5] * 6, nodes=point.ranks, slow=slow, settings=settings)
    return made.folder


@pytest.fixture
def study(stored, tmp_path):
    return read_study(Path(shutil.copytree(stored, tmp_path / "small-scale")))


def test_predictions_are_those_of_the_work_on_the_most_clean_ranks(study):
    report = answer(study, networks=networks_of(["wan"]))
    assert [each.marks for each in report.merits] == [(), (NOISY,), ()]
    (wan,) = report.forecasts
    assert [point.ranks for point in wan.points] == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    assert not wan.measured
    # by hand: compute is 1/20 s a step, times 4 on 2 ranks, times 2 on 8: fixed + rest / n
    two, eight = 0.2, 0.1
    rest = (two - eight) / (1 / 2 - 1 / 8)
    fixed = eight - rest / 8
    assert wan.at(8).compute == pytest.approx(eight)
    assert wan.at(2).compute == pytest.approx(two)
    assert wan.at(1024).compute == pytest.approx(fixed + rest / 1024)
    from mpi_opt.report.reading import read_course

    work = work_of(read_course(study.place(study.plan.points()[2])))
    assert wan.at(8).network == pytest.approx(predict_step(work, PROFILES["wan"], 8, degree=2.0).network)
    assert wan.at(8).speedup == pytest.approx(2 * wan.at(2).seconds / wan.at(8).seconds)
    assert wan.at(2).speedup == 2.0
    assert report.notes[-1] == (
        "the model takes a step's work from a run on 8 ranks, and fits over 2, 8 ranks what of the compute does not "
        f"divide: {fixed / eight:.0%} on 8; how many steps a target takes is not in it"
    )


def test_the_network_that_was_measured_stands_before_and_ends_with_what_was_measured(study):
    pair = {"kind": "same host", "ranks": [0, 1], "nbytes": [8, 1024, 65536], "seconds": [1e-5, 1.1e-5, 8e-5]}
    curve = {"nbytes": pair["nbytes"], "seconds": pair["seconds"]}
    values = {"format": "mpi_opt network", "version": 1, "library": "x", "ranks": 2, "pairs": [pair], "cautions": []}
    values |= {"ring": {"degree": 1, "posting": 1e-6, **curve}, "reduction": curve}
    (study.folder / "network.json").write_text(json.dumps(values))
    networks = with_own(study, networks_of(["infiniband"]))
    assert [(network.name, network.here) for network in networks] == [("network", True), ("infiniband", False)]
    assert with_own(study, []) == []
    here, far = answer(study, networks=networks).forecasts
    assert [point.ranks for point in here.points] == [2, 4, 8]
    assert far.points[-1].ranks == 1024
    assert here.measured


def test_neighbours_on_more_nodes_are_those_of_the_jobs_graph(study):
    job = study.job

    def degree_of(*settings):
        other = Study(study.folder, load_job(to_toml(job), list(settings)), study.plan)
        return neighbours(other)

    ring, words = degree_of()
    assert ([ring(n) for n in (1, 2, 3, 1024)], words) == ([0.0, 1.0, 2.0, 2.0], "")
    complete, _ = degree_of("graph.name=complete")
    assert complete(1024) == 1023.0
    cube, _ = degree_of("graph.name=hypercube")
    assert [cube(n) for n in (1024, 1000, 3)] == [10.0, 9.0, 1.0]  # the largest that fits
    kept, words = degree_of("graph.name=", "graph.edges=[[0, 1], [1, 2]]")
    assert (kept, words) == (None, "the model keeps the number of neighbours, as the graph is not known for more nodes")
    assert degree_of("algorithm={name='giant'}") == (None, "")


def test_without_a_point_on_cores_of_its_own_there_is_no_model(study):
    for point in study.plan.points():
        note = "host a: 8 ranks x 1 thread on 2 cores: the ranks take turns\n"
        (study.place(point) / "log.txt").write_text(note)
    report = answer(study, networks=networks_of([]))
    assert report.forecasts == ()
    assert report.notes[-1] == "no model: there is no point of 2 ranks or more with a core for each"
    assert all(OVERSUBSCRIBED in each.marks for each in report.merits)


def test_a_busy_machine_is_told(study):
    for point in study.plan.points():
        (study.place(point) / "point.json").write_text(json.dumps({"load_before": 0.1 + point.ranks / 4}))
    (note,) = [note for note in answer(study).notes if "at work" in note]
    assert note.startswith("the machine was at work before the test began: 2.1 processes a core")
