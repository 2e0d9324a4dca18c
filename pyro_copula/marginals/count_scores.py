"""Normal scores of counts from one kernel, which gives their derivatives along with them.

The general way evaluates two tails, their logarithmic mean and a normal quantile, each with its
edges guarded and each a chain of tensors. A training step would spend a fifth of its time there,
so the Poisson and the negative binomial law have a kernel for the whole of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from ..special.autograd import to_flat, to_numpy, to_tensor
from .scores import midpoint_from_tails

_MIDDLE, _END = 0.5, 1.0  # which part of an atom is below its score


class KernelScores:
    """A law of counts on ``0, 1, 2, ...`` that has a kernel; to stand before :class:`CountCDF`."""

    def kernel(self, k: np.ndarray, parameters: list[np.ndarray], part: float) -> np.ndarray:
        """Return rows: the scores of flat whole ``k``, their derivative in each parameter."""
        raise NotImplementedError

    def with_parameters(self, *parameters: Tensor) -> Any:
        """Return the distribution that has these parameters."""
        raise NotImplementedError

    def midpoint(self: Any, d: Any, value: Tensor) -> Tensor | None:
        if value.requires_grad:  # all derivatives are zero, but there is a graph
            return None
        return _score(self, self.parameters(d), value.floor(), _MIDDLE)

    def score_at_whole(self: Any, parameters: tuple[Tensor, ...], k: Tensor) -> Tensor:
        if k.requires_grad:
            return self.score_at(parameters, k)
        return _score(self, parameters, k, _END)


def _score(law: Any, parameters: tuple[Tensor, ...], k: Tensor, part: float) -> Tensor:
    k, *parameters = torch.broadcast_tensors(k, *parameters)
    return _Score.apply(law, part, k, *parameters)


class _Score(Function):
    @staticmethod
    def forward(ctx: Any, law: Any, part: float, k: Tensor, *parameters: Tensor) -> Tensor:
        flat, *others = to_flat(*to_numpy(k, *parameters))
        score, *ctx.partials = law.kernel(flat, others, part)
        ctx.law, ctx.part, ctx.k = law, part, k
        ctx.save_for_backward(*parameters)
        return to_tensor(score, k)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        grad, parameters, wanted = grad_outputs[0], ctx.saved_tensors, ctx.needs_input_grad[3:]
        if torch.is_grad_enabled():  # the gradient may be differentiated: the general way again
            gradients = _general_gradients(ctx, grad, parameters, wanted)
        else:
            gradients = [grad * to_tensor(partial, grad) for partial in ctx.partials]
        chosen = (g if want else None for g, want in zip(gradients, wanted, strict=True))
        return None, None, None, *chosen


def _general_gradients(
    ctx: Any, grad: Tensor, parameters: tuple[Tensor, ...], wanted: tuple[bool, ...]
) -> list[Tensor | None]:
    if ctx.part == _MIDDLE:
        d = ctx.law.with_parameters(*parameters)
        score = midpoint_from_tails(d, ctx.k, torch.tensor(True))
    else:
        score = ctx.law.score_at(parameters, ctx.k)
    inputs = [p for p, want in zip(parameters, wanted, strict=True) if want]
    found = iter(torch.autograd.grad(score, inputs, grad, create_graph=True))
    return [next(found) if want else None for want in wanted]
