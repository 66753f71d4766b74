"""From features to margins, labels and probabilities with a trained model: pure functions, no rank and no file.

Margins are class-major, as losses have them: shape ``(rows,)`` with one column, ``(C, rows)`` with C. Classes are
numbered as in ``Model.order``.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from mpi_opt.errors import DataError, JobError
from mpi_opt.model import Model
from mpi_opt.problems.losses import Logistic, Softmax
from mpi_opt.problems.rows import as_matrix
from mpi_opt.restoring import Maker, restore
from mpi_opt.types import Features, Indices, Vector

_NEGATIVE = np.full(1, -1.0)


def margins(model: Model, features: Features) -> Vector:
    """Return ``w.x + b`` of every row and column; for regression that is the prediction.

    Parameters
    ----------
    model : Model
    features : ndarray or csr_array, shape (rows, model.features)
        As in the data file: the model's preparation is applied here.

    Returns
    -------
    ndarray of float64, shape (rows,) or (C, rows)
        Not finite where the numbers are too large for float64.
    """
    matrix = model.matrix if model.columns > 1 else model.weights
    with np.errstate(over="ignore", invalid="ignore"):
        z = as_matrix(model.preparation.apply(features)).dot(matrix[: model.features])
        if model.intercept:
            z += matrix[-1] if model.columns == 1 else matrix[-1][:, np.newaxis]
    return z


def scorer(model: Model, module: Maker = None, name: str = "the model") -> Callable[[Features], Vector]:
    """Return `margins` of a model as a function of features alone; of a module its outputs.

    Parameters
    ----------
    model : Model
    module : Module, callable or str, optional
        See `restoring.load_module`.
    name : str, optional
        The model's, for errors.

    Raises
    ------
    DataError, JobError
        The module cannot be made, or is named for a linear model; from the function: it raises on these features, or
        does not return one row of margins a row.
    """
    if model.module is None and module is None:
        return partial(margins, model)
    restored = restore(model, module, name)
    assert model.module is not None
    import torch

    from mpi_opt.problems.torch.calling import forward
    from mpi_opt.problems.torch.setting import steady

    steady()
    shape, dtype = tuple(model.module["shape"]), model.module["dtype"]

    def outputs(features: Features) -> Vector:
        prepared = model.preparation.apply(features)
        rows = prepared if isinstance(prepared, np.ndarray) else prepared.toarray()
        with np.errstate(over="ignore", invalid="ignore"), torch.no_grad():
            inputs = torch.from_numpy(np.array(rows, dtype=dtype)).reshape(-1, *shape)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)  # modules that draw even so draw the same for these rows, whoever has them
                found = forward(restored, inputs, name)
        z = found.double().numpy() if isinstance(found, torch.Tensor) else np.zeros(())
        count, columns = len(inputs), model.columns
        if z.shape != (count, columns) and not (columns == 1 and z.shape == (count,)):
            what = f"a tensor of shape {z.shape}" if isinstance(found, torch.Tensor) else f"a {type(found).__name__}"
            raise DataError(
                f"{name}: {type(restored).__name__} put out {what} for {count} rows; the model has {columns} number"
                f"{'s' * (columns > 1)} a row"
            )
        return np.ascontiguousarray(z.T) if model.columns > 1 else z.reshape(-1)

    return outputs


def decide(z: Vector) -> Indices:
    """Return the class of every row, int64, numbered as in ``model.order``.

    Two classes: the first for z > 0, as LIBLINEAR and scikit-learn have it. Several: the largest margin, the first of
    equal ones.
    """
    chosen = np.where(z > 0, 0, 1) if z.ndim == 1 else z.argmax(axis=0)
    return chosen.astype(np.int64, copy=False)


def has_probabilities(model: Model) -> bool:
    """Return whether the model's loss gives probabilities."""
    return model.loss in ("logistic", "softmax")


def probabilities(model: Model, z: Vector, name: str = "the model") -> Vector:
    """Return the probability of every class, shape ``(classes, rows)``, numbered as in ``model.order``.

    Logistic: ``1 / (1 + exp(-z))``; of several one-vs-rest columns these are divided by their sum, as LIBLINEAR does.

    Raises
    ------
    JobError
        The loss gives none.
    """
    if not has_probabilities(model):
        raise JobError(
            f"{name}: a model of loss = {model.loss!r} gives no probabilities: allowed are labels and scores, or a "
            "model trained with the logistic or softmax loss"
        )
    if model.loss == "softmax":
        return Softmax().probabilities(z)
    if z.ndim > 1:
        return Softmax().probabilities(_log_sigmoids(z))
    # The slope for the label -1 is 1 / (1 + exp(-z)), safe from overflow.
    return np.stack([Logistic().slope(z, _NEGATIVE), Logistic().slope(-z, _NEGATIVE)])


def rankings(model: Model, z: Vector) -> Vector:
    """Return what rows are ordered by for each class, shape ``(C, rows)``, given margins of that shape.

    ``log(p / (1 - p))`` of the class's probability p, which orders rows as p does but also tells apart those whose p
    rounds to 0 or 1; where there is none, the margin.
    """
    if not has_probabilities(model):
        return z
    return _log_odds(z if model.loss == "softmax" else _log_sigmoids(z))


def log_losses(model: Model, z: Vector, classes: Indices) -> Vector:
    """Return ``-log`` of the probability of each row's own class, shape ``(rows,)``; `probabilities` must exist."""
    if model.loss == "softmax":
        return Softmax().value(z, classes)
    if z.ndim == 1:
        return Logistic().value(z, 1.0 - 2.0 * classes)
    return Softmax().value(_log_sigmoids(z), classes)


def _log_sigmoids(z: Vector) -> Vector:
    """Return ``log(1 / (1 + exp(-z)))``: softmax of these are the sigmoids over their sum, without underflow."""
    return -Logistic().value(z, -_NEGATIVE)


def _log_odds(z: Vector) -> Vector:
    """Return ``z_c - log sum_{k != c} exp(z_k)``, shape ``(C, rows)``, C at least 2."""
    best, rows = z.argmax(axis=0), np.arange(z.shape[1])
    others = z.copy()
    others[best, rows] = -np.inf
    top, second = z[best, rows], others.max(axis=0)
    with np.errstate(over="ignore"):
        shares = np.exp(others - top)
        # the best one's own share, 1, is added last, so that nothing small is lost beside it
        odds: Vector = z - top - np.log1p(shares.sum(axis=0) - shares)
        odds[best, rows] = top - second - np.log(np.exp(others - second).sum(axis=0))
    return odds
