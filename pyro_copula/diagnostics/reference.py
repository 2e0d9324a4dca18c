"""Residuals of the data, and of data sets drawn from the fitted model to compare them with.

Residuals at different nodes depend on each other even if the model is right, so what chance allows
is found by drawing data sets from the model and doing to each what is done to the data: the same
missing nodes, the same rule for discrete values, the same statistics. Parameters are held fixed.

Other discrete nodes are conditioned on by the law's own rule. The exact ones draw particles for
each data set, so midpoints can be asked for in their place: with the data and the draws treated
alike that comparison is fair too, and hundreds of draws are affordable on large graphs.

A model may be an equal mixture of laws (restarts, posterior draws). The data are then judged by the
mixture, and each drawn data set by the law that it was drawn from.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..distributions.leave_one_out import LeaveOneOut, simulated_scores
from ..distributions.scores import Scores
from ..errors import MidpointWarning
from .moran import Neighbours
from .pit import coverages, heights
from .residuals import KINDS, Residuals, atom_places, own_seed, randomised
from .uniformity import shape_numbers

#: Numbers in one batch of simulations: what bounds the memory, and enough to make loops cheap.
_BATCH_NUMBERS = 400_000

BINS = 10


@dataclass
class Reference:
    """Statistics of drawn data sets, by the kind of their residuals, one row a data set.

    Attributes:
        heights: Of their PIT histograms, ``(simulations, BINS)``.
        coverages: Of their intervals, ``(simulations, levels)``.
        shapes: Bias, dispersion, tails and distance, ``(simulations, 4)``.
        moran: Moran's I of conditional residuals on the normal scale, if there is a graph.
    """

    heights: dict[str, Tensor] = field(default_factory=dict)
    coverages: dict[str, Tensor] = field(default_factory=dict)
    shapes: dict[str, Tensor] = field(default_factory=dict)
    moran: Tensor | None = None


def data_residuals(
    laws: Sequence[Any], y: Tensor, seed: int, discrete: str | None = None
) -> dict[str, Residuals]:
    """Both kinds of residuals of the data, under the equal mixture of the laws.

    Args:
        laws: Joint laws, each with a batch of its own or none.
        y: Values, shape ``(num_nodes,)``, NaN at missing nodes.
        seed: Of the places within atoms.
        discrete: How other discrete nodes are conditioned on: ``"midpoint"``, or None for the
            rule of the law.
    """
    pairs: dict[str, list[tuple[Tensor, Tensor]]] = {kind: [] for kind in KINDS}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", MidpointWarning)  # the diagnosis says so itself
        for law in laws:
            scores = law._scores_of(y.expand(*law.batch_shape, len(y)))
            for kind, limits in _limits(law, scores, discrete).items():
                pairs[kind].append(limits)
    v = atom_places(len(y), seed)
    residuals = {}
    for kind, both in pairs.items():
        lower, upper = (torch.cat([_flat(pair[end]) for pair in both]) for end in (0, 1))
        residuals[kind] = randomised(lower, upper, v)
    return residuals


def simulate(
    laws: Sequence[Any],
    observed: Tensor,
    neighbours: Neighbours | None,
    num_simulations: int,
    seed: int,
    discrete: str | None = None,
) -> Reference:
    """Draws data sets and computes their statistics.

    Args:
        laws: As in :func:`data_residuals`; each element of each batch has as many draws.
        observed: Boolean, shape ``(num_nodes,)``.
        neighbours: For Moran's I, or None.
        num_simulations: The least number of data sets.
        seed: Of the draws; the state of the random numbers is left as it was.
        discrete: As in :func:`data_residuals`.
    """
    parts: dict[str, dict[str, list[Tensor]]] = {kind: {} for kind in KINDS}
    moran: list[Tensor] = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(own_seed(seed, "simulations"))
        for law, count in _turns(laws, num_simulations, len(observed), discrete):
            scores = simulated_scores(law, (count,), observed)
            for kind, (lower, upper) in _limits(law, scores, discrete).items():
                ends = [_flat(end)[:, observed] for end in (lower, upper)]
                v = 1 - torch.rand(ends[0].shape, dtype=torch.float64)
                u, z = randomised(ends[0][None], ends[1][None], v)
                found = {
                    "heights": heights(u, BINS),
                    "coverages": coverages(u),
                    "shapes": shape_numbers(u),
                }
                for name, value in found.items():
                    parts[kind].setdefault(name, []).append(value)
                if kind == "conditional" and neighbours is not None:
                    moran.append(neighbours.statistic(z))
    joined = {
        name: {kind: torch.cat(parts[kind][name]) for kind in KINDS}
        for name in ("heights", "coverages", "shapes")
    }
    return Reference(**joined, moran=torch.cat(moran) if moran else None)


def _limits(law: Any, scores: Scores, discrete: str | None) -> dict[str, tuple[Tensor, Tensor]]:
    """Where values lie in their laws, by the kind of law, as standard normal quantiles."""
    return {
        "marginal": (scores.lower, scores.upper),
        "conditional": LeaveOneOut.from_scores(law, scores, discrete=discrete).limits,
    }


def _turns(
    laws: Sequence[Any], total: int, num_nodes: int, discrete: str | None
) -> Iterator[tuple[Any, int]]:
    """Laws and how many draws of their batch to take at a time."""
    elements = sum(law.batch_shape.numel() for law in laws)
    each = -(-total // elements)
    for law in laws:
        numbers = num_nodes * law.batch_shape.numel()
        if discrete is None and law._has_boxes:
            numbers *= law.num_particles
        size = max(1, _BATCH_NUMBERS // numbers)
        for start in range(0, each, size):
            yield law, min(size, each - start)


def _flat(rows: Tensor) -> Tensor:
    return rows.reshape(-1, rows.shape[-1])
