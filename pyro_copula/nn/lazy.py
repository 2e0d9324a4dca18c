"""Modules that find out the number of features by themselves, such as ``SAGEConv(-1, 16)``."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..errors import InvalidArgumentError


def materialise(backbone: nn.Module, x: Tensor, edge_index: Tensor) -> None:
    """Shows a backbone the features once if it has lazy modules, which draw their weights then.

    Args:
        backbone: The backbone, changed in place. One without lazy modules is left alone.
        x: The features, ``(num_nodes, num_features)``.
        edge_index: The edges, ``(2, num_directed_edges)``.

    Example:
        >>> from torch_geometric.nn import GCNConv
        >>> backbone = GCNConv(-1, 1)
        >>> materialise(backbone, torch.ones(2, 3), torch.tensor([[0, 1], [1, 0]]))
        >>> backbone.lin.weight.shape
        torch.Size([1, 3])
    """
    if not uninitialised(backbone):
        return
    was = {module: module.training for module in backbone.modules()}
    backbone.eval()
    with torch.no_grad():
        backbone(x, edge_index)
    for module, training in was.items():
        module.training = training
    missed = uninitialised(backbone)
    if missed:
        more = f" and {len(missed) - 3} more" if len(missed) > 3 else ""
        raise InvalidArgumentError(
            "backbone",
            "a module whose lazy modules are all used by its forward pass",
            f"{type(backbone).__name__}, which does not use {', '.join(missed[:3])}{more}",
            "Drop what is not used, or give it its number of input channels.",
        )


def check_copies(backbone: nn.Module) -> None:
    """Raises an error for lazy buffers, which torch does not copy, and a model is copied."""
    lazy = [name for name, buffer in backbone.named_buffers() if is_lazy(buffer)]
    if lazy:
        raise InvalidArgumentError(
            "backbone",
            "a module that can be copied",
            f"{type(backbone).__name__}, with lazy buffers: {', '.join(lazy[:3])}",
            "Pass a function (in_channels, out_channels) -> module, or give the module that has "
            "these its number of channels.",
        )


def uninitialised(module: nn.Module, *, recurse: bool = True) -> list[str]:
    """The names of parameters and buffers that wait for the first input."""
    named = itertools.chain(
        module.named_parameters(recurse=recurse), module.named_buffers(recurse=recurse)
    )
    return [name for name, value in named if is_lazy(value)]
