"""Regressions beside a backbone, and which part of a backbone is its last layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..errors import InvalidArgumentError


class _Beside(nn.Module):
    """A backbone on some features plus a linear regression on some."""

    def __init__(self, backbone: nn.Module, skip: nn.Linear) -> None:
        super().__init__()
        self.backbone = backbone
        self.skip = skip

    def columns(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The features of the regression, and those of the backbone."""
        raise NotImplementedError

    def hidden(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Any]:
        """The features of the regression, and what goes into the backbone's last layer."""
        own, rest = self.columns(x)
        return own, split_backbone(self.backbone).hidden(rest, edge_index)

    def last(self, hidden: tuple[Tensor, Any], edge_index: Tensor) -> Tensor:
        """The regression plus the last layer of the backbone."""
        return self._sum(hidden[0], split_backbone(self.backbone).last(hidden[1], edge_index))

    def last_modules(self) -> list[nn.Module]:
        """The regression and the last layer of the backbone."""
        return [self.skip, *split_backbone(self.backbone).last_modules()]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        own, rest = self.columns(x)
        return self._sum(own, self.backbone(rest, edge_index))

    def _sum(self, own: Tensor, outputs: Any) -> Tensor:
        # Checked before the sum, which would broadcast another shape to the right one.
        return self.skip(own) + check_outputs(outputs, len(own), self.skip.out_features)


class LinearSkip(_Beside):
    """A backbone plus a linear regression on the same features.

    The regression carries what is linear, so that the network need only learn what is not.

    Args:
        backbone: The backbone.
        in_channels: The number of features.
        out_channels: The number of outputs.

    Example:
        >>> from pyro_copula.nn import make_backbone
        >>> LinearSkip(make_backbone("gcn", 3, 1), 3, 1).skip
        Linear(in_features=3, out_features=1, bias=True)
    """

    def __init__(self, backbone: nn.Module, in_channels: int, out_channels: int) -> None:
        super().__init__(backbone, nn.Linear(in_channels, out_channels))

    def columns(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class OwnColumns(_Beside):
    """A backbone on the first features, plus a linear regression on the last ones.

    The last features depend on the values of neighbours. A graph network would carry them on to
    those neighbours, and so a node's own value back to itself; a regression leaves them where
    they are.

    Args:
        backbone: Takes all but the last features.
        num_own: The number of last features.
        out_channels: The number of outputs.

    Example:
        >>> from pyro_copula.nn import make_backbone
        >>> OwnColumns(make_backbone("gcn", 3, 1), 2, 1).skip
        Linear(in_features=2, out_features=1, bias=False)
    """

    def __init__(self, backbone: nn.Module, num_own: int, out_channels: int) -> None:
        super().__init__(backbone, nn.Linear(num_own, out_channels, bias=False))
        self.num_own = num_own

    def columns(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:, -self.num_own :], x[:, : -self.num_own]


def check_outputs(outputs: Any, num_nodes: int, out_channels: int) -> Tensor:
    """Returns the outputs of a backbone, or raises the error that says what is wrong with them.

    Another shape would not fail later on: a family that looks for its column in it finds one, and
    broadcasts it to all nodes.

    Args:
        outputs: What a backbone returned; batch dimensions may come first.
        num_nodes: The number of rows.
        out_channels: The number of columns.
    """
    shape = (num_nodes, out_channels)
    if not isinstance(outputs, Tensor):
        found = f"a {type(outputs).__name__}"
    elif not outputs.is_floating_point():
        found = f"{outputs.dtype} of shape {tuple(outputs.shape)}"
    elif outputs.shape[-2:] != shape:
        found = f"shape {tuple(outputs.shape)}"
    else:
        return outputs
    raise InvalidArgumentError(
        "backbone",
        f"a module that returns a floating-point tensor of shape {shape}, a row per node and a "
        "column per output that the marginal family needs",
        found,
        f"Return that tensor alone, from a last layer of width {out_channels} and without squeeze; "
        "a function (in_channels, out_channels) -> module is told the width.",
    )


def split_backbone(backbone: nn.Module) -> Any:
    """The backbone, if it says what its last layer is.

    Args:
        backbone: One with methods ``hidden(x, edge_index)``, ``last(hidden, edge_index)`` and
            ``last_modules()``, as all backbones of this package have.
    """
    if all(hasattr(backbone, name) for name in ("hidden", "last", "last_modules")):
        return backbone
    raise InvalidArgumentError(
        "last_layer_prior",
        "for a backbone whose last layer is known",
        f"{type(backbone).__name__}, which lacks hidden, last or last_modules",
        'Use a backbone by name such as "sage", or write hidden(x, edge_index), '
        "last(hidden, edge_index) and last_modules() for yours.",
    )
