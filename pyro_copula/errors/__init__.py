"""The errors and warnings of pyro_copula.

Every error a user can cause has the same four parts, in this order: the argument, what was
expected, what was found, and what to do about it. The parts are kept as attributes, so that a
program can react to them without parsing text.
"""

from __future__ import annotations

from .approximations import (
    CutWarning,
    ExtrapolationWarning,
    MidpointWarning,
    ParticleWarning,
    PropagationWarning,
)
from .arguments import (
    GraphError,
    InvalidArgumentError,
    MissingCDFError,
    ObsMaskError,
    ParameterRangeError,
    SeveralFitsError,
    SupportError,
    UnusedDataWarning,
)
from .base import (
    PyroCopulaError,
    PyroCopulaWarning,
)
from .files import (
    ChecksumError,
    DatasetError,
    DownloadError,
    FitFileError,
    MissingFileError,
    OutputError,
)
from .numerics import (
    ConditioningWarning,
    ConvergenceError,
    ConvergenceWarning,
    CurvatureError,
    EstimateError,
    MemoryLimitError,
    NotPositiveDefiniteError,
    SecondOrderError,
)
from .runs import (
    CalibrationError,
    DistributedError,
    TrainingError,
)

__all__ = [
    "CalibrationError",
    "ChecksumError",
    "ConditioningWarning",
    "ConvergenceError",
    "ConvergenceWarning",
    "CurvatureError",
    "CutWarning",
    "DatasetError",
    "DistributedError",
    "DownloadError",
    "EstimateError",
    "ExtrapolationWarning",
    "FitFileError",
    "GraphError",
    "InvalidArgumentError",
    "MemoryLimitError",
    "MidpointWarning",
    "MissingCDFError",
    "MissingFileError",
    "NotPositiveDefiniteError",
    "ObsMaskError",
    "OutputError",
    "ParameterRangeError",
    "ParticleWarning",
    "PropagationWarning",
    "PyroCopulaError",
    "PyroCopulaWarning",
    "SecondOrderError",
    "SeveralFitsError",
    "SupportError",
    "TrainingError",
    "UnusedDataWarning",
]
