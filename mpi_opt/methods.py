"""The method of a job: what it leaves to us is chosen first, then the method is made of its settings."""

import time
from collections.abc import Callable, Sequence

import msgspec

from mpi_opt.algorithms.base import Algorithm
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.registry import NEWTON, SGD, NewtonSettings, SgdSettings
from mpi_opt.compression.base import Compressor
from mpi_opt.datasets.shard import DataInfo
from mpi_opt.errors import JobError
from mpi_opt.job import Job, spec
from mpi_opt.network.collectives import Collectives
from mpi_opt.operators import blocks_of
from mpi_opt.scaling.cost import PROFILES, NetworkProfile
from mpi_opt.scaling.finish import MEMORY_LIMIT, choose_finish
from mpi_opt.schedules import Inverse, WarmUp
from mpi_opt.schedulespecs import make_step_size, make_threshold
from mpi_opt.topology.mixing import Mixing


def with_consensus_rate(
    job: Job, mixing: Mixing, compressor: Compressor, dim: int, collectives: Collectives
) -> tuple[Job, Sequence[str]]:
    """Replace ``consensus_rate = "auto"`` by the rate that pure gossip finds; searched once, told to all."""
    if job.algorithm.consensus_rate != "auto":
        return job, ()
    from mpi_opt.topology.consensus_rate import consensus_rate

    found, error = None, None
    began = time.perf_counter()
    if collectives.rank == 0:
        try:
            found = consensus_rate(mixing, compressor, dim, job.seed)
        except Exception as failed:
            error = failed
    collectives.check(error)
    rate, reason = collectives.broadcast(
        None if found is None else (found.gamma, f"{found.reason}; found in {time.perf_counter() - began:.1f} s")
    )
    algorithm = msgspec.structs.replace(job.algorithm, consensus_rate=rate)
    return msgspec.structs.replace(job, algorithm=algorithm), (reason,)


def with_finish(
    job: Job, info: DataInfo, dim: int, nodes: int, measure: Callable[[], NetworkProfile] | None
) -> tuple[Job, Sequence[str]]:
    """Replace ``finish = "auto"`` by what the cost model finds cheapest, and refuse a Hessian that does not fit."""
    table, network = job.algorithm, job.network
    notes: list[str] = []
    if table.name == "local-newton" and table.finish == "auto":
        if network.latency is not None and network.bandwidth is not None:
            profile = NetworkProfile(network.latency, network.bandwidth)
        else:
            profile = PROFILES["10gbe"] if measure is None else measure()
        workers = nodes - (table.master == "dedicated")
        choice = choose_finish(
            dim=dim,
            nonzeros_per_shard=(info.nonzeros if info.sparse else info.rows * info.features) / workers,
            rows_per_shard=info.rows / workers,
            nodes=workers,
            profile=profile,
            columns=dim // max(info.features, 1),
        )
        notes.append(choice.reason)
        table = msgspec.structs.replace(table, finish=choice.name)
        job = msgspec.structs.replace(job, algorithm=table)
    if table.name == "newton" or table.finish == "newton":
        held = 3 * 8 * dim**2
        if held > MEMORY_LIMIT:
            key = "algorithm.name" if table.name == "newton" else "algorithm.finish"
            raise JobError(
                f'{key} = "newton": three matrices of d = {dim} take {held / 2**30:.1f} GiB a rank; allowed: at most '
                f'{MEMORY_LIMIT / 2**30:.0f} GiB; take "newton-cg" or "giant"'
            )
        notes.append(f"exact Newton holds 3 matrices of {dim} x {dim}: {held / 1e6:.3g} MB a rank")
    return job, notes


def make_algorithm(job: Job, compressor: Compressor | None) -> Algorithm:
    """Return the method of ``job``, in which nothing is "auto" any more; gossip methods need the compressor."""
    return _newton(job) if job.algorithm.name in NEWTON else _sgd(job, compressor)


def _newton(job: Job) -> Algorithm:
    table = job.algorithm
    adaptive = table.local_steps == "adaptive"
    return NEWTON[table.name](
        NewtonSettings(
            tolerance=Tolerance(job.stop.gradient_norm or 0.0),
            solver=table.solver,
            damping=None if table.damping == "auto" else table.damping,
            by_support=table.averaging == "support",
            local_steps=3 if table.local_steps == "adaptive" else table.local_steps,
            # A finish needs to know when its turn has come, which only the adaptive form does.
            adaptive=adaptive or table.finish != "none",
            finish=table.finish,
            hessian_every=table.hessian_every,
            memory=table.memory,
        )
    )


def _sgd(job: Job, compressor: Compressor | None) -> Algorithm:
    table = job.algorithm
    assert table.step_size is not None
    step_size = make_step_size(spec(table.step_size), "algorithm.step_size")
    offset = None
    if table.output == "weighted":
        # The theorem's offset is that of its own step size; any other schedule starts its weights at 1.
        plain = step_size.schedule if isinstance(step_size, WarmUp) else step_size
        offset = plain.a if isinstance(plain, Inverse) else 1.0
    if table.consensus_rate == "auto":
        raise RuntimeError("the consensus rate is not found yet")
    return SGD[table.name](
        SgdSettings(
            step_size=step_size,
            batch=None if table.batch == "full" else table.batch,
            sync_every=table.sync_every,
            beta=table.momentum,
            threshold=make_threshold(spec(table.threshold), "algorithm.threshold"),
            longest_silence=table.longest_silence,
            blocks=blocks_of(table),
            compressor=compressor,
            consensus_rate=table.consensus_rate,
            overlap=table.overlap,
            weighted_offset=offset,
            check=job.network.check,
        )
    )
