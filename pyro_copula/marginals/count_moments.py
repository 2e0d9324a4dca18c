r"""Moments of ``F^-1(Phi(Z))`` for discrete laws, as sums of tail probabilities.

With :math:`Z \sim N(m, s^2)`, :math:`z_k = \Phi^{-1}(F(k))` and any centre :math:`c`,

.. math::
    E[(Y - c)_+] = \sum_{j \ge 0} P(Y > c + j), \qquad
    E[(Y - c)_+^2] = \sum_{j \ge 0} (2 j + 1) P(Y > c + j), \qquad
    P(Y > k) = \Phi\Big(\frac{m - z_k}{s}\Big),

and likewise below the centre, so that a variance is never the difference of two large numbers. A
short sum is exact. A long one is exact at both ends, and its middle is the integral of the smooth
continuation in :math:`k`, with the first two Euler-Maclaurin corrections of the midpoint rule:

.. math::
    \sum_{j=a}^{b-1} h(j) = \int_{a-1/2}^{b-1/2} h
        - \Big[\tfrac{1}{24} h' - \tfrac{7}{5760} h'''\Big]_{a-1/2}^{b-1/2} + \dots
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ParameterRangeError
from .discrete import CountCDF, Parameters
from .quantiles import from_normal_score
from .registry import MarginalCDF
from .search import count_quantiles

REACH = 10.0  # standard deviations of the score: probability 8e-24 on each side
EXACT = 64  # terms summed one by one at each end of a long sum
ORDER = 16  # points of a Gauss-Legendre panel
MAX_COUNT = 2.0**53
MAX_ELEMENTS = 2**20  # of one intermediate tensor


def count_moments(law: CountCDF, d: Any, m: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance under one of the package's laws of counts."""
    shape, size = m.shape, m.numel()
    m, s = m.flatten(), s.flatten()
    parameters = tuple(t.expand(shape).flatten() for t in law.parameters(d))
    lower, upper = (end.expand(shape).flatten() for end in law.bounds(d))
    reach = REACH * s
    scores = torch.stack([m, m - reach, m + reach])
    centre, near, far = count_quantiles(law, parameters, scores, lower, upper)  # (size,) each
    _check_countable(law, parameters, far, shape)
    total = torch.zeros(2, 2, size, dtype=torch.float64)
    for side, count in enumerate((far - centre, centre - near)):
        sums = _SideSum(law, parameters, m, s, centre, up=side == 0)
        total[side] = sums.total(count)
    shift = total[0, 0] - total[1, 0]
    variance = total[0, 1] + total[1, 1] - shift.square()
    return (centre + shift).reshape(shape), variance.reshape(shape)


def _check_countable(law: CountCDF, parameters: Parameters, far: Tensor, shape: torch.Size) -> None:
    """Refuse sums over numbers of which float64 knows the even ones only, or fewer.

    Raises:
        ParameterRangeError: If a law reaches that far, or has its mean from counts of that size.
    """
    mean, variance, _ = law.centre(parameters)
    # The size of counts that make up the mean; that of a shifted law may be zero or negative.
    typical = torch.minimum(variance, variance / torch.where(mean > 0, mean, 1.0))
    largest = torch.maximum(far, typical)
    bad = (largest > MAX_COUNT).nonzero()
    if len(bad):
        place = int(bad[0])
        raise ParameterRangeError(
            "marginal_dist",
            "a law of counts that stay below 2^53, where float64 has every whole number",
            f"counts of size {float(largest[place]):.3g} at node {place % shape[-1]}",
            "Use a smaller mean or dispersion, or a continuous law, such as dist.Gamma.",
        )


