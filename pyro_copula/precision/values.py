"""The values of a matrix on the pattern of a graph, checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidArgumentError


def checked_values(argument: str, values: Any, length: int, what: str) -> Tensor:
    """Finite floating-point values, one for each of the last dimension, or the error.

    Args:
        argument: What the user calls them.
        values: Numbers, ``(*batch, length)``.
        length: How many there have to be.
        what: What is counted.
    """
    if not torch.is_tensor(values):
        values = torch.as_tensor(np.asarray(values))
    if not values.is_floating_point():
        values = values.to(torch.get_default_dtype())
    if values.dim() == 0 or values.shape[-1] != length:
        raise InvalidArgumentError(
            argument,
            f"of shape (*batch, {what} = {length})",
            f"shape {tuple(values.shape)}",
            "Values follow the order of `graph.edges`, each undirected edge once.",
        )
    if not bool(torch.isfinite(values).all()):
        flat = (~torch.isfinite(values)).reshape(-1, length).any(0)
        position = int(flat.nonzero()[0])
        bad = values.detach().reshape(-1, length)[:, position]
        found = next(float(v) for v in bad if not math.isfinite(v))
        raise InvalidArgumentError(
            argument, "finite", f"{found} at position {position}", "Check the parameters behind it."
        )
    return values


def in_place_changes(values: Tensor) -> int:
    """How often they were changed in place, which torch does not count for inference tensors."""
    return 0 if values.is_inference() else values._version
