"""``python -m mpi_opt`` is the command ``mpi-opt``."""

import sys

from mpi_opt.cli import main

sys.exit(main())
