"""The readers of a run's metrics, in one place: ``read_rank``, ``join``, ``merge`` and ``read_joined``."""

from mpi_opt.metrics.joined import JoinedMetrics, join, merge, read_joined
from mpi_opt.metrics.rank_file import RankMetrics, read_rank

__all__ = ["JoinedMetrics", "RankMetrics", "join", "merge", "read_joined", "read_rank"]
