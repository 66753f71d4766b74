"""Step sizes and thresholds: their values by hand, and refusals that name the key and what is allowed."""

import dataclasses
import math

import pytest

from mpi_opt.errors import JobError
from mpi_opt.schedules import (
    Constant,
    Cosine,
    FiringRate,
    Inverse,
    Polynomial,
    Step,
    Stepwise,
    WarmUp,
)
from mpi_opt.schedulespecs import make_step_size, make_threshold


def at(schedule, *steps):
    values = [schedule(t) for t in steps]
    assert all(type(value) is float for value in values)
    return values


def test_step_sizes_by_hand():
    assert at(Constant(2), 0, 10**9) == [2.0, 2.0]
    assert at(Inverse(a=100, b=1), 0, 100, 300) == [0.01, 0.005, 0.0025]
    assert at(Step(initial=8, factor=0.5, every=10), 0, 9, 10, 19, 30) == [8, 8, 4, 4, 1]
    assert at(Step(initial=1.0, factor=1e200, every=1), 1, 2, 10**6) == [1e200, math.inf, math.inf]
    assert at(Step(initial=1.0, factor=1e-200, every=1), 1, 2, 10**6) == [1e-200, 0.0, 0.0]
    assert at(Step(initial=1.0, factor=0.1, milestones=(5, 7)), 4, 5, 6, 7, 99) == pytest.approx(
        [1, 0.1, 0.1, 0.01, 0.01]
    )
    assert at(Cosine(initial=1.0, final=0.2, steps=100), 0, 50, 100, 1000) == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert at(Cosine(1.0, 0, 4), 1)[0] == pytest.approx((1 + math.sqrt(0.5)) / 2)


def test_warm_up_scales_the_first_steps_only():
    warm = WarmUp(Inverse(a=10, b=10), warm_up=4)
    assert at(warm, 0, 1, 3, 4, 90) == pytest.approx([0.25, 0.5 * 10 / 11, 10 / 13, 10 / 14, 0.1])


def test_thresholds_by_hand():
    assert at(Polynomial(c0=3, eps=0.5), 0, 3, 99) == pytest.approx([3, 6, 30])
    assert at(Polynomial(c0=1.0, eps=0.25), 15) == pytest.approx([8.0])
    assert at(Stepwise(initial=2.0, increase=1.0, every=10), 0, 9, 10, 25, 1000) == [2, 2, 3, 4, 102]
    assert at(Stepwise(2, 1, every=10, until=35), 34, 35, 10**6) == [5, 5, 5]


def test_schedules_are_values():
    assert Inverse(1, 2) == Inverse(1, 2)
    assert hash(make_step_size(0.5)) == hash(Constant(0.5))
    with pytest.raises(dataclasses.FrozenInstanceError):
        Constant(1.0).value = 2.0


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        (0.5, Constant(0.5)),
        (1, Constant(1)),
        ({"schedule": "constant", "value": 0.5}, Constant(0.5)),
        ({"schedule": "inverse", "a": 100, "b": 1.0}, Inverse(100, 1.0)),
        ({"schedule": "step", "initial": 1.0, "factor": 0.1, "milestones": [3, 9]}, Step(1.0, 0.1, milestones=(3, 9))),
        ({"schedule": "step", "initial": 1.0, "factor": 0.1, "every": 5}, Step(1.0, 0.1, every=5)),
        (
            {"schedule": "step", "initial": 1, "factor": 0.1, "every": 5, "milestones": None, "warm_up": None},
            Step(1, 0.1, 5),
        ),
        ({"schedule": "cosine", "initial": 1.0, "final": 0.0, "steps": 9}, Cosine(1.0, 0.0, 9)),
        ({"schedule": "constant", "value": 0.5, "warm_up": 7}, WarmUp(Constant(0.5), 7)),
    ],
)
def test_step_sizes_of_a_job(spec, made):
    before = dict(spec) if isinstance(spec, dict) else spec
    assert make_step_size(spec) == made
    assert spec == before


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        (0, Constant(0)),
        (2.0, Constant(2.0)),
        ({"schedule": "polynomial", "c0": 1.0, "eps": 0.5}, Polynomial(1.0, 0.5)),
        ({"schedule": "stepwise", "initial": 2.0, "increase": 1.0, "every": 1000}, Stepwise(2.0, 1.0, 1000)),
        ({"schedule": "firing-rate", "target": 0.3}, FiringRate(0.3)),
        ({"schedule": "firing-rate", "target": 1, "gain": 0.1, "initial": 4.0}, FiringRate(1, 0.1, 4.0)),
    ],
)
def test_thresholds_of_a_job(spec, made):
    assert make_threshold(spec) == made


