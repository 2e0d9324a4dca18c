"""How the load tests start processes whose time and memory they measure."""

from __future__ import annotations

import os

#: Coverage is measured in child processes by these, which takes time and memory of its own.
MEASURING = ("COVERAGE_", "COV_CORE_")


def environment(**added: str) -> dict[str, str]:
    """The environment of such a process: one thread, and nothing measured inside."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(MEASURING)}
    return {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **added}
