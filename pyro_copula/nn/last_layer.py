"""The last layer of a backbone as one vector, which a prior can be put on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..errors import InvalidArgumentError
from .skips import split_backbone


class _Last(nn.Module):
    """The part of a backbone after its hidden layers, as a module of its own."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, hidden: Any, edge_index: Tensor) -> Tensor:
        return split_backbone(self.backbone).last(hidden, edge_index)


class LastLayer:
    """All weights and biases of a backbone's last layer, a linear skip included.

    Args:
        backbone: A backbone of this package, or one with methods ``hidden(x, edge_index)``,
            ``last(hidden, edge_index)`` and ``last_modules()``.

    Example:
        >>> from pyro_copula.nn import make_backbone
        >>> backbone = make_backbone("gcn", 3, 1, hidden_channels=4)
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> last = LastLayer(backbone)
        >>> last.size
        5
        >>> x = torch.ones(2, 3)
        >>> zero = last(last.hidden(x, edge_index), edge_index, torch.zeros(5))
        >>> zero.tolist()
        [[0.0], [0.0]]
    """

    def __init__(self, backbone: nn.Module) -> None:
        self._whole = _Last(backbone)
        chosen = {id(p) for m in split_backbone(backbone).last_modules() for p in m.parameters()}
        self._parameters = {
            name: p for name, p in self._whole.named_parameters() if id(p) in chosen
        }

    @property
    def size(self) -> int:
        """The number of weights and biases."""
        return sum(p.numel() for p in self._parameters.values())

    def vector(self) -> Tensor:
        """The held weights and biases, of shape ``(size,)``, without a derivative."""
        return torch.cat([p.detach().reshape(-1) for p in self._parameters.values()])

    def set_(self, vector: Tensor) -> None:
        """Replaces the held weights and biases, in place.

        Args:
            vector: Of shape ``(size,)``.
        """
        self._check(vector)
        with torch.no_grad():
            for name, part in self._unpack(vector.detach()).items():
                self._parameters[name].copy_(part)

    def hidden(self, x: Tensor, edge_index: Tensor) -> Any:
        """What goes into the last layer."""
        return split_backbone(self._whole.backbone).hidden(x, edge_index)

    def __call__(self, hidden: Any, edge_index: Tensor, vector: Tensor) -> Tensor:
        """The outputs with these weights and biases in place of the held ones.

        Args:
            hidden: What :meth:`hidden` gives.
            edge_index: The graph.
            vector: Of shape ``(*batch, size)``.

        Returns:
            Shape ``(*batch, num_nodes, out_channels)``.
        """
        self._check(vector)
        if vector.dim() > 1:
            if not vector.shape[0]:
                raise InvalidArgumentError(
                    "last_layer", "one draw at least", "none", "Pass a batch that is not empty."
                )
            return torch.stack([self(hidden, edge_index, row) for row in vector])
        return functional_call(self._whole, self._unpack(vector), (hidden, edge_index))

    def _unpack(self, vector: Tensor) -> dict[str, Tensor]:
        sizes = [p.numel() for p in self._parameters.values()]
        parts = vector.split(sizes)
        return {
            name: part.reshape(p.shape) for (name, p), part in zip(self._parameters.items(), parts)
        }

    def _check(self, vector: Tensor) -> None:
        if not vector.shape or vector.shape[-1] != self.size:
            raise InvalidArgumentError(
                "last_layer",
                f"of shape (*batch, {self.size}), all weights and biases of the last layer",
                f"shape {tuple(vector.shape)}",
                "model.last_layer() gives the present ones.",
            )

    def __repr__(self) -> str:
        return f"LastLayer({self.size} weights and biases)"
