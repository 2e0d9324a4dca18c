"""Any univariate Pyro law as the marginal of a node: both tails, quantiles and normal scores."""

from __future__ import annotations

from . import continuous as continuous
from . import discrete as discrete
from . import incomplete as incomplete
from . import transformed as transformed
from . import zero_inflated as zero_inflated
from .densities import log_prob
from .mixed import Mixed
from .moments import moment, score_moments
from .quantiles import from_normal_score, icdf, isf
from .registry import MarginalCDF, register_cdf
from .scores import (
    discrete_nodes,
    is_discrete,
    midpoint_score,
    normal_score,
    normal_score_limits,
)
from .shifted import Shifted
from .sinh_arcsinh import SinhArcsinh
from .support import check_marginal, check_support, fill_missing
from .tails import cdf, log_cdf, log_sf, result_dtype, sf
from .zero_truncated import ZeroTruncated

__all__ = [
    "MarginalCDF",
    "Mixed",
    "Shifted",
    "SinhArcsinh",
    "ZeroTruncated",
    "cdf",
    "check_marginal",
    "check_support",
    "discrete_nodes",
    "fill_missing",
    "from_normal_score",
    "icdf",
    "is_discrete",
    "isf",
    "log_cdf",
    "log_prob",
    "log_sf",
    "midpoint_score",
    "normal_score",
    "normal_score_limits",
    "register_cdf",
    "result_dtype",
    "moment",
    "score_moments",
    "sf",
]
