"""The standard normal distribution in log space, both tails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special
import torch
from torch import Tensor

from .autograd import promote, to_numpy, to_tensor

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
_MAX = torch.finfo(torch.float64).max


def _mills_ratio(z: Tensor, log_p: Tensor) -> Tensor:
    """Return Phi(z) / phi(z), given log Phi(z); both branches are finite and differentiable."""
    lower = _SQRT_HALF_PI * torch.special.erfcx(-z.clamp(max=0.0) * _SQRT_HALF)
    # Beyond 38 the ratio overflows. Clamped, its inverse is zero in every sense but the name.
    clipped = z.clamp(min=0.0, max=37.6)
    upper = torch.exp(log_p.clamp(min=-1.0) + 0.5 * clipped * clipped + _HALF_LOG_2PI)
    return torch.where(z < 0.0, lower, upper)


class _LogNdtr(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        log_p = torch.special.log_ndtr(z)
        ctx.save_for_backward(z, log_p)
        return log_p

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        z, log_p = ctx.saved_tensors
        inside = torch.isfinite(log_p) & (z < 38.0)
        safe = torch.where(inside, z, 0.0)
        slope = 1.0 / _mills_ratio(safe, torch.where(inside, log_p, -1.0))
        return grad_outputs[0] * torch.where(inside, slope, 0.0)


class _NdtriExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_p: Tensor) -> Tensor:
        (y,) = to_numpy(log_p)
        z = to_tensor(_ndtri_exp(y), log_p)
        ctx.save_for_backward(log_p, z)
        return z

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        log_p, z = ctx.saved_tensors
        inside = torch.isfinite(z)
        safe = torch.where(inside, z, 0.0)
        slope = _mills_ratio(safe, torch.where(inside, log_p, -1.0)).clamp(max=_MAX)
        return grad_outputs[0] * torch.where(inside, slope, 0.0)


def _ndtri_exp(log_p: np.ndarray) -> np.ndarray:
    """Return scipy's quantile after one step of Newton's method in the lower tail.

    scipy stops at a relative error of 7e-13; the step brings it to rounding.
    """
    z = np.asarray(scipy.special.ndtri_exp(log_p))
    tail = (log_p < -2.0) & np.isfinite(log_p)
    root = z[tail]
    scaled = scipy.special.erfcx(-root * _SQRT_HALF)
    excess = np.log(0.5 * scaled) - 0.5 * root * root - log_p[tail]
    z[tail] = root - excess * _SQRT_HALF_PI * scaled
    return z


def log_ndtr(z: Tensor | float) -> Tensor:
    r"""Return the logarithm of the standard normal cdf.

    .. math:: \log \Phi(z)

    Accurate in both tails: about :math:`-z^2/2` far below zero, and :math:`-\Phi(-z)` far above.

    Args:
        z: Any real numbers. The gradient at plus and minus infinity is zero.

    Returns:
        The log probabilities, at most 0, in the dtype of ``z``.

    Example:
        >>> log_ndtr(torch.tensor([-40.0, 10.0], dtype=torch.float64))
        tensor([-8.0461e+02, -7.6199e-24], dtype=torch.float64)
    """
    (wide,), dtype = promote(z)
    return _LogNdtr.apply(wide).to(dtype)


def ndtri_exp(log_p: Tensor | float) -> Tensor:
    r"""Return the standard normal quantile of a probability given by its logarithm.

    .. math:: z \text{ such that } \log \Phi(z) = \log p

    Args:
        log_p: Log probabilities in [-inf, 0]; -inf gives -inf, and 0 gives +inf, both with a zero
            gradient.

    Returns:
        The quantiles, in the dtype of ``log_p``.

    Example:
        >>> ndtri_exp(torch.tensor([-800.0, -1e-20], dtype=torch.float64))
        tensor([-39.8847,   9.2623], dtype=torch.float64)
    """
    (wide,), dtype = promote(log_p)
    return _NdtriExp.apply(wide).to(dtype)
