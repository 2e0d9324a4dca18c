"""What the special functions share: promotion and the float64 round trip."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def promote(*arguments: Tensor | float) -> tuple[list[Tensor], torch.dtype]:
    """Broadcast the arguments against each other as float64 and return the dtype of the result.

    The special functions compute in float64 whatever they are given, because a cdf in float32 has
    no upper tail; the caller converts the result back.

    Args:
        *arguments: Tensors or numbers that broadcast. Numbers and integer tensors do not widen the
            result, as in the rest of torch.

    Returns:
        The float64 tensors, all of the broadcast shape, and the promoted dtype.
    """
    tensors = [x for x in arguments if isinstance(x, Tensor)]
    device = tensors[0].device if tensors else None
    dtype = torch.get_default_dtype()
    floating = [x.dtype for x in tensors if x.is_floating_point()]
    if floating:
        dtype = floating[0]
        for other in floating[1:]:
            dtype = torch.promote_types(dtype, other)
    # In one step: a number that becomes a tensor of the default dtype first may lose its digits.
    wide = [torch.as_tensor(x, device=device, dtype=torch.float64) for x in arguments]
    return list(torch.broadcast_tensors(*wide)), dtype


def to_numpy(*tensors: Tensor) -> list[np.ndarray]:
    """Return detached host copies or views as float64 arrays."""
    return [x.detach().cpu().numpy() for x in tensors]


def to_flat(*arrays: np.ndarray) -> list[np.ndarray]:
    """Return contiguous one-dimensional arrays, the only layout the kernels are compiled for."""
    return [np.ascontiguousarray(x, dtype=np.float64).reshape(-1) for x in arrays]


def to_tensor(array: np.ndarray | np.floating, like: Tensor) -> Tensor:
    """Return an array as a float64 tensor of the shape and device of ``like``."""
    return torch.as_tensor(np.asarray(array), device=like.device).reshape(like.shape)
