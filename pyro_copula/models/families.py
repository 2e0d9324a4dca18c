"""Families by name, from a dictionary, and chosen from the values."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..errors.spelling import did_you_mean
from .continuous_families import (
    GammaFamily,
    LogNormalFamily,
    NormalFamily,
    SinhArcsinhFamily,
    StudentTFamily,
)
from .count_families import BernoulliFamily, CountFamily
from .family import MarginalFamily
from .mixed_family import MixedFamily

_logger = logging.getLogger("pyro_copula")


def _counts(**fixed: Any) -> Callable[..., MarginalFamily]:
    return lambda **options: CountFamily(**{**fixed, **options})


#: Families by name; each takes the options of its class.
FAMILIES: dict[str, Callable[..., MarginalFamily]] = {
    "normal": NormalFamily,
    "sinh_arcsinh": SinhArcsinhFamily,
    "lognormal": LogNormalFamily,
    "student_t": StudentTFamily,
    "gamma": GammaFamily,
    "bernoulli": BernoulliFamily,
    "poisson": CountFamily,
    "negative_binomial": _counts(dispersion="global"),
    "zero_inflated_poisson": _counts(zeros="inflated"),
    "zero_inflated_negative_binomial": _counts(dispersion="global", zeros="inflated"),
    "zero_truncated_poisson": _counts(zeros="truncated"),
    "zero_truncated_negative_binomial": _counts(dispersion="global", zeros="truncated"),
    "shifted_poisson": _counts(lower="auto"),
    "shifted_negative_binomial": _counts(dispersion="global", lower="auto"),
}


def make_family(marginal: Any) -> MarginalFamily:
    """A family from its name, a dictionary, a class or an object (which is copied).

    Args:
        marginal: A name from ``FAMILIES``; ``{"family": name, option: value, ...}``; a class or an
            object of :class:`MarginalFamily`.

    Example:
        >>> make_family({"family": "negative_binomial", "dispersion": "node"}).out_channels
        2
    """
    if isinstance(marginal, MarginalFamily):
        return copy.deepcopy(marginal)
    if isinstance(marginal, type) and issubclass(marginal, MarginalFamily):
        return marginal()
    options: dict[str, Any] = {}
    name = marginal
    if isinstance(marginal, Mapping):
        options = {key: value for key, value in marginal.items() if key != "family"}
        name = marginal.get("family")
    make = {**FAMILIES, "mixed": MixedFamily}.get(name) if isinstance(name, str) else None
    if make is None:
        raise InvalidArgumentError(
            "marginal",
            f'"auto", one of {sorted(FAMILIES)}, a dictionary {{"family": one of them, ...}}, or '
            "a MarginalFamily",
            repr(marginal),
            did_you_mean(
                name,
                FAMILIES,
                'Use marginal="normal" for real values and "negative_binomial" for counts.',
            ),
        )
    reason = options.pop("reason", "")
    try:
        family = make(**options)
    except TypeError as error:
        raise InvalidArgumentError(
            "marginal", f"with options of {name!r}", repr(marginal), f"{error}."
        ) from None
    family.reason = reason
    return family


def choose_family(y: Tensor, offset: Tensor | None = None) -> tuple[str, str]:
    """The name of a family for these values, and the reason in words.

    Whole numbers are counts: negative binomial if their variance is more than 1.5 times what a
    Poisson law with their exposure has, else Poisson. Zeros and ones alone are Bernoulli unless
    they have an exposure, and all else is normal.

    Args:
        y: The observed values.
        offset: The log exposure at the same nodes.

    Example:
        >>> choose_family(torch.tensor([0.0, 3.0, 1.0, 0.0, 9.0]))
        ('negative_binomial', 'counts with 4.24 times the variance of a Poisson law')
    """
    if not bool(((y >= 0) & (y == y.floor())).all()):
        return "normal", "the values are not all counts"
    if float(y.max()) <= 1 and offset is None:
        return "bernoulli", "the values are zeros and ones"
    exposure = torch.ones_like(y) if offset is None else offset.exp()
    expected = (y.sum() + 0.5) / exposure.sum() * exposure
    ratio = float(((y - expected).square() / expected).mean())
    name = "negative_binomial" if ratio > 1.5 else "poisson"
    return name, f"counts with {ratio:.3g} times the variance of a Poisson law"


def automatic_family(y: Tensor, offset: Tensor | None = None) -> dict[str, str]:
    """What ``marginal="auto"`` stands for with these values; says so in the log.

    Args:
        y: The observed values.
        offset: The log exposure at the same nodes.
    """
    name, why = choose_family(y, offset)
    reason = f'marginal="auto" chose {name!r}: {why}'
    _logger.info(reason)
    return {"family": name, "reason": reason}
