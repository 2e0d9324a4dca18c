"""A law of counts that starts at another number than zero: years since 1990, at least two."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import TorchDistribution
from pyro.distributions import constraints as pyro_constraints
from torch import Tensor
from torch.distributions import constraints

from ..errors import InvalidArgumentError
from .count_base import check_count_base, count_bounds, log_prob_from
from .discrete import CountCDF, Parameters
from .registry import MarginalCDF, lookup, register_cdf


class Shifted(TorchDistribution):
    r"""A law of counts, moved by a whole number.

    .. math::
        P(Y = k) = P(X = k - \text{shift}).

    ``Shifted(dist.Poisson(rate), 1)`` is a count of at least one: the first of a group, say, and
    those that came along. It is not :class:`~pyro_copula.marginals.ZeroTruncated`, which forgets
    the zeros instead.

    Args:
        base_dist: The law of :math:`X`: any discrete law with a known cdf.
        shift: A whole number, or an integer tensor that broadcasts against the batch shape;
            negative ones shift down. It has no gradient.
        validate_args: Whether to check parameters and values; Pyro's default if None.

    Raises:
        InvalidArgumentError: If ``base_dist`` is not a law of counts, or ``shift`` not whole.

    Example:
        >>> import pyro.distributions as dist
        >>> d = Shifted(dist.Poisson(torch.tensor([0.5, 2.0])), 1)
        >>> d
        Shifted(Poisson(rate: torch.Size([2])), shift: 1)
        >>> d.mean
        tensor([1.5000, 3.0000])
        >>> d.log_prob(torch.tensor([1.0, 1.0])).exp()
        tensor([0.6065, 0.1353])
    """

    arg_constraints = {"shift": pyro_constraints.integer}

    def __init__(
        self, base_dist: Any, shift: Tensor | int, *, validate_args: bool | None = None
    ) -> None:
        check_count_base(base_dist, "Shifted")
        shift = _read_shift(shift)
        try:
            batch_shape = torch.broadcast_shapes(base_dist.batch_shape, shift.shape)
        except RuntimeError:
            raise InvalidArgumentError(
                "shift",
                f"broadcastable to batch shape {tuple(base_dist.batch_shape)}",
                f"shape {tuple(shift.shape)}",
                "Give one shift for all nodes, or one per node.",
            ) from None
        same = base_dist.batch_shape == batch_shape
        self.base_dist = base_dist if same else base_dist.expand(batch_shape)
        self.shift = shift.expand(batch_shape)
        super().__init__(batch_shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        """The support of the base law, shifted."""
        lower, upper = count_bounds(self.base_dist)
        return constraints.integer_interval(lower + self.shift, upper + self.shift)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Shifted:
        new = self._get_checked_instance(Shifted, _instance)
        batch_shape = torch.Size(batch_shape)
        new.base_dist = self.base_dist.expand(batch_shape)
        new.shift = self.shift.expand(batch_shape)
        super(Shifted, new).__init__(batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        return self.base_dist.sample(torch.Size(sample_shape)) + self.shift

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return log_prob_from(self.base_dist, value - self.shift, count_bounds(self.base_dist)[0])

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean + self.shift

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def __repr__(self) -> str:
        one = self.shift.numel() > 0 and bool((self.shift == self.shift.flatten()[0]).all())
        shift = int(self.shift.flatten()[0]) if one else self.shift.shape
        return f"Shifted({self.base_dist!r}, shift: {shift})"


class ShiftedCountCDF(CountCDF):
    """A shift of one of the package's own laws of counts, ``base``."""

    def __init__(self, base: CountCDF) -> None:
        self.base = base

    def parameters(self, d: Any) -> Parameters:
        return d.shift.double(), *self.base.parameters(lookup(d.base_dist)[1])

    def lower(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        return self.base.lower(parameters[1:], k - parameters[0], log)

    def upper(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        return self.base.upper(parameters[1:], k - parameters[0], log)

    def either(self, parameters: Parameters, k: Tensor, upper: Tensor) -> Tensor:
        return self.base.either(parameters[1:], k - parameters[0], upper)

    def centre(self, parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance, log_zero = self.base.centre(parameters[1:])
        return mean + parameters[0], variance, log_zero

    def in_upper_half(self, parameters: Parameters, k: Tensor) -> Tensor:
        return self.base.in_upper_half(parameters[1:], k - parameters[0])

    def guess(self, parameters: Parameters, z: Tensor) -> Tensor:
        return self.base.guess(parameters[1:], z) + parameters[0]

    def landmarks(self, parameters: Parameters, m: Tensor, s: Tensor, grid: Tensor) -> Tensor:
        return self.base.landmarks(parameters[1:], m, s, grid) + parameters[0]


@register_cdf(Shifted)
class ShiftedCDF(MarginalCDF):
    """A shift of any discrete law with a known cdf."""

    def specialise(self, d: Any) -> MarginalCDF:
        law, _ = lookup(d.base_dist)
        return ShiftedCountCDF(law) if isinstance(law, CountCDF) else self

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        return law.cdf(base, value - d.shift)

    def log_cdf(self, d: Any, value: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        return law.log_cdf(base, value - d.shift)

    def log_sf(self, d: Any, value: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        return law.log_sf(base, value - d.shift)

    def icdf(self, d: Any, u: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        return law.icdf(base, u) + d.shift

    def isf(self, d: Any, q: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        return law.isf(base, q) + d.shift


def _read_shift(shift: Any) -> Tensor:
    """Return the shift as an int64 tensor, or say what is wrong with it."""
    expected = "a whole number or an integer tensor"
    hint = "Counts move by whole numbers; a continuous law moves by its `loc`."
    is_number = isinstance(shift, (int, float)) and not isinstance(shift, bool)
    is_tensor = isinstance(shift, Tensor) and not shift.is_complex() and shift.dtype != torch.bool
    if not (is_number or is_tensor):
        kind = f"a {shift.dtype} tensor" if isinstance(shift, Tensor) else repr(shift)
        raise InvalidArgumentError("shift", expected, kind, hint)
    value = torch.as_tensor(shift).detach()
    whole = torch.isfinite(value) & (value == value.floor()) if value.is_floating_point() else None
    if whole is not None and not bool(whole.all()):
        bad = value[~whole].flatten()[0].item()
        raise InvalidArgumentError("shift", expected, f"{bad:g}", hint)
    return value.long()
