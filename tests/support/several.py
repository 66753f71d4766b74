"""Rank script: one command after another, as if each were started anew. ``several.py FILE`` (a JSON list of lists).

Each command's exit code is told behind it: ``exit code N`` on a line of its own, in every rank's log.
"""

import json
import sys
from pathlib import Path

from mpi_opt.cli import main

for command in json.loads(Path(sys.argv[1]).read_text()):
    code = main(command)
    sys.stderr.write(f"\nexit code {code}\n")
    sys.stderr.flush()
