"""What a step asks for: out of a stored run by hand, and timed on an echo; counts exactly, times only in kind."""

import json
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from mpi_opt.build import build
from mpi_opt.errors import JobError
from mpi_opt.forecast.calibrate import work_of_job
from mpi_opt.forecast.step import Step, lines
from mpi_opt.forecast.traffic import traffic
from mpi_opt.forecast.work import with_fixed, work_of
from mpi_opt.job import load_job
from mpi_opt.network.collectives import Solo
from mpi_opt.network.echo import Echo
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.planning import plan_job
from mpi_opt.report.course import COUNTS, FIGURES, SHARED, Course
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.scaling.cost import PROFILES
from mpi_opt.scaling.stepmodel import Reduced, StepCost, Work

DATA = '[data]\ntrain = "builtin:digits"\nrows = 400\n[problem]\nloss = "softmax"\n'
SPARQ = """[algorithm]
name = "sparq-sgd"
batch = 10
step_size = 0.1
sync_every = 3
threshold = 0.0
compressor = "identity"
consensus_rate = 0.3
[stop]
steps = 60
"""


def job(algorithm):
    return load_job(f'name = "small"\n{DATA}{algorithm}')


def built(algorithm, nodes=4):
    return build(job(algorithm), Solo(), nodes, range(nodes))


def simple(name, more=""):
    return f'[algorithm]\nname = "{name}"\n{more}[stop]\nsteps = 6\n'


def test_a_gossip_job_on_an_echo():
    made = built(SPARQ)
    before = [astuple(phases) for phases in made.phases]
    work = work_of_job(made, seconds=0.05)
    sent = traffic(made).exchanged
    assert sent is not None
    assert (work.nodes, work.degree, work.firing) == (4, 2, 1)
    assert work.message == sent.message  # of identity all messages are alike
    assert work.syncs == pytest.approx(1 / 3)
    assert work.reductions == ()
    assert work.fixed == work.compute  # mini-batches do not shrink
    assert min(work.compute, work.compress, work.pack, work.unpack) > 0
    assert not work.posted
    assert [astuple(phases) for phases in made.phases] == before


def test_a_silent_job():
    # firing is seen on the echo, or given
    quiet = SPARQ.replace("threshold = 0.0", "threshold = 1e9")
    work = work_of_job(built(quiet), seconds=0.02)
    assert (work.firing, work.message, work.unpack) == (0, 0, 0)
    assert work_of_job(built(SPARQ), seconds=0.02, firing=0.25).firing == 0.25


def test_one_node_has_something_to_say():
    # nobody hears it, but among others it will be heard
    alone, among = work_of_job(built(SPARQ, nodes=1), seconds=0.02), work_of_job(built(SPARQ), seconds=0.02)
    assert (alone.degree, alone.firing, alone.message) == (0, 1, among.message)


def test_overlap_is_seen():
    assert work_of_job(built(SPARQ.replace("threshold", "overlap = true\nthreshold")), seconds=0.02).overlap


@pytest.mark.parametrize(
    ("algorithm", "per_step"),
    [
        (simple("allreduce-sgd", "batch = 10\nstep_size = 0.1\n"), 1.0),
        (simple("local-sgd", "batch = 10\nstep_size = 0.1\nsync_every = 3\n"), 1 / 3),
        (simple("local-newton", 'local_steps = 2\nfinish = "none"\n'), 1.0),
    ],
)
def test_reductions_against_the_plan(algorithm, per_step):
    made = built(algorithm)
    work = work_of_job(made, seconds=0.02)
    (planned,) = traffic(made).reductions
    # the first round of LocalNewton carries the supports as well
    most = work.reductions[0]
    assert most.nbytes == planned.up
    assert sum(each.per_step for each in work.reductions) == pytest.approx(per_step)
    assert (work.degree, work.syncs, work.message) == (0, 0, 0)


@pytest.mark.parametrize("name", ["giant", "newton", "newton-cg", "lbfgs", "admm"])
def test_the_sizes_of_second_order_methods(name):
    made = built(simple(name))
    found = {each.nbytes for each in work_of_job(made, seconds=0.02, split=False).reductions}
    planned = traffic(made).reductions
    known = {each.up for each in planned} | {each.up + each.first for each in planned}
    assert {each.up for each in planned if each.per_step} <= found | {each.up for each in planned if each.short}
    assert {nbytes for nbytes in found if nbytes > 1000} <= known  # shorter ones are line searches


