"""Every test runs in float64, with a fixed seed and an empty parameter store."""

from __future__ import annotations

import os

# The arrays are tiny and the tests run in parallel: threads inside one of them only wait.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pyro
import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _isolated():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def tally(record_property):
    """Counts what a test went through, such as kills survived, for the summary of the slow suite.

    ``tally("kills survived", 25)``: the counts of all tests under one name are added up.
    """

    def count(what: str, number: int) -> None:
        record_property("tally", (what, number))

    return count
