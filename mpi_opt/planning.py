"""What a job would need, said without training: data, memory, graph, traffic, length, rounds, and what to look at."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mpi_opt.build import Built, build
from mpi_opt.forecast import cautions, course, holdings, memory, traffic
from mpi_opt.forecast.course import Length, Rounds
from mpi_opt.forecast.holdings import Holdings
from mpi_opt.forecast.memory import Memory
from mpi_opt.forecast.step import Step
from mpi_opt.forecast.step import lines as step_lines
from mpi_opt.forecast.step import step as predicted_step
from mpi_opt.forecast.traffic import Traffic
from mpi_opt.job import Job
from mpi_opt.network.collectives import Solo
from mpi_opt.scaling.profiles import parse_profile
from mpi_opt.simulating import without_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A dry run of a job.

    Attributes
    ----------
    built : Built
        The job's objects, all nodes in this process.
    held, memory, traffic, length, rounds
        Its parts; see `mpi_opt.forecast`.
    step : Step or None
        Seconds on a network, where one was asked for.
    warnings : tuple of str
        What is likely to disappoint.
    notes : tuple of str
        What else was found on the way.
    """

    built: Built
    held: Holdings
    memory: Memory
    traffic: Traffic
    length: Length
    rounds: Rounds
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    step: Step | None = None

    def text(self) -> str:
        """Return it for people."""
        job, nodes = self.built.job, self.traffic.nodes
        text = [
            f"{job.name}: {job.algorithm.name} on {nodes} node{'s' * (nodes > 1)}",
            *holdings.lines(holdings.described(self.built, self.held), self.held),
            *memory.lines(self.built, self.memory),
            *traffic.lines(self.built, self.traffic),
            *course.lines(self.length, self.rounds),
            *(() if self.step is None else step_lines(self.step)),
        ]
        if job.validation is not None:
            folds, values = job.validation.folds, len(job.validation.l2)
            text.append(f"validation   {folds} folds x {values} values of l2 are trained before: as long each, at most")
        text.extend(f"warning      {warning}" for warning in self.warnings)
        text.extend(f"note         {note}" for note in self.notes)
        return "\n".join(text)

    def values(self) -> Mapping[str, Any]:
        """Return it for programs, as JSON values: bytes, counts, spreads as ``{least, mean, most}``."""
        job, mixing = self.built.job, self.built.mixing
        held, sends = self.held, self.traffic
        graph = None
        if mixing is not None:
            graph = {
                "name": mixing.graph.name,
                "weights": mixing.weights,
                "edges": len(mixing.graph.edges),
                "spectral_gap": mixing.spectral_gap,
                "consensus_rate": job.algorithm.consensus_rate,
            }
        return {
            "job": job.name,
            "method": job.algorithm.name,
            "nodes": sends.nodes,
            "dimension": self.built.problems[0].dim,
            "data": holdings.described(self.built, held),
            "a_node_holds": {
                name: getattr(held, name)._asdict() for name in ("rows", "nonzeros", "features", "labels")
            },
            "memory": {name: spread._asdict() for name, spread in _parts(self.memory)},
            "graph": graph,
            "traffic": {
                "sync_every": sends.sync_every,
                "message": None
                if sends.exchanged is None
                else {**asdict(sends.exchanged), "degrees": sends.exchanged.degrees._asdict()},
                "reductions": [asdict(each) for each in sends.reductions],
                "busiest_node_round": sends.round_bytes,
            },
            "length": asdict(self.length),
            "rounds": asdict(self.rounds),
            "step": None if self.step is None else self.step.values(),
            "validation": None
            if job.validation is None
            else {"folds": job.validation.folds, "l2": list(job.validation.l2)},
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def _parts(found: Memory) -> list[tuple[str, Any]]:
    return [(name, getattr(found, name)) for name in ("data", "vectors", "matrices", "buffers", "module", "total")]


def plan_job(job: Job, *, nodes: int, network: str | None = None) -> Forecast:
    """Return the dry run of ``job`` on ``nodes`` nodes.

    The data are read (in this one process) and the consensus rate is searched where it is "auto"; nothing is trained
    and nothing is written. With a ``network``, as `parse_profile` takes it, the first node's step is timed too.

    Raises
    ------
    JobError, DataError
        Whatever a run would refuse at its start.
    """
    named = None if network is None else parse_profile(network)
    built = build(without_clock(job), Solo(), nodes, range(nodes))  # what is timed is timed here
    held, needed, sends = holdings.holdings(built), memory.memory(built), traffic.traffic(built)
    # what a synthetic set is called and how a table was read are no warnings
    told = [warning for warning in built.loaded.warnings if not _only_told(warning)]
    return Forecast(
        built=built,
        held=held,
        memory=needed,
        traffic=sends,
        length=course.length(built, sends),
        rounds=course.rounds(built, held),
        warnings=(*told, *cautions.cautions(built, held, needed)),
        # the graph has a line of its own
        notes=tuple(note for note in built.notes if note not in told and not note.startswith("graph ")),
        step=None if named is None else predicted_step(built, *named),
    )


def _only_told(warning: str) -> bool:
    as_expected = " columns parted by " in warning and " has no name " not in warning
    return warning.startswith("synthetic: ") or as_expected
