"""Synthetic graphs and outcomes whose truth is known.

Every simulator takes ``seed=`` and draws from a generator of its own: the same seed gives the same
result, and the global random state is neither read nor moved.
"""

from .graphs import grid_graph, power_law_graph, random_regular_graph
from .published import published_setting
from .settings import LatentSpaceGraph, latent_space_graph, paper_setting

__all__ = [
    "LatentSpaceGraph",
    "grid_graph",
    "latent_space_graph",
    "paper_setting",
    "power_law_graph",
    "published_setting",
    "random_regular_graph",
]
