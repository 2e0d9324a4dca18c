"""The model: families that start where the data are, readable sites, features, bad input."""

from __future__ import annotations

import math

import pytest
import torch
from pyro import poutine
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.models import FAMILIES, PRECISIONS, CopulaGNN, choose_family

COUNTS = ("poisson", "negative_binomial", "zero_inflated", "zero_truncated", "shifted")
pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


def example(kind="real", n=40):
    torch.manual_seed(1)
    graph = pc.simulate.grid_graph(5, n // 5)
    x = torch.randn(n, 3)
    y = {
        "real": 50_000 + 9_000 * torch.randn(n),
        "positive": (8 + torch.randn(n)).exp(),
        "counts": 1 + torch.poisson(20 * torch.rand(n)),
        "binary": (torch.rand(n) < 0.3).double(),
    }[kind]
    return Data(x=x, edge_index=graph.edge_index, y=y, exposure=1 + torch.rand(n))


def kind_of(family):
    if family.startswith(COUNTS):
        return "counts"
    return {"lognormal": "positive", "gamma": "positive", "bernoulli": "binary"}.get(family, "real")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_starts_where_the_data_are(family):
    data = example(kind_of(family))
    model = CopulaGNN("linear", family, "car").build(data)
    for parameter in model.backbone.parameters():
        torch.nn.init.zeros_(parameter)
    law = model.joint()
    expected = float(data.y.mean())
    assert float(law.mean[0].detach()) == pytest.approx(expected, rel=0.6)
    y = data.y.clone()
    y[::4] = math.nan
    log_prob = law.log_prob(y)
    assert torch.isfinite(log_prob)
    log_prob.backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("nugget", [False, True])
@pytest.mark.parametrize("family", ["normal", "negative_binomial"])
def test_every_precision_with_and_without_a_nugget(precision, nugget, family):
    data = example(kind_of(family))
    model = CopulaGNN("sage", family, precision, nugget=nugget).build(data)
    trace = poutine.trace(model.model).get_trace(data.y)
    trace.compute_log_prob()
    sites = set(trace.stochastic_nodes)
    assert sites == set(model.scalars)
    assert ("nugget" in sites) == nugget
    assert math.isfinite(float(trace.log_prob_sum().detach()))
    assert trace.nodes["y"]["log_prob"].shape == ()
    # only a tied normal law depends on the overall scale of its precision
    overall = getattr(model.precision.module, "overall_scale", None)
    if overall is not None:
        assert (overall in model.precision.scalars) == (family == "normal")


def test_posterior_draws_are_a_batch():
    data = example("counts")
    model = CopulaGNN("linear", "negative_binomial", "car").build(data)
    law = model.joint(rho=torch.tensor([0.2, 0.9]), dispersion=torch.tensor([0.5, 1.0]))
    assert law.batch_shape == (2,)
    one = model.joint(rho=torch.tensor(0.9), dispersion=torch.tensor(1.0))
    torch.testing.assert_close(law.log_prob(data.y)[1], one.log_prob(data.y))


def test_a_model_is_a_specification_until_built():
    data = example()
    model = CopulaGNN("sage", "normal", "car")
    with pytest.raises(InvalidArgumentError, match="specification only"):
        model.joint()
    first, second = model.build(data), model.build(data)
    assert first is not second
    assert list(model.parameters()) == []
    assert repr(model) == "CopulaGNN(backbone='sage', marginal='normal', precision='car')"


def test_exposure_moves_the_mean_of_counts():
    data = example("counts")
    model = CopulaGNN("linear", "poisson", "none", exposure="exposure").build(data)
    for parameter in model.backbone.parameters():
        torch.nn.init.zeros_(parameter)
    mean = model.joint().mean.detach()
    torch.testing.assert_close(mean / data.exposure, (mean / data.exposure)[0].expand(40))
    assert float(mean.sum()) == pytest.approx(float(data.y.sum()), rel=0.05)


def test_features_are_standardised_and_extended():
    data = example("counts")
    data.x[:, 2] = 7.0  # constant: of no use, and not divided by zero
    plain = CopulaGNN().build(data).features
    assert plain.shape == (40, 3)
    torch.testing.assert_close(plain.mean(0), torch.zeros(3), atol=1e-12, rtol=0)
    assert plain[:, 2].eq(0).all()
    both = CopulaGNN(graph_features=True, neighbour_outcomes=True, clip_features=1.0).build(data)
    assert both.features.shape == (40, 3 + 4 + 2)
    assert float(both.features.abs().max()) == 1.0


def test_auto_looks_at_the_values():
    torch.manual_seed(0)
    assert choose_family(torch.randn(50))[0] == "normal"
    assert choose_family(torch.tensor([0.0, 1.0, 1.0]))[0] == "bernoulli"
    assert choose_family(torch.poisson(torch.full((500,), 5.0)))[0] == "poisson"
    rate = 5 * torch.distributions.Gamma(1.0, 1.0).sample((500,))
    assert choose_family(torch.poisson(rate))[0] == "negative_binomial"
    # counts that vary only because their exposure does are Poisson
    exposure = torch.linspace(1, 100, 500)
    assert choose_family(torch.poisson(2 * exposure), exposure.log())[0] == "poisson"


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        ({"x": torch.ones(39, 2)}, {}, "data.x"),
        ({"x": torch.full((40, 2), math.nan)}, {}, "node 0, feature 0"),
        ({"y": torch.full((40,), math.inf)}, {}, "infinity at node 0"),
        ({"y": torch.full((40,), math.nan)}, {}, "0 observed values"),
        ({"y": torch.ones(40, 2)}, {}, "one outcome at a time"),
        ({"y": None}, {}, "tensor `y`"),
        ({}, {"exposure": "births"}, "tensor `births`"),
        ({"exposure": -torch.ones(40)}, {"exposure": "exposure"}, "positive number"),
        ({}, {"marginal": "weird"}, "`marginal`"),
        ({}, {"precision": "weird"}, "`precision`"),
        ({}, {"backbone": "weird"}, "`backbone`"),
        ({}, {"priors": {"zeta": None}}, "zeta"),
        ({}, {"marginal": "lognormal"}, "positive at every observed node"),
    ],
)
def test_bad_input(change, options, match):
    data = example("counts")
    data.y = data.y - 5
    for name, value in change.items():
        setattr(data, name, value)
    with pytest.raises(InvalidArgumentError, match=match):
        CopulaGNN(**options).build(data)
