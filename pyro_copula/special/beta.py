r"""The regularised incomplete beta function, differentiable in all of its arguments.

.. math::
    I_x(a, b) = \frac{1}{B(a, b)} \int_0^x u^{a-1} (1 - u)^{b-1} \, du

The primitive takes the logit :math:`t` of :math:`x = 1 / (1 + e^{-t})`, because an :math:`x` close
to 1 has no digits left for :math:`1 - x`. The complement is :math:`1 - I_x(a, b) = I_{1-x}(b, a)`,
that is, the same function of ``(b, a, -t)``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..first_order import first_order_only, no_second_order
from .autograd import promote, to_flat, to_numpy, to_tensor
from .gamma import digamma_minus_log

# Above it, digamma(a + b) - digamma(a) is a difference of large numbers.
_LARGE = 10.0


class _LogWeight(torch.autograd.Function):
    """log(x**a (1 - x)**b / B(a, b)), exact where its large terms would cancel."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, t: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, t)
        from .beta_kernels import beta_log_weights  # lazy: see _log_tail

        return to_tensor(beta_log_weights(*to_flat(*to_numpy(a, b, t))), a)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        a, b, t = ctx.saved_tensors
        grad = grad_outputs[0]
        grad_a = grad_b = grad_t = None
        if ctx.needs_input_grad[0]:
            grad_a = grad * _log_weight_partial(a, b, t)
        if ctx.needs_input_grad[1]:
            grad_b = grad * _log_weight_partial(b, a, -t)
        if ctx.needs_input_grad[2]:
            grad_t = grad * (a * torch.sigmoid(-t) - b * torch.sigmoid(t))
        return grad_a, grad_b, grad_t


def _log_weight_partial(a: Tensor, b: Tensor, t: Tensor) -> Tensor:
    gap = b * torch.sigmoid(t) - a * torch.sigmoid(-t)
    near = (gap.abs() < 0.5 * a) & (a > _LARGE)
    small = torch.where(near, 1.0, a)  # there the digamma functions do not cancel, or are small
    plain = torch.nn.functional.logsigmoid(t) - torch.digamma(small) + torch.digamma(small + b)
    large = torch.where(near, a, 1.0)
    ratio = torch.log1p(torch.where(near, gap, 0.0) / large)
    close = ratio - digamma_minus_log(large) + digamma_minus_log(large + b)
    return torch.where(near, close, plain)


