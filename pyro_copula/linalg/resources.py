"""What the machine gives to the sparse engine: memory, BLAS threads and compiled kernels."""

from __future__ import annotations

import logging
import threading
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import MemoryLimitError

_logger = logging.getLogger("pyro_copula")

#: Work smaller than this is not worth asking the system about.
_NEGLIGIBLE = 64 * 2**20


def available_memory() -> int:
    """The bytes that can still be allocated without swapping or being killed."""
    limits = [_system_memory()]
    group = Path("/sys/fs/cgroup")
    try:  # a container's own limit, which the system-wide figure does not see
        limit = int((group / "memory.max").read_text())
        limits.append(limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return max(0, min(limits))


def _system_memory() -> int:
    try:
        import psutil

        return int(psutil.virtual_memory().available)
    except ImportError:
        pass
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 2**63 - 1  # unknown: let the system decide


def check_memory(bytes_needed: int, what: str, hint: str) -> None:
    """Raises the error with the figures if the machine cannot give so much memory.

    Args:
        bytes_needed: The predicted bytes.
        what: The work, as the subject of a sentence.
        hint: What to do about it.

    Raises:
        MemoryLimitError: If less than that is available.
    """
    if bytes_needed < _NEGLIGIBLE:
        return
    available = available_memory()
    if bytes_needed > available:
        raise MemoryLimitError(what, bytes_needed, available, hint)


class SingleThreadedBLAS:
    """Holds scipy's BLAS at one thread while any thread of the program is inside.

    The fronts of a sparse factor are mostly tiny: with several threads OpenBLAS spends its time
    waking and waiting for them, up to hundreds of times longer than the work. torch's threads and
    numpy's BLAS are not touched.
    """

    _lock = threading.Lock()
    _inside = 0
    _before: tuple[int, ...] = ()

    def __enter__(self) -> None:
        cls = SingleThreadedBLAS
        with cls._lock:
            cls._inside += 1
            if cls._inside == 1:
                libraries = _scipy_blas()
                cls._before = tuple(library.get_num_threads() for library in libraries)
                for library, count in zip(libraries, cls._before, strict=True):
                    if count != 1:
                        library.set_num_threads(1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        cls = SingleThreadedBLAS
        with cls._lock:
            cls._inside -= 1
            if cls._inside == 0:
                for library, count in zip(_scipy_blas(), cls._before, strict=True):
                    if count != 1:
                        library.set_num_threads(count)


@cache
def _scipy_blas() -> tuple[Any, ...]:
    """The BLAS libraries that scipy may call; found once, since looking takes milliseconds."""
    import scipy.linalg.cython_blas  # noqa: F401 (so that its library is loaded)
    from threadpoolctl import ThreadpoolController

    found = [x for x in ThreadpoolController().lib_controllers if x.user_api == "blas"]
    own = [x for x in found if {"scipy.libs", "scipy"} & set(Path(x.filepath).parts)]
    # Without a library of its own scipy uses a shared one, never the one inside torch's wheel.
    return tuple(own or [x for x in found if "torch" not in Path(x.filepath).parts])


@cache
def announce_compilation() -> None:
    """Says, once and only if it is so, that the kernels are about to be compiled."""
    from . import kernels, tree

    # What every use compiles; some uses never need the others, and would announce them each time.
    for dispatcher in (kernels.factor, tree.structure):
        name = dispatcher.py_func.__name__
        path = dispatcher.stats.cache_path
        if path is None or not any(Path(path).glob(f"*.{name}-*.nbi")):
            _logger.warning("compiling the sparse kernels, about 25 s, once per machine")
            return
