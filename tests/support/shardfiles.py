"""Small sets of text, converted, and what a reader makes of them."""

from pathlib import Path

import numpy as np
from support.threads import on_threads

from mpi_opt.datasets.converting import Wanted, convert
from mpi_opt.datasets.reading import hold
from mpi_opt.datasets.spec import Reading
from mpi_opt.network.collectives import Solo

PLAIN = Reading()


def write_text(
    path: Path, rows: int = 37, columns: int = 9, *, same: bool = False, seed: int = 0, base: int = 1
) -> Path:
    """Write LIBSVM text: rows without entries among them, values of all lengths, or all of them 1."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(rows):
        index = np.flatnonzero(rng.random(columns) < 0.4) + base
        values = np.ones(index.size) if same else rng.normal(size=index.size)
        label = rng.choice([-1, 1])
        lines.append(
            " ".join([f"{label:g}", *(f"{i}:{v!r}" for i, v in zip(index.tolist(), values.tolist(), strict=True))])
        )
    lines.append(f"1 {columns - 1 + base}:{1 if same else 0.25}")
    path.write_text("\n".join(lines) + "\n")
    return path


def converted(words, path: Path, collectives=None, reading: Reading = PLAIN, **wanted):
    """Convert ``words`` (looked for beside ``path``) to ``path``; what ``convert`` returns."""
    wanted = Wanted(path, overwrite=True, **wanted)
    words = [str(word) for word in ([words] if isinstance(words, str | Path) else words)]
    return convert(words, [path.parent], reading, wanted, collectives or Solo())


def held(words, folder: Path, size: int = 1, reading: Reading = PLAIN):
    """Return the holdings of ``size`` processes."""
    return raise_first(on_threads(size, lambda collectives: hold(words, [folder], reading, collectives)))


def raise_first(results):
    """Return what threads returned, or raise the first error among it."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def joined(holdings):
    """Return all that holdings say together, as plain arrays and figures: one process's view of the set."""
    first = holdings[0]
    arrays = {name: np.concatenate([getattr(h, name) for h in holdings]) for name in ("labels", "numbers")}
    if first.weights is not None:
        arrays["weights"] = np.concatenate([h.weights for h in holdings])
    if first.sparse is not None:
        arrays["lengths"] = np.concatenate([np.diff(h.sparse.indptr) for h in holdings])
        for name in ("indices", "values"):
            arrays[name] = np.concatenate([getattr(h.sparse, name) for h in holdings])
    else:
        arrays["dense"] = np.concatenate([h.dense for h in holdings])
    figures = {name: getattr(first, name) for name in ("rows", "features", "nonzeros", "index_base", "divisor")}
    for other in holdings[1:]:
        assert figures == {name: getattr(other, name) for name in figures}
    return arrays, figures


def assert_same(one, two) -> None:
    """Compare what ``joined`` returned, bit for bit."""
    assert one[1] == two[1]
    assert one[0].keys() == two[0].keys()
    for name, array in one[0].items():
        other = two[0][name]
        assert array.dtype == other.dtype, name
        assert array.shape == other.shape, name
        assert array.tobytes() == other.tobytes(), name