def _log_tail(a: np.ndarray, b: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return rows: log I, the log of its derivative in t, its derivatives in a and b.

    Always the kernel's: scipy's betainc loses six digits in the Poisson limit, underflows, and is
    not faster.
    """
    # Imported here because numba takes a second to import and to load its cache, and a program
    # without beta, negative binomial or Student marginals never comes here.
    from .beta_kernels import beta_log_tails

    rows = beta_log_tails(*to_flat(a, b, t))
    ends = np.isinf(t).reshape(-1)
    if ends.any():
        rows[:, ends] = 0.0  # finite, so that the zeros put in their place have finite derivatives
        rows[0, t.reshape(-1) == -np.inf] = -np.inf
    return rows


class _LogTailPartials(torch.autograd.Function):
    """The derivatives of log I: in t (the log of it), in a and in b.

    They are known since the forward pass of log I, because the kernel computes all at once.
    """

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, t: Tensor, rows: np.ndarray
    ) -> tuple[Tensor, Tensor, Tensor]:
        log_slope, partial_a, partial_b = (to_tensor(row, a) for row in rows[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b, t, log_slope, partial_a, partial_b)
        return log_slope, partial_a, partial_b

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad_outputs[1] is not None or grad_outputs[2] is not None:
            no_second_order("log_betainc_logit")
        grad = grad_outputs[0]
        if grad is None:
            return None, None, None, None
        a, b, t, log_slope, partial_a, partial_b = ctx.saved_tensors
        grad_a = grad_b = grad_t = None
        if ctx.needs_input_grad[0]:
            grad_a = grad * (_log_weight_partial(a, b, t) - partial_a)
        if ctx.needs_input_grad[1]:
            grad_b = grad * (_log_weight_partial(b, a, -t) - partial_b)
        if ctx.needs_input_grad[2]:
            curvature = a * torch.sigmoid(-t) - b * torch.sigmoid(t) - torch.exp(log_slope)
            grad_t = grad * curvature
        return grad_a, grad_b, grad_t, None


def _interior(t: Tensor) -> tuple[Tensor, Tensor]:
    """Return where t is finite, and t with 0 put in place elsewhere."""
    inside = torch.isfinite(t)
    return inside, torch.where(inside, t, 0.0)


class _Tail(torch.autograd.Function):
    """I as a function of the logit."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, t: Tensor) -> Tensor:
        rows = _log_tail(*to_numpy(a, b, t))
        value = to_tensor(np.exp(rows[0]), a)
        ctx.rows = rows if any(ctx.needs_input_grad) else None
        ctx.save_for_backward(a, b, t, value)
        return value

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        a, b, t, value = ctx.saved_tensors
        grad = grad_outputs[0]
        inside, safe = _interior(t)
        grads: list[Tensor | None] = [None, None, None]
        for i in (0, 1):
            if ctx.needs_input_grad[i]:
                partial = torch.where(inside, value.detach() * to_tensor(ctx.rows[2 + i], a), 0.0)
                grads[i] = grad * first_order_only(partial, "betainc_logit", (a, b, t))
        if ctx.needs_input_grad[2]:
            density = torch.exp(_LogWeight.apply(a, b, safe))
            grads[2] = grad * torch.where(inside, density, 0.0)
        return tuple(grads)


class _LogTail(torch.autograd.Function):
    """log I as a function of the logit."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, t: Tensor) -> Tensor:
        rows = _log_tail(*to_numpy(a, b, t))
        ctx.rows = rows if any(ctx.needs_input_grad) else None
        ctx.save_for_backward(a, b, t)
        return to_tensor(rows[0], a)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        a, b, t = ctx.saved_tensors
        inside, safe = _interior(t)
        log_slope, partial_a, partial_b = _LogTailPartials.apply(a, b, safe, ctx.rows)
        partials = (partial_a, partial_b, torch.exp(log_slope))
        return tuple(
            grad_outputs[0] * torch.where(inside, partial, 0.0) if needed else None
            for partial, needed in zip(partials, ctx.needs_input_grad, strict=True)
        )


def _logit(x: Tensor) -> Tensor:
    """Return the logit of x, with zero gradient instead of infinity times zero at 0 and 1."""
    inside = (x > 0.0) & (x < 1.0)
    safe = torch.where(inside, x, 0.5)
    edge = torch.where(x >= 1.0, math.inf, torch.where(x <= 0.0, -math.inf, math.nan))
    return torch.where(inside, torch.log(safe) - torch.log1p(-safe), edge)


def betainc_logit(a: Tensor | float, b: Tensor | float, t: Tensor | float) -> Tensor:
    r"""Return :math:`I_x(a, b)` at :math:`x = 1 / (1 + e^{-t})`.

    Args:
        a: The first shape, positive.
        b: The second shape, positive.
        t: The logit of x, in [-inf, inf]. The gradients at both ends are zero.

    Returns:
        The probabilities, of the broadcast shape and promoted dtype.

    Example:
        >>> betainc_logit(2.0, 3.0, torch.tensor([-60.0, 0.0], dtype=torch.float64))
        tensor([4.6006e-52, 6.8750e-01], dtype=torch.float64)
    """
    wide, dtype = promote(a, b, t)
    return _Tail.apply(*wide).to(dtype)


def log_betainc_logit(a: Tensor | float, b: Tensor | float, t: Tensor | float) -> Tensor:
    r"""Return :math:`\log I_x(a, b)` at :math:`x = 1 / (1 + e^{-t})`, without underflow.

    Args:
        a: The first shape, positive.
        b: The second shape, positive.
        t: The logit of x, in [-inf, inf]. The gradients at both ends are zero.

    Returns:
        The log probabilities, of the broadcast shape and promoted dtype.

    Example:
        >>> log_betainc_logit(2.0, 3.0, torch.tensor([-800.0, 0.0], dtype=torch.float64))
        tensor([-1.5982e+03, -3.7469e-01], dtype=torch.float64)
    """
    wide, dtype = promote(a, b, t)
    return _LogTail.apply(*wide).to(dtype)


def log_beta_weight(a: Tensor | float, b: Tensor | float, t: Tensor | float) -> Tensor:
    r"""Return :math:`\log(x^a (1-x)^b / B(a, b))` at the logit ``t`` of ``x``, digits kept.

    Args:
        a: The first shape, positive.
        b: The second shape, positive.
        t: The logit, finite.

    Returns:
        The logarithms, of the broadcast shape and promoted dtype.

    Example:
        >>> log_beta_weight(1e15, 1e15, torch.tensor(0.0, dtype=torch.float64))
        tensor(16.0039, dtype=torch.float64)
    """
    (wide_a, wide_b, wide_t), dtype = promote(a, b, t)
    return _LogWeight.apply(wide_a, wide_b, wide_t).to(dtype)


def betainc(a: Tensor | float, b: Tensor | float, x: Tensor | float) -> Tensor:
    r"""Return the regularised incomplete beta function :math:`I_x(a, b)`.

    Args:
        a: The first shape, positive.
        b: The second shape, positive.
        x: The argument, in [0, 1]. The gradients at both ends are zero.

    Returns:
        The probabilities, of the broadcast shape and promoted dtype.

    Example:
        >>> betainc(torch.tensor([0.5, 2.0], dtype=torch.float64), 3.0, 0.25)
        tensor([0.7930, 0.2617], dtype=torch.float64)
    """
    (wide_a, wide_b, wide_x), dtype = promote(a, b, x)
    return _Tail.apply(wide_a, wide_b, _logit(wide_x)).to(dtype)


def log_betainc(a: Tensor | float, b: Tensor | float, x: Tensor | float) -> Tensor:
    r"""Return :math:`\log I_x(a, b)`, finite where the probability itself underflows.

    Args:
        a: The first shape, positive.
        b: The second shape, positive.
        x: The argument, in [0, 1]. The gradients at both ends are zero.

    Returns:
        The log probabilities, of the broadcast shape and promoted dtype.

    Example:
        >>> log_betainc(200.0, 3.0, torch.tensor([1e-4, 0.9], dtype=torch.float64))
        tensor([-1832.1498,   -15.6694], dtype=torch.float64)
    """
    (wide_a, wide_b, wide_x), dtype = promote(a, b, x)
    return _LogTail.apply(wide_a, wide_b, _logit(wide_x)).to(dtype)


@torch.no_grad()
def betaincinv_logit(a: Tensor | float, b: Tensor | float, p: Tensor | float) -> Tensor:
    r"""Return the logit :math:`t` of the quantile, :math:`I_{x(t)}(a, b) = p`; not differentiable.

    Args:
        a: The first shape, positive.
        b: The second shape, positive.
        p: The lower-tail probability, in [0, 1]. For an upper-tail probability q, call with
            ``(b, a, q)`` and change the sign of the result.

    Returns:
        The logits, of the broadcast shape and promoted dtype, outside of the graph.

    Example:
        >>> t = betaincinv_logit(2.0, 3.0, torch.tensor([1e-30, 0.5], dtype=torch.float64))
        >>> t
        tensor([-35.4347,  -0.4653], dtype=torch.float64)
        >>> betainc_logit(2.0, 3.0, t)
        tensor([1.0000e-30, 5.0000e-01], dtype=torch.float64)
    """
    wide, dtype = promote(a, b, p)
    from .beta_kernels import beta_quantiles  # lazy: see _log_tail

    return to_tensor(beta_quantiles(*to_flat(*to_numpy(*wide))), wide[0]).to(dtype)
