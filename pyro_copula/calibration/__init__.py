"""Simulation-based calibration: is a sampler right for a model?

It knows nothing of copulas: any Pyro program with a site for its data can be checked.
"""

from .result import Failure, SBCResult
from .samplers import Draws, NUTSSampler
from .sbc import simulation_based_calibration
from .uniformity import uniformity_band, uniformity_p_value

__all__ = [
    "Draws",
    "Failure",
    "NUTSSampler",
    "SBCResult",
    "simulation_based_calibration",
    "uniformity_band",
    "uniformity_p_value",
]
