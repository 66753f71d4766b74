"""What a job would need, part by part, without training: for ``mpi-opt plan``."""
