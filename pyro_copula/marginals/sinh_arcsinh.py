"""The sinh-arcsinh law: a normal law with two more parameters, for skewness and for the tails.

Everything is closed form in the normal score, so the law costs about as much as a normal one and
its scores are exact however far out. The moments are Bessel functions of the tail weight; here
they come from the integral that defines those functions, which has derivatives in the order.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.utils import broadcast_all

from .continuous import LOG_2, NormalCDF
from .quantiles import icdf
from .registry import register_cdf
from .tails import cdf

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
FAR = 1e8  # beyond this asinh(x) is log(2 x) to the last digit
# The trapezoidal rule of this step on a double-exponentially decaying integrand is exact to
# rounding up to a tail weight of 100, where the variance leaves the range of float64.
STEP, POINTS = 1 / 32, 142


class SinhArcsinh(TorchDistribution):
    r"""The sinh-arcsinh law of Jones and Pewsey: a normal law with learned skewness and tails.

    With :math:`Z` standard normal, location :math:`\mu`, scale :math:`\sigma`, skewness
    :math:`\epsilon` and tail weight :math:`\tau`,

    .. math::
        Y = \mu + \sigma \sinh\big(\tau\, (\operatorname{asinh} Z + \epsilon)\big), \qquad
        z(y) = \sinh\Big(\frac{\operatorname{asinh} x}{\tau} - \epsilon\Big), \quad
        x = \frac{y - \mu}{\sigma},

    .. math::
        \log f(y) = \log \varphi(z) + \tfrac{1}{2} \log(1 + z^2) - \tfrac{1}{2} \log(1 + x^2)
            - \log(\sigma \tau).

    ``skew = 0`` and ``tailweight = 1`` is the normal law. A positive ``skew`` has the longer tail
    on the right, a ``tailweight`` above 1 has heavier tails than the normal law (all moments
    exist) and one below 1 lighter tails. In the paper's notation, ``skew`` is
    :math:`\epsilon` and ``tailweight`` is :math:`1 / \delta`. The moments are

    .. math::
        E\,Y = \mu + \sigma \sinh(\tau \epsilon)\, P_\tau, \qquad
        E\,(Y - \mu)^2 = \tfrac{\sigma^2}{2} \big(\cosh(2 \tau \epsilon)\, P_{2 \tau} - 1\big),
        \qquad P_q = \frac{e^{1/4}}{\sqrt{8 \pi}}
            \Big(K_{\frac{q + 1}{2}}(\tfrac14) + K_{\frac{q - 1}{2}}(\tfrac14)\Big).

    Args:
        loc: The median if ``skew`` is zero.
        scale: Positive; the standard deviation only if the law is normal.
        skew: Any real number; zero is symmetric.
        tailweight: Positive; one has the tails of the normal law.
        validate_args: Whether to check parameters and values; Pyro's default if None.

    Example:
        >>> d = SinhArcsinh(torch.tensor(0.0), 1.0, skew=0.5, tailweight=1.2)
        >>> d.cdf(torch.tensor([-1.0, 0.0, 4.0]))
        tensor([0.0579, 0.3012, 0.9445])
        >>> d.mean, d.variance
        (tensor(0.9784), tensor(2.6440))

    References:
        Jones and Pewsey, Sinh-arcsinh distributions, Biometrika 96, 2009.
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "skew": constraints.real,
        "tailweight": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        skew: Tensor | float = 0.0,
        tailweight: Tensor | float = 1.0,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.skew, self.tailweight = broadcast_all(
            loc, scale, skew, tailweight
        )
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> SinhArcsinh:
        new = self._get_checked_instance(SinhArcsinh, _instance)
        batch_shape = torch.Size(batch_shape)
        for name in self.arg_constraints:
            setattr(new, name, getattr(self, name).expand(batch_shape))
        super(SinhArcsinh, new).__init__(batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        shape = self._extended_shape(torch.Size(sample_shape))
        z = torch.randn(shape, dtype=self.loc.dtype)
        return self.loc + self.scale * torch.sinh(self.tailweight * (torch.asinh(z) + self.skew))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inner = _asinh((value - self.loc) / self.scale)
        outer = inner / self.tailweight - self.skew
        log_slope = _log_cosh(outer) - _log_cosh(inner) - self.tailweight.log() - self.scale.log()
        return log_slope - 0.5 * _sinh(outer, outer.dtype).square() - HALF_LOG_2PI

    def cdf(self, value: Tensor) -> Tensor:
        """Return ``P(Y <= value)``."""
        return cdf(self, value)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability ``value``."""
        return icdf(self, value)

    @property
    def mean(self) -> Tensor:
        shift = self.tailweight.double() * self.skew.double()
        mean_cosh = 1 + _cosh_excess(self.tailweight.double())
        mean = self.loc.double() + self.scale.double() * torch.sinh(shift) * mean_cosh
        return mean.to(self.loc.dtype)

    @property
    def variance(self) -> Tensor:
        # sinh(a + b) = sinh a cosh b + cosh a sinh b, and the two terms are uncorrelated when a
        # is symmetric: a sum of positive terms, in place of the difference in the formula.
        shift = self.tailweight.double() * self.skew.double()
        odd, even = _variances(self.tailweight.double())
        variance = torch.cosh(shift).square() * odd + torch.sinh(shift).square() * even
        return (self.scale.double().square() * variance).to(self.loc.dtype)


@register_cdf(SinhArcsinh)
class SinhArcsinhCDF(NormalCDF):
    """A normal law on the scale of its scores, which are closed form."""

    def standardise(self, d: Any, value: Tensor) -> Tensor:
        inner = _asinh((value - d.loc.double()) / d.scale.double())
        return _sinh(inner / d.tailweight.double() - d.skew.double(), d.loc.dtype)

    def restore(self, d: Any, x: Tensor) -> Tensor:
        outer = d.tailweight.double() * (_asinh(x) + d.skew.double())
        return d.loc.double() + d.scale.double() * torch.sinh(outer)


def _asinh(x: Tensor) -> Tensor:
    """Return ``asinh(x)``, whose derivative torch computes from ``x * x``, which overflows."""
    far = x.abs() > FAR
    near = torch.asinh(torch.where(far, 0.0, x))
    return torch.where(far, x.sign() * (torch.where(far, x, 1.0).abs().log() + LOG_2), near)


def _log_cosh(x: Tensor) -> Tensor:
    """Return ``log cosh(x)``, for ``x`` however large."""
    size = x.abs()
    return size + torch.log1p(torch.exp(-2 * size)) - LOG_2


def _sinh(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ``sinh(x)``, continued by its tangent before its square overflows in ``dtype``.

    The tangent keeps log densities finite and their gradients of the right sign.
    """
    end = 0.5 * math.log(torch.finfo(dtype).max) - 16.0
    inside = x.clamp(-end, end)
    return torch.sinh(inside) + (x - inside) * torch.cosh(inside)


def _cosh_excess(tailweight: Tensor) -> Tensor:
    """Return ``E cosh(B) - 1`` for ``B = tailweight asinh(Z)``: the ``P_q - 1`` of the class."""
    a, root = _rule()
    return 2 * (torch.sinh(0.5 * tailweight[..., None] * a) * root).square().sum(-1)


def _variances(tailweight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the variances of ``sinh(B)`` and ``cosh(B)`` for ``B = tailweight asinh(Z)``."""
    a, root = _rule()
    b = tailweight[..., None] * a
    odd = (torch.sinh(b) * root).square().sum(-1)
    excess = _cosh_excess(tailweight).clamp(max=1e300)  # keeps infinity minus infinity away
    centred = 2 * torch.sinh(0.5 * b).square() - excess[..., None]
    return odd, (centred * root).square().sum(-1)


def _rule() -> tuple[Tensor, Tensor]:
    """Return points of ``a = asinh(Z)``, and the roots of the weights of functions even in it.

    The trapezoidal rule for the density ``phi(sinh a) cosh a``. Each of two equal factors gets
    one root, so that heavy tails do not overflow.
    """
    a = STEP * torch.arange(POINTS, dtype=torch.float64)
    log_weight = _log_cosh(a) - 0.5 * torch.sinh(a).square() - HALF_LOG_2PI + math.log(2 * STEP)
    log_weight[0] -= LOG_2
    return a, torch.exp(0.5 * log_weight)
