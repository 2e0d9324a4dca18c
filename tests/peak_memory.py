"""The most memory that this process has held, in bytes.

``getrusage`` is no help on Linux: a process begins with the peak of the one that started it, so
that a small program started by large tests looks large.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_memory() -> int:
    """The peak since the process began its program, or since `forget_peak`."""
    with suppress(OSError, StopIteration):
        lines = STATUS.read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak() -> None:
    """From now on the peak is that of what follows, where the system can do that."""
    with suppress(OSError):
        CLEAR.write_text("5")
