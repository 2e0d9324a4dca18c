r"""The regularised incomplete gamma functions, differentiable in both arguments.

.. math::
    P(a, x) = \frac{1}{\Gamma(a)} \int_0^x t^{a-1} e^{-t} \, dt, \qquad Q(a, x) = 1 - P(a, x)

:math:`P` is the cdf of a Gamma(a, 1) variable and :math:`Q(k + 1, \lambda)` that of a
Poisson(:math:`\lambda`) variable at the count :math:`k`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special
import torch
from torch import Tensor

from ..first_order import first_order_only, no_second_order
from .autograd import promote, to_flat, to_numpy, to_tensor

# scipy's gammainc sums at most 2000 terms of its series: below the mean it is wrong by 1e-5 at
# a = 1e6 and by a third at a = 1e8. From here on the kernel computes the values too.
_SCIPY_MAX_SHAPE = 1e5

# Below this log tail, the difference of two logarithms loses digits that a derivative needs.
_DEEP = -1e4


# From here on four terms of the asymptotic series of the digamma function are exact.
_SERIES = 1e3


class _LogWeight(torch.autograd.Function):
    """log(x**a exp(-x) / Gamma(a)), exact where its terms of size a log(a) would cancel."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(a, x)
        from .gamma_kernels import gamma_log_weights  # lazy: see _log_tail

        return to_tensor(gamma_log_weights(*to_flat(*to_numpy(a, x))), a)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, x = ctx.saved_tensors
        grad = grad_outputs[0]
        grad_a = grad * _log_weight_partial(a, x) if ctx.needs_input_grad[0] else None
        grad_x = grad * (a - x) / x if ctx.needs_input_grad[1] else None
        return grad_a, grad_x


def digamma_minus_log(a: Tensor) -> Tensor:
    """Return ``digamma(a) - log(a)``, whose two terms cancel for large ``a``."""
    square = a.square()
    series = -0.5 / a - (1 / 12 - 1 / (120 * square)) / square
    small = torch.where(a > _SERIES, 1.0, a)
    return torch.where(a > _SERIES, series, torch.digamma(small) - small.log())


def _log_weight_partial(a: Tensor, x: Tensor) -> Tensor:
    u = (x - a) / a
    near = u.abs() < 0.5
    log_ratio = torch.where(near, torch.log1p(torch.where(near, u, 0.0)), x.log() - a.log())
    return log_ratio - digamma_minus_log(a)


def _log_tail(a: np.ndarray, x: np.ndarray, *, upper: bool | np.ndarray) -> np.ndarray:
    """Return rows: the log tail, the log of its slope in log x, and its derivative in a."""
    # Imported here because numba takes a second to import and to load its cache, and a program
    # that needs values only never comes here.
    from .gamma_kernels import gamma_log_tails

    which = np.ascontiguousarray(np.broadcast_to(upper, a.shape)).reshape(-1)
    return gamma_log_tails(*to_flat(a, x), which)


class _LogTailPartials(torch.autograd.Function):
    """The derivatives of the log tail: in log x (the log of its size), and in a."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        rows = _log_tail(*to_numpy(a, x), upper=upper.cpu().numpy())
        log_slope, partial = to_tensor(rows[1], a), to_tensor(rows[2], a)
        ctx.upper = upper
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, x, log_slope, partial)
        return log_slope, partial

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad_outputs[1] is not None:
            no_second_order("log_gammainc")
        grad = grad_outputs[0]
        if grad is None:
            return None, None, None
        a, x, log_slope, partial = ctx.saved_tensors
        grad_a = grad_x = None
        if ctx.needs_input_grad[0]:
            grad_a = grad * (torch.log(x) - torch.digamma(a) - partial)
        if ctx.needs_input_grad[1]:
            slope = torch.exp(log_slope)
            grad_x = grad * (a - x + torch.where(ctx.upper, slope, -slope)) / x
        return grad_a, grad_x, None


def _interior(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return where x is neither 0 nor infinite, and x with 1 put in place elsewhere."""
    inside = (x > 0.0) & (x < math.inf)
    return inside, torch.where(inside, x, 1.0)


