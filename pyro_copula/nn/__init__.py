"""Backbones and graph features: the only part of the package that knows PyTorch Geometric."""

from .backbones import BACKBONES, LinearSkip, make_backbone
from .features import graph_features, neighbour_mean, neighbour_outcomes

__all__ = [
    "BACKBONES",
    "LinearSkip",
    "graph_features",
    "make_backbone",
    "neighbour_mean",
    "neighbour_outcomes",
]
