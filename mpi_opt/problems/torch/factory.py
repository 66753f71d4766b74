"""From the word of a job to a module: one of the package's, or what a function of the user's returns.

Nothing here needs PyTorch before a module is made.
"""

import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mpi_opt.errors import JobError
from mpi_opt.words import nearest

if TYPE_CHECKING:
    import torch

BUILTIN = ("mlp", "cnn", "resnet20")
"""Modules of the package; see `problems.torch.nets`."""


class Place(NamedTuple):
    """Where a module was asked for, in the words that errors begin with."""

    module: str
    options: str


JOB = Place("problem.module =", "problem.module_options")


def check_word(word: str, place: Place = JOB) -> None:
    """Check how a module is named, without looking for it.

    Raises
    ------
    JobError
        It is neither one of the package's nor of the form ``package.module:factory`` or ``file.py:factory``.
    """
    file, _, name = word.rpartition(":")
    if word not in BUILTIN and not (file and name.isidentifier()):
        raise JobError(
            f"{place.module} {word!r}: unknown{nearest(word, BUILTIN)}; allowed: {', '.join(BUILTIN)}, "
            '"package.module:factory" or "file.py:factory"'
        )


def row_shape(word: str, features: int) -> tuple[int, ...]:
    """Return what a row of so many features is to a module, where the job does not say.

    Images of one or three square channels for the package's convolutional modules; else the flat row.

    Raises
    ------
    JobError
        An image is needed and the number of features is none of one.
    """
    if word not in ("cnn", "resnet20"):
        return (features,)
    for channels in (1, 3):
        side = math.isqrt(features // channels)
        if channels * side * side == features:
            return (channels, side, side)
    raise JobError(
        f"problem.shape: missing; {features} features make no square image of 1 or 3 channels; "
        "allowed: [channels, height, width]"
    )


def need_torch(who: str = "problem.module") -> None:
    """Check that PyTorch is there, which ``who`` needs.

    Raises
    ------
    JobError
        It is not: says how it is installed.
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise JobError(f"{who} needs PyTorch, which is not installed: pip install 'mpi_opt[torch]'") from None


def module_seed(seed: int) -> int:
    """Return what a factory's random numbers start from, given the job's seed."""
    from mpi_opt.draws import Key, Purpose  # with NumPy, which reading a job does not need

    return Key(seed, 0, Purpose.INITIAL, 0).number()


def make_module(
    word: str,
    options: Mapping[str, Any],
    *,
    shape: tuple[int, ...],
    outputs: int,
    folder: Path,
    seed: int,
) -> "torch.nn.Module":
    """Return the module that a job names; see `find_factory` and `call_factory`.

    Raises
    ------
    JobError
        PyTorch is missing, or theirs.
    """
    need_torch()
    return call_factory(find_factory(word, folder), word, options, shape=shape, outputs=outputs, seed=seed)


def call_factory(
    factory: Callable[..., Any],
    word: str,
    options: Mapping[str, Any],
    *,
    shape: tuple[int, ...],
    outputs: int,
    seed: int,
    place: Place = JOB,
) -> "torch.nn.Module":
    """Return what a factory makes, its parameters drawn from ``seed``; PyTorch's own generator is left as it was.

    Parameters
    ----------
    factory : callable
    word : str
        What errors call it.
    options : mapping
        Its keyword arguments.
    shape : tuple of int
        Of a row; handed over where the factory has a parameter of this name.
    outputs : int
        Numbers a row that the loss needs; likewise.
    seed : int
        0 to 2^64 - 1.
    place : Place, optional
        For errors.

    Raises
    ------
    JobError
        Its parameters are others, it raises, or it returns no module.
    """
    import torch

    given = {"shape": shape, "outputs": outputs, **options}
    named = _named(factory)
    for name in ("shape", "outputs"):
        if name not in named and name not in options:
            del given[name]
    try:
        inspect.signature(factory).bind(**given)
    except TypeError as error:
        taken = ", ".join(name for name in named if name not in ("shape", "outputs"))
        raise JobError(f"{place.options}: {word} takes {taken or 'nothing'}: {error}") from None
    except ValueError:  # a factory in C, which has no signature: the call will tell
        pass
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = factory(**given)
    except JobError:
        raise
    except (Exception, SystemExit) as error:  # scripts leave so where they are not guarded: no reason to end here
        raise JobError(f"{place.module} {word!r}: it raised {type(error).__name__}: {error}") from error
    if not isinstance(module, torch.nn.Module):
        raise JobError(f"{place.module} {word!r}: it returned {type(module).__name__}; allowed: a torch.nn.Module")
    return module


def _named(factory: Callable[..., Any]) -> list[str]:
    """Return the parameters that a factory takes by name."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def find_factory(word: str, folder: Path, place: Place = JOB) -> Callable[..., Any]:
    """Return the factory that ``word`` names.

    Parameters
    ----------
    word : str
        See `check_word`.
    folder : Path
        Where relative files start from.
    place : Place, optional
        For errors.

    Raises
    ------
    JobError
        There is none, or the file or package that should hold it cannot be imported.
    """
    check_word(word, place)
    if word in BUILTIN:
        nets = importlib.import_module("mpi_opt.problems.torch.nets")
        found: Callable[..., Any] = getattr(nets, word)
        return found
    source, _, name = word.rpartition(":")
    file = source.endswith(".py")
    try:
        module = _from_file(folder / source) if file else importlib.import_module(source)
    except (Exception, SystemExit) as error:
        where = folder / source if file else source
        raise JobError(f"{place.module} {word!r}: {where}: {type(error).__name__}: {error}") from error
    factory: object = getattr(module, name, None)
    if not callable(factory):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise JobError(
            f"{place.module} {word!r}: there is no function {name} in {source}{nearest(name, known)}; "
            f"found: {', '.join(known) or 'none'}"
        )
    return factory


def _from_file(path: Path) -> Any:
    own = sha256(str(path.resolve()).encode()).hexdigest()[:16]  # of two files of one name in two folders
    spec = importlib.util.spec_from_file_location(f"_mpi_opt_user_{own}_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError("no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where what it defines is looked up, by data classes for one
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module
