"""Predictions at missing nodes: means, quantiles and intervals that are exact, and joint draws.

A prediction is an equal mixture of conditional laws, one per parameter value: a single one for a
maximum likelihood or MAP fit, one per restart for an ensemble, one for each of up to 200 posterior
draws, evenly thinned, for SVI and NUTS. A mixture's distribution function is the average of its
parts', so its quantiles are found exactly too, by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .. import metrics
from ..distributions.base import Interval, check_level
from ..distributions.particle_conditional import ParticleConditional
from ..errors import InvalidArgumentError
from .crps import MAX_LAWS, POINTS, crps_of_counts, quantile_points
from .kinds import check_kinds, discrete_nodes
from .nodes import Nodes, read_nodes, read_values

_BISECTIONS = 60


class Prediction:
    """The predictive law at some nodes, as ``fit.predict()`` gives it.

    Where a method takes values ``y``, their number says what they are. One value per node of this
    prediction is in the order of ``nodes``; one value per node of the graph is in the order of
    node numbers. If all nodes are predicted, in another order than that of their numbers, the two
    cannot be told apart, and ``y`` is refused.

    Args:
        parts: Conditional laws with the same nodes, each with a batch of its own or none; all
            elements of all batches weigh the same. At each node all are discrete, or none is.
        nodes: The nodes to report, by number, by name or as a mask of all nodes; they must be
            among those of the parts.
        num_samples: The number of joint draws that ``samples`` holds.
        names: Names of all nodes of the graph, for tables and plots.
        num_nodes: The number of nodes of the graph, if it is known.

    Attributes:
        nodes: The nodes, int64, in the order of every result.

    Example:
        >>> import pyro_copula as pc
        >>> graph = pc.Graph.from_edges([(0, 1), (1, 2)])
        >>> law = pc.GraphNormal(torch.zeros(3), pc.CARPrecision(graph)(rho=0.9, tau=1.0))
        >>> prediction = Prediction([law.condition(torch.tensor([2.0, math.nan, math.nan]))])
        >>> prediction.nodes
        tensor([1, 2])
        >>> prediction.mean
        tensor([1.5126, 1.3613])
        >>> prediction.to_frame(levels=[0.9]).round(2)
              mean  median    sd  lower_90  upper_90
        node
        1     1.51    1.51  0.92      0.00      3.02
        2     1.36    1.36  1.30     -0.77      3.49
    """

    def __init__(
        self,
        parts: Sequence[Any],
        nodes: Nodes | None = None,
        *,
        num_samples: int = 1000,
        names: Sequence[str] | None = None,
        num_nodes: int | None = None,
    ) -> None:
        self._parts = list(parts)
        self.num_samples, self.names = num_samples, names
        self._num_nodes = num_nodes
        check_kinds("parts", self._parts, "Predict with one fit at a time.")
        available = self._parts[0].nodes.tolist()
        chosen = available if nodes is None else read_nodes(nodes, names, num_nodes)
        position = {node: k for k, node in enumerate(available)}
        unknown = [node for node in chosen if node not in position]
        if unknown or not chosen:
            raise InvalidArgumentError(
                "nodes",
                "some of the nodes that are predicted",
                f"node {unknown[0]} ({self._why_not(unknown[0])})" if unknown else "no node",
                "Leave `nodes` out for all of them.",
            )
        self.nodes = torch.tensor(chosen, dtype=torch.int64)
        self._index = torch.tensor([position[node] for node in chosen], dtype=torch.int64)

    # ---------------------------------------------------------------- one node at a time

    @cached_property
    def mean(self) -> Tensor:
        """The predictive means, ``(num_nodes,)``."""
        return self._rows(lambda part: part.mean).mean(0)[self._index]

    @cached_property
    def variance(self) -> Tensor:
        """The predictive variances, ``(num_nodes,)``: within the parts and between them."""
        within = self._rows(lambda part: part.variance).mean(0)
        between = self._rows(lambda part: part.mean).var(0, correction=0)
        return (within + between)[self._index]

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
        """Equal-tailed predictive intervals.

        Args:
            level: The probability of each interval.

        Returns:
            The pair ``(lower, upper)``, each ``(num_nodes,)``, in the order of ``nodes``.
        """
        return Interval.from_quantile(self.quantile, level)

    def cdf(self, y: Tensor) -> Tensor:
        """``P(Y_i <= y_i)``, node by node.

        Args:
            y: One value per node of this prediction, or one per node of the graph.

        Returns:
            Shape ``(num_nodes,)``.
        """
        return self._cdf(self._full(y))[self._index]

    def log_prob(self, y: Tensor) -> Tensor:
        """The predictive log density of each node by itself: the terms of a log score.

        Args:
            y: One value per node of this prediction, or one per node of the graph.

        Returns:
            Shape ``(num_nodes,)``.
        """
        full = self._full(y)
        rows = self._rows(lambda part: part.marginal_log_prob(_expanded(full, part)))
        return (torch.logsumexp(rows, 0) - math.log(len(rows)))[self._index]

    # ---------------------------------------------------------------- several nodes together

    @cached_property
    def samples(self) -> Tensor:
        """Joint draws, ``(num_samples, num_nodes)``: whole rows, so that sums can be taken.

        The parts of a mixture have the same number of draws, up to one.
        """
        return self._draw(self.num_samples)

    # ---------------------------------------------------------------- judging and showing

    def score(self, y: Tensor, level: float = 0.9, *, seed: int = 0) -> dict[str, float]:
        """How good the prediction was.

        Args:
            y: The true values: one per node of this prediction, or one per node of the graph.
                Where they are NaN, the truth is not known and nothing is scored.
            level: The level of the intervals that are scored.
            seed: Of the randomised PIT, and of the draws behind the CRPS of a large mixture.

        Returns:
            R2 (R2-deviance for counts), log score, CRPS, and of the intervals the coverage, mean
            width and interval score; ``coverage_50`` is that of the 50% intervals. For counts
            also the coverage of the randomised PIT, which is honest where whole numbers are not.
            R2 is NaN if all true values are the same, a single one for example. If some values are
            not known, ``num_scored`` is the number of those that are.
            The CRPS is a sum over counts or a quadrature over quantiles. Of a mixture of more than
            20 laws (posterior draws), and of counts over a wide range under an exact rule, it is
            that of 1,000 joint draws or more. Two calls give the same numbers.
        """
        y = self._values(y)
        known = ~y.isnan()
        if bool(known.all()):
            return self._score(y, level, seed)
        if not bool(known.any()):
            raise InvalidArgumentError(
                "y",
                "known at one predicted node or more",
                f"NaN at all {len(y)}",
                "Pass the true values, those that the fit did not see included.",
            )
        some = Prediction(
            self._parts,
            self.nodes[known],
            num_samples=self.num_samples,
            num_nodes=self._num_nodes or int(self.nodes.max()) + 1,
        )
        return some._score(y[known], level, seed) | {"num_scored": int(known.sum())}

    def _score(self, y: Tensor, level: float, seed: int) -> dict[str, float]:
        """The scores, from the values at the nodes of this prediction, all of them known."""
        interval = self.interval(level)
        counts = bool(self._discrete.all())
        explained = metrics.r2_deviance if counts else metrics.r2
        varies = bool((y != y[0]).any())
        scores = {
            "r2_deviance" if counts else "r2": explained(y, self.mean) if varies else math.nan,
            "log_score": metrics.log_score(self.log_prob(y)),
            "crps": self._crps(y, seed),
            "coverage": metrics.coverage(y, interval),
            "coverage_50": metrics.coverage(y, self.interval(0.5)),
            "width": metrics.interval_width(interval),
            "interval_score": metrics.interval_score(y, interval, level),
        }
        if bool(self._discrete.any()):
            lower = self.cdf(torch.where(self._discrete, y - 1, y))
            pit = metrics.pit(lower, self.cdf(y), torch.Generator().manual_seed(seed))
            scores["pit_coverage"] = metrics.pit_coverage(pit, level)
            scores["pit_coverage_50"] = metrics.pit_coverage(pit, 0.5)
        return scores

    def to_frame(self, levels: Sequence[float] = (0.5, 0.9)) -> Any:
        """A pandas table: one row per node, with mean, median, standard deviation, intervals.

        The index is the nodes' names if the data have them, else their numbers.

        Args:
            levels: Those of the intervals.

        Returns:
            The table.
        """
        import pandas as pd

        levels = levels.tolist() if hasattr(levels, "tolist") else levels
        if isinstance(levels, str) or not isinstance(levels, Iterable):
            raise InvalidArgumentError(
                "levels",
                "a list of levels",
                repr(levels),
                "Pass levels=[0.9], also for a single one.",
            )
        numbers = self.nodes.tolist()
        index = numbers if self.names is None else [self.names[node] for node in numbers]
        columns: dict[str, Any] = {"mean": self.mean.numpy()}
        columns["median"] = self.median.numpy()
        columns["sd"] = self.variance.sqrt().numpy()
        for level in levels:
            lower, upper = self.interval(level)
            columns[f"lower_{100 * level:g}"] = lower.numpy()
            columns[f"upper_{100 * level:g}"] = upper.numpy()
        return pd.DataFrame(columns, index=pd.Index(index, name="node"))

    def plot(self, y: Tensor | None = None, *, level: float = 0.9, axes: Any = None) -> Any:
        """Intervals in the order of their medians, with the true values if they are given.

        Args:
            y: The true values, if they are known.
            level: The level of the intervals.
            axes: Matplotlib axes to draw on; new ones by default.

        Returns:
            The axes.
        """
        from .plots import plot_prediction

        return plot_prediction(self, None if y is None else self._values(y), level, axes)

    def __repr__(self) -> str:
        parts = "" if self._num_laws == 1 else f", mixture of {self._num_laws}"
        return (
            f"Prediction(nodes={len(self.nodes)}{parts})\n"
            "  .mean  .median  .quantile(q)  .interval(0.9)  .samples  .score(y)  .to_frame()  "
            ".plot()"
        )

    # ---------------------------------------------------------------- internals

    @property
    def _num_laws(self) -> int:
        return sum(part.batch_shape.numel() for part in self._parts)

    def _draw(self, num_samples: int) -> Tensor:
        count = -(-num_samples // self._num_laws)
        rows = [part.sample((count,)).reshape(count, -1, self._width) for part in self._parts]
        draws = torch.cat(rows, dim=1)  # (count, laws, nodes of the parts)
        draws = draws.transpose(0, 1).reshape(-1, self._width)
        kept = torch.linspace(0, len(draws) - 1, num_samples).round().long()
        return draws[kept][:, self._index]

    def _crps(self, y: Tensor, seed: int) -> float:
        """The mean CRPS: of counts by a sum, else by quantiles, of large mixtures by draws."""
        few = self._num_laws <= MAX_LAWS
        scores = torch.full(y.shape, torch.nan, dtype=torch.float64)
        if few and bool(self._discrete.any()):
            counts = crps_of_counts(y, self.quantile, self.cdf)
            scores = torch.where(self._discrete, counts, scores)
        rest = scores.isnan()
        total = float(scores[~rest].sum())
        if bool(rest.any()):
            particles = any(isinstance(part, ParticleConditional) for part in self._parts)
            if few and not particles:  # of particles a quantile is a search of its own
                with torch.no_grad():
                    points = quantile_points(self._parts)[:, self._index]
            else:
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(seed)
                    points = self._draw(max(self.num_samples, POINTS))
            fair = not few or particles
            total += int(rest.sum()) * metrics.crps_sample(y[rest], points[:, rest], fair=fair)
        return total / len(y)

    @property
    def _width(self) -> int:
        """The number of nodes of the parts."""
        return len(self._parts[0].nodes)

    def _rows(self, function: Callable[[Any], Tensor]) -> Tensor:
        """A function of every element of every part, ``(elements, nodes of the parts)``."""
        with torch.no_grad():
            return torch.cat([function(part).reshape(-1, self._width) for part in self._parts])

    @cached_property
    def _discrete_parts(self) -> Tensor:
        return discrete_nodes(self._parts[0])

    @property
    def _discrete(self) -> Tensor:
        return self._discrete_parts[self._index]

    def _why_not(self, node: int) -> str:
        """Why a node is not predicted, as far as that is known."""
        if self._num_nodes is None:
            return "it is given or does not exist"
        if 0 <= node < self._num_nodes:
            return "its value is given"
        return f"the graph has nodes 0 to {self._num_nodes - 1}"

    def _values(self, y: Any) -> Tensor:
        return read_values(y, self.nodes, self._num_nodes)

    def _full(self, y: Any) -> Tensor:
        """A value at the reported nodes as one at all nodes of the parts, NaN elsewhere."""
        y = self._values(y)
        full = torch.full((self._width,), torch.nan, dtype=self.mean.dtype)
        return full.index_copy(0, self._index, y.to(full.dtype))

    def _cdf(self, full: Tensor) -> Tensor:
        return self._rows(lambda part: part.cdf(_expanded(full, part))).mean(0)

    def _quantile(self, level: float) -> Tensor:
        """The quantile at every node of the parts."""
        ends = self._rows(lambda part: part.quantile(level))
        low, high = ends.amin(0), ends.amax(0)
        if len(ends) == 1:
            return high
        discrete = self._discrete_parts
        low = torch.where(discrete, low - 1, low)  # not reached, unless both ends agree
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            middle = torch.where(discrete, middle.floor().clamp(min=low + 1), middle)
            if bool(((high - low) <= torch.where(discrete, 1.0, 1e-12 * high.abs())).all()):
                break
            reached = self._cdf(torch.where(discrete, middle.clamp(max=high), middle)) >= level
            before = low, high
            high = torch.where(reached, torch.minimum(middle, high), high)
            low = torch.where(reached, low, middle)
            if torch.equal(low, before[0]) and torch.equal(high, before[1]):
                break  # neighbours in single precision, which is as close as they get
        return high


def _expanded(full: Tensor, part: Any) -> Tensor:
    """One value for all elements of a batch."""
    return full.expand(*part.batch_shape, -1)
