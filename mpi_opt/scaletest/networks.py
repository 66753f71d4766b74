"""Networks that the model is told of: named ones, figures, and files of what was measured between ranks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mpi_opt.errors import JobError
from mpi_opt.scaletest.local import NETWORK
from mpi_opt.scaletest.study import Study
from mpi_opt.scaling.cost import PROFILES, NetworkProfile
from mpi_opt.scaling.fitted import read_network
from mpi_opt.scaling.profiles import parse_profile


@dataclass(frozen=True, slots=True)
class Network:
    """A network, and whether it is the one that the points ran on: then it was measured between the ranks."""

    name: str
    profile: NetworkProfile
    here: bool


def networks_of(words: Sequence[str]) -> list[Network]:
    """Return the networks of the words given; without words the usual ones.

    Parameters
    ----------
    words : sequence of str
        Each a name, figures (`scaling.profiles.parse_profile`), a file that ``mpi-opt info --network --json`` wrote,
        or ``"none"`` alone.

    Raises
    ------
    JobError
        One of them is nothing of that kind.
    """
    if list(words) == ["none"]:
        return []
    return [_network(word) for word in words or PROFILES]


def _network(word: str) -> Network:
    if Path(word).is_file():
        return Network(Path(word).stem, read_network(word).profile, here=True)
    try:
        name, profile = parse_profile(word)
    except JobError as error:
        raise JobError(f"--network: {error}, a file that mpi-opt info --network --json has written, or none") from None
    return Network(name, profile, here=False)


def with_own(study: Study, networks: Sequence[Network]) -> list[Network]:
    """Return them after the network that was measured with the test, unless another measured one is among them."""
    place = study.folder / NETWORK
    if not networks or any(network.here for network in networks) or not place.exists():
        return list(networks)
    return [Network("network", read_network(place).profile, here=True), *networks]