def test_a_dedicated_master_is_not_timed():
    # it holds no rows, and would take a thousandth of a worker's time
    work, working = (
        work_of_job(built(simple("giant", f'master = "{master}"\n')), seconds=0.02, split=False)
        for master in ("dedicated", "working")
    )
    assert (work.nodes, work.masters, work.workers) == (4, 1, 3)
    assert work.compute > 0.1 * working.compute


def test_the_compute_that_stays():
    # whole passes over dense rows: most of it goes with the rows
    made = built(simple("allreduce-sgd", 'batch = "full"\nstep_size = 0.1\n'), nodes=1)
    work = work_of_job(made, seconds=0.05)
    assert 0 <= work.fixed <= work.compute
    assert work.compute > 0


@pytest.mark.parametrize(
    ("algorithm", "exact"),
    [
        (SPARQ.replace("batch = 10", 'batch = "full"').replace('"identity"', '{ name = "sign-top-k", k = 40 }'), True),
        (SPARQ.replace("batch = 10", 'batch = "full"').replace("threshold", "overlap = true\nthreshold"), True),
        (simple("allreduce-sgd", 'batch = "full"\nstep_size = 0.1\n'), False),
        (simple("giant"), False),
    ],
)
def test_an_echo_is_like_nodes_that_are_alike(algorithm, exact):
    # three nodes with one shard say the same, which is what each hears of an echo
    made = built(algorithm, nodes=3)
    steps = 24 if made.codec is not None else 4

    def course(network, nodes):
        return run(
            Plan(
                network=network,
                algorithm=made.algorithm,
                nodes=made.nodes[:nodes],
                problems=[made.timed[0]] * nodes,
                x0=np.zeros(made.problems[0].dim),
                rules=StopRules(steps=steps),
                evaluate_every=10**9,
                average_output=False,
            )
        )

    first = course(Lockstep(made.neighbours(), made.codec), 3).models[0]
    echo = Echo(made.codec, made.neighbours()[0], 0, 3, made.phases[0])
    (alone,) = course(echo, 1).models
    assert len(echo.marks) == steps + 1
    assert np.abs(alone).max() > 0
    if exact:
        np.testing.assert_array_equal(alone, first)
    else:  # three times a sum over three times the rows: GIANT's inner solver magnifies the rounding
        np.testing.assert_allclose(alone, first, atol=1e-4 * np.abs(first).max())


def course(own, shared, algorithm=SPARQ, nodes=2, lockstep=False):
    rows = len(shared["step"])
    return Course(
        path=Path("runs/x"),
        label="x",
        attributes={"mpi_library": "lockstep" if lockstep else "MPICH"},
        state="done",
        nodes=nodes,
        shared={name: np.zeros(rows) for name in SHARED} | {k: np.array(v) for k, v in shared.items()},
        own={name: np.zeros((nodes, rows)) for name in (*FIGURES, *COUNTS)} | {k: np.array(v) for k, v in own.items()},
        sync_steps=np.zeros(0, dtype=np.int64),
        fired=np.zeros((nodes, 0), dtype=np.uint8),
        hosts=("a",) * nodes,
        lost=(),
        cut="",
        job=job(algorithm),
        trouble="",
        l2=None,
    )


