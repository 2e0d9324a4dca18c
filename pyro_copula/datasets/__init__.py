"""Real data sets as PyTorch Geometric ``Data``.

``nc_sids`` comes with the package. The three data sets of the paper are read from a directory of
yours (``root=`` or the environment variable ``PYRO_COPULA_DATA``) or downloaded once into a
per-user cache; either way their SHA-256 is checked.
"""

from .published import Split, election, emnlp, published_split, wikipedia
from .sids import nc_sids

__all__ = [
    "Split",
    "election",
    "emnlp",
    "nc_sids",
    "published_split",
    "wikipedia",
]
