"""Priors on the last layer: a site of its own, the same law at the held weights."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from model_examples import example
from pyro import poutine
from torch import nn

from pyro_copula.errors import InvalidArgumentError
from pyro_copula.models import CopulaGNN
from pyro_copula.nn import BACKBONES

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


def built(backbone="sage", marginal="negative_binomial", **options):
    options = {"last_layer_prior": 0.7, **options}
    return CopulaGNN(backbone, marginal, "car", **options).build(example("counts"))


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("options", [{}, {"linear_skip": True, "neighbour_outcomes": True}])
def test_the_held_weights_give_the_held_law(backbone, options):
    model = built(backbone, **options)
    y = model.data.y
    expected = model.joint().log_prob(y)
    held = model.last_layer()
    assert held.shape == (model.last_layer_size,)
    torch.testing.assert_close(model.joint(last_layer=held).log_prob(y), expected)
    torch.testing.assert_close(
        model.joint(last_layer=held, hidden=model.hidden()).log_prob(y), expected
    )
    batch = torch.stack([torch.zeros_like(held), held, 2 * held])
    law = model.joint(last_layer=batch, rho=torch.tensor([0.1, 0.9, 0.3]))
    torch.testing.assert_close(law.log_prob(y)[1], model.joint(rho=torch.tensor(0.9)).log_prob(y))
    # with all weights at zero every node is the average node
    mean = law.mean[0]
    torch.testing.assert_close(mean, mean[:1].expand(40))


def test_it_is_a_site_with_its_prior():
    model = built(linear_skip=True)
    y = model.data.y
    trace = poutine.trace(model.model).get_trace(y)
    trace.compute_log_prob()
    site = trace.nodes["last_layer"]
    assert set(trace.stochastic_nodes) == {*model.scalars, "last_layer"}
    assert set(model.site_values()) == set(trace.stochastic_nodes)
    assert site["value"].shape == (model.last_layer_size,)
    expected = dist.Normal(0.0, 0.7).log_prob(site["value"]).sum()
    torch.testing.assert_close(site["log_prob_sum"], expected)
    values = {name: trace.nodes[name]["value"] for name in trace.stochastic_nodes}
    torch.testing.assert_close(trace.nodes["y"]["log_prob"], model.joint(**values).log_prob(y))
    # two layers of 16 to 1 and the bias, and the regression on 3 features with its own
    assert model.last_layer_size == (16 + 16 + 1) + (3 + 1)


def test_gradients_reach_the_vector_and_the_earlier_layers():
    model = built()
    vector = model.last_layer().requires_grad_()
    model.joint(last_layer=vector).log_prob(model.data.y).backward()
    assert torch.isfinite(vector.grad).all()
    assert (vector.grad != 0).any()
    first, last = model.backbone.layers
    assert all(p.grad is not None for p in first.parameters())
    assert all(p.grad is None for p in last.parameters())
    model.joint().log_prob(model.data.y).backward()
    flat = torch.cat([p.grad.reshape(-1) for p in last.parameters()])
    torch.testing.assert_close(flat, vector.grad)


def test_setting_the_weights():
    model = built()
    vector = torch.randn(model.last_layer_size)
    expected = model.joint(last_layer=vector, rho=torch.tensor(0.4)).log_prob(model.data.y)
    model.set_site_values_({"last_layer": vector, "rho": torch.tensor(0.4)})
    torch.testing.assert_close(model.last_layer(), vector)
    torch.testing.assert_close(model.joint().log_prob(model.data.y), expected)
    with pytest.raises(InvalidArgumentError, match="`last_layer`"):
        model.set_last_layer_(vector[:-1])


def test_tied_normals_too():
    model = CopulaGNN("gcn", "normal", "car", last_layer_prior=1.0).build(example())
    batch = torch.stack([model.last_layer(), torch.zeros(model.last_layer_size)])
    log_prob = model.joint(last_layer=batch).log_prob(model.data.y)
    torch.testing.assert_close(log_prob[0], model.joint().log_prob(model.data.y))


def test_without_it_the_network_is_no_site():
    model = built(last_layer_prior=None)
    assert "last_layer" not in poutine.trace(model.model).get_trace(model.data.y).nodes
    assert set(model.site_values()) == set(model.scalars)


def test_a_module_of_the_users_must_say_what_its_last_layer_is():
    class Own(nn.Module):
        def __init__(self, in_channels, out_channels):
            super().__init__()
            self.first = nn.Linear(in_channels, 4)
            self.second = nn.Linear(4, out_channels)

        def forward(self, x, edge_index):
            return self.second(self.first(x).tanh())

    class Split(Own):
        def hidden(self, x, edge_index):
            return self.first(x).tanh()

        def last(self, hidden, edge_index):
            return self.second(hidden)

        def last_modules(self):
            return [self.second]

    for options in ({}, {"linear_skip": True}):
        with pytest.raises(InvalidArgumentError, match="whose last layer is known") as caught:
            built(lambda a, b: Own(a, b), **options)
        assert "Own" in caught.value.found
    model = built(lambda a, b: Split(a, b))
    assert model.last_layer_size == 4 + 1
    assert built(lambda a, b: Own(a, b), last_layer_prior=None).outputs().shape == (40, 1)
