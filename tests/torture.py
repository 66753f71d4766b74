"""``make torture``: 100 kills at random times. ``python tests/torture.py [KILLS [SEED]]``; the seed is printed."""

import secrets
import sys
import tempfile
import time
from pathlib import Path

from support.torture import Torture


def main() -> int:
    """Torture, print the table, and return 1 if anything was lost."""
    words = [int(word) for word in sys.argv[1:]]
    kills, seed = (*words, *(100, secrets.randbelow(10**6))[len(words) :])[:2]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        torture = Torture(Path(name), seed, say=lambda text: print(text, flush=True))
        torture.go(kills)
    print(f"\n{torture.table()}\n\n{torture.kills} kills in {time.monotonic() - began:.0f} s")
    return 1 if torture.wrong or any(tally.rows + tally.checkpoints for tally in torture.tally.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
