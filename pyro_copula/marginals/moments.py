"""Mean and variance of ``F^-1(Phi(Z))`` for a normal ``Z`` that need not be standard.

A missing node has, given the observed ones, a normal score with its own mean and standard
deviation; its predictive mean and variance are integrals in one dimension.

*Continuous laws*: composite Gauss-Legendre quadrature in the score, with a panel end at score
zero, where the two tails meet and some densities have a kink. Panels are added outwards until
they no longer matter, and halved until the last Legendre coefficients of the integrand vanish.

*Discrete laws*: see :mod:`.count_moments`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .count_moments import count_moments, plain_moments
from .discrete import CountCDF
from .mixed import Mixed
from .quantiles import from_normal_score
from .registry import lookup
from .tails import full_value, result_dtype

ORDER = 16  # points of a Gauss-Legendre panel
NEGLIGIBLE = 1e-14  # share of a panel beyond which no further one is added
# Panels are halved if the last of their Legendre coefficients exceed this. A rule of n points is
# exact to degree 2 n - 1, so its error is about the square of what remains at degree n - 1.
ROUGH = 1e-7
FURTHEST = 52.0  # panels end here: the square root of the normal density is still a float64


@torch.no_grad()
def score_moments(d: Any, mean: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and variance of ``F^-1(Phi(Z))``, ``Z ~ Normal(mean, sd)``, at each node.

    With ``mean = 0`` and ``sd = 1`` these are the moments of ``d`` itself. A moment that does not
    exist is infinite, or NaN where torch's own is (the variance of a law without a mean, a mean
    with two infinite halves). Note that existence depends on ``sd``: with ``sd < 1`` even a
    Cauchy law has a mean. A moment so close to the edge of existence that quadrature cannot
    settle it (Student's t with ``df`` within a few percent of ``2 sd^2``) is NaN as well.

    Args:
        d: The marginals, batch shape ``(*batch, num_nodes)``.
        mean: Means of the scores, broadcastable to the batch shape.
        sd: Standard deviations of the scores, non-negative; 0 gives a point.

    Returns:
        ``(mean, variance)``, without gradient.

    Raises:
        ParameterRangeError: If counts matter that are too large for float64, beyond 2^53.

    Example:
        >>> import pyro.distributions as dist
        >>> score_moments(dist.Poisson(torch.tensor([3.0])), torch.zeros(1), torch.ones(1))
        (tensor([3.]), tensor([3.]))
    """
    dtype = torch.promote_types(result_dtype(d, mean), result_dtype(d, sd))
    m, s = torch.broadcast_tensors(full_value(d, mean), full_value(d, sd))
    first, second = _moments(d, m, s)
    return first.to(dtype), second.to(dtype)


def moment(d: Any, name: str) -> Tensor:
    """The mean or variance of each node's law, by quadrature where torch has none.

    Args:
        d: The marginals, batch shape ``(*batch, num_nodes)``.
        name: ``"mean"`` or ``"variance"``.

    Returns:
        Shape ``(*batch, num_nodes)``.

    Example:
        >>> import pyro.distributions as dist
        >>> law = dist.TransformedDistribution(
        ...     dist.Normal(torch.zeros(2), 1.0), dist.transforms.ExpTransform()
        ... )
        >>> moment(law, "mean")  # torch has one for its own LogNormal only
        tensor([1.6487, 1.6487])
    """
    try:
        return getattr(d, name)
    except NotImplementedError:
        zero, one = torch.zeros((), dtype=torch.float32), torch.ones((), dtype=torch.float32)
        return score_moments(d, zero, one)[name == "variance"]


