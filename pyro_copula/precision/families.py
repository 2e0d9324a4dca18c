"""Precisions with two global parameters: Laplacian, normalised adjacency, proper CAR.

Each is a module that returns a :class:`SparsePrecision`, positive definite by construction. A
parameter can be held by the module, where an optimiser moves it, or be given at the call, which
is how a sample from a Pyro prior gets in. Parameters with batch dimensions give a batch of
precisions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..graph import Graph, check_graph
from ..linalg import Iterative
from ..scalars import Correlation, Positive
from .sparse_precision import SparsePrecision


class LaplacianPrecision(nn.Module):
    r"""The regularised graph Laplacian, the law of the paper's simulations.

    .. math:: K = (L + \gamma I) / \tau, \qquad L = D - A

    Args:
        graph: The graph.
        tau: Initial value of the overall variance, positive.
        gamma: Initial value of the regulariser, positive; small means long-range correlation.
        learnable: Whether the held values are parameters.
        backend: Passed to :class:`SparsePrecision`.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2)])
        >>> LaplacianPrecision(graph)(tau=1.0, gamma=0.5).to_dense()
        tensor([[ 1.5000, -1.0000,  0.0000],
                [-1.0000,  2.5000, -1.0000],
                [ 0.0000, -1.0000,  1.5000]])
    """

    #: The parameter that multiplies the whole matrix, on which a copula does not depend.
    overall_scale = "tau"

    def __init__(
        self,
        graph: Graph,
        *,
        tau: float = 1.0,
        gamma: float = 0.1,
        learnable: bool = True,
        backend: str | Iterative = "auto",
    ) -> None:
        super().__init__()
        self.graph = check_graph(graph)
        self.backend = backend
        self.tau = Positive("tau", tau, learnable=learnable)
        self.gamma = Positive("gamma", gamma, learnable=learnable)

    def forward(self, tau: Any = None, gamma: Any = None) -> SparsePrecision:
        """The precision for these values, or for the held ones.

        Args:
            tau: The overall variance, positive.
            gamma: The regulariser, positive.

        Returns:
            The precision; parameters of shape ``(*batch,)`` give a batch of them.
        """
        tau, gamma = _as_column(self.tau(tau)), _as_column(self.gamma(gamma))
        degree = self.graph.degree.to(tau.dtype)
        ones = torch.ones(self.graph.num_edges, dtype=tau.dtype)
        return SparsePrecision(
            self.graph, (degree + gamma) / tau, -ones / tau, backend=self.backend
        )


class NormalizedAdjacencyPrecision(nn.Module):
    r"""The paper's two-parameter precision, on the normalised adjacency matrix.

    .. math:: K = \beta (I - \alpha D^{-1/2} A D^{-1/2}), \qquad |\alpha| < 1

    An isolated node has no neighbours to depend on: its entry is :math:`\beta`. Negative
    :math:`\alpha` means that neighbours repel.

    Args:
        graph: The graph.
        alpha: Initial strength of the dependence; the default is the published one, tanh(1).
        beta: Initial overall precision, positive.
        learnable: Whether the held values are parameters.
        backend: Passed to :class:`SparsePrecision`.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2)])
        >>> NormalizedAdjacencyPrecision(graph)(alpha=0.5, beta=1.0).to_dense()
        tensor([[ 1.0000, -0.3536,  0.0000],
                [-0.3536,  1.0000, -0.3536],
                [ 0.0000, -0.3536,  1.0000]])

    References:
        Jia and Benson, Residual correlation in graph neural network regression, KDD 2020.
    """

    #: The parameter that multiplies the whole matrix, on which a copula does not depend.
    overall_scale = "beta"

    def __init__(
        self,
        graph: Graph,
        *,
        alpha: float = 0.7615941559557649,
        beta: float = 1.0,
        learnable: bool = True,
        backend: str | Iterative = "auto",
    ) -> None:
        super().__init__()
        self.graph = check_graph(graph)
        self.backend = backend
        self.alpha = Correlation("alpha", alpha, learnable=learnable)
        self.beta = Positive("beta", beta, learnable=learnable)

    def forward(self, alpha: Any = None, beta: Any = None) -> SparsePrecision:
        """The precision for these values, or for the held ones.

        Args:
            alpha: The strength of the dependence, in (-1, 1).
            beta: The overall precision, positive.

        Returns:
            The precision; parameters of shape ``(*batch,)`` give a batch of them.
        """
        alpha, beta = _as_column(self.alpha(alpha)), _as_column(self.beta(beta))
        weight = self.graph.cached("normalised weight", self._weight).to(alpha.dtype)
        ones = torch.ones(self.graph.num_nodes, dtype=alpha.dtype)
        return SparsePrecision(
            self.graph, beta * ones, -beta * alpha * weight, backend=self.backend
        )

    def _weight(self) -> Tensor:
        """``(D^-1/2 A D^-1/2)`` on the edges."""
        degree = self.graph.degree.double()
        return (degree[self.graph.rows] * degree[self.graph.cols]).rsqrt()


class CARPrecision(nn.Module):
    r"""The proper conditional autoregression of spatial statistics.

    .. math:: K = \tau (D - \rho A), \qquad |\rho| < 1

    so that :math:`x_i` given the rest is normal with mean :math:`\rho` times the average of its
    neighbours and precision :math:`\tau d_i`. An isolated node, which has no neighbours, counts
    as having degree one: its precision is :math:`\tau`.

    Args:
        graph: The graph.
        rho: Initial strength of the dependence.
        tau: Initial overall *precision* (as in the CAR literature), positive.
        learnable: Whether the held values are parameters.
        backend: Passed to :class:`SparsePrecision`.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2)])
        >>> CARPrecision(graph)(rho=0.5, tau=1.0).to_dense()
        tensor([[ 1.0000, -0.5000,  0.0000],
                [-0.5000,  2.0000, -0.5000],
                [ 0.0000, -0.5000,  1.0000]])

    References:
        Banerjee, Carlin and Gelfand, Hierarchical Modeling and Analysis for Spatial Data, 2014.
    """

    #: The parameter that multiplies the whole matrix, on which a copula does not depend.
    overall_scale = "tau"

    def __init__(
        self,
        graph: Graph,
        *,
        rho: float = 0.9,
        tau: float = 1.0,
        learnable: bool = True,
        backend: str | Iterative = "auto",
    ) -> None:
        super().__init__()
        self.graph = check_graph(graph)
        self.backend = backend
        self.rho = Correlation("rho", rho, learnable=learnable)
        self.tau = Positive("tau", tau, learnable=learnable)

    def forward(self, rho: Any = None, tau: Any = None) -> SparsePrecision:
        """The precision for these values, or for the held ones.

        Args:
            rho: The strength of the dependence, in (-1, 1).
            tau: The overall precision, positive.

        Returns:
            The precision; parameters of shape ``(*batch,)`` give a batch of them.
        """
        rho, tau = _as_column(self.rho(rho)), _as_column(self.tau(tau))
        degree = self.graph.degree.clamp(min=1).to(tau.dtype)
        ones = torch.ones(self.graph.num_edges, dtype=tau.dtype)
        return SparsePrecision(self.graph, tau * degree, -tau * rho * ones, backend=self.backend)


def _as_column(value: Tensor) -> Tensor:
    """A batch of scalars, ready to multiply values at nodes or edges."""
    return value.unsqueeze(-1)
