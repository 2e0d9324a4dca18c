"""Marginal families: modules that turn the outputs of a backbone into the laws of the nodes.

A family says how many outputs it needs (``out_channels``), which global scalars it has (a
dispersion, a tail weight), and how a law is made of both. Its scalars are held as learnable
parameters and can be replaced at a call, which is how a sample from a prior gets in. ``start``
looks at the observed values once and puts the family where they are, so that no fit begins at a
hopeless place: outputs near zero then mean "like the average node".
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any, ClassVar

import pyro.distributions as dist
import torch
from torch import Tensor, nn

from ..errors import InvalidArgumentError
from ..marginals import Shifted, SinhArcsinh, ZeroTruncated
from ..scalars import Constrained, Positive, Proportion, Real
from ..shapes import broadcast_shapes

_logger = logging.getLogger("pyro_copula")

#: Log means are bent smoothly towards this distance from where they start: a network that
#: extrapolates on one node must not make the likelihood of all nodes infinite.
_MAX_LOG_RATIO = 12.0


class MarginalFamily(nn.Module):
    """The laws of the nodes as a function of the backbone's outputs.

    Subclasses set ``out_channels`` and ``scalars`` and write :meth:`forward` and :meth:`start`.
    """

    #: Whether values are whole numbers.
    discrete: ClassVar[bool] = False
    out_channels: int = 1
    center: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._scalars = nn.ModuleDict()
        self.register_buffer("center", torch.tensor(0.0))
        self.register_buffer("spread", torch.tensor(1.0))

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        """The marginals.

        Args:
            outputs: What the backbone gives, shape ``(num_nodes, out_channels)``.
            offset: Added to the log mean of counts (log exposure), shape ``(num_nodes,)``.
            **scalars: Values in place of the held ones, each of shape ``(*batch,)``.

        Returns:
            A univariate distribution of batch shape ``(*batch, num_nodes)``.
        """
        raise NotImplementedError

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        """Puts the family where the observed values are.

        Args:
            y: The observed values, without missing ones.
            offset: The offset at the same nodes.
        """
        raise NotImplementedError

    def check(self, y: Tensor) -> None:
        """Raises the error that names the first observed value this family cannot take."""

    @property
    def scalars(self) -> dict[str, Constrained]:
        """The global parameters, by name."""
        return {k: v for k, v in self._scalars.items() if isinstance(v, Constrained)}

    def _scalar(self, scalars: dict[str, Any], name: str) -> Tensor:
        return self.scalars[name](scalars.get(name)).unsqueeze(-1)  # (*batch, 1)

    def _choice(self, argument: str, value: str, choices: tuple[str, ...]) -> str:
        if value not in choices:
            raise InvalidArgumentError(
                argument, f"one of {choices}", repr(value), f"Use {argument}={choices[0]!r}."
            )
        return value


class _LocationScale(MarginalFamily):
    """Location from the network; scale global or, from a second output, per node."""

    def __init__(self, scale: str = "global") -> None:
        super().__init__()
        self.scale_kind = self._choice("scale", scale, ("global", "node"))
        self.out_channels = 1 if scale == "global" else 2
        self._scalars["scale"] = Positive("scale", 1.0)

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        values = self._transformed(y)
        self.center.fill_(values.mean())
        self.spread.fill_(values.std(correction=0).clamp(min=1e-6 * (1 + values.abs().max())))

    def _transformed(self, y: Tensor) -> Tensor:
        return y

    def _loc_scale(self, outputs: Tensor, scalars: dict[str, Any]) -> tuple[Tensor, Tensor]:
        loc = self.center + self.spread * outputs[..., 0]
        scale = self.spread * self._scalar(scalars, "scale")
        if self.scale_kind == "node":
            scale = scale * (3 * torch.tanh(outputs[..., 1] / 3)).exp()
        return loc, scale.expand(broadcast_shapes(loc.shape, scale.shape))


class NormalFamily(_LocationScale):
    """Normal values.

    Args:
        scale: ``"tied"``: the variances are those of the precision, as in the paper, and the
            joint law is multivariate normal; ``"global"``: one scale for all nodes; ``"node"``:
            a scale per node from the network.
    """

    def __init__(self, scale: str = "tied") -> None:
        self._choice("scale", scale, ("tied", "global", "node"))
        super().__init__("global" if scale == "tied" else scale)
        self.tied = scale == "tied"
        if self.tied:
            del self._scalars["scale"]

    def untie(self) -> None:
        """One scale for all nodes in place of those of the precision."""
        if self.tied:
            self.tied = False
            self._scalars["scale"] = Positive("scale", 1.0)

    def location(self, outputs: Tensor) -> Tensor:
        """The means alone, which is all that tied normals need."""
        return self.center + self.spread * outputs[..., 0]

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        return dist.Normal(*self._loc_scale(outputs, scalars))


class SinhArcsinhFamily(_LocationScale):
    """Normal values with a learned skewness and tail weight, the same at every node."""

    def __init__(self, scale: str = "node") -> None:
        super().__init__(scale)
        self._scalars["skew"] = Real("skew", 0.0)
        self._scalars["tailweight"] = Positive("tailweight", 1.0)

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        loc, scale = self._loc_scale(outputs, scalars)
        skew, tail = self._scalar(scalars, "skew"), self._scalar(scalars, "tailweight")
        return SinhArcsinh(loc, scale, skew, tail)


class LogNormalFamily(_LocationScale):
    """Positive values whose logarithms are normal."""

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        return dist.LogNormal(*self._loc_scale(outputs, scalars))

    def check(self, y: Tensor) -> None:
        _check_positive(y, "lognormal")

    def _transformed(self, y: Tensor) -> Tensor:
        return y.log()


class StudentTFamily(_LocationScale):
    """Values with heavy tails; the degrees of freedom are learned."""

    def __init__(self, scale: str = "global") -> None:
        super().__init__(scale)
        self._scalars["df"] = Positive("df", 6.0)

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        loc, scale = self._loc_scale(outputs, scalars)
        return dist.StudentT(self._scalar(scalars, "df"), loc, scale)


class GammaFamily(MarginalFamily):
    """Positive values with mean from the network and a shape, global or per node."""

    def __init__(self, concentration: str = "global") -> None:
        super().__init__()
        self.kind = self._choice("concentration", concentration, ("global", "node"))
        self.out_channels = 1 if concentration == "global" else 2
        self._scalars["concentration"] = Positive("concentration", 1.0)

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        log_mean = _log_mean(self.center, outputs[..., 0], offset)
        shape = self._scalar(scalars, "concentration")
        if self.kind == "node":
            shape = shape * (3 * torch.tanh(outputs[..., 1] / 3)).exp()
        return dist.Gamma(shape.expand(log_mean.shape), shape / log_mean.exp())

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        rate = y if offset is None else y / offset.exp()
        self.center.fill_(rate.mean().log())
        self.scalars["concentration"].set_(rate.mean().square() / rate.var().clamp(min=1e-6))

    def check(self, y: Tensor) -> None:
        _check_positive(y, "gamma")


class BernoulliFamily(MarginalFamily):
    """Zeros and ones."""

    discrete = True

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        return dist.Bernoulli(logits=self.center + outputs[..., 0])

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        share = (y.sum() + 0.5) / (y.numel() + 1)
        self.center.fill_(torch.logit(share))


class CountFamily(MarginalFamily):
    """Counts with log mean from the network, plus an offset.

    Args:
        dispersion: ``None``: Poisson. ``"global"`` or ``"node"``: negative binomial with variance
            ``mean + dispersion * mean^2``, the dispersion one number or from the network.
        zeros: ``None``; ``"inflated"``: an extra share of zeros, one number; ``"truncated"``: no
            zeros at all.
        lower: Counts start here: the law is that of ``y - lower``. ``"auto"`` takes the smallest
            observed count.
    """

    discrete = True
    shift: Tensor

    def __init__(
        self,
        dispersion: str | None = None,
        *,
        zeros: str | None = None,
        lower: int | str = 0,
    ) -> None:
        super().__init__()
        if dispersion is not None:
            self._choice("dispersion", dispersion, ("global", "node"))
            self._scalars["dispersion"] = Positive("dispersion", 1.0)
            self._scalars["dispersion_power"] = Real("dispersion_power", 0.0)
        if zeros is not None:
            self._choice("zeros", zeros, ("inflated", "truncated"))
        if zeros == "inflated":
            self._scalars["gate"] = Proportion("gate", 0.1)
        if not (lower == "auto" or (isinstance(lower, int) and lower >= 0)):
            raise InvalidArgumentError(
                "lower", 'a non-negative integer or "auto"', repr(lower), "Use lower=0."
            )
        self.dispersion, self.zeros, self.lower = dispersion, zeros, lower
        self.out_channels = 2 if dispersion == "node" else 1
        self.register_buffer("shift", torch.tensor(0 if lower == "auto" else lower))

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        log_mean = _log_mean(self.center, outputs[..., 0], offset)
        if self.dispersion is None:
            law = dist.Poisson(log_mean.exp())
        else:
            log_dispersion = self._scalar(scalars, "dispersion").log()
            power = self._scalar(scalars, "dispersion_power")
            log_dispersion = log_dispersion + power * (log_mean - self.center)
            if self.dispersion == "node":
                log_dispersion = log_dispersion + 3 * torch.tanh(outputs[..., 1] / 3)
            log_dispersion = 12 * torch.tanh(log_dispersion / 12)
            law = dist.NegativeBinomial(
                (-log_dispersion).exp(), logits=log_mean + log_dispersion, validate_args=False
            )
        if self.zeros == "inflated":
            gate = self._scalar(scalars, "gate")
            law = dist.ZeroInflatedDistribution(law, gate=gate.expand(law.batch_shape))
        elif self.zeros == "truncated":
            law = ZeroTruncated(law)
        return Shifted(law, int(self.shift)) if int(self.shift) else law

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        if self.lower == "auto":
            self.shift.fill_(int(y.min()))
        y = y - int(self.shift)
        exposure = torch.ones_like(y) if offset is None else offset.exp()
        mean = (y.sum() + 0.5) / exposure.sum()
        self.center.fill_(mean.log())
        if self.dispersion is not None:
            expected = mean * exposure
            excess = ((y - expected).square() - expected).sum() / expected.square().sum()
            self.scalars["dispersion"].set_(excess.clamp(0.05, 10.0))

    def check(self, y: Tensor) -> None:
        least = int(self.shift) + (1 if self.zeros == "truncated" else 0)
        if self.lower != "auto" and float(y.min()) < least:
            raise InvalidArgumentError(
                "y",
                f"at least {least} at every observed node under this family",
                f"{float(y.min()):g}",
                "Choose a family that allows it, such as marginal='negative_binomial'.",
            )


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


def make_family(
    marginal: str | MarginalFamily, y: Tensor, offset: Tensor | None = None
) -> MarginalFamily:
    """The family by its name, the family given, or one chosen from the observed values.

    Args:
        marginal: A name from ``FAMILIES``, a family, or ``"auto"``.
        y: The observed values.
        offset: The offset at the same nodes.
    """
    if isinstance(marginal, MarginalFamily):
        return copy.deepcopy(marginal)
    if marginal == "auto":
        marginal, reason = choose_family(y, offset)
        _logger.info('marginal="auto" chose %r: %s', marginal, reason)
    if marginal not in FAMILIES:
        raise InvalidArgumentError(
            "marginal",
            f'"auto", one of {sorted(FAMILIES)}, or a MarginalFamily',
            repr(marginal),
            'Use marginal="normal" for real values and "negative_binomial" for counts.',
        )
    return FAMILIES[marginal]()


def choose_family(y: Tensor, offset: Tensor | None = None) -> tuple[str, str]:
    """The name of a family for these values, and the reason in words.

    Whole numbers are counts: negative binomial if their variance is more than 1.5 times what a
    Poisson law with their exposure has, else Poisson. Zeros and ones alone are Bernoulli, and all
    else is normal.
    """
    if not bool(((y >= 0) & (y == y.floor())).all()):
        return "normal", "the values are not all counts"
    if float(y.max()) <= 1:
        return "bernoulli", "the values are zeros and ones"
    exposure = torch.ones_like(y) if offset is None else offset.exp()
    expected = y.sum() / exposure.sum() * exposure
    ratio = float(((y - expected).square() / expected).mean())
    name = "negative_binomial" if ratio > 1.5 else "poisson"
    return name, f"counts with {ratio:.3g} times the variance of a Poisson law"


def _log_mean(center: Tensor, output: Tensor, offset: Tensor | None) -> Tensor:
    """Where the mean starts, moved by the network and kept within reason."""
    bent = _MAX_LOG_RATIO * torch.tanh(output / _MAX_LOG_RATIO)
    log_mean = center + bent
    return log_mean if offset is None else log_mean + offset


def _check_positive(y: Tensor, name: str) -> None:
    if float(y.min()) <= 0:
        raise InvalidArgumentError(
            "y",
            f"positive at every observed node under marginal={name!r}",
            f"{float(y.min()):g}",
            'Use marginal="normal" or "sinh_arcsinh" for values of either sign.',
        )
