r"""Moran's I: do neighbours on a graph have similar values?

.. math:: I = \frac{n}{S_0} \frac{\sum_{ij} w_{ij} x_i x_j}{\sum_i x_i^2}, \qquad
    S_0 = \sum_{ij} w_{ij},

with :math:`x` the values minus their mean. With :math:`S_1 = \tfrac12 \sum_{ij} (w_{ij} +
w_{ji})^2`, :math:`S_2 = \sum_i (w_{i\cdot} + w_{\cdot i})^2` and :math:`b = n \sum x^4 / (\sum
x^2)^2`, its mean without dependence is :math:`-1/(n - 1)`, and its second moment is

- for independent normal values :math:`(n^2 S_1 - n S_2 + 3 S_0^2) / ((n^2 - 1) S_0^2)`,
- over all permutations of the given values
  :math:`\bigl(n ((n^2 - 3n + 3) S_1 - n S_2 + 3 S_0^2) - b ((n^2 - n) S_1 - 2 n S_2 + 6 S_0^2)
  \bigr) / ((n - 1)(n - 2)(n - 3) S_0^2)`.

References:
    Cliff and Ord, Spatial Processes: Models and Applications, 1981, pages 21 and 46.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..graph import Graph, check_graph
from .residuals import check_choice
from .uniformity import p_words

WEIGHTS = ("row", "binary")
NULLS = ("permutation", "normal")

#: The third and fourth moments over permutations need four nodes.
_MIN_NODES = 4


@dataclass(frozen=True)
class MoransI:
    """Moran's I, and what it would be without dependence.

    Attributes:
        statistic: Moran's I: positive if neighbours are alike.
        expected: Its mean under the null hypothesis.
        sd: Its standard deviation there.
        p_value: Two-sided.
        num_nodes: The nodes that have a value and a neighbour with one; others are left out.
        num_edges: The edges between them.
        null: The null hypothesis, in words.
        least_p: The smallest p-value that could have come out, 0 if there is none.

    Example:
        >>> import pyro_copula as pc
        >>> found = morans_i(torch.arange(36.0), pc.simulate.grid_graph(6, 6))
        >>> found.p_value < 0.001, found.num_edges
        (True, 60)
    """

    statistic: float
    expected: float
    sd: float
    p_value: float
    num_nodes: int
    num_edges: int
    null: str = "no dependence"
    least_p: float = 0.0

    @property
    def z(self) -> float:
        """How many standard deviations the statistic is above its mean."""
        return (self.statistic - self.expected) / self.sd

    def __repr__(self) -> str:
        return (
            f"MoransI({self.statistic:.3f}; {self.null}: {self.expected:.3f} ± {self.sd:.3f}, "
            f"z {self.z:.2f}, {p_words(self.p_value, self.least_p)}; {self.num_nodes} nodes, "
            f"{self.num_edges} edges)"
        )


def morans_i(
    values: Tensor, graph: Graph, *, weights: str = "row", null: str = "permutation"
) -> MoransI:
    """Moran's I of values at the nodes of a graph, with a test of independence.

    The mean and the standard deviation under the null hypothesis are exact; the p-value takes the
    statistic for normal, which it nearly is from a few dozen nodes on. Residuals of a copula are
    dependent even if the model is right (see :func:`~pyro_copula.quantile_residuals`), so for them
    this test answers only whether there is dependence; :func:`~pyro_copula.diagnose` has the other
    question.

    Args:
        values: Shape ``(num_nodes,)``. A node whose value is NaN is left out, and then a node
            without any neighbour left.
        graph: The graph.
        weights: ``"row"``: each neighbour of a node weighs one over their number. ``"binary"``:
            each edge weighs the same.
        null: ``"permutation"``: every order of the given values is equally likely. ``"normal"``:
            the values are independent draws of one normal law.

    Example:
        >>> import pyro_copula as pc
        >>> graph = pc.simulate.grid_graph(6, 6)
        >>> morans_i(torch.arange(36.0), graph)
        MoransI(0.889; no dependence: -0.029 ± 0.127, z 7.22, p < 0.001; 36 nodes, 60 edges)
    """
    check_choice("null", null, NULLS)
    values = _checked(values, graph)
    known = torch.isfinite(values)
    places = Neighbours(graph, known.numpy(), weights)
    x = values[known]
    moran = float(places.statistic(x))
    expected, sd = places.moments(x if null == "permutation" else None)
    z = (moran - expected) / sd
    return MoransI(
        moran,
        expected,
        sd,
        math.erfc(abs(z) / math.sqrt(2)),
        places.num_nodes,
        len(places.rows),
    )


class Neighbours:
    """The weights of Moran's I on the nodes that are known.

    Args:
        graph: The graph.
        known: Boolean, shape ``(num_nodes,)``: which nodes have a value.
        weights: One of ``WEIGHTS``.
    """

    def __init__(self, graph: Graph, known: np.ndarray, weights: str = "row") -> None:
        check_choice("weights", weights, WEIGHTS)
        joined = np.zeros(0, dtype=bool)
        if known.any():
            induced, _ = graph.subgraph(known)
            joined = induced.degree.numpy() > 0
        if joined.sum() < _MIN_NODES:
            raise InvalidArgumentError(
                "values",
                f"known at {_MIN_NODES} nodes or more that have a known neighbour",
                f"{int(joined.sum())} of them",
                "Moran's I compares neighbours; observe more nodes, or add edges.",
            )
        #: Positions among the known nodes of those that have a neighbour.
        self.joined = torch.from_numpy(np.flatnonzero(joined))
        connected, _ = induced.subgraph(joined)
        self.rows, self.cols = connected.rows, connected.cols
        self.num_nodes = connected.num_nodes
        degree = connected.degree.double()
        share = 1 / degree if weights == "row" else torch.ones_like(degree)
        forth, back = share[self.rows], share[self.cols]  # w_ij and w_ji of every edge
        self._pair = forth + back
        self._s0 = float(self._pair.sum())
        self._s1 = float(self._pair.square().sum())
        both = torch.zeros_like(degree)  # w_i. + w_.i
        both.index_add_(0, self.rows, self._pair).index_add_(0, self.cols, self._pair)
        self._s2 = float(both.square().sum())

    def statistic(self, values: Tensor) -> Tensor:
        """Moran's I of each row of ``(*rows, num_known)``."""
        x = values[..., self.joined].double()
        x = x - x.mean(-1, keepdim=True)
        total = x.square().sum(-1)
        _check_varies(total, values)
        pairs = (self._pair * x[..., self.rows] * x[..., self.cols]).sum(-1)
        return self.num_nodes / self._s0 * pairs / total

    def moments(self, values: Tensor | None = None) -> tuple[float, float]:
        """Mean and standard deviation without dependence.

        Args:
            values: Shape ``(num_known,)``: over their permutations. Without them, for normal ones.
        """
        n, s0, s1, s2 = self.num_nodes, self._s0, self._s1, self._s2
        mean = -1 / (n - 1)
        if values is None:
            second = (n**2 * s1 - n * s2 + 3 * s0**2) / ((n**2 - 1) * s0**2)
        else:
            x = values[self.joined].double()
            x = x - x.mean()
            b = n * float(x.pow(4).sum() / x.square().sum().square())
            first = n * ((n**2 - 3 * n + 3) * s1 - n * s2 + 3 * s0**2)
            kurtosis = b * ((n**2 - n) * s1 - 2 * n * s2 + 6 * s0**2)
            second = (first - kurtosis) / ((n - 1) * (n - 2) * (n - 3) * s0**2)
        return mean, math.sqrt(max(second - mean**2, 0.0))


def _checked(values: Any, graph: Any) -> Tensor:
    check_graph(graph)
    values = torch.as_tensor(values).detach().double()
    if values.shape != (graph.num_nodes,):
        raise InvalidArgumentError(
            "values",
            f"of shape ({graph.num_nodes},), one a node of the graph",
            f"shape {tuple(values.shape)}",
            "Give every node an entry, NaN where its value is missing.",
        )
    infinite = torch.isinf(values)
    if bool(infinite.any()):
        raise InvalidArgumentError(
            "values",
            "finite, or NaN where missing",
            f"infinity at node {int(infinite.nonzero()[0])}",
            "Check that value.",
        )
    return values


def _check_varies(total: Tensor, values: Tensor) -> None:
    # Rounding leaves a little where there is nothing.
    least = 1e-24 * values.shape[-1] * (1 + values.double().square().amax(-1))
    if bool((total <= least).any()):
        raise InvalidArgumentError(
            "values",
            "of two different values or more",
            "the same value at every node that counts",
            "Correlation needs variation: check what was computed here.",
        )
