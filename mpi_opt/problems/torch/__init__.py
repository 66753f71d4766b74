"""PyTorch modules as problems: a module's parameters are one flat vector. Only `factory` works without PyTorch."""