def _signed_slope(log_slope: Tensor, x: Tensor, inside: Tensor, upper: bool | Tensor) -> Tensor:
    """Return the derivative in x from the log of the derivative in log x, zero at the ends."""
    # An infinite slope (x below 1e-300) would make NaN of a zero that multiplies it.
    slope = torch.exp(log_slope - torch.log(x)).clamp(max=torch.finfo(x.dtype).max)
    return torch.where(inside, torch.where(torch.as_tensor(upper), -slope, slope), 0.0)


class _Tail(torch.autograd.Function):
    """P or Q."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, upper: bool) -> Tensor:
        value = to_tensor(_value(*to_numpy(a, x), upper=upper), a)
        ctx.upper = upper
        ctx.save_for_backward(a, x, value)
        return value

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        a, x, value = ctx.saved_tensors
        grad = grad_outputs[0]
        inside, safe = _interior(x)
        grad_a = grad_x = None
        if ctx.needs_input_grad[0]:
            rows = _log_tail(*to_numpy(a, safe), upper=ctx.upper)
            partial = torch.where(inside, value.detach() * to_tensor(rows[2], a), 0.0)
            name = "gammaincc" if ctx.upper else "gammainc"
            grad_a = grad * first_order_only(partial, name, (a, x))
        if ctx.needs_input_grad[1]:
            grad_x = grad * _signed_slope(_LogWeight.apply(a, safe), safe, inside, ctx.upper)
        return grad_a, grad_x, None


class _LogTail(torch.autograd.Function):
    """log P or log Q."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, upper: Tensor) -> Tensor:
        value = to_tensor(_log_value(*to_numpy(a, x), upper=upper.cpu().numpy()), a)
        ctx.upper = upper
        ctx.save_for_backward(a, x, value)
        return value

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        a, x, value = ctx.saved_tensors
        grad = grad_outputs[0]
        inside, safe = _interior(x)
        grad_a = grad_x = None
        value = torch.where(inside, value, 0.0)
        if ctx.needs_input_grad[0] or bool((value < _DEEP).any()):
            log_slope, partial = _LogTailPartials.apply(a, safe, ctx.upper)
            grad_a = grad * torch.where(inside, partial, 0.0)
        else:  # the weight alone is ten times cheaper; a Poisson law rarely needs more
            log_slope = _LogWeight.apply(a, safe) - value
        if ctx.needs_input_grad[1]:
            grad_x = grad * _signed_slope(log_slope, safe, inside, ctx.upper)
        return grad_a, grad_x, None


def _value(a: np.ndarray, x: np.ndarray, *, upper: bool) -> np.ndarray:
    """Return P or Q: scipy's where that has full accuracy, else the kernel's."""
    function = scipy.special.gammaincc if upper else scipy.special.gammainc
    value = np.asarray(function(a, x))
    wrong = (a > _SCIPY_MAX_SHAPE) & (x > 0.0) & (x < np.inf)
    if wrong.any():
        value[wrong] = np.exp(_log_tail(a[wrong], x[wrong], upper=upper)[0])
    return value


def _log_value(a: np.ndarray, x: np.ndarray, *, upper: np.ndarray) -> np.ndarray:
    """Return log P or log Q: scipy's where that has full accuracy, else the kernel's."""
    lower_tail, upper_tail = scipy.special.gammainc(a, x), scipy.special.gammaincc(a, x)
    upper = np.broadcast_to(upper, np.shape(a))
    tail = np.where(upper, upper_tail, lower_tail)
    other = np.where(upper, lower_tail, upper_tail)
    with np.errstate(divide="ignore"):
        value = np.asarray(np.where(tail < 0.5, np.log(tail), np.log1p(-other)))
    extreme = (np.minimum(tail, other) < 1e-290) | (a > _SCIPY_MAX_SHAPE)
    extreme &= (x > 0.0) & (x < np.inf)
    if extreme.any():
        value[extreme] = _log_tail(a[extreme], x[extreme], upper=upper[extreme])[0]
    return value


