r"""Log densities that keep their digits where a dispersion goes to zero or to infinity.

The density of a gamma, beta or Student law, or of a count, is a sum of terms of the size
:math:`a \log a` that nearly cancel, where :math:`a` is the largest of its parameters. torch adds
them as they are, so that the negative binomial law with ``total_count`` 1e15 is wrong by two nats.
Here the large terms are removed by hand, in the weights :math:`x^a e^{-x} / \Gamma(a)` and
:math:`x^a (1 - x)^b / B(a, b)` of :mod:`pyro_copula.special`.

Each function returns ``None`` where every parameter is so small that torch's formula is right to
1e-11, so that nothing is computed twice in ordinary problems.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..special import log_beta_weight, log_gamma_weight
from .registry import lookup

#: Below it, torch's formulas lose at most five digits of sixteen.
LARGE = 1e4


def log_prob(d: Any, y: Tensor) -> Tensor:
    """Return ``d.log_prob(y)``, to full accuracy for parameters of any size.

    Args:
        d: A distribution with event shape ``()``.
        y: Values of its support that broadcast against the batch shape of ``d``.

    Returns:
        The log densities, or log masses of a discrete law, differentiable as those of ``d`` are.

    Example:
        The negative binomial law with little dispersion is nearly the Poisson law:

        >>> import pyro.distributions as dist
        >>> law = dist.NegativeBinomial(torch.tensor([1e15], dtype=torch.float64), probs=7e-15)
        >>> log_prob(law, torch.tensor([9.0])), dist.Poisson(7.0).log_prob(torch.tensor(9.0))
        (tensor([-2.2886], dtype=torch.float64), tensor(-2.2886))
    """
    law, base = lookup(d)
    accurate = law.accurate_log_prob(base, y)
    if accurate is None:
        return d.log_prob(y)
    return accurate.expand(torch.broadcast_shapes(accurate.shape, d.batch_shape))


def where_large(d: Any, y: Tensor, large: Tensor, accurate: Any, *arguments: Tensor) -> Any:
    """Return ``accurate(*arguments)`` where ``large`` and torch's elsewhere; None if nowhere."""
    if not bool(large.any()):
        return None
    # Ones in the places that are not used: every function here is finite and smooth at ones.
    safe = (torch.where(large, argument, 1.0) for argument in arguments)
    plain = d.log_prob(y)
    return torch.where(large, accurate(*safe).to(plain.dtype), plain)


def poisson(k: Tensor, rate: Tensor) -> Tensor:
    """Return the log mass of the Poisson law."""
    return log_gamma_weight(k + 1, rate) - rate.log()


def gamma(concentration: Tensor, rate: Tensor, y: Tensor) -> Tensor:
    """Return the log density of the gamma law."""
    return log_gamma_weight(concentration, rate * y) - y.log()


def negative_binomial(total: Tensor, t: Tensor, k: Tensor) -> Tensor:
    """Return the log mass of the negative binomial law, ``t`` being the log odds of failure."""
    return log_beta_weight(total, k + 1, t) - logsigmoid(-t) - (total + k).log()


def binomial(total: Tensor, t: Tensor, k: Tensor) -> Tensor:
    """Return the log mass of the binomial law for ``k < total``; ``t`` as above."""
    rest = total - k
    safe = torch.where(rest > 0, rest, 1.0)
    return log_beta_weight(safe, k + 1, t) - logsigmoid(-t) - safe.log()


def beta(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """Return the log density of the beta law."""
    y = torch.where(y < 1, y, 0.5)
    return log_beta_weight(a, b, y.log() - torch.log1p(-y)) - y.log() - torch.log1p(-y)


def student_t(df: Tensor, x: Tensor, scale: Tensor) -> Tensor:
    """Return the log density of Student's law for large ``df``, ``x`` being standardised."""
    # log Gamma(a + 1/2) - log Gamma(a) - log(a) / 2 with a = df / 2; the next term is below 1e-20.
    rise = -1 / (4 * df) + 1 / (24 * df**3)
    constant = rise - 0.5 * math.log(2 * math.pi) - scale.log()
    return constant - 0.5 * (df + 1) * torch.log1p(x.square() / df)
