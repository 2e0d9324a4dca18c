"""SIGKILL at any moment: no file is damaged, nothing finished is lost, the result is the same.

A few kills of a fit are in the fast suite: tests/inference/test_checkpoints.py.
"""

from __future__ import annotations

import pytest
from mortals import Mortal, check_killing


@pytest.fixture(scope="module")
def mortal():
    made = Mortal()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "kills", "at_writes", "share"),
    [
        ("checkpoint", 12, 8, 0.2),
        ("calibration", 12, 8, 0.15),
        ("trials", 10, 8, 0.25),
        ("command", 10, 8, 0.5),
    ],
)
def test_many_kills(mortal, tmp_path, tally, kind, kills, at_writes, share):
    killed = check_killing(mortal, tmp_path, kind, kills=kills, at_writes=at_writes, share=share)
    assert killed == kills + at_writes
    tally("kills survived", killed)
