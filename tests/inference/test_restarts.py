"""Restarts of a network that was given as an object."""

from __future__ import annotations

import copy
from itertools import combinations

import pytest
import torch
from fit_examples import SHORT, example
from torch import nn

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.inference import fitting

#: Nothing is learned, so that a fit ends where it started.
STILL = {"lr": 1e-30, "schedule": pc.Schedule(max_epochs=2)}


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x, edge_index):
        return self.layer(x)


class Fixed(Own):
    """Its first weight cannot be drawn again."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))


def weights(ensemble):
    return [fit.model.backbone.layer.weight.detach() for fit in ensemble.fits]


def fitted(model, **options):
    data = example()
    return pc.fit(model, data, data.observed, **{**STILL, **options})


def test_the_first_restart_keeps_the_weights_and_later_ones_draw_their_own():
    own = Own()
    model = pc.CopulaGNN(own, "normal", "car")
    found, same, other = (fitted(model, restarts=3, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(weights(found)[0], own.layer.weight)
    assert torch.equal(weights(other)[0], own.layer.weight)
    for first, second in combinations(weights(found), 2):
        assert not torch.allclose(first, second)
    for k in (1, 2):
        assert torch.equal(weights(found)[k], weights(same)[k])
        assert not torch.allclose(weights(found)[k], weights(other)[k])


def test_each_of_several_models_keeps_its_own_weights_once(monkeypatch):
    first, second = Own(), Own()
    models = [pc.CopulaGNN(own, "normal", p) for own, p in ((first, "car"), (second, "none"))]
    monkeypatch.setattr(fitting, "stack", lambda fits, held_out: fits)  # none is left out
    found = weights(fitted(models, restarts=4))
    assert torch.equal(found[0], first.layer.weight)
    assert torch.equal(found[1], second.layer.weight)
    assert not torch.allclose(found[2], found[0])
    assert not torch.allclose(found[3], found[1])


def test_models_of_a_recipe_are_restarts_of_one(monkeypatch):
    monkeypatch.setattr(fitting, "stack", lambda fits, held_out: fits)
    own = Own()
    model = pc.CopulaGNN(own, "normal", recipe="continuous", linear_skip=False)
    found = weights(fitted(model))
    assert len(found) == 5
    assert [torch.equal(weight, own.layer.weight) for weight in found] == [True, *[False] * 4]


def test_all_learning_rates_start_from_the_same_weights():
    model = pc.CopulaGNN(Own(), "normal", "car")
    one = fitted(model, restarts=2)
    several = fitted(model, restarts=2, lr=(1e-30, 1e-31))
    assert torch.equal(weights(one)[1], weights(several)[1])


def test_a_network_of_a_precision_is_drawn_anew():
    own = pc.EdgeRegressionPrecision(pc.simulate.grid_graph(6, 10), 2)
    found = fitted(pc.CopulaGNN("linear", "normal", own), restarts=2)
    first, second = (fit.model.precision.module.network[0].weight for fit in found.fits)
    assert torch.equal(first, own.network[0].weight)
    assert not torch.allclose(first, second)


def test_what_cannot_be_drawn_anew_is_said_before_the_first_fit():
    model = pc.CopulaGNN(Fixed(), "normal", "car")
    looked = []

    def judge(law, values):
        looked.append(law)
        return 0.0

    with pytest.raises(InvalidArgumentError, match="Fixed, without reset_parameters for factor"):
        fitted(model, restarts=2, judge=judge)
    assert not looked
    assert isinstance(fitted(model, judge=judge), pc.Fit)
    found = fitted(model)
    assert isinstance(found.refit("map", schedule=SHORT), pc.Fit)
    again = pc.fit(copy.copy(model), found.model.data, start=found, restarts=2, **STILL)
    assert len(again.fits) == 2  # all from that start


def test_a_function_makes_a_network_for_every_restart():
    found = fitted(pc.CopulaGNN(lambda a, b: Fixed(), "normal", "car"), restarts=2)
    assert not torch.allclose(*weights(found))
