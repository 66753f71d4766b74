"""Data sets of PyTorch one of whose items cannot be fetched, or is not as the others: the row is named."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402
from torch.utils.data import Dataset  # noqa: E402

import mpi_opt  # noqa: E402
from mpi_opt.errors import DataError  # noqa: E402
from mpi_opt.problems.torch.flat import FlatModule  # noqa: E402
from mpi_opt.problems.torch.problem import TorchProblem  # noqa: E402


def raises(error):
    def item():
        raise error

    return item


class Odd(Dataset):
    """Twenty rows, of which the seventh is made by ``odd``."""

    def __init__(self, odd):
        self.odd = odd

    def __len__(self):
        return 20

    def __getitem__(self, row):
        return self.odd() if row == 7 else (torch.full((4,), row / 20), row % 3)


CASES = [
    (raises(KeyError("no picture")), "row 7 of the data set: Odd raised KeyError: 'no picture'"),
    (raises(SystemExit(0)), "row 7 of the data set: Odd raised SystemExit: 0"),
    (raises(StopIteration()), "row 7 of the data set: Odd raised StopIteration"),
    (
        lambda: (torch.zeros(5), 0),
        r"row 7: \(Tensor of shape \(5,\), int\); needed .* \(row 0: \(Tensor of shape \(4,\), int\)\): stack expects",
    ),
    (lambda: torch.zeros(4), r"row 7: Tensor of shape \(4,\); needed"),
    (lambda: (torch.zeros(4), 0, 1), r"row 7: \(Tensor of shape \(4,\), int, int\); needed"),
    (lambda: [0] * 9, "row 7: list of 9; needed"),
    (lambda: (torch.zeros(4), None), r"row 7: \(Tensor of shape \(4,\), NoneType\); needed"),
    (lambda: ("a", 0), r"row 7: \(str, int\)(: no pair|; needed)"),
    (lambda: (torch.zeros(4), torch.tensor([1, 2])), r"row 7: \(Tensor of shape \(4,\), Tensor of shape \(2,\)\)"),
    (lambda: (torch.zeros(4), 77), r"found 77 in row 7; needed: whole numbers 0\.\.2"),
]


@pytest.mark.parametrize(("odd", "said"), CASES)
@pytest.mark.parametrize("rows", [[3, 7, 11], [7, 3]])
def test_the_row_that_is_odd_is_named(odd, said, rows):
    problem = TorchProblem(FlatModule(nn.Linear(4, 3)), "softmax", Odd(odd))
    with pytest.raises((DataError, ValueError), match=said):
        problem.sampled_gradient(problem.start, np.array(rows))


def test_a_label_that_is_not_finite_is_named():
    problem = TorchProblem(FlatModule(nn.Linear(4, 1)), "squared", Odd(lambda: (torch.zeros(4), float("nan"))))
    with pytest.raises(DataError, match="found nan in row 7; needed: finite numbers"):
        problem.value(problem.start)


def test_a_program_ends_with_the_row():
    problem = TorchProblem(FlatModule(nn.Linear(4, 3)), "softmax", Odd(raises(OSError("disk"))))
    algorithm = mpi_opt.AllreduceSGD(step_size=mpi_opt.Constant(0.1), batch=4)
    with pytest.raises(DataError, match="row 7 of the data set: Odd raised OSError: disk"):
        mpi_opt.minimize(problem, algorithm, steps=6)
