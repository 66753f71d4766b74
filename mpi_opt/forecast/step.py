"""Seconds of a step and of a round on a network: this machine's own share timed, the messages by formula."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mpi_opt.build import Built
from mpi_opt.forecast.calibrate import work_of_job
from mpi_opt.scaling.cost import NetworkProfile, spoken
from mpi_opt.scaling.stepmodel import StepCost, Work, predict_step


@dataclass(frozen=True, slots=True)
class Step:
    """A prediction.

    Attributes
    ----------
    network : str
        What the network is called.
    profile : NetworkProfile
    work : Work
        What a step of the first node asks for, timed here.
    cost : StepCost
    """

    network: str
    profile: NetworkProfile
    work: Work
    cost: StepCost

    @property
    def rounds(self) -> float:
        """Synchronisations or reductions a step, short ones among them."""
        return self.work.syncs or sum(each.per_step for each in self.work.reductions)

    @property
    def round_seconds(self) -> float:
        """Seconds of the network in one of them; 0 without any."""
        return self.cost.network / self.rounds if self.rounds else 0.0

    def values(self) -> Mapping[str, Any]:
        """Return it as JSON values."""
        return {
            "network": self.network,
            "latency": self.profile.latency,
            "bandwidth": self.profile.bandwidth,
            "seconds": self.cost.total,
            **{f"{name}_seconds": value for name, value in asdict(self.cost).items()},
            "synchronisations": self.rounds,
            "synchronisation_seconds": self.round_seconds,
        }


def step(built: Built, network: str, profile: NetworkProfile) -> Step:
    """Return the prediction; takes about a second, and more where a step does."""
    work = work_of_job(built, split=False)
    return Step(network, profile, work, predict_step(work, profile))


def lines(found: Step) -> Sequence[str]:
    """Return the forecast's lines."""
    cost = found.cost
    parts = ", ".join(f"{name} {spoken(value, 's')}" for name, value in asdict(cost).items() if value)
    kind = "exchange" if found.work.syncs else "reduction"
    text = [f"step         about {spoken(cost.total, 's')} on {found.network} ({found.profile}): {parts}"]
    if found.rounds and cost.network:
        text.append(
            f"             {found.rounds:.3g} {kind}s a step, {spoken(found.round_seconds, 's')} each; "
            "this machine's own share was timed with the first node's rows"
        )
    return text
