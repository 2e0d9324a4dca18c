"""Backbones: shapes, what they look at, and the published SAGE variant."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pyro_copula.errors import InvalidArgumentError
from pyro_copula.nn import BACKBONES, LinearSkip, make_backbone

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("linear_skip", [False, True])
def test_shape_and_gradients(name, linear_skip):
    module = make_backbone(name, 3, 2, linear_skip=linear_skip)
    out = module(torch.randn(4, 3), EDGES)
    assert out.shape == (4, 2)
    out.square().sum().backward()
    assert all(p.grad is not None for p in module.parameters())


@pytest.mark.parametrize("name", BACKBONES)
def test_only_graph_networks_look_at_neighbours(name):
    torch.manual_seed(0)
    module = make_backbone(name, 3, 1)
    x = torch.randn(4, 3)
    other = x.clone()
    other[1] += 1.0
    moved = (module(x, EDGES) - module(other, EDGES)).abs()[0] > 1e-12
    assert bool(moved) == (name not in ("linear", "mlp"))


def test_default_sizes_are_those_of_the_paper():
    gcn = make_backbone("gcn", 6, 1)
    assert [p.shape for p in gcn.parameters()] == [(16,), (16, 6), (1,), (1, 16)]
    sage = make_backbone("published_sage", 6, 1)
    first, last = sage.layers
    assert first.convolution.out_channels == first.linear.out_features == 8
    assert last.convolution.out_channels == last.linear.out_features == 1
    hidden = torch.cat(
        [first.convolution(torch.ones(4, 6), EDGES), first.linear(torch.ones(4, 6))], 1
    )
    out = last.convolution(hidden.relu(), EDGES) + last.linear(hidden.relu())
    torch.testing.assert_close(sage(torch.ones(4, 6), EDGES), out)


def test_width_depth_and_dropout():
    module = make_backbone("mlp", 3, 2, hidden_channels=5, num_layers=3, dropout=0.5)
    assert [layer.out_features for layer in module.layers] == [5, 5, 2]
    x = torch.randn(4, 3)
    assert not torch.equal(module(x, EDGES), module(x, EDGES))
    module.eval()
    assert torch.equal(module(x, EDGES), module(x, EDGES))


def test_own_modules():
    class Own(nn.Module):
        def forward(self, x, edge_index):
            return x[:, :1]

    own = Own()
    assert make_backbone(own, 3, 1) is own
    assert isinstance(make_backbone(own, 3, 1, linear_skip=True), LinearSkip)
    made = make_backbone(lambda a, b: nn.Linear(a, b), 3, 2)
    assert made.out_features == 2


@pytest.mark.parametrize("backbone", ["transformer", 3, None])
def test_unknown_backbones(backbone):
    with pytest.raises(InvalidArgumentError, match="`backbone`"):
        make_backbone(backbone, 3, 1)


@pytest.mark.parametrize("name", BACKBONES)
def test_a_network_without_features_is_an_error_and_a_regression_an_intercept(name):
    if name == "linear":
        out = make_backbone(name, 0, 2)(torch.zeros(4, 0), EDGES)
        assert torch.equal(out, torch.zeros(4, 2))
        return
    with pytest.raises(InvalidArgumentError, match=r"(?s)`data.x`.*one feature.*none.*\"linear\""):
        make_backbone(name, 0, 1)