def _moments(d: Any, m: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    law, base = lookup(d)
    if isinstance(base, Mixed):
        parts = [_moments(component, m, s) for component in base.components.values()]
        first, second = parts[0]
        for index, part in enumerate(parts):
            first = torch.where(base.kind == index, part[0], first)
            second = torch.where(base.kind == index, part[1], second)
        return first, second
    if isinstance(base, torch.distributions.Normal):
        scale = base.scale.double()
        return base.loc.double() + scale * m, (scale * s).square()
    if isinstance(base, torch.distributions.LogNormal):
        loc, scale = base.loc.double(), base.scale.double()
        log_mean, v = loc + scale * m, (scale * s).square()
        return torch.exp(log_mean + v / 2), torch.expm1(v) * torch.exp(2 * log_mean + v)
    if law.is_discrete(base):
        if isinstance(law, CountCDF):
            return count_moments(law, base, m, s)
        return plain_moments(law, base, m, s)
    first, second = _continuous_moments(base, m, s)
    return _own_moments(base, m, s, first, second)


def _own_moments(
    d: Any, m: Tensor, s: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Use the law's own moments at the nodes whose score is standard, if it has them."""
    standard = (m == 0) & (s == 1)
    if not bool(standard.any()):
        return first, second
    try:
        mean, variance = d.mean.double(), d.variance.double()
    except NotImplementedError:
        return first, second
    return torch.where(standard, mean, first), torch.where(standard, variance, second)


def _legendre(order: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return nodes and weights on [-1, 1], and the map to the last two Legendre coefficients."""
    x, w = np.polynomial.legendre.leggauss(order)
    degrees = np.arange(order - 2, order)
    vander = np.polynomial.legendre.legvander(x, order - 1)[:, degrees]
    last = (vander * w[:, None] * (2 * degrees + 1) / 2).T
    return torch.from_numpy(x), torch.from_numpy(w), torch.from_numpy(np.ascontiguousarray(last))


def _continuous_moments(d: Any, m: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    centre = from_normal_score(d, m)
    spread = torch.where(s > 0, s, 1.0)
    width = 1.0
    for _ in range(6):
        first, second, rough = _panels(d, m, spread, centre, width)
        if not bool(rough.any()):
            break
        width /= 2
    mean = centre + first
    variance = second - first.square()
    variance = torch.where(torch.isinf(mean), torch.inf, variance)
    variance = torch.where(torch.isnan(mean), torch.nan, variance)
    point = s == 0
    return torch.where(point, centre, mean), torch.where(point, 0.0, variance)


def _panels(
    d: Any, m: Tensor, s: Tensor, centre: Tensor, width: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``E[Y - c]``, ``E[(Y - c)^2]`` and where the panels are too wide."""
    x, w, last = _legendre(ORDER)
    shape = (-1, *[1] * m.ndim)
    # Every node's panels are shifted so that one of them ends at score zero.
    shift = torch.remainder(-m / s, width)
    totals = [torch.zeros_like(m), torch.zeros_like(m)]
    scales = [torch.zeros_like(m), torch.zeros_like(m)]  # E|Y - c| and E(Y - c)^2 so far
    worst = [torch.zeros_like(m), torch.zeros_like(m)]  # largest last Legendre coefficients
    tails: list[list[Tensor]] = []
    for direction in (1, -1):
        sizes = [torch.zeros_like(m), torch.zeros_like(m)]  # last panel's share of each moment
        grows = [torch.zeros_like(m, dtype=torch.bool) for _ in range(2)]
        sums = [torch.zeros_like(m), torch.zeros_like(m)]  # of this direction
        panel = 0 if direction > 0 else -1
        while True:
            t = shift + width * (panel + (x.reshape(shape) + 1) / 2)  # (16, *batch, n)
            y = from_normal_score(d, m + s * t) - centre
            # Each factor y gets half of the density, so that heavy tails do not overflow.
            root = torch.exp(-t.square() / 4 - math.log(2 * math.pi) / 4)
            done = True
            for power in (1, 2):
                g = y * root.square() if power == 1 else (y * root).square()
                # Once the quantile overflows or saturates, the last panel before that decides.
                valid = (torch.isfinite(g) & (y.abs() < 1e300)).all(0)
                g = torch.where(valid, g, 0.0)
                totals[power - 1] += width / 2 * torch.einsum("i,i...->...", w, g)
                size = width / 2 * torch.einsum("i,i...->...", w, g.abs())
                scales[power - 1] += size
                sums[power - 1] += size
                coefficients = torch.einsum("ki,i...->k...", last, g).abs().amax(0)
                worst[power - 1] = torch.maximum(worst[power - 1], width * coefficients)
                grows[power - 1] = torch.where(valid, size >= sizes[power - 1], grows[power - 1])
                sizes[power - 1] = torch.where(valid, size, sizes[power - 1])
                done &= not bool((valid & (size > NEGLIGIBLE * sums[power - 1])).any())
            panel += direction
            if (done and abs(panel) * width > 3) or abs(panel) * width > FURTHEST:
                break
        tails.append([*sizes, *grows])
    first, second = _settle(totals, scales, tails)
    rough = torch.isfinite(first) & (worst[0] > ROUGH * scales[0])
    return first, second, rough | (torch.isfinite(second) & (worst[1] > ROUGH * scales[1]))


def _settle(
    totals: list[Tensor], scales: list[Tensor], tails: list[list[Tensor]]
) -> tuple[Tensor, Tensor]:
    """Replace a moment whose outermost panels still matter by infinity or NaN."""
    results = []
    for power in (0, 1):
        values = totals[power]
        open_ends = []
        for tail in tails:
            open_end = tail[power] > 1e-10 * scales[power]
            open_ends.append(open_end & tail[2 + power])
            values = torch.where(open_end & ~tail[2 + power], torch.nan, values)
        up, down = open_ends
        if power == 0:
            values = torch.where(up, torch.inf, torch.where(down, -torch.inf, values))
            values = torch.where(up & down, torch.nan, values)
        else:
            values = torch.where(up | down, torch.inf, values)
        results.append(values)
    return results[0], results[1]
