"""Four numbers that say how residuals fail to be uniform, with p-values.

They are the readings of a PIT histogram: sloped (a bias), U-shaped or hump-shaped (a dispersion
above or below one), with too many or too few in the outer bins (tails), or of another shape (a
distance).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgumentError

#: The share of the outer tenth.
_OUTER = 0.1

#: What stands for a residual of 0 when its normal score is needed.
_LEAST = 1e-300


@dataclass(frozen=True)
class Uniformity:
    """Four ways in which residuals can fail to be uniform.

    Attributes:
        bias: Their mean minus a half: positive if values are larger than the model has it.
        dispersion: Twelve times their mean squared distance from a half, once shifted to have their
            median there: 1 if they are uniform, above if they crowd at 0 and 1 (U-shaped: the laws
            are too narrow), below if they crowd in the middle (hump-shaped: too wide).
        tails: The share of them in the outer tenth, which is what 90% intervals do not cover.
        distance: The Kolmogorov-Smirnov distance of their distribution from the uniform one.
        p_bias: The two-sided p-value of the bias.
        p_dispersion: That of the dispersion.
        p_tails: That of the tails.
        p_distance: The p-value of the distance.
        num_nodes: The number of residuals.
        expected: What bias, dispersion and tails are if the model is right.
        least_p: The smallest p-value that could have come out, 0 if there is none.

    Example:
        >>> found = uniformity(torch.linspace(0, 1, 102)[1:-1])
        >>> found.bias < 1e-6, found.p_distance > 0.99
        (True, True)
    """

    bias: float
    dispersion: float
    tails: float
    distance: float
    p_bias: float
    p_dispersion: float
    p_tails: float
    p_distance: float
    num_nodes: int
    expected: tuple[float, float, float] = (0.0, 1.0, 0.1)
    least_p: float = 0.0

    def __repr__(self) -> str:
        return f"Uniformity({self.words()}; {self.num_nodes} residuals)"

    def words(self) -> str:
        """The numbers and their p-values."""
        bias, dispersion, tails, distance = (
            p_words(p, self.least_p)
            for p in (self.p_bias, self.p_dispersion, self.p_tails, self.p_distance)
        )
        return (
            f"bias {self.bias:+.3f} ({bias}), dispersion {self.dispersion:.2f} ({dispersion}), "
            f"tails {self.tails:.1%} ({tails}), distance {self.distance:.3f} ({distance})"
        )


def uniformity(u: Tensor, *, reference: Tensor | None = None) -> Uniformity:
    """Bias, dispersion, tails and distance of residuals from uniform ones, with p-values.

    Args:
        u: Uniform residuals; NaN is left out.
        reference: Residuals of simulated data sets, shape ``(simulations, *u.shape)``; the
            p-values are then the ranks among them.

    Example:
        >>> uniformity(torch.linspace(0, 1, 102)[1:-1] / 2)
        Uniformity(bias -0.250 (p < 0.001), dispersion 0.48 (p < 0.001), tails 10.0% (p 1),
        distance 0.505 (p < 0.001); 100 residuals)
    """
    u, known = checked_residuals(u)
    found = shape_numbers(u)
    if reference is not None:
        return ranked(found, shape_numbers(checked_reference(reference, known)), len(u))
    from scipy import stats

    n = len(u)
    bias, dispersion, tails, distance = found.tolist()
    return Uniformity(
        bias,
        dispersion,
        tails,
        distance,
        math.erfc(abs(bias) * math.sqrt(12 * n / 2)),
        math.erfc(abs(dispersion - 1) * math.sqrt(n / 0.8 / 2)),  # the variance is 4 / (5 n)
        float(stats.binomtest(round(tails * n), n, _OUTER).pvalue),
        float(stats.kstwo.sf(distance, n)),
        n,
    )


def shape_numbers(u: Tensor) -> Tensor:
    """Bias, dispersion, tails and distance of each row of ``(*rows, n)``: ``(*rows, 4)``."""
    n = u.shape[-1]
    step = torch.arange(n + 1, dtype=torch.float64) / n
    ordered = u.sort(-1).values
    above, below = (step[1:] - ordered).amax(-1), (ordered - step[:-1]).amax(-1)
    middle = ((ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2).clamp(_LEAST, 1 - 1e-16)
    # Centred on the normal scale, so that a bias is not read as a dispersion; back on the uniform
    # scale, so that one outlier counts as one.
    z = torch.special.ndtri(u.clamp(_LEAST, 1 - 1e-16)) - torch.special.ndtri(middle)[..., None]
    dispersion = 12 * (torch.special.ndtr(z) - 0.5).square().mean(-1)
    tails = ((u - 0.5).abs() > (1 - _OUTER) / 2).double().mean(-1)
    return torch.stack([u.mean(-1) - 0.5, dispersion, tails, torch.maximum(above, below)], -1)


def ranked(found: Tensor, simulated: Tensor, num_nodes: int) -> Uniformity:
    """Numbers of :func:`shape_numbers`, with their ranks among simulated ones as p-values."""
    bias, dispersion, tails, distance = found.tolist()
    means = simulated.mean(0).tolist()
    return Uniformity(
        bias,
        dispersion,
        tails,
        distance,
        rank_p_value(bias, simulated[:, 0]),
        rank_p_value(dispersion, simulated[:, 1]),
        rank_p_value(tails, simulated[:, 2]),
        rank_p_value(distance, simulated[:, 3], two_sided=False),
        num_nodes,
        (means[0], means[1], means[2]),
        2 / (len(simulated) + 1),
    )


def rank_p_value(found: float, simulated: Tensor, *, two_sided: bool = True) -> float:
    """The chance of a number this extreme, the found one counted among the simulated ones."""
    total = len(simulated) + 1
    high = (1 + int((simulated >= found).sum())) / total
    if not two_sided:
        return max(high, 2 / total)  # the same floor as the others, so that one rule judges all
    low = (1 + int((simulated <= found).sum())) / total
    return min(1.0, 2 * min(low, high))


def p_words(p: float, least: float = 0.0) -> str:
    """A p-value as text: no more digits than it has."""
    if p <= least:
        return f"p ≤ {least:.1g}"
    return "p < 0.001" if p < 0.001 else f"p {p:.2g}"


# ---------------------------------------------------------------- checks


def checked_residuals(u: Any) -> tuple[Tensor, Tensor]:
    """The residuals that are not NaN, flat and in float64, and which ones they are."""
    u = torch.as_tensor(u).detach().double()
    known = ~torch.isnan(u)
    kept = u[known]
    if kept.numel() == 0:
        raise InvalidArgumentError(
            "u", "of one residual or more", "none", "Check which nodes are observed."
        )
    outside = (kept < 0) | (kept > 1)
    if bool(outside.any()):
        raise InvalidArgumentError(
            "u",
            "from 0 to 1",
            f"{float(kept[outside][0]):g}",
            'Use quantile_residuals(..., scale="uniform").',
        )
    return kept, known


def checked_reference(reference: Any, known: Tensor) -> Tensor:
    """Simulated residuals where the data have one, ``(simulations, n)``."""
    reference = torch.as_tensor(reference).detach().double()
    if reference.dim() < 1 or reference.shape[1:] != known.shape or len(reference) < 2:
        raise InvalidArgumentError(
            "reference",
            f"of shape (simulations, *{tuple(known.shape)}), two simulations or more",
            f"shape {tuple(reference.shape)}",
            "Give the residuals of each simulated data set a row.",
        )
    return checked_residuals(reference[:, known])[0].reshape(len(reference), -1)
