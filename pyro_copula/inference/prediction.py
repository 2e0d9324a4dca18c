"""Predictions at missing nodes: means, quantiles and intervals that are exact, and joint draws.

A prediction is an equal mixture of conditional laws, one per parameter value: a single one for a
maximum likelihood or MAP fit, one per restart for an ensemble, one per posterior draw for SVI and
NUTS. A mixture's distribution function is the average of its parts', so its quantiles are found
exactly too, by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .. import metrics
from ..distributions.base import Interval, check_level
from ..errors import InvalidArgumentError

_BISECTIONS = 60


class Prediction:
    """The predictive law at some nodes.

    Args:
        parts: Conditional laws with the same nodes, weighted equally.
        nodes: The nodes to report, int64; they must be among those of the parts.
        num_samples: The number of joint draws that ``samples`` holds.
        names: Names of all nodes, for tables and plots.

    Attributes:
        nodes: The nodes, in the order of every result.

    Example:
        ``prediction.mean``, ``prediction.quantile(0.5)``, ``prediction.interval(0.9)``,
        ``prediction.samples`` (joint draws), ``prediction.score(y)``, ``prediction.to_frame()``.
    """

    def __init__(
        self,
        parts: Sequence[Any],
        nodes: Tensor | None = None,
        *,
        num_samples: int = 1000,
        names: Sequence[str] | None = None,
    ) -> None:
        self._parts = list(parts)
        available = self._parts[0].nodes
        self.nodes = available if nodes is None else torch.as_tensor(nodes, dtype=torch.int64)
        position = {int(node): k for k, node in enumerate(available.tolist())}
        unknown = [int(node) for node in self.nodes if int(node) not in position]
        if unknown:
            raise InvalidArgumentError(
                "nodes",
                "among the missing nodes",
                f"node {unknown[0]}, which is observed or does not exist",
                "Leave `nodes` out for all missing nodes.",
            )
        self._index = torch.tensor([position[int(node)] for node in self.nodes], dtype=torch.int64)
        self.num_samples = num_samples
        self.names = names

    # ---------------------------------------------------------------- one node at a time

    @cached_property
    def mean(self) -> Tensor:
        """The predictive means, ``(num_nodes,)``."""
        return torch.stack([part.mean for part in self._parts]).mean(0)[self._index].detach()

    @cached_property
    def variance(self) -> Tensor:
        """The predictive variances, ``(num_nodes,)``: within the parts and between them."""
        means = torch.stack([part.mean for part in self._parts])
        within = torch.stack([part.variance for part in self._parts]).mean(0)
        return (within + means.var(0, correction=0))[self._index].detach()

    @property
    def median(self) -> Tensor:
        """The predictive medians."""
        return self.quantile(0.5)

    def quantile(self, q: float | Tensor) -> Tensor:
        """Predictive quantiles.

        Args:
            q: A level, or several, of shape ``(*levels,)``.

        Returns:
            Shape ``(*levels, num_nodes)``.
        """
        levels = check_level("q", q)
        rows = [self._quantile(float(level)) for level in levels.reshape(-1)]
        return torch.stack(rows).reshape(*levels.shape, -1)[..., self._index]

    def interval(self, level: float = 0.9) -> Interval:
        """Equal-tailed predictive intervals, ``(lower, upper)``."""
        return Interval.from_quantile(self.quantile, level)

    def cdf(self, y: Tensor) -> Tensor:
        """``P(Y_i <= y_i)`` node by node, for ``y`` at the nodes of this prediction."""
        return self._cdf(self._full(y))[self._index]

    def log_prob(self, y: Tensor) -> Tensor:
        """The predictive log density of each node by itself: the terms of a log score."""
        full = self._full(y)
        rows = torch.stack([part.marginal_log_prob(full) for part in self._parts])
        count = torch.tensor(float(len(rows)))
        return (torch.logsumexp(rows, 0) - count.log())[self._index].detach()

    # ---------------------------------------------------------------- several nodes together

    @cached_property
    def samples(self) -> Tensor:
        """Joint draws, ``(num_samples, num_nodes)``."""
        count = -(-self.num_samples // len(self._parts))
        draws = torch.stack([part.sample((count,)) for part in self._parts], dim=1)
        return draws.reshape(-1, draws.shape[-1])[: self.num_samples, self._index]

    # ---------------------------------------------------------------- judging and showing

    def score(self, y: Tensor, level: float = 0.9) -> dict[str, float]:
        """How good the prediction was.

        Args:
            y: The true values: one per node of this prediction, or one per node of the graph.
            level: The level of the intervals that are scored.

        Returns:
            R2 (R2-deviance for counts), log score, CRPS, and of the intervals the coverage, mean
            width and interval score; for counts also the coverage of the randomised PIT.
        """
        y = self._values(y)
        interval = self.interval(level)
        discrete = bool(self._discrete.any())
        scores = {
            "r2_deviance" if discrete else "r2": (metrics.r2_deviance if discrete else metrics.r2)(
                y, self.mean
            ),
            "log_score": metrics.log_score(self.log_prob(y)),
            "crps": metrics.crps_sample(y, self.samples),
            "coverage": metrics.coverage(y, interval),
            "width": metrics.interval_width(interval),
            "interval_score": metrics.interval_score(y, interval, level),
        }
        if discrete:
            lower = self.cdf(torch.where(self._discrete, y - 1, y))
            pit = metrics.pit(lower, self.cdf(y), torch.Generator().manual_seed(0))
            scores["pit_coverage"] = metrics.pit_coverage(pit, level)
        return scores

    def to_frame(self, levels: Sequence[float] = (0.5, 0.9)) -> Any:
        """A pandas table: one row per node, with mean, median, standard deviation, intervals."""
        import pandas as pd

        columns: dict[str, Any] = {"node": self.nodes.numpy()}
        if self.names is not None:
            columns["name"] = [self.names[int(node)] for node in self.nodes]
        columns["mean"] = self.mean.numpy()
        columns["median"] = self.median.numpy()
        columns["sd"] = self.variance.sqrt().numpy()
        for level in levels:
            lower, upper = self.interval(level)
            columns[f"lower_{100 * level:g}"] = lower.numpy()
            columns[f"upper_{100 * level:g}"] = upper.numpy()
        return pd.DataFrame(columns)

    def plot(self, y: Tensor | None = None, *, level: float = 0.9, axes: Any = None) -> Any:
        """Intervals in the order of their medians, with the true values if they are given."""
        from .plots import plot_prediction

        return plot_prediction(self, None if y is None else self._values(y), level, axes)

    def __repr__(self) -> str:
        parts = "" if len(self._parts) == 1 else f", mixture of {len(self._parts)}"
        return (
            f"Prediction(nodes={len(self.nodes)}{parts})\n"
            "  .mean  .median  .quantile(q)  .interval(0.9)  .samples  .score(y)  .to_frame()  "
            ".plot()"
        )

    # ---------------------------------------------------------------- internals

    @cached_property
    def _discrete(self) -> Tensor:
        flags = getattr(self._parts[0], "discrete_nodes", None)
        every = torch.zeros(len(self._parts[0].nodes), dtype=torch.bool)
        return (every if flags is None else flags)[self._index]

    def _values(self, y: Tensor) -> Tensor:
        y = torch.as_tensor(y)
        if len(y) == len(self.nodes):
            return y
        if len(y) > int(self.nodes.max()):
            return y[self.nodes]
        raise InvalidArgumentError(
            "y",
            f"of length {len(self.nodes)}, or one value per node of the graph",
            f"length {len(y)}",
            "Give the true values in the order of `prediction.nodes`.",
        )

    def _full(self, y: Tensor) -> Tensor:
        """A value at the reported nodes as one at all nodes of the parts, NaN elsewhere."""
        y = self._values(y)
        full = torch.full((len(self._parts[0].nodes),), torch.nan, dtype=y.dtype)
        return full.index_copy(0, self._index, y)

    def _cdf(self, full: Tensor) -> Tensor:
        return torch.stack([part.cdf(full) for part in self._parts]).mean(0).detach()

    def _quantile(self, level: float) -> Tensor:
        """The quantile at every node of the parts."""
        ends = torch.stack([part.quantile(level) for part in self._parts]).detach()
        if len(ends) == 1:
            return ends[0]
        low, high = ends.amin(0), ends.amax(0)
        flags = getattr(self._parts[0], "discrete_nodes", None)
        discrete = torch.zeros_like(low, dtype=torch.bool) if flags is None else flags
        low = torch.where(discrete, low - 1, low)  # not reached, unless both ends agree
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            middle = torch.where(discrete, middle.floor().clamp(min=low + 1), middle)
            if bool(((high - low) <= torch.where(discrete, 1.0, 1e-12 * high.abs())).all()):
                break
            reached = self._cdf(torch.where(discrete, middle.clamp(max=high), middle)) >= level
            high = torch.where(reached, torch.minimum(middle, high), high)
            low = torch.where(reached, low, middle)
        return high
