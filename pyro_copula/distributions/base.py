"""What every distribution over the nodes of a graph shares.

Nodes are the event dimension. A value may be NaN at some nodes: they are missing, and integrated
out. Different elements of a batch may miss different nodes.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import torch
from pyro.distributions import TorchDistribution
from pyro.ops.integrator import register_exception_handler
from pyro.poutine.mask_messenger import MaskMessenger
from pyro.poutine.runtime import _PYRO_STACK
from torch import Tensor

from ..errors import (
    InvalidArgumentError,
    NotPositiveDefiniteError,
    ObsMaskError,
    ParameterRangeError,
)
from ..shapes import broadcast_shapes
from .latent import Latent

# To HMC and NUTS, parameters that break the factor, or that rounding puts on the end of their
# range, are a place of density zero, as for the failures of torch's own Cholesky.
register_exception_handler(
    "pyro_copula",
    lambda error: isinstance(error, NotPositiveDefiniteError | ParameterRangeError),
)


#: How many calls there are at most between a trace and the check of the value that it gives.
_FRAMES_TO_TRACE = 5

#: How Pyro's own plates begin, of particles and of predictive draws, which repeat whole programs.
_PLATES_OF_PYRO = ("num_particles_vectorized", "_num_predictive_samples")


class Interval(NamedTuple):
    """An equal-tailed interval, one pair of bounds a node."""

    lower: Tensor
    upper: Tensor

    @classmethod
    def from_quantile(cls, quantile: Callable[[Tensor], Tensor], level: float) -> Interval:
        """The interval that leaves ``(1 - level) / 2`` in each tail."""
        tail = (1 - check_level("level", level)) / 2
        return cls(*quantile(torch.stack([tail, 1 - tail])))


class NodeDistribution(TorchDistribution):
    """A joint law of one value at every node, where NaN means missing.

    Subclasses set ``latent`` (the Gaussian vector behind the values) and have ``quantile``.
    """

    latent: Latent
    quantile: Callable[[Any], Tensor]
    _unexpanded: torch.Size | None = None

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.event_shape[0]

    def __call__(self, sample_shape: torch.Size = torch.Size()) -> Tensor:
        """Samples, after a look at the masks that Pyro's handlers will apply to this site."""
        for handler in _PYRO_STACK:
            if isinstance(handler, MaskMessenger):
                self._check_mask(handler.mask)
        return super().__call__(sample_shape)

    def interval(self, level: float = 0.9) -> Interval:
        """Equal-tailed intervals node by node, as exact as ``quantile`` is.

        Args:
            level: The probability of each interval.

        Returns:
            The pair ``(lower, upper)``, each ``(*batch, num_nodes)``.
        """
        return Interval.from_quantile(self.quantile, level)

    def mask(self, mask: bool | Tensor) -> Any:
        """Masks elements of the *batch*; a missing node is NaN in the value instead.

        Args:
            mask: True where an element counts, broadcastable to the batch shape.

        Returns:
            The masked distribution.

        Raises:
            ObsMaskError: If it is a mask of nodes.
        """
        self._check_mask(mask)
        return super().mask(mask)

    def _check_site(self) -> None:
        """Looks at the mask and plates of the site whose density a Pyro trace computes right now.

        An observed site is never drawn, so :meth:`__call__` does not see the masks around it, and
        the trace would multiply the joint density by a mask of nodes, or by their number in a
        plate of nodes, without a word: NUTS would sample from a wrong posterior. The trace does
        not pass these on, so they are read there.
        """
        frame = sys._getframe(1)
        for _ in range(_FRAMES_TO_TRACE):
            if frame.f_back is None:
                return
            frame = frame.f_back
            if frame.f_globals.get("__name__") == "pyro.poutine.trace_struct":
                site = frame.f_locals.get("site") or {}
                if site.get("fn") is self:
                    self._check_mask(site.get("mask"))
                    self._check_plates(site)
                return

    def _check_plates(self, site: Mapping[str, Any]) -> None:
        for plate in site["cond_indep_stack"]:
            if not plate.vectorized or plate.size != self.num_nodes:
                continue
            if plate.name.startswith(_PLATES_OF_PYRO):
                continue
            own, given = self._own_batch_shape, site["value"].shape[:-1]
            if all(len(shape) < -plate.dim or shape[plate.dim] == 1 for shape in (own, given)):
                raise InvalidArgumentError(
                    "plate",
                    "none over the nodes around this site",
                    f"plate {plate.name!r} of size {plate.size}, the number of nodes, and neither "
                    "values nor parameters with that dimension",
                    "Nodes are the event dimension, so a plate of nodes would count the joint "
                    "density once per node. Draw this site outside of it.",
                )

    @property
    def _own_batch_shape(self) -> torch.Size:
        """The batch shape before :meth:`expand`."""
        return self.batch_shape if self._unexpanded is None else self._unexpanded

    def _expanded(self, batch_shape: Any, instance: Any) -> Self:
        """A copy, or the instance, with another batch shape; its parameters are left alone."""
        new = copy.copy(self) if instance is None else instance
        new.__dict__.update(self.__dict__)
        new._unexpanded, new._batch_shape = self._own_batch_shape, torch.Size(batch_shape)
        return new

    def _check_mask(self, mask: bool | Tensor | None) -> None:
        if not torch.is_tensor(mask):
            return
        try:
            fits = broadcast_shapes(mask.shape, self.batch_shape) == self.batch_shape
        except RuntimeError:
            fits = False
        if not fits:
            raise ObsMaskError(
                "mask",
                f"broadcastable to the batch shape {tuple(self.batch_shape)}",
                f"shape {tuple(mask.shape)}",
                "Nodes are the event dimension, so a node mask would count the joint density once "
                "per node. Drop it and put NaN at missing nodes: y.masked_fill(~observed, nan).",
            )

    # ---------------------------------------------------------------- values with missing nodes

    def _node_values(self, value: Any, argument: str = "y") -> Tensor:
        """The value as a floating tensor with an entry for every node, which may be NaN."""
        if not torch.is_tensor(value):
            value = torch.as_tensor(value, dtype=torch.get_default_dtype())
        if not value.is_floating_point():
            value = value.to(torch.get_default_dtype())
        if value.dim() == 0 or value.shape[-1] != self.num_nodes:
            raise InvalidArgumentError(
                argument,
                f"of shape (*sample, *batch, num_nodes) with {self.num_nodes} nodes",
                f"shape {tuple(value.shape)}",
                "Give every node an entry, NaN where its value is missing.",
            )
        return value

    def _checked_value(self, value: Any, argument: str = "y") -> tuple[Tensor, Tensor]:
        """The value as a floating tensor of full shape, and which of its entries are observed."""
        self._check_site()
        value = self._node_values(value, argument)
        expected = (*self.batch_shape, self.num_nodes)
        try:
            shape = broadcast_shapes(value.shape, expected)
        except RuntimeError:
            raise InvalidArgumentError(
                argument,
                f"broadcastable with {expected}",
                f"shape {tuple(value.shape)}",
                "Align its leading dimensions with the batch shape.",
            ) from None
        value = value.expand(shape)
        observed = ~torch.isnan(value)
        if value.numel() and not bool(observed.any()):
            raise InvalidArgumentError(
                argument,
                "observed at one node or more",
                "NaN at every node",
                "To draw without data, call sample(); to predict, give the observed values.",
            )
        return value, observed

    def _common_pattern(self, observed: Tensor) -> Tensor:
        """The observed nodes, shape ``(num_nodes,)``, when they are the same in every row."""
        rows = observed.reshape(-1, self.num_nodes)
        if not len(rows):
            raise InvalidArgumentError(
                "y", "one row or more", f"shape {tuple(observed.shape)}", "Pass a row of values."
            )
        differing = (rows != rows[0]).any(0)
        if bool(differing.any()):
            raise InvalidArgumentError(
                "y",
                "missing at the same nodes in every row",
                f"different patterns, first at node {int(differing.nonzero()[0])}",
                "Condition on the rows one at a time.",
            )
        if bool(rows[0].all()):
            raise InvalidArgumentError(
                "y",
                "missing (NaN) at one node or more",
                "a value at every node",
                "Put NaN at the nodes to predict.",
            )
        return rows[0]

    def _by_pattern(
        self, operation: Callable[[Latent, Tensor, Tensor], Tensor], x: Tensor, observed: Tensor
    ) -> Tensor:
        """Applies ``operation(latent, x, observed)`` once per distinct set of missing nodes.

        Args:
            operation: Takes ``x`` of shape ``(*, num_nodes)`` and ``observed`` of shape
                ``(num_nodes,)``, and returns a tensor of shape ``(*, *extra)``.
            x: Shape ``(*sample, *batch, num_nodes)``.
            observed: The same shape.
        """
        rows = observed.reshape(-1, self.num_nodes)
        if bool((rows == rows[:1]).all()):
            pattern = rows[0] if len(rows) else rows.new_ones(self.num_nodes)
            return operation(self.latent, x, pattern)
        leading = x.shape[:-1]
        flat = x.reshape(-1, self.num_nodes)
        element = _batch_element(self.latent.batch_shape, leading)
        pieces, order = [], []
        for pattern, index, members in _groups(rows, element):
            latent = self.latent if not self.latent.batch_shape else self.latent[index]
            pieces.append(operation(latent, flat[members], pattern))
            order.append(members)
        stacked = torch.cat(pieces)[torch.cat(order).argsort()]
        return stacked.reshape(*leading, *stacked.shape[1:])


