"""mpi_opt: training over many machines when the network is the bottleneck."""

__version__ = "0.1.0"
