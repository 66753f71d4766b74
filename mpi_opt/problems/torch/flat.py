"""A module's parameters as one flat float64 vector, and its gradient likewise, copied at once and not by tensors.

The parameters are views into one buffer of the compute type, and so are their gradients into another: setting a point,
and taking a gradient out, is one conversion each, however many tensors there are.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import torch

from mpi_opt.errors import JobError
from mpi_opt.problems.modelled import quiet
from mpi_opt.problems.torch.buffers import Others
from mpi_opt.problems.torch.devices import device_of, pinned
from mpi_opt.problems.torch.kept import taken_away, unlike
from mpi_opt.problems.torch.norms import Norms
from mpi_opt.problems.torch.taking import check_tensors, unshare
from mpi_opt.problems.torch.tensors import state_of
from mpi_opt.types import Vector

DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "float64": torch.float64}
"""Types that a module computes in, by the words of a job."""

_KEPT = 256
"""Models whose buffers are remembered: evaluation in lockstep comes back to each of them, node by node."""


class Block(NamedTuple):
    """One parameter tensor within the flat vector: entries ``start`` to ``start + size``, in C order of ``shape``."""

    name: str
    start: int
    size: int
    shape: tuple[int, ...]


class FlatModule:
    """A module whose trainable parameters are one flat vector of length ``dim``.

    Parameters that take no gradient stay as they are; tied ones count once. The module belongs to this object from
    here on: its parameters become views into one buffer. One object serves any number of `TorchProblem`.

    Parameters
    ----------
    module : torch.nn.Module
        Its present parameters are the point where runs start.
    dtype : {"float32", "float64"}, optional
        What it computes in.
    device : str, optional
        "cpu", or "cuda" (perhaps with a number), to which points go through pinned memory of the host.

    Attributes
    ----------
    module : torch.nn.Module
    blocks : tuple of Block
        In the order of ``named_parameters``.
    dim : int
    start : ndarray, shape (dim,)
        float64, read-only: the parameters as they were handed over.

    Raises
    ------
    JobError
        There is nothing to train, a parameter or buffer is complex or has no shape yet, a parameter to train is not
        finite, the type is unknown, or there is no such device.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> None:
        if dtype not in DTYPES:
            raise JobError(f"problem.dtype = {dtype!r}: allowed: {', '.join(DTYPES)}")
        self.dtype, self.device = DTYPES[dtype], device_of(device)
        if not isinstance(module, torch.nn.Module):
            raise JobError(f"problem.module: is of type {type(module).__name__}; allowed: a torch.nn.Module")
        check_tensors(module)
        self.module = module.to(device=self.device, dtype=self.dtype)
        unshare(self.module)
        trained = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        blocks, at = [], 0
        for name, parameter in trained:
            blocks.append(Block(name, at, parameter.numel(), tuple(parameter.shape)))
            at += parameter.numel()
        if not at:
            raise JobError(f"problem.module: {type(module).__name__} has no parameter that takes a gradient")
        self.blocks, self.dim = tuple(blocks), at
        self._values = torch.empty(at, dtype=self.dtype, device=self.device)
        self._slopes = torch.zeros(at, dtype=self.dtype, device=self.device)
        self._views = []
        for (_, parameter), block in zip(trained, blocks, strict=True):
            part = slice(block.start, block.start + block.size)
            view = self._values[part].view(block.shape)
            view.copy_(parameter.data)
            parameter.data = view
            parameter.grad = self._slopes[part].view(block.shape)
            self._views.append((parameter, view.data_ptr(), parameter.grad))
        # On the host these are the buffers themselves, seen by NumPy.
        there = self.device.type != "cpu"
        self._staged = pinned(self._values) if there else self._values
        self._back = pinned(self._slopes) if there else self._slopes
        self._host: Any = self._staged.numpy()
        self._host_slopes: Any = self._back.numpy()
        if there:
            self._staged.copy_(self._values)
        self.start: Vector = self._host.astype(np.float64)
        self.start.flags.writeable = False
        odd = next((b.name for b in blocks if not np.isfinite(self.start[b.start : b.start + b.size]).all()), None)
        if odd is not None:
            raise JobError(
                f"problem.module: {odd} of {type(module).__name__} has values that are not finite; allowed: finite "
                "numbers, where runs start"
            )
        self._norms = Norms(self.module)
        self._calibration: torch.Tensor | None = None
        self._others = Others(self.module, self._norms.holds)
        self._remembered: OrderedDict[bytes, list[torch.Tensor]] = OrderedDict()

    @property
    def normalised(self) -> bool:
        """Whether there are layers of batch normalisation, whose statistics `calibrate` gives rows for."""
        return bool(self._norms)

    def is_statistic(self, buffer: torch.Tensor) -> bool:
        """Return whether a buffer is one of batch normalisation, so computed anew at each model."""
        return self._norms.holds(buffer)

    @quiet
    def calibrate(self, rows: Any) -> None:
        """Take the rows from which statistics are computed, at each model that is evaluated or saved.

        Without this call they are the running ones of the batches that the module was trained on last, whose gradients
        may be of other points: figures then depend on what came before.

        Parameters
        ----------
        rows : ndarray, shape (rows, ...)
            As the module takes them, at least one; copied.
        """
        if not len(rows):
            raise ValueError("there are no rows; one or more are needed, of which batch normalisation takes statistics")
        self._calibration = torch.from_numpy(np.array(rows)).to(self.device, self.dtype)
        self._remembered.clear()

    @quiet
    def load(self, x: Vector) -> None:
        """Set the parameters to ``x``, shape ``(dim,)``, rounded to the compute type.

        Raises
        ------
        JobError
            The parameters are no longer this object's: the module was moved, or handed to another.
        """
        self._hold()
        if x.shape != (self.dim,):
            raise ValueError(f"the point has shape {x.shape}; ({self.dim},) is needed")
        np.copyto(self._host, x, casting="same_kind")
        if self._staged is not self._values:
            self._values.copy_(self._staged, non_blocking=True)

    def _hold(self) -> None:
        """See that parameters and gradients still are views: after ``module.zero_grad()`` gradients would be lost."""
        for parameter, place, slope in self._views:
            if parameter.data_ptr() != place:
                raise JobError(
                    f"problem.module: {type(self.module).__name__} was moved or converted, or is another FlatModule's; "
                    "allowed: one FlatModule for a module, which is left to it"
                )
            if parameter.grad is not slope:
                parameter.grad = slope

    @quiet
    def gradient(self, factor: float, out: Vector) -> None:
        """Write ``factor`` times the gradient of the last ``backward`` to ``out``, float64, shape ``(dim,)``.

        Raises
        ------
        JobError
            The module took a gradient away as it was called, so that what ``backward`` found went elsewhere.
        """
        lost = taken_away(self._views)
        if lost is not None:
            raise JobError(
                f"problem.module: {type(self.module).__name__} took the gradient of {self.blocks[lost].name} away as "
                "it was called, as zero_grad does; allowed: a forward that leaves gradients alone"
            )
        if self._back is not self._slopes:
            self._back.copy_(self._slopes)
        np.copyto(out, self._host_slopes)  # converted first: several times as fast as multiplying mixed types
        if factor != 1.0:
            out *= factor

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """See to it meanwhile that calling the module leaves its parameters: which there are, and their values.

        Raises
        ------
        JobError
            At the end: one was added, replaced, is no longer trained, or has other values.
        """
        before = self._values.clone()
        yield
        found = unlike(self.module, self.blocks, self._views, before, self._values)
        if found:
            raise JobError(
                f"problem.module: {type(self.module).__name__} changed its parameters as it was called: {found}; "
                "allowed: parameters that are there from the start, which a forward leaves as they are"
            )

    def zero(self) -> None:
        """Set the gradient back to zero."""
        self._slopes.zero_()

    @contextmanager
    def training(self, seed: int) -> Iterator[None]:
        """Train meanwhile: batch statistics, random numbers from ``seed``, gradients from zero; else see `_afresh`."""
        with self._afresh(seed):
            if not self.module.training:
                self.module.train()
            self.zero()
            yield

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluate the loaded point meanwhile: no dropout, the statistics of the calibration rows; see `_afresh` too.

        Modules and data sets that draw even so draw the same at each evaluation.
        """
        self.module.eval()
        if self._norms and self._calibration is not None:
            self._normalise(self._calibration)
        with self._afresh(0):
            yield

    @contextmanager
    def _afresh(self, seed: int) -> Iterator[None]:
        """Set buffers that are no statistics back, and draw from ``seed`` meanwhile: nothing is remembered."""
        # Not torch.manual_seed, which formats a traceback for every kind of device that is not in use.
        there = self.device.type == "cuda"
        host, own = torch.default_generator.get_state(), torch.cuda.get_rng_state(self.device) if there else None
        torch.default_generator.manual_seed(seed)
        if own is not None:
            torch.cuda.manual_seed(seed)
        try:
            self._others.restore()
            yield
        finally:
            torch.default_generator.set_state(host)
            if own is not None:
                torch.cuda.set_rng_state(own, self.device)

    def _normalise(self, rows: torch.Tensor) -> None:
        """Set the statistics to those of ``rows`` at the loaded point."""
        key = blake2b(self._host, digest_size=16).digest()
        found = self._remembered.get(key)
        if found is None:
            with self._afresh(0):
                self._norms.recompute(self.module, rows)
            self._remembered[key] = self._norms.kept()
            if len(self._remembered) > _KEPT:
                self._remembered.popitem(last=False)
        else:
            self._norms.restore(found)

    def state(self, x: Vector) -> dict[str, Any]:
        """Return the state dict at ``x``, buffers included, as arrays of their own types (copies).

        Raises
        ------
        JobError
            There is none, or it holds something else than dense tensors.
        """
        self.load(x)
        with self.evaluating():
            return state_of(self.module)