class _SideSum:
    """The sums of ``P_j`` and ``(2 j + 1) P_j`` over the points on one side of the centre.

    ``P_j`` is ``P(Y > c + j)`` above the centre and ``P(Y <= c - 1 - j)`` below it, ``j >= 0``.
    """

    def __init__(
        self, law: CountCDF, parameters: Parameters, m: Tensor, s: Tensor, centre: Tensor, up: bool
    ) -> None:
        self.law, self.parameters, self.m, self.s = law, parameters, m, s
        self.centre, self.up = centre, up

    def total(self, count: Tensor) -> Tensor:
        """Return both sums over ``j < count``, shape ``(2, N)``."""
        zero = torch.zeros_like(count)
        long = count > 2 * EXACT
        head = torch.where(long, float(EXACT), count)
        result = self._exact(zero, head)
        if bool(long.any()):
            result += self._exact(torch.where(long, count - EXACT, count), count)
            nodes = long.nonzero()[:, 0]
            result[:, nodes] += self._middle(nodes, head[nodes], (count - EXACT)[nodes])
        return result

    def terms(self, node: Tensor, j: Tensor, whole: bool = False) -> Tensor:
        """Return ``P_j`` of some nodes, stacked with ``(2 j + 1) P_j`` in front."""
        k = self.centre[node] + j if self.up else self.centre[node] - 1 - j
        score = self.law.score_at_whole if whole else self.law.score_at
        z = score(tuple(p[node] for p in self.parameters), k)
        x = (self.m[node] - z) / self.s[node]
        p = 0.5 * torch.erfc((-x if self.up else x) / math.sqrt(2.0))
        return torch.stack([p, (2 * j + 1) * p])

    def _exact(self, start: Tensor, stop: Tensor) -> Tensor:
        count = (stop - start).long()
        result = torch.zeros(2, len(count), dtype=torch.float64)
        block = max(1, MAX_ELEMENTS // max(1, 2 * EXACT))
        for begin in range(0, len(count), block):
            size = count[begin : begin + block]
            node = torch.repeat_interleave(torch.arange(begin, begin + len(size)), size)
            first = torch.repeat_interleave(size.cumsum(0) - size, size)
            j = start[node] + (torch.arange(len(node)) - first)
            result.index_add_(1, node, self.terms(node, j, whole=True))
        return result

    def _middle(self, nodes: Tensor, start: Tensor, stop: Tensor) -> Tensor:
        """Return the sums over ``start <= j < stop`` at ``nodes``, by quadrature."""
        x, w = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(ORDER))
        edges = self._edges(nodes, start - 0.5, stop - 0.5)  # (panels + 1, nodes)
        result = torch.zeros(2, len(nodes), dtype=torch.float64)
        panel, place = (edges[1:] > edges[:-1]).nonzero(as_tuple=True)
        block = MAX_ELEMENTS // ORDER
        for i in range(0, len(panel), block):
            here, column = panel[i : i + block], place[i : i + block]
            left, right = edges[here, column], edges[here + 1, column]
            j = left + (right - left) / 2 * (1 + x[:, None])  # (ORDER, panels)
            parts = torch.einsum("i,cip->cp", w, self.terms(nodes[column], j)) * (right - left) / 2
            result.index_add_(1, column, parts)
        offsets = torch.arange(-2.0, 2.0, dtype=torch.float64)[:, None]
        for end, sign in ((start, 1.0), (stop, -1.0)):
            h = self.terms(nodes, end + offsets)  # (2, 4, nodes)
            slope = h[:, 2] - h[:, 1]  # h' + h''' / 24 at end - 1/2
            third = h[:, 3] - 3 * h[:, 2] + 3 * h[:, 1] - h[:, 0]
            result += sign * (slope / 24 - third * 17 / 5760)
        return result

    def _edges(self, nodes: Tensor, start: Tensor, stop: Tensor) -> Tensor:
        """Return panel ends: quantiles, and powers of two away from both ends."""
        grid = torch.arange(-REACH, REACH + 1, 2.0, dtype=torch.float64)[:, None]
        own = tuple(p[nodes] for p in self.parameters)
        k = self.law.landmarks(own, self.m[nodes], self.s[nodes], grid).ceil()
        j = k - self.centre[nodes] if self.up else self.centre[nodes] - 1 - k
        largest = max(6, math.ceil(math.log2(float((stop - start).max()))))
        powers = 2.0 ** torch.arange(6, largest + 1, dtype=torch.float64)[:, None]
        j = torch.cat([start[None], stop[None], j + 0.5, start + powers, stop - powers])
        return torch.maximum(torch.minimum(j, stop), start).sort(dim=0).values


def plain_moments(law: MarginalCDF, d: Any, m: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance under any discrete law, term by term."""
    centre = from_normal_score(d, m)
    far = from_normal_score(d, m + REACH * s)
    near = from_normal_score(d, m - REACH * s)
    spread = torch.where(s > 0, s, 1.0)
    total = torch.zeros(2, 2, *m.shape, dtype=torch.float64)
    for side, count in enumerate((far - centre, centre - near)):
        for j in range(int(count.max())):
            # Beyond its own last term a node repeats the centre, which counts nothing.
            open_ = j < count
            k = torch.where(open_, centre + j if side == 0 else centre - 1 - j, near)
            safe = torch.minimum(k, law.bounds(d)[1] - 1)
            x = (m - law.score(d, safe)) / spread
            p = 0.5 * torch.erfc((-x if side == 0 else x) / math.sqrt(2.0))
            p = torch.where(open_, p, 0.0)
            total[side] += torch.stack([p, (2 * j + 1) * p])
    shift = total[0, 0] - total[1, 0]
    return centre + shift, total[0, 1] + total[1, 1] - shift.square()
