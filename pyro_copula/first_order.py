"""Derivatives that may not be differentiated again: an error instead of a wrong second derivative.

Many derivatives here are computed outside of autograd: by a kernel, by an implicit function, by
the envelope theorem. Autograd would take them for constants, and a second derivative would be
silently wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from .errors import SecondOrderError

_HINT = (
    "Use a method that needs gradients only (Adam, L-BFGS, NUTS), or take central differences of "
    "the gradient."
)


def first_order_only(
    derivative: Tensor, operation: str, inputs: Sequence[Tensor], hint: str = _HINT
) -> Tensor:
    """Returns ``derivative`` as a function of ``inputs`` that cannot be differentiated again.

    To be used inside the backward pass of an autograd function.

    Args:
        derivative: The value of the derivative, computed outside of the graph.
        operation: What it is the derivative of, for the error.
        inputs: The tensors on which it depends.
        hint: What to do instead, for the error.
    """
    return _Refuse.apply(derivative, operation, hint, *inputs)


def differentiable_once(value: Tensor, operation: str, hint: str = _HINT) -> Tensor:
    """Returns ``value`` unchanged, but refuses second derivatives in it.

    To be put on what an expression is differentiated *in*, before the expression.
    """
    return _Once.apply(value, operation, hint)


def no_second_order(operation: str, hint: str = _HINT) -> NoReturn:
    """Raises the error for a derivative of a derivative."""
    raise SecondOrderError(operation, hint)


class _Refuse(torch.autograd.Function):
    """The identity in its first argument, whose derivative is an error."""

    @staticmethod
    def forward(ctx: Any, derivative: Tensor, operation: str, hint: str, *inputs: Tensor) -> Tensor:
        ctx.operation, ctx.hint = operation, hint
        return derivative.view_as(derivative)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> NoReturn:
        no_second_order(ctx.operation, ctx.hint)


class _Once(torch.autograd.Function):
    """The identity, whose derivative cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, operation: str, hint: str) -> Tensor:
        ctx.save_for_backward(value)
        ctx.operation, ctx.hint = operation, hint
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():
            gradient = _Refuse.apply(gradient, ctx.operation, ctx.hint, *ctx.saved_tensors)
        return gradient, None, None