def _quantile(a: np.ndarray, p: np.ndarray, *, upper: bool) -> np.ndarray:
    """Return scipy's quantile, corrected where it inherits the errors of scipy's gammainc."""
    inverse = scipy.special.gammainccinv if upper else scipy.special.gammaincinv
    x = np.asarray(inverse(a, p))
    wrong = (a > _SCIPY_MAX_SHAPE) & (x > 0.0) & (x < np.inf)
    if not wrong.any():
        return x
    shape, point, tail = a[wrong], x[wrong], p[wrong]
    # Newton's method in log x for the log of the smaller tail, which is nearly quadratic.
    small = tail <= 0.5
    target = np.log(np.where(small, tail, 1.0 - tail))
    sign = np.where(small != upper, -1.0, 1.0)  # the lower tail grows with x
    for _ in range(4):
        ours, theirs = (
            _log_tail(shape, point, upper=upper),
            _log_tail(shape, point, upper=not upper),
        )
        log_tail, log_slope = np.where(small, ours[:2], theirs[:2])
        point = point * np.exp(sign * (log_tail - target) * np.exp(-log_slope))
    x[wrong] = point
    return x


def log_gamma_weight(a: Tensor | float, x: Tensor | float) -> Tensor:
    r"""Return :math:`\log(x^a e^{-x} / \Gamma(a))` without cancellation, however large ``a``.

    Args:
        a: The shape, positive.
        x: The argument, positive and finite.

    Returns:
        The logarithms, of the broadcast shape and promoted dtype.

    Example:
        The log density of Gamma(1e15, 1) at its mean, times that mean:

        >>> log_gamma_weight(1e15, torch.tensor(1e15, dtype=torch.float64))
        tensor(16.3504, dtype=torch.float64)
    """
    (wide_a, wide_x), dtype = promote(a, x)
    return _LogWeight.apply(wide_a, wide_x).to(dtype)


def gammainc(a: Tensor | float, x: Tensor | float) -> Tensor:
    r"""Return the regularised lower incomplete gamma function :math:`P(a, x)`.

    Args:
        a: The shape, positive.
        x: The argument, in [0, inf]. The gradients at both ends are zero.

    Returns:
        The probabilities, of the broadcast shape and promoted dtype.

    Example:
        >>> a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        >>> p = gammainc(a, 1.5)
        >>> p.backward()
        >>> round(p.item(), 4), round(a.grad.item(), 4)
        (0.4422, -0.3135)
    """
    (wide_a, wide_x), dtype = promote(a, x)
    return _Tail.apply(wide_a, wide_x, False).to(dtype)


def gammaincc(a: Tensor | float, x: Tensor | float) -> Tensor:
    r"""Return the regularised upper incomplete gamma function :math:`Q(a, x)`.

    Args:
        a: The shape, positive.
        x: The argument, in [0, inf]. The gradients at both ends are zero.

    Returns:
        The probabilities, of the broadcast shape and promoted dtype.

    Example:
        >>> gammaincc(2.0, torch.tensor([1.5, 60.0], dtype=torch.float64))
        tensor([5.5783e-01, 5.3415e-25], dtype=torch.float64)
    """
    (wide_a, wide_x), dtype = promote(a, x)
    return _Tail.apply(wide_a, wide_x, True).to(dtype)


