"""One BLAS thread in this process: the same bits however many cores there are, and no ranks in each other's way."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread(*, dense: bool = True) -> Iterator[None]:
    """Let BLAS take one thread for as long as the context lasts; threads are then as before.

    Parameters
    ----------
    dense : bool, optional
        Whether SciPy's dense algebra may be called in it. SciPy has a BLAS of its own beside NumPy's, loaded at its
        first use, and the limit only reaches what is loaded. Where it is not called, a rank is spared the loading.
    """
    import threadpoolctl

    if dense:
        import scipy.linalg  # noqa: F401
    with threadpoolctl.threadpool_limits(1):
        yield
