"""Families of real and of positive values."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
from torch import Tensor

from ..errors import InvalidArgumentError
from ..marginals import SinhArcsinh
from ..scalars import Positive, Real
from ..shapes import broadcast_shapes
from .family import MarginalFamily, bend, check_choice

#: How far the network moves a log scale, a log shape, or a log mean from where it starts.
MAX_LOG_SCALE, MAX_LOG_MEAN = 3.0, 12.0


class _LocationScale(MarginalFamily):
    """Location from the network; scale global or, from a second output, per node."""

    def __init__(self, scale: str = "global") -> None:
        super().__init__(scale=scale)
        check_choice("scale", scale, ("global", "node"))
        self.scale_kind = scale
        self.out_channels = 1 if scale == "global" else 2
        self._scalars["scale"] = Positive("scale", 1.0)

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        self.center.fill_(y.mean())
        # constant values: a spread that is small beside them, and not zero
        self.spread.fill_(y.std(correction=0).clamp(min=1e-6 * (1 + y.abs().max())))

    def _loc_scale(self, outputs: Tensor, scalars: dict[str, Any]) -> tuple[Tensor, Tensor]:
        loc = self.center + self.spread * outputs[..., 0]
        scale = self.spread * self._scalar(scalars, "scale")
        if self.scale_kind == "node":
            scale = scale * bend(outputs[..., 1], MAX_LOG_SCALE).exp()
        return loc, scale.expand(broadcast_shapes(loc.shape, scale.shape))


class NormalFamily(_LocationScale):
    """Normal values.

    Args:
        scale: ``"tied"``: the variances are those of the precision, as in the paper, and the
            joint law is multivariate normal; ``"global"``: one scale for all nodes; ``"node"``:
            a scale per node from the network.

    Example:
        >>> NormalFamily(scale="node").out_channels
        2
    """

    name = "normal"

    def __init__(self, scale: str = "tied") -> None:
        check_choice("scale", scale, ("tied", "global", "node"))
        super().__init__("global" if scale == "tied" else scale)
        self.options = {"scale": scale}
        self.tied = scale == "tied"
        if self.tied:
            del self._scalars["scale"]

    def untie(self) -> None:
        """One scale for all nodes in place of those of the precision."""
        if self.tied:
            self.tied = False
            self._scalars["scale"] = Positive("scale", 1.0)

    def extra_repr(self) -> str:
        scale = "tied" if self.tied else self.scale_kind  # not `options`: it may be untied since
        return f"scale={scale!r}"

    def location(self, outputs: Tensor) -> Tensor:
        """The means alone, which is all that tied normals need."""
        return self.center + self.spread * outputs[..., 0]

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        return dist.Normal(*self._loc_scale(outputs, scalars))


class SinhArcsinhFamily(_LocationScale):
    """Normal values with a learned skewness and tail weight, the same at every node.

    Args:
        scale: ``"node"``: from the network; ``"global"``: one for all nodes.

    Example:
        >>> sorted(SinhArcsinhFamily().scalars)
        ['scale', 'skew', 'tailweight']
    """

    name = "sinh_arcsinh"

    def __init__(self, scale: str = "node") -> None:
        super().__init__(scale)
        self._scalars["skew"] = Real("skew", 0.0)
        self._scalars["tailweight"] = Positive("tailweight", 1.0)

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        loc, scale = self._loc_scale(outputs, scalars)
        skew, tail = self._scalar(scalars, "skew"), self._scalar(scalars, "tailweight")
        return SinhArcsinh(loc, scale, skew, tail)


class LogNormalFamily(_LocationScale):
    """Positive values whose logarithms are normal; an exposure multiplies them.

    Args:
        scale: ``"global"``: one for all nodes; ``"node"``: from the network.

    Example:
        >>> LogNormalFamily().specification()
        {'family': 'lognormal', 'scale': 'global'}
    """

    name = "lognormal"
    uses_offset = True

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        loc, scale = self._loc_scale(outputs, scalars)
        return dist.LogNormal(loc if offset is None else loc + offset, scale)

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        super().start(y.log() if offset is None else y.log() - offset)

    def check(self, y: Tensor) -> None:
        _check_positive(y, self.name)

    def outcome_scale(self, y: Tensor, exposure: Tensor | None = None) -> Tensor:
        return (y if exposure is None else y / exposure).log()


class StudentTFamily(_LocationScale):
    """Values with heavy tails; the degrees of freedom are learned.

    Args:
        scale: ``"global"``: one for all nodes; ``"node"``: from the network.

    Example:
        >>> sorted(StudentTFamily().scalars)
        ['df', 'scale']
    """

    name = "student_t"

    def __init__(self, scale: str = "global") -> None:
        super().__init__(scale)
        self._scalars["df"] = Positive("df", 6.0)

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        loc, scale = self._loc_scale(outputs, scalars)
        return dist.StudentT(self._scalar(scalars, "df"), loc, scale)


class GammaFamily(MarginalFamily):
    """Positive values with log mean from the network, plus an offset, and a shape.

    Args:
        concentration: The shape: ``"global"``: one for all nodes; ``"node"``: from the network.

    Example:
        >>> GammaFamily(concentration="node").out_channels
        2
    """

    name = "gamma"
    uses_offset = True

    def __init__(self, concentration: str = "global") -> None:
        super().__init__(concentration=concentration)
        check_choice("concentration", concentration, ("global", "node"))
        self.kind = concentration
        self.out_channels = 1 if concentration == "global" else 2
        self._scalars["concentration"] = Positive("concentration", 1.0)

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        mean = log_mean(self.center, outputs[..., 0], offset).exp()
        shape = self._scalar(scalars, "concentration")
        if self.kind == "node":
            shape = shape * bend(outputs[..., 1], MAX_LOG_SCALE).exp()
        shape = shape.expand(broadcast_shapes(shape.shape, mean.shape))
        return dist.Gamma(shape, shape / mean)

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        rate = y if offset is None else y / offset.exp()
        self.center.fill_(rate.mean().log())
        relative_variance = rate.var(correction=0) / rate.mean().square()
        # constant values would start at an infinite shape
        self.scalars["concentration"].set_(1 / relative_variance.clamp(0.01, 100.0))

    def check(self, y: Tensor) -> None:
        _check_positive(y, self.name)

    def outcome_scale(self, y: Tensor, exposure: Tensor | None = None) -> Tensor:
        return (y if exposure is None else y / exposure).log()


def log_mean(center: Tensor, output: Tensor, offset: Tensor | None) -> Tensor:
    """Where the log mean starts, moved by the network and kept within reason."""
    result = center + bend(output, MAX_LOG_MEAN)
    return result if offset is None else result + offset


def _check_positive(y: Tensor, name: str) -> None:
    if y.numel() and float(y.min()) <= 0:
        raise InvalidArgumentError(
            "y",
            f"positive at every observed node under marginal={name!r}",
            f"{float(y.min()):g}",
            'Use marginal="normal" or "sinh_arcsinh" for values of either sign.',
        )