def log_gammainc(a: Tensor | float, x: Tensor | float) -> Tensor:
    r"""Return :math:`\log P(a, x)`, finite where the probability itself underflows.

    Args:
        a: The shape, positive.
        x: The argument, in [0, inf]. The gradients at both ends are zero.

    Returns:
        The log probabilities, of the broadcast shape and promoted dtype.

    Example:
        >>> log_gammainc(200.0, torch.tensor([1.0, 200.0], dtype=torch.float64))
        tensor([-8.6423e+02, -6.7452e-01], dtype=torch.float64)
    """
    (wide_a, wide_x), dtype = promote(a, x)
    return _LogTail.apply(wide_a, wide_x, torch.tensor(False)).to(dtype)


def log_gammaincc(a: Tensor | float, x: Tensor | float) -> Tensor:
    r"""Return :math:`\log Q(a, x)`, finite where the probability itself underflows.

    Args:
        a: The shape, positive.
        x: The argument, in [0, inf]. The gradients at both ends are zero.

    Returns:
        The log probabilities, of the broadcast shape and promoted dtype.

    Example:
        The probability that a Poisson variable of rate 1000 is at most 1:

        >>> log_gammaincc(torch.tensor(2.0), torch.tensor(1000.0))
        tensor(-993.0912)
    """
    (wide_a, wide_x), dtype = promote(a, x)
    return _LogTail.apply(wide_a, wide_x, torch.tensor(True)).to(dtype)


def log_gamma_tail(a: Tensor | float, x: Tensor | float, upper: Tensor) -> Tensor:
    r"""Return :math:`\log Q(a, x)` where ``upper`` is true and :math:`\log P(a, x)` elsewhere.

    One evaluation for a caller that wants the smaller tail of every element.

    Args:
        a: The shape, positive.
        x: The argument, in [0, inf]. The gradients at both ends are zero.
        upper: Boolean, broadcastable to the others.

    Returns:
        The log probabilities, of the broadcast shape and promoted dtype.

    Example:
        >>> x = torch.tensor([1.0, 900.0], dtype=torch.float64)
        >>> log_gamma_tail(200.0, x, upper=x > 200)
        tensor([-864.2270, -404.0076], dtype=torch.float64)
    """
    (wide_a, wide_x), dtype = promote(a, x)
    wide_a, wide_x, upper = torch.broadcast_tensors(wide_a, wide_x, upper)
    return _LogTail.apply(wide_a, wide_x, upper).to(dtype)


@torch.no_grad()
def gammaincinv(a: Tensor | float, p: Tensor | float) -> Tensor:
    r"""Return the quantile :math:`x` with :math:`P(a, x) = p`; not differentiable.

    Args:
        a: The shape, positive.
        p: The lower-tail probability, in [0, 1].

    Returns:
        The quantiles, of the broadcast shape and promoted dtype, outside of the graph: attach
        gradients with the implicit function theorem.

    Example:
        >>> x = gammaincinv(2.0, torch.tensor([1e-9, 0.5], dtype=torch.float64))
        >>> gammainc(2.0, x)
        tensor([1.0000e-09, 5.0000e-01], dtype=torch.float64)
    """
    (wide_a, wide_p), dtype = promote(a, p)
    return to_tensor(_quantile(*to_numpy(wide_a, wide_p), upper=False), wide_a).to(dtype)


@torch.no_grad()
def gammainccinv(a: Tensor | float, q: Tensor | float) -> Tensor:
    r"""Return the quantile :math:`x` with :math:`Q(a, x) = q`; not differentiable.

    Args:
        a: The shape, positive.
        q: The upper-tail probability, in [0, 1].

    Returns:
        The quantiles, of the broadcast shape and promoted dtype, outside of the graph.

    Example:
        >>> gammainccinv(2.0, torch.tensor([1e-9, 0.5], dtype=torch.float64))
        tensor([23.9397,  1.6783], dtype=torch.float64)
    """
    (wide_a, wide_q), dtype = promote(a, q)
    return to_tensor(_quantile(*to_numpy(wide_a, wide_q), upper=True), wide_a).to(dtype)
