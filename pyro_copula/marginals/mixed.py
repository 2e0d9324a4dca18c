"""Different families at different nodes, as one distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import Distribution, constraints

from ..errors import InvalidArgumentError
from .densities import log_prob
from .quantiles import from_normal_score, icdf, isf
from .registry import MarginalCDF, lookup, register_cdf
from .support import stand_in
from .tails import evaluate_tail, full_value, inside_support, log_tail


class _MixedSupport(constraints.Constraint):
    """The support of each node: whole numbers at some, an interval at others."""

    def __init__(self, lower_bound: Tensor, upper_bound: Tensor, discrete: Tensor) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.discrete = discrete
        self.is_discrete = bool(discrete.any())
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        inside = (self.lower_bound <= value) & (value <= self.upper_bound)
        return inside & (~self.discrete | (value % 1 == 0))


class Mixed(TorchDistribution):
    """A univariate law per node, of a different family at different nodes.

    Args:
        components: The families by name, each a distribution with event shape ``()`` and a batch
            shape that broadcasts to ``(*batch, num_nodes)``. Its entries at nodes of another
            kind are ignored.
        kind: The family of each node: a sequence of ``num_nodes`` names, or an integer tensor
            of positions in ``components``.

    Raises:
        InvalidArgumentError: If a name is unknown, a length does not fit, or a component is not
            a univariate distribution.

    Example:
        >>> import pyro.distributions as dist
        >>> families = {"count": dist.Poisson(torch.ones(3)), "real": dist.Normal(0.0, 1.0)}
        >>> Mixed(families, kind=["count", "real", "count"])
        Mixed(count: 2 nodes of Poisson, real: 1 node of Normal)
    """

    arg_constraints: dict[str, constraints.Constraint] = {}

    def __init__(
        self,
        components: Mapping[str, Any],
        kind: Sequence[str] | Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if not components:
            hint = "Give at least one family, for example {'count': dist.Poisson(rate)}."
            raise InvalidArgumentError("components", "a dict of distributions", "none", hint)
        self._stand_ins: dict[int, Tensor] = {}
        self.kind = _read_kind(list(components), kind)  # (num_nodes,)
        num_nodes = len(self.kind)
        for name, component in components.items():
            _check_component(name, component, num_nodes)
        shapes = [component.batch_shape for component in components.values()]
        batch_shape = torch.broadcast_shapes((num_nodes,), *shapes)
        self.components = {
            name: component
            if component.batch_shape == batch_shape
            else component.expand(batch_shape)
            for name, component in components.items()
        }
        super().__init__(batch_shape, torch.Size(), validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:
        return all(component.has_rsample for component in self.components.values())

    @constraints.dependent_property(event_dim=0)
    def support(self) -> _MixedSupport:
        law, _ = lookup(self)
        return _MixedSupport(*law.bounds(self), torch.as_tensor(law.is_discrete(self)))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Mixed:
        new = self._get_checked_instance(Mixed, _instance)
        batch_shape = torch.Size(batch_shape)
        new.kind, new._stand_ins = self.kind, {}
        new.components = {name: c.expand(batch_shape) for name, c in self.components.items()}
        super(Mixed, new).__init__(batch_shape, torch.Size(), validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.by_node(lambda component, _: component.rsample(sample_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            return self.by_node(lambda component, _: component.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.by_node(log_prob, value)

    @property
    def mean(self) -> Tensor:
        return self.by_node(lambda component, _: component.mean)

    @property
    def variance(self) -> Tensor:
        return self.by_node(lambda component, _: component.variance)

    def by_node(
        self, function: Callable[[Any, Any], Tensor], value: Tensor | None = None
    ) -> Tensor:
        """Return ``function(component, value)`` with each node taken from its own component.

        A component sees its own entries of ``value`` only; elsewhere it sees a value of its own.
        """
        result: Tensor | None = None
        for index, component in enumerate(self.components.values()):
            mine = self.kind == index
            if result is not None and not bool(mine.any()):
                continue
            own = None
            if value is not None:
                own = torch.where(mine, value, self._stand_in(index, component).to(value.dtype))
            part = function(component, own)
            result = part if result is None else torch.where(mine, part, result)
        assert result is not None
        return result

    def _stand_in(self, index: int, component: Any) -> Tensor:
        """Return values that a component sees at the nodes of other kinds, found once."""
        if index not in self._stand_ins:
            self._stand_ins[index] = stand_in(component)
        return self._stand_ins[index]

    def __repr__(self) -> str:
        parts = []
        for index, (name, component) in enumerate(self.components.items()):
            count = int((self.kind == index).sum())
            family = type(lookup(component)[1]).__name__
            parts.append(f"{name}: {count} node{'s' if count != 1 else ''} of {family}")
        leading = f", batch {tuple(self.batch_shape[:-1])}" if len(self.batch_shape) > 1 else ""
        return f"Mixed({', '.join(parts)}{leading})"


@register_cdf(Mixed)
class MixedCDF(MarginalCDF):
    """Each node by the functions of its own family."""

    differentiable_quantile = True

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        return d.by_node(lambda c, y: evaluate_tail(c, y, "cdf", 0.0, 1.0), value)

    def sf(self, d: Any, value: Tensor) -> Tensor:
        return d.by_node(lambda c, y: evaluate_tail(c, y, "sf", 1.0, 0.0), value)

    def log_cdf(self, d: Any, value: Tensor) -> Tensor:
        return d.by_node(lambda c, y: evaluate_tail(c, y, "log_cdf", -torch.inf, 0.0), value)

    def log_sf(self, d: Any, value: Tensor) -> Tensor:
        return d.by_node(lambda c, y: evaluate_tail(c, y, "log_sf", 0.0, -torch.inf), value)

    def score(self, d: Any, value: Tensor) -> Tensor:
        return d.by_node(lambda c, y: evaluate_tail(c, y, "score", -torch.inf, torch.inf), value)

    def log_tail(self, d: Any, value: Tensor, upper: Tensor) -> Tensor:
        return d.by_node(lambda c, y: log_tail(c, y, upper), value)

    def use_upper(self, d: Any, value: Tensor) -> Tensor:
        return d.by_node(_use_upper, value)

    def icdf(self, d: Any, u: Tensor) -> Tensor:
        return d.by_node(lambda c, _: icdf(c, u))

    def isf(self, d: Any, q: Tensor) -> Tensor:
        return d.by_node(lambda c, _: isf(c, q))

    def from_score(self, d: Any, z: Tensor) -> Tensor:
        return d.by_node(lambda c, _: from_normal_score(c, z))

    def bounds(self, d: Any) -> tuple[Tensor, Tensor]:
        ends = []
        for side in (0, 1):
            ends.append(d.by_node(lambda c, _, side=side: _bound(c, side)))
        return ends[0], ends[1]

    def is_discrete(self, d: Any) -> Tensor:
        flags = []
        for component in d.components.values():
            law, base = lookup(component)
            flags.append(law.is_discrete(base))
        return torch.tensor(flags, dtype=torch.bool)[d.kind]  # (num_nodes,)


def _bound(component: Any, side: int) -> Tensor:
    law, base = lookup(component)
    return full_value(component, law.bounds(base)[side])


def _use_upper(component: Any, value: Tensor) -> Tensor:
    law, base, safe, _, _ = inside_support(component, value)
    return law.use_upper(base, safe)


def _read_kind(names: list[str], kind: Sequence[str] | Tensor) -> Tensor:
    """Return the position of each node's family in ``names``."""
    if isinstance(kind, Tensor):
        if kind.ndim != 1 or kind.dtype.is_floating_point or kind.dtype == torch.bool:
            raise InvalidArgumentError(
                "kind",
                "a sequence of names or an integer tensor of shape (num_nodes,)",
                f"a {kind.dtype} tensor of shape {tuple(kind.shape)}",
                f"Give one position in {names} per node.",
            )
        if len(kind) and not 0 <= int(kind.min()) <= int(kind.max()) < len(names):
            bad = next(k for k in kind.tolist() if not 0 <= k < len(names))
            hint = f"Positions count from 0 in the order of `components`: {names}."
            raise InvalidArgumentError("kind", f"below {len(names)}", str(bad), hint)
        return kind.long()
    for node, name in enumerate(kind):
        if name not in names:
            raise InvalidArgumentError(
                "kind",
                f"one of the names {names} at every node",
                f"{name!r} at node {node}",
                "Add that family to `components`, or correct the name.",
            )
    return torch.tensor([names.index(name) for name in kind], dtype=torch.long)


def _check_component(name: str, component: Any, num_nodes: int) -> None:
    argument = f"components[{name!r}]"
    if not isinstance(component, Distribution):
        hint = "Pass an object such as dist.Poisson(rate)."
        found = f"a {type(component).__name__}"
        raise InvalidArgumentError(argument, "a Pyro distribution", found, hint)
    if component.event_shape:
        found = f"event shape {tuple(component.event_shape)}"
        hint = "Drop .to_event(1), or choose a univariate family."
        raise InvalidArgumentError(argument, "univariate, with event shape ()", found, hint)
    if component.batch_shape and component.batch_shape[-1] not in (1, num_nodes):
        raise InvalidArgumentError(
            argument,
            f"of batch shape (*batch, {num_nodes}), the length of `kind`",
            f"batch shape {tuple(component.batch_shape)}",
            "Give every family parameters for all nodes; those of other kinds are ignored.",
        )
    lookup(component, argument)
