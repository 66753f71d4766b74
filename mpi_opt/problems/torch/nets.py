"""Networks that a job may name: a multilayer perceptron, a small convolutional one, ResNet-20."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from mpi_opt.errors import JobError


def mlp(
    shape: tuple[int, ...], outputs: int, hidden: Sequence[int] = (128,), activation: str = "relu", dropout: float = 0.0
) -> nn.Module:
    """Return a multilayer perceptron on flattened rows.

    Parameters
    ----------
    shape : tuple of int
        Of a row.
    outputs : int
    hidden : sequence of int
        Widths of the hidden layers; none makes it linear.
    activation : {"relu", "tanh", "gelu"}
    dropout : float
        After each activation; in [0, 1).

    Raises
    ------
    JobError
        A width, the activation or the dropout is not allowed.
    """
    kinds = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
    if activation not in kinds:
        raise JobError(f"problem.module_options.activation = {activation!r}: allowed: {', '.join(kinds)}")
    _check_dropout(dropout)
    widths = [int(torch.Size(shape).numel()), *_counts("hidden", hidden)]
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), kinds[activation]()]
        if dropout:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


def cnn(
    shape: tuple[int, ...],
    outputs: int,
    channels: Sequence[int] = (16, 32),
    hidden: int = 128,
    norm: bool = False,
    dropout: float = 0.0,
) -> nn.Module:
    """Return a small convolutional network: 5 x 5 convolutions, each halved by max-pooling, then a hidden layer.

    Parameters
    ----------
    shape : (channels, height, width)
    outputs : int
    channels : sequence of int
        Of each convolution; height and width are halved as often, rounded down, and something must be left of them.
    hidden : int
    norm : bool
        Batch normalisation after each convolution.
    dropout : float
        Before the last layer; in [0, 1).

    Raises
    ------
    JobError
        The shape is no image's, or an option is not allowed.
    """
    depth, height, width = _image("cnn", shape)
    if not isinstance(norm, bool):  # a word such as "no" would count as true
        raise JobError(f"problem.module_options.norm = {norm!r}: allowed: true, false")
    _check_dropout(dropout)
    layers: list[nn.Module] = []
    for number in _counts("channels", channels):
        layers.append(nn.Conv2d(depth, number, 5, padding=2, bias=not norm))
        if norm:
            layers.append(nn.BatchNorm2d(number))
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
        depth, height, width = number, height // 2, width // 2
    if not height * width:
        raise JobError(
            f"problem.module_options.channels = {list(channels)}: images of shape {shape} can be halved "
            f"{min(shape[1:]).bit_length() - 1} times"
        )
    (inner,) = _counts("hidden", [hidden])
    layers += [nn.Flatten(), nn.Linear(depth * height * width, inner), nn.ReLU()]
    if dropout:
        layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear(inner, outputs))


class _Residual(nn.Module):
    """Two 3 x 3 convolutions round which the input is led; without parameters where it changes shape (option A)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self._stride, self._more = stride, after - before

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        y = torch.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        if self._more:
            x = nn.functional.pad(x[:, :, :: self._stride, :: self._stride], (0, 0, 0, 0, 0, self._more))
        return torch.relu(y + x)


def resnet20(shape: tuple[int, ...], outputs: int, width: int = 16) -> nn.Module:
    """Return ResNet-20 for small images: He, Zhang, Ren, Sun 2016, arXiv 1512.03385, section 4.2; 0.27 M parameters.

    Parameters
    ----------
    shape : (channels, height, width)
        Images as they are: not padded, cropped or flipped.
    outputs : int
    width : int
        Channels of the first stage; the paper's 16 by default.

    Raises
    ------
    JobError
        The shape is no image's, or the width is not allowed.
    """
    depth = _image("resnet20", shape)[0]
    (first,) = _counts("width", [width])
    layers: list[nn.Module] = [nn.Conv2d(depth, first, 3, padding=1, bias=False), nn.BatchNorm2d(first), nn.ReLU()]
    before = first
    for stage in range(3):
        for place in range(3):
            after = first << stage
            layers.append(_Residual(before, after, 2 if stage and not place else 1))
            before = after
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs))
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):  # He et al. 2015, as the paper does
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return net


def _image(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) != 3:
        raise JobError(f"problem.shape = {list(shape)}: {name} takes [channels, height, width]")
    return shape


def _counts(name: str, values: Sequence[int]) -> list[int]:
    whole = isinstance(values, list | tuple) and all(type(value) is int and value >= 1 for value in values)
    if not whole:
        raise JobError(f"problem.module_options.{name}: allowed: integers of at least 1")
    return list(values)


def _check_dropout(dropout: float) -> None:
    if not (isinstance(dropout, int | float) and 0 <= dropout < 1):
        raise JobError(f"problem.module_options.dropout = {dropout!r}: allowed: at least 0 and below 1")
