"""Backbones and graph features: the only part of the package that knows PyTorch Geometric."""

from .backbones import BACKBONES, make_backbone
from .features import graph_features, neighbour_mean, neighbour_outcomes
from .last_layer import LastLayer
from .skips import LinearSkip, OwnColumns

__all__ = [
    "BACKBONES",
    "LastLayer",
    "LinearSkip",
    "OwnColumns",
    "graph_features",
    "make_backbone",
    "neighbour_mean",
    "neighbour_outcomes",
]
