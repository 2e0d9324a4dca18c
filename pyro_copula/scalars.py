"""Scalars with a range: held as learnable parameters, or given at each call."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import constraints

from .errors import InvalidArgumentError, ParameterRangeError


class Constrained(nn.Module):
    """One scalar parameter, kept inside its range by a smooth map from the real line.

    Args:
        name: What the user calls it.
        initial: Its initial value, inside the range.
        learnable: Whether it is a parameter (moved by optimisers) or a buffer (fixed).

    Calling the module with ``None`` gives the held value; calling it with a number or tensor
    checks that value and gives it back, so that Pyro samples can take its place.
    """

    #: The range, and the range in words.
    support: constraints.Constraint
    expected: str
    hint: str

    def __init__(self, name: str, initial: float, *, learnable: bool = True) -> None:
        super().__init__()
        self.name = name
        raw = self._inverse(self(torch.tensor(float(initial), dtype=torch.float64)))
        raw = raw.to(torch.get_default_dtype())
        if learnable:
            self.raw = nn.Parameter(raw)
        else:
            self.register_buffer("raw", raw)

    def forward(self, value: Any = None) -> Tensor:
        """The held value, or ``value`` if it is inside the range."""
        if value is None:
            return self._transform(self.raw)
        if not torch.is_tensor(value):
            try:
                value = torch.as_tensor(value, dtype=torch.get_default_dtype())
            except (TypeError, ValueError, RuntimeError):
                raise InvalidArgumentError(
                    self.name, "a number or a tensor of them", repr(value), "Pass a number."
                ) from None
        inside = self._inside(value.detach())
        if not bool(inside.all()):
            bad = float(value.detach()[~inside].flatten()[0])
            raise ParameterRangeError(self.name, self.expected, f"{bad:g}", self.hint)
        return value

    def set_(self, value: Any) -> None:
        """Moves the held value to ``value``, in place, or as near as its dtype has one inside."""
        with torch.no_grad():
            value = self(torch.as_tensor(value, dtype=torch.float64))
            self.raw.copy_(self._inverse(value)).nan_to_num_()
            while not bool(self._inside(self())):
                self.raw.mul_(0.99)

    def freeze(self) -> None:
        """Makes the held value a buffer: no optimiser moves it any more."""
        raw = self.raw.detach().clone()
        if "raw" in self._parameters:
            del self.raw
            self.register_buffer("raw", raw)

    def _inside(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def _transform(self, raw: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def extra_repr(self) -> str:
        value = float(self().detach())
        return f"{value:.4g}" + ("" if isinstance(self.raw, nn.Parameter) else ", fixed")


class Positive(Constrained):
    """A positive scalar, the exponential of its raw value."""

    support = constraints.positive
    expected = "positive and finite"
    hint = "Give it a prior on the positive reals, such as dist.LogNormal or dist.Gamma."

    def _inside(self, value: Tensor) -> Tensor:
        return (value > 0) & (value < math.inf)

    def _transform(self, raw: Tensor) -> Tensor:
        return raw.exp()

    def _inverse(self, value: Tensor) -> Tensor:
        return value.log()


class Correlation(Constrained):
    """A scalar strictly between -1 and 1, the hyperbolic tangent of its raw value."""

    support = constraints.interval(-1.0, 1.0)
    expected = "strictly between -1 and 1"
    hint = (
        "At -1 and 1 the precision is singular; a prior such as dist.Uniform(-1, 1) stays inside."
    )

    def _inside(self, value: Tensor) -> Tensor:
        return value.abs() < 1

    def _transform(self, raw: Tensor) -> Tensor:
        return raw.tanh()

    def _inverse(self, value: Tensor) -> Tensor:
        return value.atanh()


class Proportion(Constrained):
    """A scalar strictly between 0 and 1, the logistic function of its raw value."""

    support = constraints.unit_interval
    expected = "strictly between 0 and 1"
    hint = "Give it a prior on the unit interval, such as dist.Beta(2, 2)."

    def _inside(self, value: Tensor) -> Tensor:
        return (value > 0) & (value < 1)

    def _transform(self, raw: Tensor) -> Tensor:
        return raw.sigmoid()

    def _inverse(self, value: Tensor) -> Tensor:
        return value.logit()


class Real(Constrained):
    """Any finite scalar."""

    support = constraints.real
    expected = "finite"
    hint = "Give it a prior on the real line, such as dist.Normal(0, 1)."

    def _inside(self, value: Tensor) -> Tensor:
        return value.isfinite()

    def _transform(self, raw: Tensor) -> Tensor:
        return raw

    def _inverse(self, value: Tensor) -> Tensor:
        return value
