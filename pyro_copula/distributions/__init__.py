"""Distributions over the nodes of a graph."""

from .conditional_copula import ConditionalCopula
from .gaussian_copula import GaussianCopula
from .graph_normal import ConditionalNormal, GraphNormal

__all__ = ["ConditionalCopula", "ConditionalNormal", "GaussianCopula", "GraphNormal"]
