"""The CRPS of predictive laws without random numbers, where that is cheap.

The continuous ranked probability score of a law ``F`` at a value ``y`` is the integral of
``(F(x) - 1{x >= y})^2``. For counts it is a sum over whole numbers, exact up to their far tails. A
continuous law is replaced by its quantiles at ``POINTS`` equally spaced levels, of which it is the
score of a sample: ``F`` is then off by less than half a step, with alternating sign, and the score
by a small multiple of the square of a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

#: The number of quantiles, those of all laws of a mixture together.
POINTS = 1000
#: Mixtures of more laws are scored by draws.
MAX_LAWS = 20
#: Counts that spread over more whole numbers are scored by quantiles.
MAX_COUNTS = 200
#: The probability of either tail that a sum over counts leaves out.
_TAIL = 1e-7


def crps_of_counts(
    y: Tensor, quantile: Callable[[float], Tensor], cdf: Callable[[Tensor], Tensor]
) -> Tensor:
    """The score of every node whose values are whole numbers on a short range.

    Args:
        y: The values, ``(num_nodes,)``.
        quantile: The quantiles of all nodes at a level.
        cdf: The distribution functions of all nodes, each at a value of its own.

    Returns:
        Shape ``(num_nodes,)``; NaN at nodes with a longer range than ``MAX_COUNTS``.
    """
    first = torch.minimum(quantile(_TAIL), y).double()
    last = torch.maximum(quantile(1 - _TAIL), y).double()
    narrow = last - first <= MAX_COUNTS
    total = torch.zeros_like(first)
    for step in range(int((last - first)[narrow].max()) if bool(narrow.any()) else 0):
        count = first + step
        term = (cdf(count).double() - (count >= y).double()).square()
        total += torch.where(count < last, term, 0.0)
    return torch.where(narrow, total, torch.nan)


def quantile_points(parts: list[Any]) -> Tensor:
    """Equally spaced quantiles of every law, ``(points, num_nodes)``.

    Args:
        parts: Laws with a method ``quantile``, which may have batches; all elements weigh the same.
    """
    laws = sum(part.batch_shape.numel() for part in parts)
    count = -(-POINTS // laws)
    levels = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    rows = [part.quantile(levels) for part in parts]
    return torch.cat([row.reshape(-1, row.shape[-1]) for row in rows])
