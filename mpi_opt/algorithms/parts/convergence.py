"""When a second-order method may say "converged": on the global gradient only."""

from dataclasses import dataclass

import numpy as np

from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Bound on the norm of the global gradient.

    Parameters
    ----------
    gradient_norm : float
        |grad F| at which the method ends; 0 goes on to rounding.
    """

    gradient_norm: float = 0.0

    def reached(self, g: Vector) -> str:
        """Return what to say if the gradient is small enough, else nothing."""
        norm = float(np.linalg.norm(g))
        return f"converged: gradient norm {norm:.3g} <= {self.gradient_norm:g}" if norm <= self.gradient_norm else ""

    def stalled(self, g: Vector, why: str) -> str:
        """Return what to say where no further step is possible; the last good model is kept."""
        return f"ended at gradient norm {np.linalg.norm(g):.3g}: {why}"
