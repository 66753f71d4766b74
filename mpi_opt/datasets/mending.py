"""From the fields of a block of LIBSVM text to its rows, faults in some of them left out or mended."""

from dataclasses import replace

import numpy as np

from mpi_opt.datasets.faults import Faults
from mpi_opt.datasets.fields import Fields
from mpi_opt.datasets.malformed import LABELS_NOT_FINITE, VALUES_NOT_FINITE
from mpi_opt.datasets.numbers import Mask
from mpi_opt.datasets.rows import Rows, Seen, select_rows
from mpi_opt.datasets.spec import NanRule


def rows_of(found: Fields) -> Rows:
    """Return the rows of a block without faults."""
    return Rows(found.indptr, found.index.astype(np.int32), found.values, found.labels, Seen(qids=found.qids))


def fatal_faults(faults: Faults, nan: NanRule) -> Mask:
    """Return which faults are faults under a rule for what is not finite, bool of shape (faults,)."""
    if nan == "refuse":
        return np.ones(faults.kinds.size, dtype=np.bool_)
    allowed = VALUES_NOT_FINITE if nan == "zero" else (*VALUES_NOT_FINITE, *LABELS_NOT_FINITE)
    return ~np.isin(faults.kinds, np.array(allowed, dtype=np.uint8))


def mend(found: Fields, faults: Faults, fatal: Mask, nan: NanRule) -> Rows:
    """Return the rows without a fatal fault, others mended as ``nan`` says; what that passed over is in ``seen``."""
    kept = np.ones(found.labels.size, dtype=np.bool_)
    kept[faults.rows[fatal]] = False
    mended = faults.rows[kept[faults.rows]]
    rows = rows_of(found)
    if nan == "zero":
        rows.values[found.bad_value] = 0.0
        return replace(select_rows(rows, kept), seen=replace(rows.seen, zeroed=mended.size))
    dropped = np.zeros(kept.size, dtype=np.bool_)
    dropped[mended] = True
    # an index 0 counts where it is left out for another thing than itself
    zero_index = (rows.indices[np.repeat(dropped, np.diff(rows.indptr))] == 0).any()
    seen = replace(rows.seen, dropped=int(np.count_nonzero(dropped)), zero_index=bool(zero_index))
    return replace(select_rows(rows, kept & ~dropped), seen=seen)
