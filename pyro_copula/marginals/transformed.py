"""Transformed laws in general: invert the transforms, and swap the tails if they decrease."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor
from torch.distributions import TransformedDistribution, Uniform
from torch.distributions.transforms import (
    ComposeTransform,
    SigmoidTransform,
    Transform,
    _InverseTransform,
)

from ..errors import MissingCDFError
from .quantiles import from_normal_score, icdf, isf
from .registry import MarginalCDF, lookup, register_cdf, support_bounds
from .tails import evaluate_tail


@register_cdf(TransformedDistribution)
class TransformedCDF(MarginalCDF):
    """``Y = T(X)`` with ``T`` monotone and ``X`` any continuous law with a known cdf.

    A normal score of ``y`` is that of ``x``, up to sign, so a transformed normal law (log-normal,
    sinh-arcsinh, a flow) keeps its exact scores however far out.
    """

    differentiable_quantile = True

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        return self._tail(d, value, "cdf", "sf", 0.0, 1.0)

    def sf(self, d: Any, value: Tensor) -> Tensor:
        return self._tail(d, value, "sf", "cdf", 1.0, 0.0)

    def log_cdf(self, d: Any, value: Tensor) -> Tensor:
        return self._tail(d, value, "log_cdf", "log_sf", -torch.inf, 0.0)

    def log_sf(self, d: Any, value: Tensor) -> Tensor:
        return self._tail(d, value, "log_sf", "log_cdf", 0.0, -torch.inf)

    def score(self, d: Any, value: Tensor) -> Tensor:
        base, transforms = _parts(d)
        x, sign, below, above = _invert(base, transforms, value)
        z = sign * evaluate_tail(base, x, "score", -torch.inf, torch.inf)
        return torch.where(below, -torch.inf, torch.where(above, torch.inf, z))

    def icdf(self, d: Any, u: Tensor) -> Tensor:
        base, transforms = _parts(d)
        sign = _sign(base, transforms)
        x = torch.where(sign > 0, icdf(base, u), isf(base, u))
        return _forward(transforms, x)

    def isf(self, d: Any, q: Tensor) -> Tensor:
        base, transforms = _parts(d)
        sign = _sign(base, transforms)
        x = torch.where(sign > 0, isf(base, q), icdf(base, q))
        return _forward(transforms, x)

    def from_score(self, d: Any, z: Tensor) -> Tensor:
        base, transforms = _parts(d)
        return _forward(transforms, from_normal_score(base, _sign(base, transforms) * z))

    def is_discrete(self, d: Any) -> bool:
        _parts(d)
        return False

    def accurate_log_prob(self, d: Any, value: Tensor) -> Tensor | None:
        base, transforms = _parts(d)
        law, inner = lookup(base)
        if type(law).accurate_log_prob is MarginalCDF.accurate_log_prob:
            return None
        jacobian = torch.zeros_like(value)
        for transform in reversed(transforms):
            before = transform.inv(value)
            jacobian = jacobian + transform.log_abs_det_jacobian(before, value)
            value = before
        density = law.accurate_log_prob(inner, value)
        return None if density is None else density - jacobian

    def _tail(
        self, d: Any, value: Tensor, same: str, other: str, low: float, high: float
    ) -> Tensor:
        base, transforms = _parts(d)
        x, sign, below, above = _invert(base, transforms, value)
        rising = sign > 0
        result = torch.zeros_like(x)
        if bool(rising.any()):
            result = evaluate_tail(base, x, same, low, high)
        if not bool(rising.all()):
            # A decreasing transform: the lower tail of Y is the upper tail of X.
            swapped = evaluate_tail(base, x, other, high, low)
            result = torch.where(rising, result, swapped)
        return torch.where(below, low, torch.where(above, high, result))


def _parts(d: Any) -> tuple[Any, list[Transform]]:
    """Return the base law and the elementary transforms, in the order they apply."""
    transforms: list[Transform] = []
    stack = list(reversed(d.transforms))
    while stack:
        transform = stack.pop()
        if isinstance(transform, ComposeTransform):
            stack += reversed(transform.parts)
        else:
            transforms.append(transform)
    base = d.base_dist
    if transforms and _is_logit(transforms[0]) and _is_standard_uniform(base):
        # The logit of a uniform is the logistic law, which has both tails.
        zero, one = base.low, base.high
        base, transforms = dist.Logistic(zero, one), transforms[1:]
    law, inner = lookup(base)
    discrete = law.is_discrete(inner)
    bad = [t for t in transforms if not t.bijective]
    if bool(torch.as_tensor(discrete).any()) or bad:
        found = f"a discrete {type(inner).__name__}" if not bad else f"{bad[0]}"
        raise MissingCDFError(
            "marginal_dist",
            "a continuous law under monotone (bijective) transforms",
            f"{found} in a {type(d).__name__}",
            f"Register a cdf of its own: register_cdf({type(d).__name__}, cdf=..., icdf=...).",
        )
    return base, transforms


def _is_logit(transform: Transform) -> bool:
    return isinstance(transform, _InverseTransform) and isinstance(transform.inv, SigmoidTransform)


def _is_standard_uniform(d: Any) -> bool:
    return isinstance(d, Uniform) and bool((d.low == 0).all()) and bool((d.high == 1).all())


def _forward(transforms: list[Transform], x: Tensor) -> Tensor:
    for transform in transforms:
        x = transform(x)
    return x


def _step_sign(transform: Transform, base: Any, before: list[Transform]) -> Tensor:
    """Return the direction of one transform: as it says, or found at the quartiles."""
    try:
        return torch.as_tensor(transform.sign, dtype=torch.float64)
    except NotImplementedError:
        with torch.no_grad():
            scores = torch.tensor([-0.7, 0.7], dtype=torch.float64)
            shape = (2, *[1] * len(base.batch_shape))
            x = _forward(before, from_normal_score(base, scores.reshape(shape)))
            y = transform(x)
            return torch.sign(x[1] - x[0]) * torch.sign(y[1] - y[0])


def _sign(base: Any, transforms: list[Transform]) -> Tensor:
    sign = torch.ones((), dtype=torch.float64)
    for i, transform in enumerate(transforms):
        sign = sign * _step_sign(transform, base, transforms[:i])
    return sign


def _invert(
    base: Any, transforms: list[Transform], value: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the value of the base law, the overall sign, and what lies outside the support.

    A value outside the codomain of a transform is replaced before that transform sees it, by the
    image of the median.
    """
    below = torch.zeros_like(value, dtype=torch.bool)
    above = torch.zeros_like(value, dtype=torch.bool)
    sign = torch.ones((), dtype=torch.float64)
    for i in range(len(transforms) - 1, -1, -1):
        transform = transforms[i]
        lower, upper = support_bounds(transform.codomain)
        low, high = value <= lower, value >= upper
        outside = low | high
        if bool(outside.any()):
            rising = sign > 0
            below = below | torch.where(rising, low, high)
            above = above | torch.where(rising, high, low)
            with torch.no_grad():
                zero = torch.zeros(base.batch_shape, dtype=torch.float64)
                median = _forward(transforms[: i + 1], from_normal_score(base, zero))
            value = torch.where(outside, median, value)
        sign = sign * _step_sign(transform, base, transforms[:i])
        value = transform.inv(value)
    return value, sign, below, above
