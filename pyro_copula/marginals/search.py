"""Quantiles of discrete laws: the first whole number at which a condition holds.

The search gallops from a guess and then bisects, and asks only about the elements that are still
open. Many draws of the same nodes share one table of scores per node instead.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .discrete import CountCDF, Parameters

MIN_DRAWS = 16  # per node, before a table pays


def first_reached(
    reached: Callable[[Tensor, Tensor], Tensor], start: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """Return the smallest whole number in ``[lower, upper]`` at which ``reached`` is true.

    Args:
        reached: A function of points and of their positions in ``start``. It must be true from
            some point on, and is taken to be true at ``upper``.
        start: Guesses, shape ``(N,)``.
        lower: The first candidates, shape ``(N,)``.
        upper: The last candidates, perhaps infinite, shape ``(N,)``.
    """
    lo, hi = lower - 1, upper.clone()  # not reached, reached
    seen_lo = torch.zeros_like(start, dtype=torch.bool)
    seen_hi = torch.zeros_like(start, dtype=torch.bool)
    # The start is a float near the root of a smooth curve: the first whole number is above it.
    probe = torch.nan_to_num(start.ceil(), nan=0.0, posinf=1e300, neginf=-1e300)
    probe = probe + 0.0  # just below zero it is -0.0, and a count should not print as that
    step = 1.0
    while True:  # it ends: steps double up to the range of float64, then the gap halves
        probe = torch.maximum(torch.minimum(probe, hi - 1), lo + 1)
        index = ((hi - lo > 1) & (probe > lo) & (probe < hi)).nonzero()[:, 0]
        if len(index) == 0:
            return hi
        k = probe[index]
        yes = reached(k, index)
        hi[index[yes]], lo[index[~yes]] = k[yes], k[~yes]
        seen_hi[index[yes]], seen_lo[index[~yes]] = True, True
        gallop = torch.where(seen_hi, hi - step, lo + step)
        probe = torch.where(seen_lo & seen_hi, ((lo + hi) / 2).floor(), gallop)
        step *= 2


def count_quantiles(
    law: CountCDF, parameters: Parameters, z: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """Return the first count whose score is at least ``z``.

    Args:
        law: The law.
        parameters: Its parameters, each of shape ``(N,)``.
        z: Finite scores, shape ``(draws, N)``.
        lower: The start of each support, shape ``(N,)``.
        upper: The end of each support, shape ``(N,)``.
    """
    if len(z) < MIN_DRAWS:
        return _each(law, parameters, z, lower, upper)
    ends = torch.stack([z.amin(0), z.amax(0)])
    first, last = _each(law, parameters, ends, lower, upper)  # (N,) each
    result = torch.empty_like(z)
    width = last - first
    done = torch.zeros_like(width, dtype=torch.bool)
    size = 4
    while size <= 2 * len(z) and not bool(done.all()):
        nodes = ((width <= size) & ~done).nonzero()[:, 0]
        done[nodes] = True
        if len(nodes):
            own = tuple(p[nodes] for p in parameters)
            k = first[nodes] + torch.arange(size, dtype=torch.float64)[:, None]  # (size, nodes)
            table = law.score_at_whole(own, torch.minimum(k, (upper[nodes] - 1).clamp(min=0.0)))
            table = torch.where(k < last[nodes], table, torch.inf).T.contiguous()
            place = torch.searchsorted(table, z[:, nodes].T.contiguous()).T
            result[:, nodes] = first[nodes] + place
        size *= 2
    nodes = (~done).nonzero()[:, 0]
    if len(nodes):
        own = tuple(p[nodes] for p in parameters)
        result[:, nodes] = _each(law, own, z[:, nodes], lower[nodes], upper[nodes])
    return result


def _each(law: CountCDF, parameters: Parameters, z: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    num_nodes = z.shape[1]
    flat = z.flatten()

    def reached(k: Tensor, index: Tensor) -> Tensor:
        own = tuple(p[index % num_nodes] for p in parameters)
        return law.score_at_whole(own, k) >= flat[index]

    start = law.guess(parameters, z).flatten()
    ends = [end.expand(z.shape).flatten() for end in (lower, upper)]
    return first_reached(reached, start, ends[0], ends[1]).reshape(z.shape)
