"""CopulaGNN and what it is made of: families of marginals, priors, data."""

from .copula_gnn import CopulaGNN
from .data import NodeData
from .families import FAMILIES, MarginalFamily, choose_family
from .precisions import PRECISIONS
from .priors import default_prior

__all__ = [
    "FAMILIES",
    "PRECISIONS",
    "CopulaGNN",
    "MarginalFamily",
    "NodeData",
    "choose_family",
    "default_prior",
]
