"""The base of marginal families: modules that turn a backbone's outputs into laws of the nodes.

A family says how many outputs it needs (``out_channels``), which global scalars it has (a
dispersion, a tail weight), and how a law is made of both. Its scalars are held as learnable
parameters and can be replaced at a call, which is how a sample from a prior gets in. ``start``
looks at the observed values once and puts the family where they are, so that no fit begins at a
hopeless place: outputs near zero then mean "like the average node".
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..errors import InvalidArgumentError
from ..scalars import Constrained


class MarginalFamily(nn.Module):
    """The laws of the nodes as a function of the backbone's outputs.

    Subclasses set ``out_channels``, put their global scalars into ``_scalars``, and write
    :meth:`forward` and :meth:`start`. Pass an object or the class as ``CopulaGNN(marginal=...)``.

    Example:
        >>> import pyro.distributions as dist
        >>> class Laplace(MarginalFamily):
        ...     def forward(self, outputs, offset=None, **scalars):
        ...         return dist.Laplace(self.center + self.spread * outputs[..., 0], self.spread)
        ...
        ...     def start(self, y, offset=None):
        ...         self.center.fill_(y.median())
        ...         self.spread.fill_((y - y.median()).abs().mean())
        >>> family = Laplace()
        >>> family.start(torch.tensor([1.0, 2.0, 6.0]))
        >>> family(torch.zeros(3, 1)).mean
        tensor([2., 2., 2.])
    """

    #: The name in ``FAMILIES``; empty for a family of the user's, which no file can hold.
    name: str = ""
    #: Whether values are whole numbers.
    discrete: ClassVar[bool] = False
    #: Whether an exposure multiplies the mean.
    uses_offset: bool = False
    out_channels: int = 1
    #: Why this family, if it was chosen and not asked for.
    reason: str = ""
    center: Tensor
    spread: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self._scalars = nn.ModuleDict()
        self.register_buffer("center", torch.tensor(0.0))
        self.register_buffer("spread", torch.tensor(1.0))

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        """The marginals.

        Args:
            outputs: What the backbone gives, shape ``(*batch, num_nodes, out_channels)``.
            offset: Added to the log mean (log exposure), shape ``(num_nodes,)``.
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

    def prepare(self, y: Tensor, offset: Tensor | None = None, known: Tensor | None = None) -> None:
        """Checks the values and starts the family at them.

        Args:
            y: Values to start from, shape ``(num_nodes,)``, NaN where missing.
            offset: The offset, shape ``(num_nodes,)``.
            known: Every observed value, those held out for validation included. The support is
                read off them: a law that cannot take a known value is no law of the data.
        """
        seen = ~torch.isnan(y)
        known = y if known is None else known
        self.check(known[~torch.isnan(known)])
        self.start(y[seen], None if offset is None else offset[seen])

    def outcome_scale(self, y: Tensor, exposure: Tensor | None = None) -> Tensor:
        """Values on the scale on which those of neighbours are averaged: log rates of counts.

        Args:
            y: Values, shape ``(num_nodes,)``.
            exposure: The exposure of the nodes.
        """
        return y

    def specification(self) -> Any:
        """The name and options as plain values; ``"<own>"`` for a family of the user's."""
        if not self.name:
            return "<own>"
        reason = {"reason": self.reason} if self.reason else {}
        return {"family": self.name, **self.options, **reason}

    @property
    def scalars(self) -> dict[str, Constrained]:
        """The global parameters, by name."""
        return {k: v for k, v in self._scalars.items() if isinstance(v, Constrained)}

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v!r}" for k, v in self.options.items())

    def _scalar(self, scalars: dict[str, Any], name: str) -> Tensor:
        return self.scalars[name](scalars.get(name)).unsqueeze(-1)  # (*batch, 1)


def check_choice(argument: str, value: Any, choices: tuple[str | bool | None, ...]) -> None:
    """Raises the error that lists the choices, if the value is none of them."""
    if value not in choices:
        raise InvalidArgumentError(
            argument, f"one of {choices}", repr(value), f"Use {argument}={choices[0]!r}."
        )


def bend(output: Tensor, limit: float) -> Tensor:
    """An output of the network kept smoothly within ``limit`` of zero.

    A network that extrapolates on one node must not make the likelihood of all nodes infinite.
    """
    return limit * torch.tanh(output / limit)
