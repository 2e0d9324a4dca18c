"""Fitting models, and predicting with the fits."""

from .ensemble import Ensemble
from .fitting import fit
from .loading import load_fit
from .prediction import Prediction
from .result import Fit
from .role_report import GraphRoles
from .roles import graph_roles
from .training import History, Schedule

__all__ = [
    "Ensemble",
    "Fit",
    "GraphRoles",
    "History",
    "Prediction",
    "Schedule",
    "fit",
    "graph_roles",
    "load_fit",
]