def _batch_element(batch_shape: torch.Size, leading: torch.Size) -> Tensor:
    """For every row of the flattened leading dimensions, its element of the flattened batch."""
    element = torch.arange(batch_shape.numel()).reshape(batch_shape)
    return element.expand(leading).reshape(-1)


def _groups(rows: Tensor, element: Tensor) -> Iterator[tuple[Tensor, int, Tensor]]:
    """The distinct pairs of a missing pattern and a batch element, and the rows that have them."""
    patterns, which = torch.unique(rows, dim=0, return_inverse=True)
    pairs, inverse = torch.unique(torch.stack([which, element], dim=1), dim=0, return_inverse=True)
    for k, (pattern, index) in enumerate(pairs.tolist()):
        yield patterns[pattern], index, (inverse == k).nonzero().squeeze(-1)


def check_level(argument: str, level: float | Tensor) -> Tensor:
    """One or more probabilities strictly between 0 and 1, as a float64 tensor."""
    try:
        levels = torch.as_tensor(level, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgumentError(
            argument, "a number, or several", repr(level), "Pass 0.9 for 90%."
        ) from error
    if not bool(((levels > 0) & (levels < 1)).all()):
        raise InvalidArgumentError(
            argument, "strictly between 0 and 1", f"{level}", "Pass 0.9 for 90%."
        )
    return levels


def level_first(levels: Tensor, dims: int) -> Tensor:
    """``levels`` with ``dims`` trailing dimensions, to go before what they are levels of."""
    return levels.reshape(*levels.shape, *(1,) * dims)
