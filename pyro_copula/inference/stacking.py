"""Stacking: which fits of several models to predict with, and how often each counts.

The members of a stack are picked one after the other, with replacement: each time the fit that
most improves the mean log density of the mixture at the validation nodes, given the training
values. A fit that is picked twice counts twice, so that the stack is an equal mixture of its
members, and a fit that adds nothing is not in it.

References:
    Caruana, Niculescu-Mizil, Crew and Ksikes, "Ensemble selection from libraries of models",
    ICML (2004). Yao, Vehtari, Simpson and Gelman, "Using stacking to average Bayesian predictive
    distributions", Bayesian Analysis 13 (2018).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .result import Fit

#: Members of a stack: weights are multiples of its inverse.
SIZE = 10


def stack(fits: Sequence[Fit], held_out: Tensor, size: int = SIZE) -> list[Fit]:
    """The members of a stack, some of them more than once, in the order of the fits.

    Args:
        fits: The fits, all trained without the values at the nodes held out.
        held_out: Boolean, shape ``(num_nodes,)``: those nodes, observed.
        size: The number of members.

    Returns:
        The members: equal parts of a mixture.
    """
    rows = torch.stack([held_out_log_prob(fit, held_out) for fit in fits])
    return [fits[k] for k in sorted(pick(rows, size))]


def held_out_log_prob(fit: Fit, held_out: Tensor) -> Tensor:
    """The log density of each value held out, given those that the fit was trained on.

    Args:
        fit: The fit.
        held_out: Boolean, shape ``(num_nodes,)``.

    Returns:
        Of shape ``(held_out.sum(),)``.
    """
    data = fit.model.data
    nodes = held_out.nonzero().squeeze(-1)
    return fit.predict(nodes=nodes, given=data.observed & ~held_out).log_prob(data.y[nodes])


def pick(log_probs: Tensor, size: int) -> list[int]:
    """Rows whose equal mixture has the largest mean log density, one added at a time.

    Args:
        log_probs: A row of log densities per fit, the same values in each; ``(fits, values)``.
        size: How many to pick, with replacement.

    Returns:
        The rows picked.

    Example:
        >>> both_halves = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.2, 0.2]]).log()
        >>> sorted(pick(both_halves, 4))
        [0, 0, 1, 1]
    """
    picked: list[int] = []
    total = torch.full_like(log_probs[0], -torch.inf)
    for _ in range(size):
        # The mixture's denominator is the same for every candidate.
        scores = torch.logaddexp(total, log_probs).mean(-1)
        best = int(torch.nan_to_num(scores, nan=-torch.inf).argmax())
        picked.append(best)
        total = torch.logaddexp(total, log_probs[best])
    return picked
