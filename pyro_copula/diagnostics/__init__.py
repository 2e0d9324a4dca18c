"""Checks of a model against the values it was fitted to, and what they say in words."""

from .findings import Finding
from .moran import MoransI, morans_i
from .pit import CoverageCurve, PITHistogram, coverage_curve, pit_histogram
from .report import Check, Diagnosis, diagnose
from .residuals import quantile_residuals
from .uniformity import Uniformity, uniformity

__all__ = [
    "Check",
    "CoverageCurve",
    "Diagnosis",
    "Finding",
    "MoransI",
    "PITHistogram",
    "Uniformity",
    "coverage_curve",
    "diagnose",
    "morans_i",
    "pit_histogram",
    "quantile_residuals",
    "uniformity",
]
