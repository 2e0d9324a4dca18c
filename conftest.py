"""What holds for every test and every example of the documentation, wherever it lives."""

from __future__ import annotations

import pytest
import torch


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Each item starts from torch's own default dtype, whatever ran before it in this process."""
    torch.set_default_dtype(torch.float32)
