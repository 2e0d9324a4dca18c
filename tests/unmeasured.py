"""How tests start processes in which coverage is not measured."""

from __future__ import annotations

import os

#: What starts coverage in a child process. It takes time and memory of its own, which a test may
#: be about, and it writes a file, which a test may forbid.
MEASURING = ("COVERAGE_", "COV_CORE_")


def environment(**added: str) -> dict[str, str]:
    """The environment of such a process: one thread, and nothing measured inside."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(MEASURING)}
    return {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **added}
