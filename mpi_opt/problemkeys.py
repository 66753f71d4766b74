"""The keys of ``[problem]`` in a job file: a linear model or a module, its loss and penalty. See ``jobkeys.py``."""

import math
from typing import Annotated, Any, Literal

from msgspec import Meta

from mpi_opt import jobtext
from mpi_opt.errors import JobError
from mpi_opt.keytypes import Count, Positive, Table, says
from mpi_opt.problems.torch.factory import BUILTIN, check_word


class Problem(Table, frozen=True, kw_only=True):
    """``[problem]``: what is minimised."""

    loss: Annotated[
        Literal["logistic", "squared", "squared-hinge", "huber", "softmax"],
        says("logistic, squared, squared-hinge, huber, softmax"),
    ]
    # None: what [validation] chooses; without that table, "1/N"
    l2: Annotated[Literal["1/N"] | Annotated[float, Meta(ge=0)], says('"1/N" or a number >= 0')] | None = None
    class_weight: (
        Annotated[Literal["balanced"] | dict[str, Positive], says('"balanced" or a table { "label" = number > 0 }')]
        | None
    ) = None
    module: Annotated[str, says(f'{", ".join(BUILTIN)}, "package.module:factory" or "file.py:factory"')] | None = None
    module_options: Annotated[dict[str, Any], says("a table of the factory's keywords")] | None = None
    shape: Annotated[list[Count], says("a list of integers >= 1, such as [1, 28, 28]", min_length=1)] | None = None
    dtype: Annotated[Literal["float32", "float64"], says("float32, float64")] | None = None
    device: Annotated[str, says('"cpu", "cuda" or "cuda:NUMBER"', pattern=r"^(cpu|cuda(:[0-9]+)?)\Z")] | None = None

    def __post_init__(self) -> None:
        self._check_module()
        if self.class_weight is None:
            return
        if self.loss in ("squared", "huber"):
            raise ValueError(f'problem.class_weight: has no meaning for the loss "{self.loss}", which has no classes')
        labels = [] if self.class_weight == "balanced" else [_number(label) for label in self.class_weight]
        if len(set(labels)) < len(labels):
            raise ValueError(f"problem.class_weight = {jobtext.show(self.class_weight)}: a label is there twice")

    def _check_module(self) -> None:
        """Check that the loss and the other keys fit whether a module is named."""
        if self.module is None:
            for key in ("module_options", "shape", "dtype", "device"):
                if getattr(self, key) is not None:
                    raise ValueError(f"problem.{key}: has a meaning only beside problem.module")
            return
        try:
            check_word(self.module)
        except JobError as error:
            raise ValueError(str(error)) from None
        if self.loss not in ("softmax", "squared"):
            raise ValueError(f'problem.loss = "{self.loss}": a module takes softmax, squared')
        if self.l2 == "1/N":
            raise ValueError('problem.l2 = "1/N": a module takes a number >= 0, weight decay on all its parameters')


def _number(label: str) -> float:
    """Return a label that is a key of a table as the number that it is."""
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"problem.class_weight.{label}: no label; allowed: numbers, as the data file has them")
    return number
