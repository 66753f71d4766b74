"""Checks of whole courses: against the matrix form of the papers, and over MPI against lockstep."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from mpi_opt.algorithms.base import Algorithm
from mpi_opt.types import Vector
from mpi_opt.verify import cases, reference
from mpi_opt.verify.findings import Outcome
from mpi_opt.verify.setting import Setting, virtual

RTOL, ATOL = 1e-10, 1e-12
"""Two orders of adding differ by rounding, 1e-16 a step."""


def against_reference(setting: Setting) -> Outcome:
    """Hold SPARQ-SGD, LocalNewton and Newton against the papers in matrix form."""
    n, faults = setting.nodes, list[str]()
    parts = cases.data(n)
    models, fired = _all_nodes(setting, cases.sparq(), cases.STEPS)
    spoke = 0.0
    if setting.first:
        wanted = _sparq(n)
        spoke = float(fired.mean())
        faults += _unlike("SPARQ-SGD", models, wanted.models, fired, wanted.fired)
        if not faults and spoke in (0.0, 1.0):
            faults.append(f"SPARQ-SGD: the trigger was never {'silent' if spoke else 'firing'}: nothing is shown")
    seconds: list[tuple[str, Algorithm, Callable[[], Vector]]] = [
        ("Newton", cases.newton(), lambda: reference.newton(parts, steps=cases.ROUNDS, l2=cases.L2)),
        (
            "LocalNewton",
            cases.local_newton(),
            lambda: reference.local_newton(parts, rounds=cases.ROUNDS, local_steps=cases.LOCAL_STEPS, l2=cases.L2),
        ),
    ]
    for name, algorithm, compute in seconds:
        points = compute() if setting.first else None  # on one process alone: ranks may share a core
        models, _ = _all_nodes(setting, algorithm, cases.ROUNDS)
        if points is not None:
            faults += _unlike(name, models, np.repeat(points[:, None], n, axis=1))
    detail = (
        f"SPARQ-SGD {cases.STEPS} steps (trigger fired {spoke:.0%}), Newton and LocalNewton {cases.ROUNDS} rounds, "
        f"{n} node{'s' * (n > 1)}: the papers' matrix form within {RTOL:g}"
    )
    return Outcome(detail, faults)


def against_lockstep(setting: Setting) -> Outcome:
    """Hold what the ranks computed and counted against lockstep, to the last bit."""
    if setting.comm is None:
        return Outcome(left_out="needs MPI: start with mpiexec -n 4 mpi-opt verify")
    n, faults = setting.nodes, list[str]()
    methods: dict[str, tuple[Algorithm, int]] = {
        "SPARQ-SGD": (cases.sparq(), cases.STEPS),
        "SPARQ-SGD overlapped, momentum": (cases.sparq(overlap=True, beta=0.5), cases.STEPS),
        "allreduce-SGD": (cases.allreduce(), cases.STEPS),
        "LocalNewton": (cases.local_newton(), cases.ROUNDS),
    }
    for name, (algorithm, steps) in methods.items():
        case = cases.make(algorithm, n)
        network = setting.connect(case.neighbours, case.codec)
        drive = cases.driven(case, network, steps, settle=True)
        theirs = setting.collectives.gather((*drive.course(), drive.sent()[0]))
        network.close()
        if not setting.first:
            continue
        twin = cases.driven(case, virtual(case.neighbours, case.codec), steps, settle=True)
        models, fired = twin.course()
        for rank, (got, spoke, sent) in enumerate(theirs):
            faults += _first_bit(name, rank, got[:, 0], models[:, rank])
            if not np.array_equal(spoke[:, 0], fired[:, rank]):
                faults.append(f"{name}: rank {rank} spoke at other synchronisations than in lockstep")
            if sent != twin.sent()[rank]:
                faults.append(f"{name}: rank {rank} sent {sent} (messages, silences, payload, header), not "
                              f"{twin.sent()[rank]}")  # fmt: skip
    return Outcome(f"{', '.join(methods)}: the same bits and bytes on {n} rank{'s' * (n > 1)} as in lockstep", faults)


def _sparq(n: int) -> reference.Course:
    return reference.sparq_sgd(
        cases.data(n),
        reference.metropolis(n, reference.ring(n)),
        steps=cases.STEPS,
        step_size=cases.STEP_SIZE,
        sync_every=cases.SYNC_EVERY,
        threshold=cases.THRESHOLD,
        k=cases.K,
        consensus_rate=cases.CONSENSUS_RATE,
        batch=cases.BATCH,
        l2=cases.L2,
        seed=cases.SEED,
    )


def _all_nodes(setting: Setting, algorithm: Algorithm, steps: int) -> tuple[Vector, npt.NDArray[np.bool_]]:
    """Return models (steps + 1, n, d) and who spoke (syncs, n) of all nodes."""
    case = cases.make(algorithm, setting.nodes)
    network = setting.connect(case.neighbours, case.codec)
    courses: Sequence[tuple[Vector, npt.NDArray[np.bool_]]] = setting.collectives.gather(
        cases.driven(case, network, steps).course()
    )
    network.close()
    return np.concatenate([models for models, _ in courses], axis=1), np.concatenate([f for _, f in courses], axis=1)


def _unlike(
    name: str,
    models: Vector,
    wanted: Vector,
    fired: npt.NDArray[np.bool_] | None = None,
    speaks: npt.NDArray[np.bool_] | None = None,
) -> list[str]:
    """Say where a course leaves the reference first."""
    if models.shape != wanted.shape:
        return [f"{name}: models of shape {models.shape}, not {wanted.shape}"]
    wrong = np.argwhere(~np.isclose(models, wanted, rtol=RTOL, atol=ATOL))
    if len(wrong):
        step, node, at = (int(index) for index in wrong[0])
        return [
            f"{name}: after step {step} coordinate {at} of node {node} is {float(models[step, node, at])!r}, in the "
            f"matrix form {float(wanted[step, node, at])!r}"
        ]
    if fired is not None and speaks is not None and not np.array_equal(fired, speaks):
        return [f"{name}: nodes spoke at other synchronisations than in the matrix form"]
    return []


def _first_bit(name: str, rank: int, got: Vector, wanted: Vector) -> list[str]:
    """Say where a rank's course differs from lockstep's first."""
    if np.array_equal(got, wanted):
        return []
    step, at = (int(index) for index in np.argwhere(got != wanted)[0])
    return [
        f"{name}: after step {step} coordinate {at} on rank {rank} is {float(got[step, at])!r}, in lockstep "
        f"{float(wanted[step, at])!r}"
    ]
