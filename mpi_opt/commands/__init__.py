"""The subcommands of ``mpi-opt``: arguments in, calls out. One file a group; each has ``add_to(commands)``."""
