"""Fitting models, and predicting with the fits."""

from .fitting import fit
from .loading import load_fit
from .prediction import Prediction
from .result import Ensemble, Fit
from .training import History, Schedule

__all__ = ["Ensemble", "Fit", "History", "Prediction", "Schedule", "fit", "load_fit"]
