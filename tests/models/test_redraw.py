"""New weights for modules that were given as objects."""

from __future__ import annotations

import pytest
import torch
from model_examples import example
from torch import nn
from torch_geometric.nn import SAGEConv

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.models import CopulaGNN
from pyro_copula.models.redraw import redrawn
from pyro_copula.nn import BACKBONES, make_backbone

GRAPH = pc.simulate.grid_graph(5, 8)


def again(seed=1, **arguments):
    torch.manual_seed(seed)
    return redrawn(CopulaGNN(**arguments)).arguments


@pytest.mark.parametrize("name", BACKBONES)
def test_networks_of_the_package(name):
    own = make_backbone(name, 3, 2, linear_skip=True)
    before = {k: v.clone() for k, v in own.state_dict().items()}
    first, second, other = (again(seed, backbone=own)["backbone"] for seed in (1, 1, 2))
    assert all(torch.equal(v, before[k]) for k, v in own.state_dict().items())  # a copy
    for key, value in first.state_dict().items():
        assert torch.isfinite(value).all()
        assert torch.equal(value, second.state_dict()[key])
        if key.endswith("weight"):
            assert not torch.equal(value, before[key])
            assert not torch.equal(value, other.state_dict()[key])


def test_precisions_of_the_package():
    for make in (pc.EdgeRegressionPrecision, pc.WeightedLaplacianPrecision):
        own = make(GRAPH, 3, scale=2.0)
        new = again(precision=own)["precision"]
        assert not torch.equal(new.network[0].weight, own.network[0].weight)
        assert new.scale().item() == pytest.approx(2.0)  # starts at a number
    assert not new.network[2].weight.any()  # all edges are alike at the start
    car = again(precision=pc.CARPrecision(GRAPH, rho=0.3))["precision"]
    assert car.rho().item() == pytest.approx(0.3)


def test_what_training_does_not_move_is_kept():
    encoder = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).requires_grad_(False)
    encoder[1].running_mean.fill_(7.0)
    head = nn.Linear(4, 1)
    head.bias.requires_grad_(False).fill_(5.0)
    own = nn.Sequential(encoder, head)
    new = again(backbone=own)["backbone"]
    for key, value in own.state_dict().items():
        assert torch.equal(new.state_dict()[key], value) == (key != "1.weight")


def test_the_outer_module_has_the_last_word():
    class Zero(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = SAGEConv(3, 1)
            self.free = nn.ParameterList([torch.ones(2)])

        def reset_parameters(self):
            nn.init.zeros_(self.layer.lin_l.weight)
            nn.init.constant_(self.free[0], 3.0)

    new = again(backbone=Zero())["backbone"]
    assert not new.layer.lin_l.weight.any()
    assert new.layer.lin_r.weight.all()
    assert new.free[0].eq(3.0).all()


def test_weights_without_a_reset_are_an_error():
    class Own(nn.Module):
        def __init__(self, size=1):
            super().__init__()
            self.weights = nn.ParameterList([torch.zeros(1)] * size)
            self.layer = nn.Linear(3, 1)

    with pytest.raises(InvalidArgumentError, match="more than one restart") as caught:
        again(backbone=Own())
    assert caught.value.argument == "backbone"
    assert caught.value.found == "Own, without reset_parameters for weights.0"
    assert "function (in_channels, out_channels) -> module, or" in caught.value.hint
    with pytest.raises(InvalidArgumentError, match=r"weights\.2 and 2 more") as caught:
        again(precision=Own(5))
    assert caught.value.argument == "precision"
    assert "function graph -> module, or give the module" in caught.value.hint


def test_a_model_without_such_modules_is_the_same():
    spec = CopulaGNN("sage", "poisson", "edge_regression")
    assert redrawn(spec).specification() == spec.specification()
    state = torch.get_rng_state()
    redrawn(spec)
    assert torch.equal(torch.get_rng_state(), state)
    built = spec.build(example("counts"))
    held = built.backbone.layers[0].lin_l.weight
    assert torch.equal(redrawn(built).backbone.layers[0].lin_l.weight, held)
