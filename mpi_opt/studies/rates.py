"""The papers' rates O(1/(n T)) and O(1/sqrt(n T)), measured: slopes against T and gains from n, in lockstep.

``python -m mpi_opt.studies.rates`` prints the tables of ``docs/rates.md``. Every run is kept in ``--out`` as soon as it
is done, so that a broken-off or widened measurement goes on from there. Theorems 1 and 2 of Singh et al. 2019, arXiv
1910.14280.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from mpi_opt.errors import EXIT_DONE, MpiOptError
from mpi_opt.report.figures.style import need_matplotlib
from mpi_opt.studies.common import fill
from mpi_opt.studies.rate_grounds import Ground, make_ground
from mpi_opt.studies.rate_points import Points, Series
from mpi_opt.studies.rate_runs import PLAIN, Point, gaps, gradients
from mpi_opt.studies.rate_series import QUICK, SERIES
from mpi_opt.studies.rate_tables import claims, page


def measure(
    series: Sequence[Series], grounds: Mapping[str, Ground], seeds: int, points: Points, tell: Callable[[str], None]
) -> None:
    """Run what ``points`` lacks, seed by seed, so that whole seeds are there early."""
    for seed in range(seeds):
        for each in series:
            for method, nodes, horizons in _runs(each):
                if all(points.has(each.ground, method, each.graph, nodes, seed, T) for T in horizons):
                    continue
                found = _run(each, grounds[each.ground], method, nodes, seed, horizons)
                points.add(found)
                tell(f"{each.ground}: {method}, n = {nodes}, T = {max(horizons)}, seed {seed}")


def _runs(series: Series) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Yield method, nodes and horizons of each run. One node speaks to nobody: there all methods are the plain one."""
    for nodes in series.nodes:
        for method in (PLAIN,) if nodes == 1 else series.methods:
            if series.factor is None:
                yield method, nodes, series.horizons
            else:
                yield from ((method, nodes, (T,)) for T in series.horizons_of(nodes))


def _run(
    series: Series, ground: Ground, method: str, nodes: int, seed: int, horizons: tuple[int, ...]
) -> Sequence[Point]:
    if series.factor is None:
        return gaps(series.ground, ground, method, series.graph, nodes, seed, horizons)
    return [gradients(series.ground, ground, method, series.graph, nodes, seed, horizons[0], series.factor)]


def main(arguments: Sequence[str]) -> int:
    """Measure, print the tables, write the figure and the page; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mpi_opt.studies.rates", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs of everything (default 5)")
    parser.add_argument("--quick", action="store_true", help="short runs on two functions, in seconds; less sharp")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep every run there, and draw the figure")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables into this page")
    parser.add_argument("--claims", type=Path, metavar="FILE", help="put the claims, in short, into this page")
    options = parser.parse_args(arguments)
    if options.seeds < 2:
        parser.error(f"--seeds {options.seeds}: at least 2, or there is no spread")
    series = QUICK if options.quick else SERIES

    def tell(line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    try:
        if options.out is not None:
            need_matplotlib()  # told now, not after the runs
        grounds = {each.ground: make_ground(each.ground) for each in series}
        points = Points(options.out)
        measure(series, grounds, options.seeds, points, tell)
        found = points.of_seeds(options.seeds)
        text = page(series, grounds, found)
        sys.stdout.write(text + "\n")
        if options.page is not None:
            fill(options.page, "rates", text)
        if options.claims is not None:
            fill(options.claims, "claims on rates", claims(series, grounds, found, "make rates"))
        if options.out is not None:
            from mpi_opt.studies.rate_figure import write_figure

            tell("\n".join(f"wrote {path}" for path in write_figure(series, found, options.out)))
    except MpiOptError as error:
        sys.stderr.write(f"mpi-opt: error: {error}\n")
        return error.exit_code
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
