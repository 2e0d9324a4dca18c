"""Networks that find out the number of features by themselves, as PyTorch Geometric's can."""

from __future__ import annotations

import pytest
import torch
from model_examples import example
from torch import nn
from torch_geometric.nn import GraphSAGE, SAGEConv

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError

SHORT = {"schedule": pc.Schedule(max_epochs=4), "progress": False, "validation": 0.3}


class Lazy(nn.Module):
    """Lazy layers of torch and of PyTorch Geometric, with what behaves otherwise in training."""

    def __init__(self):
        super().__init__()
        self.first = nn.LazyLinear(8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.last = SAGEConv(-1, 1)

    def forward(self, x, edge_index):
        return self.last(self.drop(self.norm(self.first(x)).relu()), edge_index)


def values(found):
    return {name: value.detach() for name, value in found.model.backbone.state_dict().items()}


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=0, atol=0)


@pytest.mark.parametrize("around", [{}, {"linear_skip": True, "graph_features": True}])
@pytest.mark.parametrize("backbone", [lambda a, b: GraphSAGE(-1, 8, 2, b), lambda a, b: Lazy()])
def test_it_is_fitted_and_predicts(backbone, around):
    found = pc.fit(pc.CopulaGNN(backbone, "normal", "car", **around), example(), **SHORT)
    assert len(found.history.losses) == 4
    assert found.predict(given="none").mean.isfinite().all()


def test_the_numbers_of_features_are_those_of_the_data():
    own = Lazy()
    built = pc.CopulaGNN(own, "normal", "car", neighbour_outcomes=True).build(example())
    inner = built.backbone.backbone
    assert inner.first.in_features == 3  # the outcome of neighbours goes around it
    assert all(module.training for module in built.backbone.modules())
    assert nn.parameter.is_lazy(own.first.weight)  # what was given is as it was


def test_the_seed_decides_the_weights_and_restarts_draw_others():
    model = pc.CopulaGNN(Lazy(), "normal", "car")
    first, again, other = (
        pc.fit(model, example(), seed=seed, restarts=2, **SHORT) for seed in (0, 0, 1)
    )
    one, two = first.fits
    assert not torch.equal(one.model.backbone.first.weight, two.model.backbone.first.weight)
    assert_same(values(one), values(again.fits[0]))
    assert not torch.equal(
        one.model.backbone.first.weight, other.fits[0].model.backbone.first.weight
    )


def test_it_is_saved_and_loaded_and_goes_on_from_a_checkpoint(tmp_path):
    model, data = pc.CopulaGNN(Lazy(), "normal", "car"), example()
    found = pc.fit(model, data, checkpoint=tmp_path / "state", **SHORT)
    assert_same(values(found), values(pc.fit(model, data, checkpoint=tmp_path / "state", **SHORT)))
    found.save(tmp_path / "fit.pt")
    assert_same(values(found), values(pc.load_fit(tmp_path / "fit.pt", model=model)))


def test_a_lazy_layer_that_is_not_used_is_named():
    class Unused(Lazy):
        def forward(self, x, edge_index):
            return self.first(x)[:, :1]

    with pytest.raises(InvalidArgumentError, match=r"last\.lin_l\.weight") as caught:
        pc.CopulaGNN(Unused(), "normal", "car").build(example())
    assert caught.value.argument == "backbone"


def test_lazy_buffers_are_refused_as_an_object_and_fine_from_a_function():
    class Normed(Lazy):
        def __init__(self, a=0, b=0):
            super().__init__()
            self.norm = nn.LazyBatchNorm1d()

    with pytest.raises(InvalidArgumentError, match=r"norm\.running_mean") as caught:
        pc.CopulaGNN(Normed(), "normal", "car")
    assert "(in_channels, out_channels) -> module" in caught.value.hint
    built = pc.CopulaGNN(Normed, "normal", "car").build(example())
    assert built.backbone.norm.running_mean.eq(0).all()  # the first look leaves no trace
