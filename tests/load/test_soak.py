"""A process that makes 2,000 fits holds at the end what it held after 200."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from unmeasured import environment

PROGRAM = Path(__file__).with_name("soak.py")
#: A fit that is kept takes 78 kB and 290 objects of Python (measured), 140 MB and 520,000 objects
#: over 1,800 of them. So much growth is allowed: memory moves by some MB with what the allocator
#: gives back, and a kernel may be compiled for a new type on the way.
GROWTH, NEW_OBJECTS = 24 * 2**20, 10_000


def looks(total: int, every: int) -> list[dict]:
    """What the process held, look by look."""
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(total), str(every)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=7200,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.slow
def test_two_thousand_fits_hold_no_more_than_two_hundred(tally):
    found = looks(2000, 200)
    early, late = found[0], found[-1]
    assert (early["fits"], late["fits"]) == (200, 2000)
    assert late["rss"] - early["rss"] <= GROWTH, [look["rss"] for look in found]
    assert late["objects"] - early["objects"] <= NEW_OBJECTS
    for name in ("files", "threads", "tensors"):
        assert late[name] <= early[name], name
    assert late["parameters"] == 0  # Pyro's global store
    assert late["children"] == 0
    tally("fits of a soak", late["fits"])
