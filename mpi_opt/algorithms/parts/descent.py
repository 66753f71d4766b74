"""The local step that every SGD method here shares: plain, or with Nesterov momentum."""

from mpi_opt.algorithms.base import Node
from mpi_opt.draws import Key, Purpose
from mpi_opt.problems.base import Problem
from mpi_opt.types import Vector


def descend(x: Vector, g: Vector, eta: float, momentum: Vector | None, beta: float, spare: Vector) -> None:
    """Move ``x`` along ``-g`` in place; ``g`` and ``spare`` are used up.

    Without momentum ``x -= eta g``. With it, as in SQuARM-SGD (Singh et al. 2020, arXiv 2005.07041, Algorithm 1):
    ``v = beta v + g;  x -= eta (beta v + g)``.

    Parameters
    ----------
    x, g, spare : ndarray, shape (d,)
    eta : float
        Step size of this step.
    momentum : ndarray, shape (d,), or None
        v, updated in place.
    beta : float
        Momentum factor in [0, 1).
    """
    if momentum is not None:
        momentum *= beta
        momentum += g
        spare[:] = momentum
        spare *= beta
        g += spare
    g *= eta
    x -= g


def local_gradient(x: Vector, t: int, problem: Problem, node: Node) -> Vector:
    """Return the sampled gradient of the node's function at step ``t``, in the node's first work array."""
    draw_from = getattr(problem, "draw_from", None)  # see `problems.base.Drawing`
    if draw_from is not None:
        draw_from(Key(node.seed, node.index, Purpose.MODULE, t))
    return problem.sampled_gradient(x, node.batches.at(t), out=node.scratch[0])
