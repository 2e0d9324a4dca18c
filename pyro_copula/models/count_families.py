"""Families of whole numbers: counts, and zeros and ones."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor
from torch.nn.functional import softplus

from ..errors import InvalidArgumentError
from ..marginals import Shifted, ZeroTruncated
from ..scalars import Positive, Proportion, Real
from ..shapes import broadcast_shapes
from .continuous_families import MAX_LOG_SCALE, log_mean
from .family import MarginalFamily, bend, check_choice

#: Log dispersions stay within this distance of zero, where the law is Poisson or nearly so at one
#: end and has all its mass at zero at the other.
_MAX_LOG_DISPERSION = 12.0
#: A mean that would be half the cap is 1.5% lower with it, and one that would be the cap 16%.
_CAP_SHARPNESS = 4.0


class BernoulliFamily(MarginalFamily):
    """Zeros and ones, with logits from the network.

    Example:
        >>> family = BernoulliFamily()
        >>> family.start(torch.tensor([0.0, 1.0, 1.0]))
        >>> family(torch.zeros(3, 1)).mean
        tensor([0.6250, 0.6250, 0.6250])
    """

    name = "bernoulli"
    discrete = True

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        return dist.Bernoulli(logits=self.center + outputs[..., 0])

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        share = (y.sum() + 0.5) / (y.numel() + 1)
        self.center.fill_(torch.logit(share))

    def check(self, y: Tensor) -> None:
        other = y[(y != 0) & (y != 1)]
        if other.numel():
            raise InvalidArgumentError(
                "y",
                "0 or 1 at every observed node under marginal='bernoulli'",
                f"{float(other[0]):g}",
                'Use marginal="negative_binomial" for counts and "normal" for real values.',
            )


class CountFamily(MarginalFamily):
    """Counts with log mean from the network, plus an offset.

    Args:
        dispersion: ``None``: Poisson. ``"global"`` or ``"node"``: negative binomial with variance
            ``mean + dispersion * mean^2``, the dispersion one number or, times that number, from
            the network.
        zeros: ``None``; ``"inflated"``: an extra share of zeros; ``"truncated"``: no zeros.
        gate: The extra share of zeros: ``"global"``: one number; ``"node"``: from the network.
        power: Whether the dispersion changes with a learned power of the mean; ``dispersion`` is
            then that of a node with the typical mean.
        lower: Counts start here: the law is that of ``y - lower``. ``"auto"``: at 1 if no observed
            count is 0, else at 0. It does not go further, because a count below the smallest
            observed one may well be among the missing.
        cap: Whether the mean (per exposure) stays, smoothly, below twice the largest observed
            count. A log mean that extrapolates makes one node's mean absurd, and with it the mean
            of any sum over nodes.

    Example:
        >>> CountFamily("node", zeros="inflated", gate="node").specification()
        {'family': 'zero_inflated_negative_binomial', 'dispersion': 'node', 'gate': 'node'}
    """

    discrete = True
    uses_offset = True
    shift: Tensor
    typical: Tensor
    top: Tensor

    def __init__(
        self,
        dispersion: str | None = None,
        *,
        zeros: str | None = None,
        gate: str = "global",
        power: bool = False,
        lower: int | str = 0,
        cap: bool = False,
    ) -> None:
        super().__init__()
        check_choice("dispersion", dispersion, (None, "global", "node"))
        check_choice("zeros", zeros, (None, "inflated", "truncated"))
        check_choice("gate", gate, ("global", "node"))
        check_choice("power", power, (False, True))
        check_choice("cap", cap, (False, True))
        if not (lower == "auto" or (isinstance(lower, int) and lower >= 0)):
            raise InvalidArgumentError(
                "lower", 'a non-negative integer or "auto"', repr(lower), "Use lower=0."
            )
        if gate == "node" and zeros != "inflated":
            raise InvalidArgumentError(
                "gate", '"global" without inflated zeros', '"node"', 'Use zeros="inflated".'
            )
        if power and dispersion is None:
            raise InvalidArgumentError(
                "power", "False without a dispersion", "True", 'Use dispersion="global".'
            )
        if dispersion is not None:
            self._scalars["dispersion"] = Positive("dispersion", 1.0)
        if power:
            self._scalars["dispersion_power"] = Real("dispersion_power", 0.0)
        if zeros == "inflated":
            self._scalars["gate"] = Proportion("gate", 0.1)
        self.dispersion, self.zeros, self.gate = dispersion, zeros, gate
        self.power, self.lower, self.cap = power, lower, cap
        self._gate_channel = 2 if dispersion == "node" else 1
        self.out_channels = self._gate_channel + (gate == "node")
        self.register_buffer("shift", torch.tensor(0 if lower == "auto" else lower))
        self.register_buffer("typical", torch.tensor(0.0))  # the log of a typical mean
        if cap:
            self.register_buffer("top", torch.tensor(0.0))  # the log of the largest mean
        self.name, self.options = _name_and_options(dispersion, zeros, gate, power, lower, cap)

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        mean = log_mean(self.center, outputs[..., 0], None)
        if self.cap:
            mean = self.top - softplus(self.top - mean, beta=_CAP_SHARPNESS)
        mean = mean if offset is None else mean + offset
        if self.dispersion is None:
            law = dist.Poisson(mean.exp())
        else:
            log_dispersion = self._log_dispersion(mean, outputs, scalars)
            law = dist.NegativeBinomial(
                (-log_dispersion).exp(), logits=mean + log_dispersion, validate_args=False
            )
        if self.zeros == "inflated":
            law = self._inflated(law, outputs, scalars)
        elif self.zeros == "truncated":
            law = ZeroTruncated(law)
        return Shifted(law, int(self.shift)) if int(self.shift) else law

    def _log_dispersion(self, mean: Tensor, outputs: Tensor, scalars: dict[str, Any]) -> Tensor:
        result = self._scalar(scalars, "dispersion").log()
        if self.power:
            result = result + self._scalar(scalars, "dispersion_power") * (mean - self.typical)
        if self.dispersion == "node":
            result = result + bend(outputs[..., 1], MAX_LOG_SCALE)
        return result.clamp(-_MAX_LOG_DISPERSION, _MAX_LOG_DISPERSION)

    def _inflated(self, law: Any, outputs: Tensor, scalars: dict[str, Any]) -> Any:
        gate = self._scalar(scalars, "gate")
        if self.gate == "node":
            gate = (gate.logit() + bend(outputs[..., self._gate_channel], MAX_LOG_SCALE)).sigmoid()
        shape = broadcast_shapes(law.batch_shape, gate.shape)
        law = law if law.batch_shape == shape else law.expand(shape)
        return dist.ZeroInflatedDistribution(law, gate=gate.expand(shape))

    def prepare(self, y: Tensor, offset: Tensor | None = None, known: Tensor | None = None) -> None:
        if self.lower == "auto":
            every = y if known is None else known
            every = every[~torch.isnan(every)]
            self.shift.fill_(1 if bool((every >= 1).all()) else 0)
        super().prepare(y, offset, known)

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        y = y - int(self.shift)
        exposure = torch.ones_like(y) if offset is None else offset.exp()
        mean = (y.sum() + 0.5) / exposure.sum()
        expected = mean * exposure
        excess = ((y - expected).square() - expected).sum() / expected.square().sum()
        excess = excess.clamp(0.05, 10.0)
        if self.dispersion is not None:
            self.scalars["dispersion"].set_(excess)
        if self.zeros == "inflated":
            # zeros that a law with this mean and variance does not explain
            usual = -expected if self.dispersion is None else -(excess * expected).log1p() / excess
            usual = usual.exp()
            surplus = ((y == 0).to(y.dtype).mean() - usual.mean()) / (1 - usual.mean())
            gate = surplus.clamp(0.02, 0.8)
            self.scalars["gate"].set_(gate)
            mean = mean / (1 - gate)
        self.center.fill_(mean.log())
        self.typical.fill_((mean * exposure).log().mean())
        if self.cap:
            self.top.fill_((2 * torch.maximum((y / exposure).max(), mean)).log())

    def check(self, y: Tensor) -> None:
        least = int(self.shift) + (1 if self.zeros == "truncated" else 0)
        bad = y[(y < least) | (y % 1 != 0)]
        if bad.numel():
            only_small = bool(((bad >= 0) & (bad % 1 == 0)).all())  # so that another law has them
            raise InvalidArgumentError(
                "y",
                f"a whole number of at least {least} at every observed node under "
                f"marginal={self.name!r}",
                f"{float(bad[0]):g}, and {len(bad)} such values in all",
                'Use marginal="negative_binomial", which has these counts too.'
                if only_small
                else "Correct them, or put NaN where a value is missing. If these are not counts, "
                'use marginal="normal" or recipe="continuous".',
            )

    def outcome_scale(self, y: Tensor, exposure: Tensor | None = None) -> Tensor:
        return (y if exposure is None else y / exposure * exposure.mean()).log1p()


def _name_and_options(
    dispersion: str | None, zeros: str | None, gate: str, power: bool, lower: int | str, cap: bool
) -> tuple[str, dict[str, Any]]:
    """The name in ``FAMILIES`` and what is not said by it."""
    name = "poisson" if dispersion is None else "negative_binomial"
    options: dict[str, Any] = {}
    if dispersion == "node":
        options["dispersion"] = dispersion
    if zeros is not None:
        name = f"zero_{zeros}_{name}"
    if gate == "node":
        options["gate"] = gate
    if power:
        options["power"] = power
    if lower == "auto" and zeros is None:
        name = f"shifted_{name}"
    elif lower != 0:
        options["lower"] = lower
    if cap:
        options["cap"] = cap
    return name, options
