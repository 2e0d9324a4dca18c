"""Recipes: what they build, and that an explicit argument wins."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
from model_examples import example
from torch_geometric.nn import SAGEConv

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.models import RECIPES, CopulaGNN, CountFamily, SinhArcsinhFamily
from pyro_copula.models.recipes import PLAIN
from pyro_copula.nn import LinearSkip
from pyro_copula.precision import NormalizedAdjacencyPrecision, WeightedLaplacianPrecision

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


def hidden_layers(model):
    assert isinstance(model.backbone, LinearSkip)
    layers = model.backbone.backbone.layers
    assert all(isinstance(layer, SAGEConv) for layer in layers)
    # separate weights for a node and for the mean of its neighbours
    assert all(layer.lin_l.weight is not layer.lin_r.weight for layer in layers)
    return [layer.out_channels for layer in layers]


def test_continuous():
    data = example()
    data.x[0, 0] = 1e6
    model = CopulaGNN(recipe="continuous").build(data)
    assert hidden_layers(model) == [64, 64, 64, 2]
    assert model.backbone.backbone.dropout.p == 0.4
    assert isinstance(model.family, SinhArcsinhFamily)
    assert model.family.out_channels == 2
    assert {"skew", "tailweight", "nugget", "strength"} <= set(model.scalars)
    assert isinstance(model.precision.module, WeightedLaplacianPrecision)
    assert float(model.features.abs().max()) == 5.0
    assert model.fit_defaults == {
        "restarts": 5,
        "lr": 0.01,
        "scalar_lr": 0.05,
        "weight_decay": 5e-4,
    }
    # learned edge weights start where all edges are alike
    K = model.joint().precision
    degree = model.data.graph.degree.double()
    weight = 3 / (degree[model.data.graph.rows] * degree[model.data.graph.cols]).sqrt()
    torch.testing.assert_close(-K.off_diagonal.detach(), weight)


def test_counts():
    model = CopulaGNN(recipe="counts").build(example("counts"))
    assert hidden_layers(model) == [64, 64, 64, 2]
    assert isinstance(model.family, CountFamily)
    assert int(model.family.shift) == 1
    assert {"dispersion", "dispersion_power", "nugget", "alpha"} <= set(model.scalars)
    assert isinstance(model.precision.module, NormalizedAdjacencyPrecision)
    assert model.backbone.backbone.dropout.p == 0.4
    assert model.fit_defaults["restarts"] == 5


def test_an_explicit_argument_wins():
    data = example()
    model = CopulaGNN(
        "gcn",
        "normal",
        "car",
        recipe="continuous",
        hidden_channels=3,
        num_layers=2,
        linear_skip=False,
        clip_features=None,
        nugget=False,
    )
    data.x[0, 0] = 1e6
    built = model.build(data)
    assert [p.shape for p in built.backbone.parameters()] == [(3,), (3, 3), (1,), (1, 3)]
    assert built.nugget is None
    assert float(built.features.abs().max()) > 6
    assert set(built.scalars) == {"rho", "tau"}
    assert model.fit_defaults["restarts"] == 5
    assert "recipe='continuous'" in repr(model)


def test_without_a_recipe_nothing_is_set():
    model = CopulaGNN()
    assert model.fit_defaults == {}
    assert {name: model.arguments[name] for name in PLAIN} == PLAIN


def test_recipes_set_arguments_that_exist():
    model_arguments = inspect.signature(CopulaGNN.__init__).parameters
    fit_arguments = inspect.signature(pc.fit).parameters
    assert set(PLAIN) <= set(model_arguments)
    for name, recipe in RECIPES.items():
        assert recipe.name == name
        assert set(recipe.model) <= set(PLAIN)
        assert set(recipe.fit) <= set(fit_arguments)
        for variant in recipe.variants:
            assert set(variant) <= set(PLAIN)
            assert {**recipe.model, **variant} != recipe.model
            assert str(dict(variant)) in str(recipe)
        assert len(CopulaGNN(recipe=name).variants()) == recipe.fit["restarts"]
        assert "restarts = 5" in str(recipe)


def test_models_do_not_share_the_recipe():
    CopulaGNN(recipe="counts").fit_defaults["restarts"] = 1
    assert CopulaGNN(recipe="counts").fit_defaults["restarts"] == 5


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_has_a_finite_likelihood_and_gradient(recipe):
    data = example("counts")
    data.y[::4] = math.nan
    model = CopulaGNN(recipe=recipe).build(data)
    loss = -model.joint().log_prob(data.y)
    loss.backward()
    assert torch.isfinite(loss)
    # the last layer of the edge weights starts at zero, so its first layer has no gradient yet
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_errors():
    with pytest.raises(InvalidArgumentError, match="one of \\['continuous', 'counts'\\]") as caught:
        CopulaGNN(recipe="discrete")
    assert caught.value.argument == "recipe"
    assert caught.value.found == "'discrete'"
    with pytest.raises(InvalidArgumentError, match='recipe="continuous"'):
        CopulaGNN(recipe="counts").build(example())
