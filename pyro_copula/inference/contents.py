"""What a file of a fit or a checkpoint must contain, checked before it is used.

A function here raises ``ValueError`` (or whatever Python makes of a wrong type) if something is
not as this package writes it; the reader turns that into an error with the name of the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..graph import Graph
from ..models import CopulaGNN, NodeData
from .history import History, is_count, is_number, listed, read_history, require

#: A network with fewer numbers than this is made whatever the file has.
_SMALL = 1_000_000

_MAX_LAYERS = 1_000


def read_specification(text: Any) -> dict[str, Any]:
    """The arguments of a model from JSON."""
    require(isinstance(text, str), "the specification is text")
    found = json.loads(text)
    require(isinstance(found, dict), "the specification is a dictionary")
    return found


def read_data(parts: Any) -> NodeData:
    """The data that a fit was made on, as ``fit`` would have accepted them."""
    x, y, exposure = parts["x"], parts["y"], parts["exposure"]
    require(y.dim() == 1 and y.is_floating_point(), "a value per node")
    require(not bool(torch.isinf(y).any()), "values that are finite or missing")
    require(int((~torch.isnan(y)).sum()) >= 2, "two observed values")
    require(x.dim() == 2 and len(x) == len(y) and x.dtype == y.dtype, "a row of features per node")
    require(bool(torch.isfinite(x).all()), "finite features")
    edges = parts["edges"]
    require(edges.dim() == 2 and edges.dtype == torch.int64, "edges as pairs of nodes")
    if exposure is not None:
        require(exposure.shape == y.shape and exposure.dtype == y.dtype, "an exposure per node")
        require(bool((torch.isfinite(exposure) & (exposure > 0)).all()), "positive exposures")
    return NodeData(x, Graph.from_edges(edges.numpy(), num_nodes=len(y)), y, exposure)


def check_settings(record: Mapping[str, Any], num_nodes: int) -> None:
    """The method, the options and the versions."""
    require(record["method"] in ("mle", "map", "svi", "nuts"), "a method")
    require(isinstance(record["diagnostics"], dict), "diagnostics")
    require(isinstance(record["settings"], dict), "settings")
    for name, version in record["versions"].items():
        require(isinstance(name, str) and isinstance(version, str), "versions")
    names = record["settings"].get("names")
    if names is not None:
        require(len(listed(names)) == num_nodes, "a name per node")
        require(all(isinstance(name, str) for name in names), "names that are text")


def check_sizes(specification: Mapping[str, Any], state: Any) -> None:
    """Refuses a network that is much larger than the parameters that should fill it."""
    require(isinstance(state, dict), "parameters by name")
    require(all(isinstance(value, Tensor) for value in state.values()), "parameters")
    if specification.get("backbone") == "linear":  # which has no hidden layers
        return
    width = specification.get("hidden_channels", 1)
    layers = specification.get("num_layers", 1)
    require(isinstance(width, int) and isinstance(layers, int), "whole numbers of channels")
    require(layers <= max(_MAX_LAYERS, len(state)), "as many layers as parameters")
    there = sum(value.numel() for value in state.values())
    needed = width * width * max(layers - 2, 0) + width
    require(needed <= max(_SMALL, there), "a network of the size of its parameters")


def check_posterior(model: CopulaGNN, posterior: Any, method: str, diagnostics: Any) -> None:
    """Finite parameters, and draws and diagnostics as the method gives them."""
    for value in model.parameters():
        require(bool(torch.isfinite(value).all()), "finite parameters")
    require((posterior is not None) == (method in ("svi", "nuts")), "draws of a posterior")
    interrupted = diagnostics.get("interrupted", "")
    require(isinstance(interrupted, str), "how the sampler ended")
    if posterior is None:
        return
    require(set(posterior) == set(model.priors), "draws of every parameter")
    held = model.site_values()
    size = next(iter(posterior.values())).shape[:2]
    for name, draws in posterior.items():
        require(draws.is_floating_point() and draws.numel() > 0, "draws")
        require(draws.shape == (*size, *held[name].shape), "as many draws of each parameter")
    if method == "svi":
        require(isinstance(diagnostics.get("posterior", ""), str), "how it converged")
        return
    require(diagnostics["diverging"].shape == size, "which draws diverged")
    for name in ("max_r_hat", "min_effective_sample_size", "divergences"):
        require(is_number(diagnostics[name]), name)


def check_training_state(
    record: Any, module: nn.Module, optimizer: torch.optim.Optimizer, max_epochs: int
) -> History:
    """A part of a checkpoint that the training of this module can go on from."""
    history = read_history(record["history"])
    check_state(record["best"], module)
    require(is_count(record["epoch"]) and record["epoch"] <= max_epochs, "the step")
    if record["state"] is None:
        return history
    check_state(record["state"], module)
    saved, own = record["optimizer"], optimizer.state_dict()
    require(len(saved["param_groups"]) == len(own["param_groups"]), "groups of parameters")
    for group, mine in zip(saved["param_groups"], own["param_groups"]):
        require(set(group) == set(mine) and group["params"] == mine["params"], "the same groups")
        for name, value in mine.items():
            require(_is_alike(group[name], value), f"the option {name} of the optimizer")
    shapes = [p.shape for group in optimizer.param_groups for p in group["params"]]
    for k, parts in saved["state"].items():
        for value in parts.values():
            if isinstance(value, Tensor):
                require(value.shape in (torch.Size([]), shapes[k]), "moments of the parameters")
                require(bool(torch.isfinite(value).all()), "finite moments")
    return history


def check_chain(record: Any, num_draws: int, size: int) -> None:
    """A part of a checkpoint with a finished chain."""
    draws, diverging = record["u"], record["diverging"]
    require(draws.shape == (num_draws, size) and draws.is_floating_point(), "the draws of a chain")
    require(bool(torch.isfinite(draws).all()), "finite draws")
    require(diverging.shape == (num_draws,) and diverging.dtype == torch.bool, "which diverged")
    require(is_count(record["gradients"]), "the number of gradients")


def check_state(state: Any, module: nn.Module) -> None:
    """A value of the right shape and dtype for everything in a module."""
    own = module.state_dict()
    require(isinstance(state, dict) and state.keys() == own.keys(), "the parameters of this model")
    for name, value in own.items():
        found = state[name]
        require(isinstance(found, Tensor) and found.shape == value.shape, f"the shape of {name}")
        require(found.dtype == value.dtype, f"the dtype of {name}")


def _is_alike(found: Any, own: Any) -> bool:
    """Whether an option can take the place of another: both numbers, or of the same type."""
    if is_number(own):
        return is_number(found)
    if isinstance(own, tuple | list):
        return len(listed(found)) == len(own) and all(map(_is_alike, found, own))
    return type(found) is type(own)
