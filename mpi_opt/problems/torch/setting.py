"""How PyTorch computes in this process."""

from typing import Any

import torch

deterministic: Any = torch.utils.deterministic


def steady() -> None:
    """Let PyTorch give the same bits whatever runs beside it: one thread, deterministic algorithms only.

    An operation of which there is no deterministic form raises where it is called. For the whole process.
    """
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    deterministic.fill_uninitialized_memory = False  # costs time, and hides nothing here
