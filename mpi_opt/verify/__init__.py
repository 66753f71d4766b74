"""Self-test of an installation: the method, its messages and its files, on the user's own machine and MPI."""
