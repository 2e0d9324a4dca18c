"""Independent pieces of work, one after the other or in several processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")


def run_each(
    function: Callable[[Item], Any], items: Iterable[Item], jobs: int
) -> Generator[Any, None, None]:
    """What a function gives for each item, in the order in which they finish.

    Close the generator (``contextlib.closing``) to end the work that is under way.

    Args:
        function: Runs in another process if there is more than one job, with the default dtype
            of this one.
        items: What to call it with.
        jobs: The number of processes; with one, everything runs here.

    Example:
        >>> sorted(run_each(abs, [-1, 2, -3], jobs=1))
        [1, 2, 3]
    """
    if jobs == 1:
        yield from map(function, items)
        return
    from joblib import Parallel, delayed, parallel_config

    survive_replacements()
    # The pieces are what runs in parallel: a thread more in each would only wait.
    with parallel_config("loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
    dtype = torch.get_default_dtype()
    results = parallel(delayed(_in_worker)(function, item, dtype) for item in items)
    try:
        for result in results:  # noqa: UP028  (closing is done below)
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that work is cancelled is what is meant
            results.close()


def survive_replacements() -> None:
    """Keeps a parallel run alive where warnings are errors.

    joblib replaces a process whose memory grew, and the thread that does so warns. Made an error,
    the warning would end that thread, and everything would wait for ever.

    Example:
        >>> survive_replacements()
    """
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)


def _in_worker(function: Callable[[Any], Any], item: Any, dtype: torch.dtype) -> Any:
    """Calls the function under a default dtype, and puts back the one that was there."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        return function(item)
    finally:
        torch.set_default_dtype(before)
