"""Backbones and graph features: the only part of the package that knows PyTorch Geometric.

``BACKBONES`` says which names ``CopulaGNN(backbone=...)`` takes.

>>> import pyro_copula as pc
>>> list(pc.nn.BACKBONES)
['linear', 'mlp', 'gcn', 'sage', 'gat', 'appnp', 'published_sage']
"""

from .backbones import BACKBONES, make_backbone
from .features import graph_features, neighbour_mean, neighbour_outcomes
from .last_layer import LastLayer
from .lazy import materialise
from .skips import LinearSkip, OwnColumns

__all__ = [
    "BACKBONES",
    "LastLayer",
    "LinearSkip",
    "OwnColumns",
    "graph_features",
    "make_backbone",
    "materialise",
    "neighbour_mean",
    "neighbour_outcomes",
]
