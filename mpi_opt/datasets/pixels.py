"""Images of unsigned bytes, in whichever format."""

from mpi_opt.datasets.idx import read_images
from mpi_opt.datasets.records import RecordFiles, read_records
from mpi_opt.datasets.source import IdxPair
from mpi_opt.types import Bytes


def read_pixels(source: IdxPair | RecordFiles) -> tuple[Bytes, Bytes]:
    """Return the pixels, shape (rows, pixels), and labels, shape (rows,), of a set; errors as in its reader."""
    if isinstance(source, RecordFiles):
        return read_records(source.paths)
    return read_images(source.images, source.labels)
