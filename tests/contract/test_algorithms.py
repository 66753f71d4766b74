"""What every method keeps, over the registries: a method is tested by being listed."""

import copy
import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support import methods
from twins import newton, rivals_second_order, sgd_matrix, sparq_matrix

from mpi_opt.algorithms.admm import ADMM
from mpi_opt.algorithms.allreduce_sgd import AllreduceSGD
from mpi_opt.algorithms.base import Info, check_needs
from mpi_opt.algorithms.giant import Giant
from mpi_opt.algorithms.lbfgs import LBFGS
from mpi_opt.algorithms.local_newton import LocalNewton
from mpi_opt.algorithms.local_sgd import LocalSGD
from mpi_opt.algorithms.newton import Newton
from mpi_opt.algorithms.newton_cg import NewtonCG
from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.algorithms.registry import NEWTON, SGD
from mpi_opt.algorithms.sparq_sgd import SparqSGD
from mpi_opt.compression.sign import SignTopK
from mpi_opt.errors import JobError
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.schedules import Constant

TESTS = Path(__file__).parents[1]
every_method = pytest.mark.parametrize("name", methods.NAMES)

TWINS = {
    "sparq-sgd": (sparq_matrix.sparq, "contract/test_twins_lockstep.py"),
    "choco-sgd": (sgd_matrix.choco_sgd, "contract/test_twins_lockstep.py"),
    "d-psgd": (sgd_matrix.d_psgd, "contract/test_twins_lockstep.py"),
    "squarm-sgd": (sparq_matrix.sparq, "contract/test_twins_lockstep.py"),
    "allreduce-sgd": (sgd_matrix.allreduce_sgd, "contract/test_twins_lockstep.py"),
    "local-sgd": (sgd_matrix.local_sgd, "contract/test_twins_lockstep.py"),
    "local-newton": (newton.local_newton, "support/second_order.py"),
    "giant": (newton.giant, "support/second_order.py"),
    "newton": (newton.newton, "support/second_order.py"),
    "newton-cg": (rivals_second_order.trust_region, "contract/test_rivals_second_order.py"),
    "lbfgs": (rivals_second_order.lbfgs, "contract/test_rivals_second_order.py"),
    "admm": (rivals_second_order.admm, "contract/test_rivals_second_order.py"),
}
"""By method: its twin, and where the two are put beside each other."""


def test_every_method_has_a_twin_and_every_twin_is_compared():
    assert set(TWINS) == {*SGD, *NEWTON}, "a method without a twin, or a twin without a method"
    for twin, place in TWINS.values():
        assert Path(twin.__code__.co_filename).parent == TESTS / "twins"
        module = Path(twin.__code__.co_filename).stem
        text = (TESTS / place).read_text(encoding="utf-8")
        used = [f".{twin.__name__}(", f"(twin, {twin.__name__}"]
        assert module in text
        assert any(word in text for word in used), f"{place} does not call {module}.{twin.__name__}"


def network_of(made):
    return Lockstep(made.neighbours, made.codec)


def after(made, steps):
    network = network_of(made)
    states, _ = methods.drive(made, network, methods.begin(made, network), steps)
    return states


@every_method
def test_parameters_are_frozen(name):
    algorithm = methods.algorithm_of(name)
    field = dataclasses.fields(algorithm)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(algorithm, field, None)


@every_method
def test_the_start_is_copied_and_stays_as_it_is(name):
    made = methods.make(name, 3)
    start = made.x0.copy()
    states = methods.begin(made, network_of(made))
    for state in states:
        model = made.algorithm.model(state)
        np.testing.assert_array_equal(model, start)
        assert not np.shares_memory(model, made.x0)
    after(made, 4)
    np.testing.assert_array_equal(made.x0, start)
    made.x0[:] = np.nan
    states, _ = methods.drive(made, network_of(made), states, 2)
    assert np.isfinite(methods.models(made, states)).all()


