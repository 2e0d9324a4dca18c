"""Histograms of residuals and the coverage of intervals, each with what chance allows.

Both take uniform residuals, as :func:`~pyro_copula.quantile_residuals` gives them, and
leave out NaN. What chance allows is computed for independent residuals, unless a ``reference`` is
given: residuals of data sets drawn from the model, whose dependence is then that of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..errors.counts import check_count
from .uniformity import checked_reference, checked_residuals

#: The levels of a coverage curve: 5% to 95%.
LEVELS = torch.arange(1, 20, dtype=torch.float64) / 20


@dataclass(frozen=True, repr=False, eq=False)
class PITHistogram:
    """How often residuals fall into each bin.

    Attributes:
        edges: The ends of the bins, ``(bins + 1,)``.
        height: The frequency of each bin, 1 where it is as expected, ``(bins,)``.
        lower: Where heights lie, all together, with probability ``band`` if the model is right.
        upper: The other end.
        band: That probability.
        num_nodes: The number of residuals.

    Example:
        >>> histogram = pit_histogram(torch.linspace(0, 1, 102)[1:-1] ** 2, bins=5)
        >>> histogram
        PITHistogram(100 residuals, 5 bins, 1 outside the 95% band)
        >>> histogram.height.sum()
        tensor(5., dtype=torch.float64)
    """

    edges: Tensor
    height: Tensor
    lower: Tensor
    upper: Tensor
    band: float
    num_nodes: int

    @property
    def outside(self) -> Tensor:
        """Which bins are outside the band, boolean."""
        return (self.height < self.lower) | (self.height > self.upper)

    def plot(self, axes: Any = None) -> Any:
        """Draws the histogram and its band."""
        from .plots import plot_histogram

        return plot_histogram(self, axes)

    def __repr__(self) -> str:
        return (
            f"PITHistogram({self.num_nodes} residuals, {len(self.height)} bins, "
            f"{int(self.outside.sum())} outside the {100 * self.band:g}% band)"
        )


@dataclass(frozen=True, repr=False, eq=False)
class CoverageCurve:
    """How often intervals cover, by their level.

    Attributes:
        levels: The nominal levels.
        coverage: The share of values inside the equal-tailed interval of each level.
        lower: Where coverage lies, at all levels together, with probability ``band`` if the model
            is right.
        upper: The other end.
        band: That probability.
        num_nodes: The number of residuals.

    Example:
        >>> curve = coverage_curve(torch.linspace(0, 1, 102)[1:-1])
        >>> curve
        CoverageCurve(100 residuals; 50% intervals cover 50.0%, 90% cover 90.0%;
        0 of 19 levels outside the 95% band)
        >>> curve.outside.any()
        tensor(False)
    """

    levels: Tensor
    coverage: Tensor
    lower: Tensor
    upper: Tensor
    band: float
    num_nodes: int

    @property
    def outside(self) -> Tensor:
        """Which levels are outside the band, boolean."""
        return (self.coverage < self.lower) | (self.coverage > self.upper)

    def at(self, level: float) -> float:
        """The coverage at one of the levels, or between two by a straight line."""
        import numpy as np

        return float(np.interp(level, [0.0, *self.levels, 1.0], [0.0, *self.coverage, 1.0]))

    def plot(self, axes: Any = None) -> Any:
        """Draws coverage against level, and its band."""
        from .plots import plot_coverage

        return plot_coverage(self, axes)

    def __repr__(self) -> str:
        return (
            f"CoverageCurve({self.num_nodes} residuals; 50% intervals cover {self.at(0.5):.1%}, "
            f"90% cover {self.at(0.9):.1%}; {int(self.outside.sum())} of {len(self.levels)} levels "
            f"outside the {100 * self.band:g}% band)"
        )


def pit_histogram(
    u: Tensor, *, bins: int = 10, band: float = 0.95, reference: Tensor | None = None
) -> PITHistogram:
    """The histogram of uniform residuals, with a band for all bins together.

    For independent residuals each bin has a binomial band, at a level by which all of them hold
    together with probability ``band`` or more (Bonferroni).

    Args:
        u: Uniform residuals; NaN is left out.
        bins: The number of bins.
        band: The probability of the band.
        reference: Residuals of simulated data sets, shape ``(simulations, *u.shape)``.

    Example:
        >>> u = torch.linspace(0, 1, 102)[1:-1]
        >>> pit_histogram(u)
        PITHistogram(100 residuals, 10 bins, 0 outside the 95% band)
        >>> pit_histogram(u**2).outside.tolist()[:4]
        [True, False, False, False]
    """
    check_count("bins", bins, "Use 10.", least=2)
    u, known = checked_residuals(u)
    _check_band(band)
    if reference is None:
        from scipy import stats

        tail = (1 - band) / bins / 2
        ends = stats.binom.ppf([tail, 1 - tail], len(u), 1 / bins) * bins / len(u)
        lower, upper = (torch.full((bins,), float(end), dtype=torch.float64) for end in ends)
    else:
        rows = checked_reference(reference, known)
        lower, upper = simultaneous_band(heights(rows, bins), band)
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
    return PITHistogram(edges, heights(u, bins), lower, upper, band, len(u))


def coverage_curve(
    u: Tensor, *, band: float = 0.95, reference: Tensor | None = None
) -> CoverageCurve:
    """The coverage of equal-tailed intervals at levels from 5% to 95%, with a band.

    A value is inside its interval of level ``a`` if its residual is within ``a / 2`` of a half. For
    discrete values that is the honest coverage: intervals of whole numbers cover more than they
    say. For independent residuals the band is Kolmogorov's, exact at all levels together.

    Args:
        u: Uniform residuals; NaN is left out.
        band: The probability of the band.
        reference: Residuals of simulated data sets, shape ``(simulations, *u.shape)``.

    Example:
        >>> coverage_curve(torch.linspace(0, 1, 102)[1:-1] / 2 + 0.25)
        CoverageCurve(100 residuals; 50% intervals cover 100.0%, 90% cover 100.0%; 15 of 19
        levels outside the 95% band)
    """
    u, known = checked_residuals(u)
    _check_band(band)
    if reference is None:
        from scipy import stats

        width = float(stats.kstwo.ppf(band, len(u)))
        lower, upper = (LEVELS - width).clamp(min=0.0), (LEVELS + width).clamp(max=1.0)
    else:
        lower, upper = simultaneous_band(coverages(checked_reference(reference, known)), band)
    return CoverageCurve(LEVELS, coverages(u), lower, upper, band, len(u))


# ---------------------------------------------------------------- of one data set or many


def heights(u: Tensor, bins: int) -> Tensor:
    """The relative frequency of each bin, of each row of ``(*rows, n)``: ``(*rows, bins)``."""
    place = (u * bins).long().clamp(0, bins - 1)
    counts = torch.zeros(*u.shape[:-1], bins, dtype=torch.float64)
    counts.scatter_add_(-1, place, torch.ones_like(u))
    return counts * (bins / u.shape[-1])


def coverages(u: Tensor) -> Tensor:
    """The coverage at ``LEVELS``, of each row of ``(*rows, n)``: ``(*rows, levels)``."""
    distance = (2 * u - 1).abs().sort(-1).values
    levels = LEVELS.expand(*u.shape[:-1], -1).contiguous()
    return torch.searchsorted(distance.contiguous(), levels, right=True) / float(u.shape[-1])


def simultaneous_band(curves: Tensor, band: float) -> tuple[Tensor, Tensor]:
    """A band that holds the share ``band`` of the curves as a whole.

    It is as wide at each point as the curves vary there.

    Args:
        curves: Shape ``(simulations, points)``.
        band: That share.
    """
    centre, spread = curves.mean(0), curves.std(0)
    spread = spread.clamp(min=1e-12)
    farthest = ((curves - centre).abs() / spread).amax(-1)
    width = torch.quantile(farthest, band) * spread
    return (centre - width).clamp(min=0.0), centre + width


def _check_band(band: float) -> None:
    if not 0 < band < 1:
        raise InvalidArgumentError(
            "band", "strictly between 0 and 1", f"{band}", "Pass 0.95 for 95%."
        )
