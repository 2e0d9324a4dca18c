"""Peaks of memory are those of the process itself, and of the time that is asked about."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from peak_memory import forget_peak, peak_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="peaks as Linux tells them")

LARGE = 300 * 2**20


def test_a_peak_is_forgotten():
    np.ones(LARGE // 8)
    forget_peak()
    small = peak_memory()
    np.ones(LARGE // 8)
    assert peak_memory() - small >= 0.9 * LARGE


def test_a_child_has_no_peak_of_its_parent():
    np.ones(LARGE // 8)
    assert peak_memory() > LARGE
    child = subprocess.run(
        [sys.executable, "-c", "import peak_memory; print(peak_memory.peak_memory())"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(child.stdout) < LARGE / 2