STEP = {"schedule": "step", "initial": 1.0, "factor": 0.5}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (0, r"step_size\.value = 0 is not allowed; allowed: a number > 0"),
        (-0.1, r"step_size\.value = -0\.1 is not allowed; allowed: a number >"),
        (math.nan, "step_size = nan"),
        (math.inf, "step_size = inf"),
        (True, "step_size = True is not allowed; allowed: a number, or"),
        ("0.5", "step_size = '0.5' is not allowed"),
        ({"schedule": "constant", "value": 0.0, "warm_up": 3}, r"step_size\.value = 0\.0"),
        ({"a": 1, "b": 2}, r"step_size\.schedule = None is unknown; allowed: constant, inverse, step, cosine"),
        ({"schedule": "invers", "a": 1, "b": 2}, r"step_size\.schedule = 'invers' is unknown; did you mean 'inverse'"),
        ({"schedule": ["inverse"]}, r"step_size\.schedule = \['inverse'\] is unknown"),
        ({"schedule": "polynomial", "c0": 1, "eps": 0.5}, "'polynomial' is unknown"),
        (
            {"schedule": "inverse", "a": 1, "B": 2},
            r"step_size\.B is unknown .*did you mean 'b'\?; allowed: a, b, warm_up",
        ),
        (
            {"schedule": "inverse", "a": 1, "b": 2, "warmup": 5},
            r"step_size\.warmup is unknown .*did you mean 'warm_up'",
        ),
        ({"schedule": "inverse", "a": 1}, "step_size with schedule 'inverse' lacks b; its keys: a, b"),
        ({"schedule": "inverse", "a": 0, "b": 2}, r"step_size\.a = 0 is not allowed; allowed: a number > 0"),
        ({"schedule": "inverse", "a": 1, "b": "2"}, r"step_size\.b = '2'"),
        (
            {"schedule": "inverse", "a": 1, "b": 2, "warm_up": 0},
            r"step_size\.warm_up = 0 .* whole number of steps >= 1",
        ),
        ({"schedule": "inverse", "a": 1, "b": 2, "warm_up": 1.5}, r"step_size\.warm_up = 1\.5"),
        (STEP, r"step_size\.every = None is not allowed; allowed: a number of steps, or milestones"),
        (STEP | {"every": 3, "milestones": [4]}, r"step_size\.every = 3 .* nothing beside milestones"),
        (STEP | {"milestones": []}, r"step_size\.milestones = \(\) is not allowed; allowed: a list of steps"),
        (STEP | {"every": 0}, r"step_size\.every = 0"),
        (STEP | {"milestones": [4, 4]}, r"step_size\.milestones = \(4, 4\) .*ascending"),
        (STEP | {"milestones": [4, 2.5]}, r"step_size\.milestones = 2\.5"),
        (STEP | {"milestones": 4}, r"step_size\.milestones = 4 is not allowed; allowed: a list of steps"),
        (STEP | {"factor": -1, "every": 2}, r"step_size\.factor = -1"),
        ({"schedule": "cosine", "initial": 1, "final": -1, "steps": 5}, r"step_size\.final = -1 .* a number >= 0"),
        ({"schedule": "cosine", "initial": 1, "final": 0, "steps": 0}, r"step_size\.steps = 0"),
    ],
)
def test_step_sizes_refused(spec, message):
    with pytest.raises(JobError, match=message):
        make_step_size(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (-1, r"c_t\.value = -1 is not allowed; allowed: a number >= 0"),
        ({"schedule": "firing_rate", "target": 0.3}, "'firing_rate' is unknown; did you mean 'firing-rate'"),
        ({"schedule": "firing-rate", "target": 0}, r"c_t\.target = 0 is not allowed; allowed: a number > 0 and <= 1"),
        ({"schedule": "firing-rate", "target": 1.2}, r"c_t\.target = 1\.2"),
        ({"schedule": "firing-rate", "target": 0.2, "gain": 0}, r"c_t\.gain = 0"),
        ({"schedule": "firing-rate", "target": 0.2, "initial": -1}, r"c_t\.initial = -1"),
        (
            {"schedule": "polynomial", "c0": 1.0, "eps": 1.0},
            r"c_t\.eps = 1\.0 is not allowed; allowed: a number > 0 and < 1",
        ),
        ({"schedule": "polynomial", "c0": -1, "eps": 0.5}, r"c_t\.c0 = -1"),
        ({"schedule": "polynomial", "c0": 1, "eps": 0.5, "warm_up": 2}, r"c_t\.warm_up is unknown"),
        ({"schedule": "stepwise", "initial": 2.0, "increase": -1, "every": 5}, r"c_t\.increase = -1"),
        ({"schedule": "stepwise", "initial": 2.0, "increase": 1, "every": 5, "until": -1}, r"c_t\.until = -1"),
        ({"schedule": "stepwise", "initial": 2.0}, "lacks increase, every; its keys: initial, increase, every, until"),
    ],
)
def test_thresholds_refused(spec, message):
    with pytest.raises(JobError, match=message):
        make_threshold(spec, "c_t")
