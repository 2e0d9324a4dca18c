"""Precisions: positive definite matrices on the pattern of a graph."""

from .edge_regression import EdgeRegressionPrecision
from .families import CARPrecision, LaplacianPrecision, NormalizedAdjacencyPrecision
from .sparse_precision import SparsePrecision
from .weighted_laplacian import WeightedLaplacianPrecision

__all__ = [
    "CARPrecision",
    "EdgeRegressionPrecision",
    "LaplacianPrecision",
    "NormalizedAdjacencyPrecision",
    "SparsePrecision",
    "WeightedLaplacianPrecision",
]
