"""Special functions on tensors that torch lacks: both tails, and gradients in every argument."""

from __future__ import annotations

from .beta import (
    betainc,
    betainc_logit,
    betaincinv_logit,
    log_beta_weight,
    log_betainc,
    log_betainc_logit,
)
from .gamma import (
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    log_gamma_tail,
    log_gamma_weight,
    log_gammainc,
    log_gammaincc,
)
from .normal import log_ndtr, ndtri_exp

__all__ = [
    "betainc",
    "betainc_logit",
    "betaincinv_logit",
    "gammainc",
    "gammaincc",
    "gammainccinv",
    "gammaincinv",
    "log_beta_weight",
    "log_betainc",
    "log_betainc_logit",
    "log_gamma_tail",
    "log_gamma_weight",
    "log_gammainc",
    "log_gammaincc",
    "log_ndtr",
    "ndtri_exp",
]
