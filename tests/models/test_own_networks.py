"""A network of the user's own: the shape of what it returns, arguments it has no use for."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from model_examples import example
from pyro.infer import Predictive
from pyro.nn import PyroModule, PyroSample
from torch import nn

from pyro_copula.errors import InvalidArgumentError
from pyro_copula.models import CopulaGNN, CountFamily

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


class Own(nn.Module):
    """A regression whose output is then spoiled."""

    def __init__(self, change=lambda out: out, channels=1, in_channels=3):
        super().__init__()
        self.layer = nn.Linear(in_channels, channels)
        self.change = change

    def forward(self, x, edge_index):
        return self.change(self.layer(x))


@pytest.mark.parametrize(
    ("change", "channels", "needed", "found"),
    [
        (lambda out: out.squeeze(-1), 1, 1, "shape (40,)"),
        (lambda out: out.T, 1, 1, "shape (1, 40)"),
        (lambda out: out, 3, 1, "shape (40, 3)"),
        (lambda out: out, 1, 2, "shape (40, 1)"),
        (lambda out: out[:39], 1, 1, "shape (39, 1)"),
        (lambda out: out.mean(0, keepdim=True), 1, 1, "shape (1, 1)"),
        (lambda out: out.sum(), 1, 1, "shape ()"),
        (lambda out: (out, None), 1, 1, "a tuple"),
        (lambda out: out.long(), 1, 1, "torch.int64 of shape (40, 1)"),
    ],
)
@pytest.mark.parametrize("around", [{}, {"linear_skip": True}, {"neighbour_outcomes": True}])
def test_outputs_of_another_shape_are_an_error(change, channels, needed, found, around):
    family = CountFamily("node" if needed == 2 else None)
    model = CopulaGNN(Own(change, channels), family, "car", **around).build(example("counts"))
    with pytest.raises(InvalidArgumentError) as caught:
        model.joint()
    error = caught.value
    assert (error.argument, error.found) == ("backbone", found)
    assert f"tensor of shape (40, {needed}), a row per node and a column per" in error.expected
    assert f"last layer of width {needed} and without squeeze" in error.hint
    assert "(in_channels, out_channels) -> module" in error.hint


def test_the_right_shape_is_as_it_was():
    own = Own(channels=2)
    data = example("counts")
    for around in ({}, {"linear_skip": True}):
        model = CopulaGNN(own, CountFamily("node"), "car", **around).build(data)
        assert model.outputs().shape == (40, 2)
        assert torch.isfinite(model.joint().log_prob(data.y))


def test_weights_that_pyro_samples_give_a_batch_of_outputs():
    class Sampled(PyroModule):
        def __init__(self):
            super().__init__()
            self.weight = PyroSample(dist.Normal(torch.zeros(3, 1), 0.1).to_event(2))

        def forward(self, x, edge_index):
            return x @ self.weight

    model = CopulaGNN(Sampled(), "poisson", "none").build(example("counts"))
    drawn = Predictive(model.model, num_samples=5, parallel=True)()
    assert drawn["backbone.weight"].shape == (5, 3, 1)
    assert drawn["y"].shape == (5, 40)


@pytest.mark.parametrize("linear_skip", [False, True])
def test_the_last_layer_is_looked_at_too(linear_skip):
    class Split(Own):
        def hidden(self, x, edge_index):
            return x

        def last(self, hidden, edge_index):
            return self.change(self.layer(hidden))

        def last_modules(self):
            return [self.layer]

    options = {"last_layer_prior": 1.0, "linear_skip": linear_skip}
    data = example("counts")
    right = CopulaGNN(Split(), "poisson", "car", **options).build(data)
    batch = torch.zeros(2, 3, right.last_layer_size)
    assert right.outputs(batch).shape == (2, 3, 40, 1)
    wrong = CopulaGNN(Split(lambda out: out.squeeze(-1)), "poisson", "car", **options).build(data)
    with pytest.raises(InvalidArgumentError, match=r"shape \(40, 1\).*found shape \((2, 3, )?40"):
        wrong.joint(last_layer=batch)


@pytest.mark.parametrize(
    ("name", "value"), [("hidden_channels", 16), ("num_layers", 3), ("dropout", 0.0)]
)
def test_sizes_of_layers_are_for_networks_by_name(name, value):
    for own in (Own(), lambda a, b: Own(channels=b, in_channels=a)):
        with pytest.raises(InvalidArgumentError, match="inside your module") as caught:
            CopulaGNN(own, "normal", **{name: value})
        assert (caught.value.argument, caught.value.found) == (name, repr(value))
        assert "left out for a backbone of your own" in caught.value.expected


def test_a_recipe_may_set_them_all_the_same():
    models = CopulaGNN(lambda a, b: Own(channels=b, in_channels=a), recipe="continuous").variants()
    assert len(models) == 5
    assert models[1].arguments["num_layers"] == 3  # of no use, and no mistake of the user's
    assert "num_layers" not in repr(models[1])
    assert len(models[1].variants()) > 1
