"""The job file: one TOML file is one experiment, read into frozen, validated structs.

``docs/job-file.md`` says what every key means. The structs hold plain values; ``build.py`` makes objects of them. This
module imports neither NumPy nor MPI, so that a wrong job is refused before anything starts.

Short forms are written out on reading: ``step_size = 0.5`` becomes ``{ schedule = "constant", value = 0.5 }``,
``compressor = "sign"`` becomes ``{ name = "sign" }`` and ``partition`` likewise; a file of network measurements becomes
its figures.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from mpi_opt import jobtext
from mpi_opt.algorithmkeys import Algorithm
from mpi_opt.errors import JobError
from mpi_opt.jobkeys import Job
from mpi_opt.scaling.profiles import figures_of, parse_profile
from mpi_opt.validationkeys import write_out_grid

__all__ = ["METHODS", "Job", "Method", "load_job", "spec", "to_toml"]


@dataclass(frozen=True, slots=True)
class Method:
    """Which keys of ``[algorithm]`` a method takes, and the defaults that are its own."""

    keys: frozenset[str]
    defaults: Mapping[str, Any] = field(default_factory=dict)


_SGD = frozenset({"name", "batch", "step_size", "momentum"})
_GOSSIP = _SGD | {"sync_every", "overlap", "output"}
_COMPRESSED = _GOSSIP | {"compressor", "consensus_rate"}
_TRIGGERED = _COMPRESSED | {"threshold", "longest_silence", "trigger"}
_NEWTON = frozenset({"name", "master"})
_LOCAL_SOLVES = _NEWTON | {"solver", "damping"}
_AUTO: Mapping[str, Any] = {"compressor": {"name": "sign-top-k", "k": "1%"}, "consensus_rate": "auto"}

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "sparq-sgd": Method(_TRIGGERED, {"sync_every": 5, **_AUTO}),
        "choco-sgd": Method(_COMPRESSED, _AUTO),
        "d-psgd": Method(_GOSSIP),
        "squarm-sgd": Method(_TRIGGERED, {"sync_every": 5, "momentum": 0.9, **_AUTO}),
        "allreduce-sgd": Method(_SGD),
        "local-sgd": Method(_SGD | {"sync_every", "output"}, {"sync_every": 5}),
        "local-newton": Method(
            _LOCAL_SOLVES | {"averaging", "local_steps", "finish", "hessian_every"}, {"finish": "auto"}
        ),
        "giant": Method(_LOCAL_SOLVES | {"averaging"}),
        "newton": Method(_NEWTON | {"hessian_every"}),
        "newton-cg": Method(_NEWTON),
        "lbfgs": Method(_NEWTON | {"memory"}),
        "admm": Method(_NEWTON),
    }
)
"""The methods: the first six take SGD steps, the others rounds of whole passes over the shards."""


_STEP_SIZE = "a number > 0, or a table { schedule = ... }"


def load_job(source: Path | str, overrides: Sequence[str] = ()) -> Job:
    """Read a job from a file (a ``Path``) or from TOML text (a ``str``).

    Parameters
    ----------
    source : Path or str
        The job file, or the text of one. Relative names in a text start from the working directory.
    overrides : sequence of str
        ``a.b=value`` each, applied in order; see `mpi_opt.jobtext.override`.

    Raises
    ------
    JobError
        The file cannot be read, or a key or value is wrong: names the key, the value and what is allowed.
    """
    if isinstance(source, Path):
        try:
            text = source.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise JobError(f"job file {str(source)!r}: {reason}") from None
        raw = jobtext.parse(text, str(source))
        base = source.absolute().parent
    else:
        raw = jobtext.parse(source, "job text")
        base = Path.cwd()
    for setting in overrides:
        jobtext.override(raw, setting)
    _complete(raw, base)
    return jobtext.convert(raw, Job)


def _complete(raw: jobtext.Plain, base: Path) -> None:
    """Write out short forms and defaults in place; values of a wrong type are left for the conversion to refuse."""
    data, graph, algorithm = raw.get("data"), raw.get("graph"), raw.get("algorithm")
    if isinstance(data, dict):
        _long(data, "partition", str, {"name": ...})
        if isinstance(folder := data.get("folder", ""), str):
            data["folder"] = os.path.normpath(base / folder)
    problem, validation = raw.get("problem"), raw.get("validation")
    if isinstance(validation, dict):
        write_out_grid(validation)
    elif isinstance(problem, dict):
        if "module" in problem:
            for key, usual in (("l2", 0.0), ("dtype", "float32"), ("device", "cpu")):
                problem.setdefault(key, usual)
        problem.setdefault("l2", "1/N")
    if isinstance(graph, dict) and "edges" not in graph:
        graph.setdefault("name", "ring")
        graph.setdefault("weights", "metropolis")
    clock = raw.get("clock")
    if isinstance(clock, dict) and isinstance(network := clock.get("network"), str) and network.endswith(".json"):
        # The stored job must not hang on a file that may be gone.
        clock["network"] = figures_of(parse_profile(str(base / network))[1])
    if isinstance(algorithm, dict):
        method = _method(algorithm.get("name"))
        for key in algorithm:
            if key not in method.keys and key in Algorithm.__struct_fields__:
                takers = ", ".join(name for name, other in METHODS.items() if key in other.keys)
                raise JobError(f"algorithm.{key}: has no meaning for {algorithm['name']}; taken by {takers}")
        network = raw.get("network")
        if isinstance(network, dict) and network.get("elastic") is True and "overlap" not in method.keys:
            takers = ", ".join(name for name, other in METHODS.items() if "overlap" in other.keys)
            raise JobError(f"network.elastic = true: has no meaning for {algorithm['name']}; taken by {takers}")
        if "step_size" not in method.keys and isinstance(problem, dict) and "module" in problem:
            others = ", ".join(name for name, other in METHODS.items() if "step_size" in other.keys)
            raise JobError(
                f"algorithm.name = {jobtext.show(algorithm['name'])}: works on linear models, not on problem.module; "
                f"allowed: {others}"
            )
        if "step_size" in method.keys and "step_size" not in algorithm:
            raise JobError(f"algorithm.step_size: missing; allowed for {algorithm['name']}: {_STEP_SIZE}")
        for key, value in method.defaults.items():
            algorithm.setdefault(key, value)
        _long(algorithm, "compressor", str, {"name": ...})
        if isinstance(compressor := algorithm.get("compressor"), dict):
            _long(compressor, "inner", str, {"name": ...})
        for key in ("step_size", "threshold"):
            _long(algorithm, key, int | float, {"schedule": "constant", "value": ...})


def _long(table: jobtext.Plain, key: str, short: Any, form: Mapping[str, Any]) -> None:
    """Replace a value of the ``short`` type by ``form`` with the value in the place of the dots."""
    value = table.get(key)
    if isinstance(value, short) and not isinstance(value, bool):
        table[key] = {name: value if word is ... else word for name, word in form.items()}


def _method(name: Any) -> Method:
    if name is None:
        raise JobError(f"algorithm.name: missing; allowed: {', '.join(METHODS)}")
    if not isinstance(name, str) or name not in METHODS:
        raise JobError(f"algorithm.name = {jobtext.show(name)}: unknown{jobtext.choice(name, METHODS)}")
    return METHODS[name]


def spec(table: msgspec.Struct) -> dict[str, Any]:
    """Return a table of the job as the plain mapping a job file would hold, without absent keys.

    ``spec(job.algorithm.step_size)`` is ``{"schedule": "inverse", "a": 100.0, "b": 1.0}``.
    """
    plain: dict[str, Any] = jobtext.without_none(msgspec.to_builtins(table))
    return plain


def to_toml(job: Job) -> str:
    """Return the resolved job as TOML text: every key the method takes, defaults included; loads to an equal job."""
    raw = msgspec.to_builtins(job)
    keys = METHODS[job.algorithm.name].keys
    raw["algorithm"] = {key: value for key, value in raw["algorithm"].items() if key in keys}
    return jobtext.write(raw)