@every_method
@pytest.mark.parametrize(("n", "empty"), [(1, False), (2, False), (2, True), (5, False), (5, True)])
def test_models_move_and_have_their_shape(name, n, empty):
    """On one node as on several, and where one of them holds no rows."""
    made = methods.make(name, n, empty=empty)
    states = after(made, methods.STEPS)
    for state in states:
        model = made.algorithm.model(state)
        assert model.shape == (methods.DIM,)
        assert model.dtype == np.float64
    found = methods.models(made, states)
    assert np.isfinite(found).all()
    assert (np.abs(found - made.x0).max(axis=1) > 1e-3).all()


@every_method
@pytest.mark.parametrize("n", [1, 3])
def test_it_descends(name, n):
    made = methods.make(name, n)
    states = after(made, 30)
    mean = methods.models(made, states).mean(axis=0)
    weights = [problem.rows for problem in made.problems] if name.split(",")[0] in NEWTON else None

    def objective(x):
        return np.average([problem.value(x) for problem in made.problems], weights=weights)

    assert objective(mean) < 0.95 * objective(made.x0)


@every_method
def test_more_nodes_than_rows(name):
    made = methods.make(name, 5, rows=3)
    assert np.isfinite(methods.models(made, after(made, 4))).all()


@every_method
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_states_hold_all_that_the_next_step_needs(name, steps):
    """Copies of the states go on alike with another network, other work arrays and batches that were never asked."""
    made = methods.make(name, 4)
    network = network_of(made)
    states, ended = methods.drive(made, network, methods.begin(made, network), steps)
    if ended:
        pytest.fail(f"it ended after {steps} steps: {ended}")
    kept = copy.deepcopy(states)
    states, ended = methods.drive(made, network, states, 3)
    other = methods.make(name, 4)
    again, ended_again = methods.drive(other, network_of(other), kept, 3)
    np.testing.assert_array_equal(methods.models(made, states), methods.models(other, again))
    assert ended == ended_again


@pytest.mark.parametrize("name", [*methods.NAMES, methods.OVERLAPPED])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_settle_can_be_called(name, steps):
    made = methods.make(name, 3)
    network = network_of(made)
    states, _ = methods.drive(made, network, methods.begin(made, network), steps)
    before = methods.models(made, states).copy()
    rounds = network.traffic[0].rounds
    states, infos = methods.advance(made, network, states, settle=True)
    assert all(isinstance(info, Info) for info in infos)
    assert network.traffic[0].rounds == rounds, "what is in flight was counted when it was sent"
    if name != methods.OVERLAPPED:
        np.testing.assert_array_equal(methods.models(made, states), before)
    elif steps == 4:
        assert np.abs(methods.models(made, states) - before).max() > 1e-6


class Only:
    """A problem of a user's own: plain facts, and no method but those named."""

    def __init__(self, problem, offered):
        self._problem, self._offered = problem, offered

    def __getattr__(self, name):
        value = getattr(self._problem, name)
        if callable(value) and name not in self._offered:
            raise AttributeError(f"{name} is called, but not declared under needs")
        return value


@every_method
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_nothing_is_called_but_what_is_declared(name, loss):
    made = methods.make(name, 3, loss=loss)
    expected = methods.models(made, after(made, methods.STEPS))
    offered = [Only(problem, made.algorithm.needs) for problem in made.problems]
    for problem in offered:
        check_needs(made.algorithm, problem)
    bare = made._replace(problems=offered)
    np.testing.assert_array_equal(methods.models(bare, after(bare, methods.STEPS)), expected)


@every_method
def test_what_is_missing_is_named(name):
    made = methods.make(name, 1)
    for missing in made.algorithm.needs:
        offered = {need: getattr(made.problems[0], need) for need in made.algorithm.needs if need != missing}
        with pytest.raises(JobError, match=f"{type(made.algorithm).__name__} needs {missing} of a problem"):
            check_needs(made.algorithm, SimpleNamespace(**offered))


