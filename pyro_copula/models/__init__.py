"""CopulaGNN and what it is made of: families of marginals, recipes, priors, data.

Three dictionaries say which names ``CopulaGNN`` takes: ``FAMILIES`` for ``marginal=``,
``PRECISIONS`` for ``precision=``, and ``RECIPES`` for ``recipe=``, with what was measured.

>>> import pyro_copula as pc
>>> sorted(pc.models.FAMILIES)[:4]
['bernoulli', 'gamma', 'lognormal', 'negative_binomial']
>>> sorted(pc.models.PRECISIONS)[:3]
['car', 'edge_regression', 'laplacian']
>>> pc.models.RECIPES["counts"].fit["restarts"]
5
"""

from .continuous_families import (
    GammaFamily,
    LogNormalFamily,
    NormalFamily,
    SinhArcsinhFamily,
    StudentTFamily,
)
from .copula_gnn import CopulaGNN
from .count_families import BernoulliFamily, CountFamily
from .data import NodeData
from .families import FAMILIES, choose_family, make_family
from .family import MarginalFamily
from .mixed_family import MixedFamily
from .precisions import PRECISIONS
from .priors import default_prior
from .recipes import RECIPES, Recipe

__all__ = [
    "FAMILIES",
    "PRECISIONS",
    "RECIPES",
    "BernoulliFamily",
    "CopulaGNN",
    "CountFamily",
    "GammaFamily",
    "LogNormalFamily",
    "MarginalFamily",
    "MixedFamily",
    "NodeData",
    "NormalFamily",
    "Recipe",
    "SinhArcsinhFamily",
    "StudentTFamily",
    "choose_family",
    "default_prior",
    "make_family",
]