def test_a_run_of_gossip():
    # rows at steps 0, 10, 30, 30 (with the output); only 10 to 30 counts: 20 steps
    found = work_of(
        course(
            {
                "seconds": [[0, 9, 11, 11], [0, 9, 11, 11]],
                "compute_seconds": [[0, 5, 5.4, 5.4], [0, 5, 6.0, 6.0]],
                "compress_seconds": [[0, 1, 1.1, 1.1], [0, 1, 1.2, 1.2]],
                "wait_seconds": [[0, 2, 3.2, 3.2], [0, 2, 2.4, 2.4]],
                "payload_bytes": [[0, 0, 1400, 9999], [0, 0, 700, 9999]],
                "header_bytes": [[0, 0, 28, 28], [0, 0, 14, 14]],
                "messages": [[0, 0, 14, 15], [0, 0, 7, 8]],
                "silences": [[0, 0, 0, 0], [0, 0, 7, 7]],
                "syncs": [[0, 3, 10, 10], [0, 3, 10, 10]],
                "fired": [[0, 0, 7, 7], [0, 0, 3.5, 3.5]],
            },
            {"step": [0, 10, 30, 30]},
        )
    )
    assert found.compute == pytest.approx(1.0 / 20)  # of the node that worked longest
    assert found.compress == pytest.approx(0.2 / 20)
    assert found.pack == pytest.approx((2.0 - 1.0 - 0.2 - 0.4) / 20)
    assert found.message == pytest.approx((2100 + 42) / 21)
    assert found.degree == pytest.approx(28 / 14)
    assert found.firing == pytest.approx(10.5 / 14)
    assert found.syncs == pytest.approx(7 / 20)
    assert found.fixed == found.compute
    assert found.posted


def test_a_run_of_reductions():
    found = work_of(
        course(
            {"payload_bytes": [[0, 9000], [0, 3000]], "seconds": [[0, 2], [0, 2]], "wait_seconds": [[0, 1], [0, 1]]},
            {"step": [0, 10], "round": [0, 20], "short_rounds": [0, 10]},
            simple("giant"),
        )
    )
    # the last node's bytes: those of node 0 are the answers
    assert found.reductions == (Reduced(100.0, 3.0),)
    assert (found.fixed, found.syncs) == (0, 0)


@pytest.mark.parametrize(
    ("steps", "lockstep", "told"),
    [([0, 10], True, "x ran in lockstep"), ([0], False, "x has 1 evaluations"), ([0, 0], False, "x took no steps")],
)
def test_no_run_to_learn_from(steps, lockstep, told):
    with pytest.raises(JobError, match=told):
        work_of(course({}, {"step": steps}, lockstep=lockstep))


def test_fixed_compute_from_several_runs():
    runs = [Work(nodes=n, compute=0.1 + 0.8 / n, pack=0.01 * n) for n in (1, 2, 4)]
    found = with_fixed(runs)
    assert (found.nodes, found.pack) == (4, 0.04)
    assert found.compute == pytest.approx(0.3)
    assert found.fixed == pytest.approx(0.1)
    assert with_fixed(runs[:1]) == runs[0]
    with pytest.raises(JobError):
        with_fixed([])
    shared = [Work(nodes=n, compute=0.1 + 0.8 / (n - 1), masters=1) for n in (2, 3, 5)]
    assert with_fixed(shared).fixed == pytest.approx(0.1)


def test_plan_on_a_network():
    found = plan_job(job(SPARQ), nodes=4, network="wan")
    assert found.step is not None
    # a third of a sync a step, 20 ms each, and a few kB
    assert found.step.cost.network == pytest.approx(0.02 / 3, rel=0.1)
    values = json.loads(json.dumps(found.values()))["step"]
    assert values["seconds"] == pytest.approx(
        sum(values[f"{name}_seconds"] for name in ("compute", "compress", "pack", "network"))
    )
    assert "on wan (latency 20 ms, bandwidth 12.5 MB/s)" in found.text()
    assert plan_job(job(SPARQ), nodes=4).values()["step"] is None
    with pytest.raises(JobError, match="network 'wam' is not known"):
        plan_job(job(SPARQ), nodes=4, network="wam")


def test_the_lines_of_a_step():
    work = Work(nodes=4, compute=1e-3, reductions=(Reduced(800, 2.0),))
    shown = Step("wan", PROFILES["wan"], work, StepCost(1e-3, 0.0, 1e-4, 0.16))
    assert list(lines(shown)) == [
        "step         about 161 ms on wan (latency 20 ms, bandwidth 12.5 MB/s): compute 1 ms, pack 100 us, "
        "network 160 ms",
        "             2 reductions a step, 80 ms each; this machine's own share was timed with the first node's rows",
    ]
    alone = replace(shown, work=Work(nodes=1, compute=1e-3), cost=StepCost(1e-3, 0.0, 0.0, 0.0))
    assert len(lines(alone)) == 1