def test_rounds_bytes_and_bits_are_the_same_over_mpi(mpirun, tmp_path):
    """All methods in one run, full shards and an empty one."""
    n = 3
    mpirun(n, [TESTS / "support" / "methods_ranks.py", tmp_path], timeout=150).check()
    ranks = [np.load(tmp_path / f"{rank}.npz") for rank in range(n)]
    for name in (*methods.NAMES, methods.OVERLAPPED):
        for empty in (False, True):
            made = methods.make(name, n, empty=empty)
            network = network_of(made)
            states, ended = methods.drive(made, network, methods.begin(made, network), methods.STEPS)
            states, _ = methods.advance(made, network, states, settle=True)
            expected = methods.models(made, states)
            for rank, got in enumerate(ranks):
                what, key = f"{name}, empty shard: {empty}, rank {rank}", f"{name}/{empty}/"
                np.testing.assert_array_equal(got[key + "model"], expected[rank], err_msg=what)
                np.testing.assert_array_equal(got[key + "counts"], methods.counts(network.traffic[rank]), err_msg=what)
                assert str(got[key + "ended"]) == ended, what


# --- arguments ---

SPARQ = {
    "step_size": Constant(0.1), "trigger": Trigger(Constant(1.0)), "compressor": SignTopK(3), "consensus_rate": 0.3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("make", "arguments", "words"),
    [
        (SparqSGD, SPARQ | {"sync_every": 0}, "sync_every = 0"),
        (SparqSGD, SPARQ | {"sync_every": 2.5}, "sync_every = 2.5"),
        (SparqSGD, SPARQ | {"batch": 0}, "batch = 0"),
        (SparqSGD, SPARQ | {"batch": True}, "batch = True"),
        (SparqSGD, SPARQ | {"consensus_rate": 5}, "consensus_rate = 5"),
        (SparqSGD, SPARQ | {"consensus_rate": 0.0}, "consensus_rate = 0.0"),
        (SparqSGD, SPARQ | {"consensus_rate": np.nan}, "consensus_rate = nan"),
        (SparqSGD, SPARQ | {"beta": 1.0}, "beta = 1.0"),
        (SparqSGD, SPARQ | {"beta": -0.1}, "beta = -0.1"),
        (SparqSGD, SPARQ | {"weighted_offset": -1.0}, "weighted_offset = -1.0"),
        (Trigger, {"threshold": Constant(1.0), "longest_silence": 0}, "longest_silence = 0"),
        (LocalSGD, {"step_size": Constant(0.1), "sync_every": 0}, "sync_every = 0"),
        (LocalSGD, {"step_size": Constant(0.1), "batch": 0}, "batch = 0"),
        (LocalSGD, {"step_size": Constant(0.1), "beta": 1.5}, "beta = 1.5"),
        (AllreduceSGD, {"step_size": Constant(0.1), "batch": -3}, "batch = -3"),
        (AllreduceSGD, {"step_size": Constant(0.1), "beta": 1.0}, "beta = 1.0"),
        (LocalNewton, {"local_steps": 0}, "local_steps = 0"),
        (LocalNewton, {"damping": -1.0}, "damping = -1.0"),
        (Giant, {"damping": -1.0}, "damping = -1.0"),
        (Newton, {"hessian_every": 0}, "hessian_every = 0"),
        (LBFGS, {"memory": 0}, "memory = 0"),
        (LocalNewton, {"patience": 0}, "patience = 0"),
        (NewtonCG, {"forcing": 1.0}, "forcing = 1.0"),
        (ADMM, {"balance": 1.0}, "balance = 1.0"),
        (ADMM, {"pull": 0.0}, "pull = 0.0"),
        (ADMM, {"factor": 1.0}, "factor = 1.0"),
    ],
)
def test_wrong_arguments_are_refused_by_name_and_value(make, arguments, words):
    with pytest.raises(JobError, match=f"{words}.*allowed"):
        make(**arguments)


@pytest.mark.parametrize(
    "changes", [{"sync_every": 1}, {"batch": None}, {"batch": 1}, {"consensus_rate": 1}, {"beta": 0.999}]
)
def test_arguments_at_their_bounds_are_taken(changes):
    SparqSGD(**{**SPARQ, **changes})
    Trigger(Constant(0.0), 1)
