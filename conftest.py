"""What holds for every test and every example of the documentation, wherever it lives."""

from __future__ import annotations

import os

import pytest
import torch

#: Adds up what the tests went through, if asked to with --reliability (tests/reliability.py).
pytest_plugins = ["reliability"]

#: Examples that read the data sets of the paper, which the package does not carry.
NEEDS_DATA = {
    f"pyro_copula.datasets.published.{name}" for name in ("election", "emnlp", "wikipedia")
}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each item starts from torch's own default dtype, whatever ran before it in this process."""
    torch.set_default_dtype(torch.float32)
    if item.name in NEEDS_DATA and not os.environ.get("PYRO_COPULA_DATA"):
        pytest.skip("PYRO_COPULA_DATA names no data directory")
