"""The package gives the same numbers from several threads and several processes at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from unmeasured import environment

PROGRAM = Path(__file__).with_name("at_once.py")
AT_ONCE = 4


def start(num_threads: int, num_processes: int, **added: str) -> subprocess.Popen:
    command = [sys.executable, str(PROGRAM), str(num_threads), str(num_processes)]
    return subprocess.Popen(
        command,
        env=environment(**added),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def numbers(process: subprocess.Popen, timeout: float) -> dict:
    try:
        output, errors = process.communicate(timeout=timeout)
    finally:
        process.kill()  # does nothing to one that has ended
    assert process.returncode == 0, errors
    return json.loads(output)


def test_threads_and_processes_give_the_same_numbers():
    """Each thread imports the package itself; fits in threads wait for each other."""
    found = numbers(start(AT_ONCE, AT_ONCE), 300)
    assert all(isinstance(number, float) for number in found["alone"]), found["alone"]
    assert found["threads"] == [found["alone"]] * AT_ONCE
    assert found["processes"] == [found["alone"]] * AT_ONCE


@pytest.mark.slow
def test_processes_that_compile_the_kernels_at_once(tmp_path):
    """The first use on a machine, by several processes that share an empty cache of kernels."""
    started = [start(1, 0, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(AT_ONCE)]
    try:
        found = [numbers(process, 1800) for process in started]
    finally:
        for process in started:
            process.kill()
    assert all(isinstance(number, float) for number in found[0]["alone"]), found[0]["alone"]
    assert any(tmp_path.rglob("*.nbc"))
    for one in found:
        assert one == found[0]
        assert one["threads"] == [one["alone"]]
