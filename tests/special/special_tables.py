"""The high-precision tables, and the comparison with them."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor

TINY = 1e-290  # below it, a result that should be subnormal has no digits to compare


def load(name: str) -> dict[str, Tensor]:
    """Return the columns of a table written by ``make_tables.py``."""
    rows = json.loads((Path(__file__).parent / "tables" / f"{name}.json").read_text())
    return {key: torch.tensor([row[key] for row in rows]) for key in rows[0]}


def assert_close(found: Tensor, expected: Tensor, tolerance: float, *arguments: Tensor) -> None:
    """Compare relative errors, and name the arguments of the worst one."""
    assert found.shape == expected.shape
    scale = expected.abs()
    error = torch.where(found == expected, 0.0, (found - expected).abs() / scale)
    error = torch.where((scale < TINY) & (found.abs() < 2 * TINY), 0.0, error)
    error = torch.where(torch.isnan(error), torch.inf, error)
    worst = int(error.argmax())
    at = ", ".join(f"{x[worst].item()!r}" for x in arguments)
    assert error[worst] < tolerance, (
        f"relative error {float(error[worst]):.1e} at ({at}): "
        f"found {float(found[worst])!r}, expected {float(expected[worst])!r}"
    )


def leaves(*tensors: Tensor) -> list[Tensor]:
    """Return fresh leaves that require gradients."""
    return [x.detach().clone().requires_grad_() for x in tensors]
