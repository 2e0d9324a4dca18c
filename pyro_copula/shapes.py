"""Broadcasting of shapes, without the cost where there is nothing to broadcast."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def broadcast_shapes(*shapes: Sequence[int]) -> torch.Size:
    """The broadcast of some shapes; equal ones, the usual case, cost a comparison only."""
    first = torch.Size(shapes[0])
    if all(torch.Size(shape) == first for shape in shapes[1:]):
        return first
    return torch.broadcast_shapes(*shapes)
