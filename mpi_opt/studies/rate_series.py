"""What the rate page measures."""

from mpi_opt.studies.rate_grounds import BY_LABEL, NETWORK, SATURATING, STRONGLY_CONVEX
from mpi_opt.studies.rate_points import Series
from mpi_opt.studies.rate_runs import METHODS, PLAIN, SPARQ

NODES = (1, 2, 4, 8, 16)


def _powers(least: int, most: int) -> tuple[int, ...]:
    return tuple(2**k for k in range(least, most + 1))


SERIES = (
    Series(ground=STRONGLY_CONVEX, rate=1.0, methods=METHODS, nodes=NODES, horizons=_powers(8, 11)),
    Series(
        ground=SATURATING,
        rate=0.5,
        methods=METHODS,
        nodes=NODES,
        horizons=_powers(7, 11),
        slope_nodes=(8,),
        factor=3.0,
    ),
    Series(
        ground=NETWORK,
        rate=0.5,
        methods=(PLAIN, SPARQ),
        nodes=(1, 4, 16),
        horizons=_powers(7, 11),
        slope_nodes=(4,),
        factor=2.0,
    ),
    # Where the network's own transient ends, which no method can shorten.
    Series(ground=NETWORK, rate=0.5, methods=(PLAIN,), nodes=(1,), horizons=_powers(13, 15), factor=2.0),
    Series(ground=BY_LABEL, rate=1.0, methods=(PLAIN, SPARQ), nodes=(16,), horizons=_powers(8, 11)),
)
"""All of the page."""

QUICK = (
    Series(ground=STRONGLY_CONVEX, rate=1.0, methods=(PLAIN, SPARQ), nodes=(1, 4), horizons=_powers(7, 10)),
    Series(
        ground=SATURATING,
        rate=0.5,
        methods=(PLAIN, SPARQ),
        nodes=(1, 4),
        horizons=_powers(7, 9),
        slope_nodes=(4,),
        factor=3.0,
    ),
)
"""The same in seconds."""
