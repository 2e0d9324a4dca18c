"""Which law has which cumulative distribution function, and how to add one.

A Gaussian copula asks one thing of a marginal: its distribution function, both ways. torch has
it for some laws only, and loses one tail for most of those, so the package keeps its own table,
from distribution classes to :class:`MarginalCDF` objects. A law is looked up along the method
resolution order of its class; a law that brings its own ``cdf`` and ``icdf`` needs no entry.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions.torch_distribution import ExpandedDistribution, MaskedDistribution
from torch import Tensor
from torch.distributions import Distribution, constraints

from ..errors import InvalidArgumentError, MissingCDFError
from ..special import log_ndtr, ndtri_exp

TINY = 2.0**-1022  # the smallest normal float64
BELOW_ONE = 1.0 - 2.0**-53  # the largest float64 below one


class MarginalCDF:
    """The distribution function of one family of univariate laws: the extension point.

    A subclass writes :meth:`cdf` and :meth:`icdf`; every other method has a default made from
    these two. The defaults know the upper tail only as ``1 - cdf``, so their normal scores end at
    about 8.2; a subclass that writes :meth:`log_sf` (and :meth:`isf`) has both tails to full
    depth. Every method receives float64 values strictly inside the support (whole numbers for a
    discrete law) that broadcast against the batch shape of ``d``; the package handles values
    outside the support, dtypes and the exactness of discrete quantiles.

    Example:
        >>> from pyro_copula.marginals import cdf
        >>> class MyExponential(dist.Gamma):
        ...     def __init__(self, rate, validate_args=None):
        ...         super().__init__(torch.ones_like(rate), rate, validate_args=validate_args)
        >>> @register_cdf(MyExponential)
        ... class MyExponentialCDF(MarginalCDF):
        ...     def cdf(self, d, value):
        ...         return -torch.expm1(-d.rate * value)
        ...
        ...     def icdf(self, d, u):
        ...         return -torch.log1p(-u) / d.rate
        >>> cdf(MyExponential(torch.tensor([1.0, 2.0])), torch.tensor(1.0))
        tensor([0.6321, 0.8647])
    """

    #: Whether :meth:`icdf`, :meth:`isf` and :meth:`from_score` can be differentiated as they are.
    #: If not, the package differentiates them implicitly, through the cdf and ``d.log_prob``.
    differentiable_quantile: bool = False

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        """Return ``P(Y <= value)``, differentiable in the parameters of ``d``."""
        raise NotImplementedError

    def icdf(self, d: Any, u: Tensor) -> Tensor:
        """Return the quantile of the lower tail probability ``u``, strictly between 0 and 1."""
        raise NotImplementedError

    def sf(self, d: Any, value: Tensor) -> Tensor:
        """Return ``P(Y > value)``."""
        return self.log_sf(d, value).exp()

    def log_cdf(self, d: Any, value: Tensor) -> Tensor:
        """Return ``log P(Y <= value)``."""
        return self.cdf(d, value).clamp(min=TINY).log()

    def log_sf(self, d: Any, value: Tensor) -> Tensor:
        """Return ``log P(Y > value)``."""
        return torch.log1p(-self.cdf(d, value).clamp(max=BELOW_ONE))

    def isf(self, d: Any, q: Tensor) -> Tensor:
        """Return the quantile of the upper tail probability ``q``, strictly between 0 and 1."""
        return self.icdf(d, (1.0 - q).clamp(TINY, BELOW_ONE))

    def score(self, d: Any, value: Tensor) -> Tensor:
        """Return ``Phi^-1(F(value))`` from whichever tail is small."""
        return score_from_tails(self.log_cdf(d, value), self.log_sf(d, value))

    def from_score(self, d: Any, z: Tensor) -> Tensor:
        """Return ``F^-1(Phi(z))`` for finite ``z``, from whichever tail is small."""
        tail = log_ndtr(-z.abs()).exp().clamp(min=TINY)
        return torch.where(z < 0, self.icdf(d, tail), self.isf(d, tail))

    def log_tail(self, d: Any, value: Tensor, upper: Tensor) -> Tensor:
        """Return ``log_sf`` where ``upper`` is true and ``log_cdf`` elsewhere."""
        return torch.where(upper, self.log_sf(d, value), self.log_cdf(d, value))

    def use_upper(self, d: Any, value: Tensor) -> Tensor:
        """Tell where the upper tail has the more digits."""
        with torch.no_grad():
            return self.log_sf(d, value) < self.log_cdf(d, value)

    def accurate_log_prob(self, d: Any, value: Tensor) -> Tensor | None:
        """Return the log density where ``d.log_prob`` loses digits; None where it loses none."""
        return None

    def midpoint(self, d: Any, value: Tensor) -> Tensor | None:
        """Return the midpoint scores of counts, from a law that has them at once; else None."""
        return None

    def bounds(self, d: Any) -> tuple[Tensor, Tensor]:
        """Return the first and last point of the support, infinite where there is none."""
        return support_bounds(d.support)

    def is_discrete(self, d: Any) -> bool | Tensor:
        """Tell whether the law is discrete: read from its support."""
        return bool(d.support.is_discrete)

    def specialise(self, d: Any) -> MarginalCDF:
        """Return the object to use for ``d``: this one, unless the law is built on another."""
        return self


class FunctionCDF(MarginalCDF):
    """A :class:`MarginalCDF` made of plain functions of ``(d, value)``."""

    def __init__(self, **functions: Callable[[Any, Tensor], Tensor]) -> None:
        for name, function in functions.items():
            setattr(self, name, function)


class OwnCDF(MarginalCDF):
    """The law of a distribution that brings its own ``cdf`` and ``icdf``."""

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        return d.cdf(value)

    def icdf(self, d: Any, u: Tensor) -> Tensor:
        return d.icdf(u)


_REGISTRY: dict[type, MarginalCDF] = {}


def register_cdf(
    distribution: type,
    *,
    cdf: Callable[[Any, Tensor], Tensor] | None = None,
    icdf: Callable[[Any, Tensor], Tensor] | None = None,
    log_cdf: Callable[[Any, Tensor], Tensor] | None = None,
    log_sf: Callable[[Any, Tensor], Tensor] | None = None,
    isf: Callable[[Any, Tensor], Tensor] | None = None,
) -> Any:
    """Give a distribution class the functions that a copula needs.

    Only ``cdf`` and ``icdf`` are needed. ``log_sf`` and ``isf`` make the upper tail exact beyond
    a normal score of 8. Whether the law is discrete is read from its ``support``; a discrete
    ``icdf`` may be approximate, since it is corrected against ``cdf``. Subclasses inherit the
    entry, and registering again replaces it.

    Args:
        distribution: The class of the law.
        cdf: A function of ``(d, value)``: the lower tail probability.
        icdf: A function of ``(d, u)``: the quantile.
        log_cdf: The logarithm of ``cdf``, if it can be had beyond underflow.
        log_sf: The logarithm of the upper tail probability.
        isf: A function of ``(d, q)``: the quantile of an upper tail probability.

    Returns:
        ``distribution`` if functions are given; otherwise a decorator for a subclass of
        :class:`MarginalCDF`.

    Raises:
        InvalidArgumentError: If ``distribution`` is not a distribution class, a function is
            missing or not callable, or the decorated class is not a :class:`MarginalCDF`.

    Example:
        >>> from pyro_copula.marginals import icdf
        >>> class Triangle(dist.Uniform):  # the density rises from 0 to 1
        ...     def log_prob(self, value):
        ...         return (2 * value).log()
        >>> law = register_cdf(Triangle, cdf=lambda d, y: y**2, icdf=lambda d, u: u.sqrt())
        >>> icdf(law(0.0, torch.ones(2)), torch.tensor([0.25, 0.81]))
        tensor([0.5000, 0.9000])
    """
    if not (inspect.isclass(distribution) and issubclass(distribution, Distribution)):
        raise InvalidArgumentError(
            "distribution",
            "a distribution class",
            f"{distribution!r}",
            "Pass the class itself, for example register_cdf(MyLaw, cdf=..., icdf=...).",
        )
    given = {"cdf": cdf, "icdf": icdf, "log_cdf": log_cdf, "log_sf": log_sf, "isf": isf}
    functions = {name: function for name, function in given.items() if function is not None}
    if not functions:
        return lambda law: _register_class(distribution, law)
    for name in ("cdf", "icdf"):
        if name not in functions:
            raise InvalidArgumentError(
                name,
                "a function of (d, value)",
                "None",
                f"`cdf` and `icdf` are both needed to register {distribution.__name__}.",
            )
    for name, function in functions.items():
        if not callable(function):
            raise InvalidArgumentError(
                name,
                "a function of (d, value)",
                f"{function!r}",
                "Pass a function that takes the distribution and a tensor.",
            )
    _REGISTRY[distribution] = FunctionCDF(**functions)
    return distribution


def _register_class(distribution: type, law: type) -> type:
    if not (inspect.isclass(law) and issubclass(law, MarginalCDF)):
        raise InvalidArgumentError(
            "law",
            "a subclass of MarginalCDF",
            f"{law!r}",
            "Decorate a class: @register_cdf(MyLaw) above class MyLawCDF(MarginalCDF).",
        )
    for name in ("cdf", "icdf"):
        if getattr(law, name) is getattr(MarginalCDF, name):
            raise InvalidArgumentError(
                "law",
                f"a class with a method {name}(self, d, value)",
                f"{law.__name__} without one",
                "`cdf` and `icdf` are both needed; the other methods have defaults.",
            )
    _REGISTRY[distribution] = law()
    return law


def lookup(d: Any, argument: str = "marginal_dist") -> tuple[MarginalCDF, Any]:
    """Return the entry of the table for ``d``, and ``d`` without its expansion wrapper.

    Raises:
        MissingCDFError: If the law has no known cdf.
    """
    while isinstance(d, ExpandedDistribution):
        d = d.base_dist
    for cls in type(d).__mro__:
        if cls in _REGISTRY:
            return _REGISTRY[cls].specialise(d), d
        if "cdf" in vars(cls) and cls not in (Distribution, dist.TorchDistribution):
            if type(d).icdf is not Distribution.icdf:
                return OwnCDF(), d
            break
    raise missing_cdf(d, argument)


def missing_cdf(d: Any, argument: str) -> MissingCDFError:
    """Return the error that says how to give the law of ``d`` a cdf."""
    name = type(d).__name__
    expected = "a law with a known cdf and icdf"
    if isinstance(d, MaskedDistribution):
        hint = "Drop .mask(...): a missing node is a NaN in the observed values."
        return MissingCDFError(argument, expected, name, hint)
    hint = (
        "Give it one, with functions of the distribution and a tensor:\n"
        "    from pyro_copula.marginals import register_cdf\n"
        f"    register_cdf({name}, cdf=lambda d, y: ..., icdf=lambda d, u: ...)"
    )
    return MissingCDFError(argument, expected, f"{name}, which has none", hint)


def score_from_tails(log_cdf: Tensor, log_sf: Tensor) -> Tensor:
    """Return the normal score of a point with these two log tails, from the smaller one."""
    upper = log_sf < log_cdf
    return score_from_tail(torch.where(upper, log_sf, log_cdf), upper)


def score_from_tail(log_p: Tensor, upper: Tensor) -> Tensor:
    """Return the normal score of a point with this log tail; infinite ones have no gradient."""
    finite = torch.isfinite(log_p) & (log_p < 0)
    z = ndtri_exp(torch.where(finite, log_p, -1.0))
    z = torch.where(finite, z, torch.where(log_p < 0, -torch.inf, torch.inf))
    z = torch.where(torch.isnan(log_p), torch.nan, z)
    return torch.where(upper, -z, z)


def support_bounds(support: Any) -> tuple[Tensor, Tensor]:
    """Return the ends of a support as detached float64 tensors."""
    if isinstance(support, type(constraints.boolean)):
        lower, upper = 0.0, 1.0
    else:
        lower = getattr(support, "lower_bound", -torch.inf)
        upper = getattr(support, "upper_bound", torch.inf)
    ends = (torch.as_tensor(end, dtype=torch.float64).detach() for end in (lower, upper))
    lower_end, upper_end = ends
    return lower_end, upper_end
