"""The model: families that start where the data are, readable sites, features, bad input."""

from __future__ import annotations

import math
from dataclasses import replace

import pyro
import pyro.distributions as dist
import pytest
import torch
from model_examples import example, kind_of
from pyro import poutine
from pyro.infer import Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal

from pyro_copula.errors import InvalidArgumentError
from pyro_copula.models import FAMILIES, PRECISIONS, CopulaGNN, NodeData, choose_family
from pyro_copula.nn import BACKBONES

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


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
    assert ("nugget" in sites) == (nugget and precision != "none")
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


def test_parameters_that_the_model_has_not_are_an_error():
    model = CopulaGNN("linear", "poisson", "car").build(example("counts"))
    with pytest.raises(InvalidArgumentError, match="alpha"):
        model.joint(alpha=torch.tensor(0.3))


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


def test_features_say_what_they_are_made_of():
    maker = CopulaGNN(graph_features=True, clip_features=5.0).build(example()).feature_maker
    said = "graph_features=True, neighbour_outcomes=False, clip_features=5.0"
    assert repr(maker) == f"Features({said})"


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


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("linear_skip", [False, True])
def test_no_value_reaches_its_own_marginal(backbone, linear_skip):
    data = example("counts")
    model = CopulaGNN(
        backbone,
        "negative_binomial",
        "edge_regression",
        neighbour_outcomes=True,
        graph_features=True,
        linear_skip=linear_skip,
    ).build(data)
    before, K = model.outputs(), model.joint().precision.to_dense()
    seen = False
    for node in (0, 7, 23):
        changed = model.data.y.clone()
        changed[node] += 50
        model.observe(replace(model.data, y=changed))
        after = model.outputs()
        torch.testing.assert_close(after[node], before[node], rtol=0, atol=1e-12)
        torch.testing.assert_close(model.joint().precision.to_dense(), K)
        seen = seen or not torch.allclose(after, before)
        model.observe(replace(model.data, y=data.y))
    assert seen  # it does reach others


def test_modules_of_the_user_are_not_shared_between_builds():
    own = torch.nn.Module()
    own.weight = torch.nn.Parameter(torch.zeros(3, 1))
    own.forward = lambda x, edge_index: x @ own.weight
    model = CopulaGNN(own, "poisson", "car")
    first, second = model.build(example("counts")), model.build(example("counts"))
    assert first.backbone is not second.backbone
    assert first.backbone is not own


def test_the_support_is_read_off_the_values_held_out_too():
    data = example("counts")
    data.y[3] = 0.0
    held_out = torch.zeros(40, dtype=torch.bool)
    held_out[3] = True
    known = NodeData.from_pyg(data)
    assert int(CopulaGNN("linear", "shifted_poisson").build(known).family.shift) == 0
    assert int(CopulaGNN("linear", "shifted_poisson").build(known.hide(held_out)).family.shift) == 0
    # values that are not observed at all say nothing
    assert int(CopulaGNN("linear", "shifted_poisson").build(known, ~held_out).family.shift) == 1
    assert int(CopulaGNN("linear", "shifted_poisson").build(data, ~held_out).family.shift) == 1


def test_an_exposure_without_use_is_an_error():
    with pytest.raises(InvalidArgumentError, match="multiplies the mean"):
        CopulaGNN("linear", "normal", exposure="exposure").build(example())


@pytest.mark.parametrize("family", ["gamma", "lognormal"])
def test_exposure_moves_the_mean_of_positive_values(family):
    data = example("positive")
    model = CopulaGNN("linear", family, "none", exposure="exposure").build(data)
    for parameter in model.backbone.parameters():
        torch.nn.init.zeros_(parameter)
    rate = model.joint().mean.detach() / data.exposure
    torch.testing.assert_close(rate, rate[:1].expand(40))
    typical = (data.y / data.exposure).log().mean().exp()
    assert 0.5 < float(rate[0] / typical) < 4


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
    # zeros and ones with an exposure are counts of rare events
    assert choose_family(torch.tensor([0.0, 1.0, 0.0]), torch.zeros(3))[0] == "poisson"


def test_auto_says_what_it_chose(caplog):
    data = example("counts")
    model = CopulaGNN("linear")
    assert model.family_reason == ""
    with caplog.at_level("INFO", logger="pyro_copula"):
        built = model.build(data)
    assert built.family_reason in caplog.text
    assert "negative_binomial" in built.family_reason
    assert "negative_binomial" in repr(built)
    assert CopulaGNN("linear", "poisson").build(data).family_reason == ""


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
        ({}, {"marginal": {"family": "normal", "tail": 3}}, "options of 'normal'"),
        ({}, {"marginal": {"dispersion": "node"}}, "`marginal`"),
        ({}, {"marginal": {"family": "normal", "scale": "free"}}, "`scale`"),
        ({}, {"marginal": "bernoulli"}, "0 or 1"),
        ({}, {"marginal": "poisson"}, "whole number"),
        ({}, {"precision": {"family": "car", "range": 3}}, "options of 'car'"),
        ({"y": torch.rand(40)}, {"precision": {"family": "none", "rho": 0.5}}, "argument 'rho'"),
        ({}, {"recipe": "soup"}, "`recipe`"),
        ({"y": torch.rand(40)}, {"recipe": "counts"}, "whole number"),
        ({}, {"num_layers": 0}, "`num_layers`"),
        ({}, {"num_layers": True}, "`num_layers` must be a positive integer, but found True"),
        ({}, {"hidden_channels": True}, "`hidden_channels` must be a positive integer"),
        ({}, {"dropout": 1.0}, "`dropout`"),
        ({}, {"dropout": False}, "`dropout` must be at least 0 and below 1, but found False"),
        ({}, {"last_layer_prior": -1.0}, "`last_layer_prior`"),
        ({}, {"last_layer_prior": True}, "`last_layer_prior` must be a positive number or None"),
        ({}, {"clip_features": True}, "`clip_features` must be a positive number or None"),
        (
            {},
            {"nugget": 0.3},
            "but found 0.3.\n  Use nugget=True: its size is learned",
        ),
        ({}, {"nugget": "no"}, "`nugget` must be True or False, but found 'no'"),
        ({}, {"linear_skip": "no"}, "'no'.\n  Use linear_skip=True, or leave it out"),
        ({}, {"graph_features": 1}, "`graph_features` must be True or False, but found 1"),
        ({}, {"neighbour_outcomes": None}, "`neighbour_outcomes` must be True or False"),
        ({}, {"marginal": {"family": "negative_binomial", "power": "no"}}, "`power`.*'no'"),
        ({}, {"marginal": {"family": "poisson", "cap": "no"}}, "`cap`.*'no'"),
        ({}, {"discrete": "augment"}, "Latent scores are for Pyro models of your own"),
        ({}, {"priors": {"alpha": 3}}, "Pyro distribution"),
        ({}, {"priors": {"zeta": dist.Normal(0, 1)}}, "zeta"),
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


@pytest.mark.parametrize("backbone", ["sage", "gcn", "mlp"])
@pytest.mark.parametrize("empty", [None, torch.zeros(40, 0)])
def test_data_without_features(backbone, empty):
    data = example()
    data.x = empty
    with pytest.raises(InvalidArgumentError, match="graph_features=True") as caught:
        CopulaGNN(backbone, "normal", "car").build(data)
    assert (caught.value.argument, caught.value.found) == ("data.x", "none")
    own = CopulaGNN("linear", "normal", "car").build(data).joint()  # an intercept and the graph
    assert torch.allclose(own.mean, data.y.mean())
    degrees = CopulaGNN(backbone, "normal", "car", graph_features=True).build(data)
    assert degrees.joint().mean.unique().numel() > 1
    with pytest.raises(InvalidArgumentError, match="WeightedLaplacianPrecision"):
        CopulaGNN("linear", "normal", "edge_regression").build(data)


def test_a_mask_that_is_no_mask():
    data = example("counts")
    for observed in (torch.arange(40), torch.ones(39, dtype=torch.bool)):
        with pytest.raises(InvalidArgumentError, match=r"`observed` must be boolean of sh"):
            CopulaGNN("linear", "poisson").build(data, observed)


def test_a_precision_of_ones_own_must_return_one():
    class Wrong(torch.nn.Module):
        def forward(self):
            return torch.eye(40)

    model = CopulaGNN("linear", "poisson", lambda graph: Wrong()).build(example("counts"))
    with pytest.raises(InvalidArgumentError, match="returns a SparsePrecision, but found Tensor"):
        model.joint()


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.data,
        lambda model: model.priors,
        lambda model: model.scalars,
        lambda model: model.features,
        lambda model: model.is_tied,
        lambda model: model.last_layer_size,
        lambda model: model.last_layer(),
        lambda model: model.hidden(),
        lambda model: model.outputs(),
        lambda model: model.site_values(),
        lambda model: model.joint(),
        lambda model: model.observe(NodeData.from_pyg(example())),
        lambda model: poutine.trace(model.model).get_trace(),
        lambda model: poutine.trace(model).get_trace(),
    ],
)
def test_a_specification_has_no_data(ask):
    model = CopulaGNN("linear", "normal", "car")
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="built for some data, but found a spec"):
            ask(model)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = model.nothing


def test_options_of_the_iterative_engine_are_its_own():
    with pytest.raises(InvalidArgumentError, match=r"options of Iterative: .* found \['probes'\]"):
        CopulaGNN("linear", "normal", "car", backend={"probes": 3})


BATCHES = {
    "poisson": {"marginal": "poisson", "nugget": True},
    "negative binomial": {"marginal": "negative_binomial", "last_layer_prior": 0.5},
    "ep": {"marginal": "poisson", "discrete": "ep"},
    "normal": {"marginal": "normal", "precision": "normalized_adjacency"},
    "edge regression": {"marginal": "normal", "precision": "edge_regression", "nugget": True},
}


@pytest.mark.parametrize("kind", BATCHES)
def test_the_program_takes_batches_of_its_parameters(kind):
    options = {"precision": "car", **BATCHES[kind]}
    model = CopulaGNN("gcn", **options).build(example(kind_of(options["marginal"]))).eval()
    y = torch.where(torch.arange(40) % 4 == 1, math.nan, model.data.y)
    names = set(model.priors)
    drawn = Predictive(model.model, num_samples=6, parallel=True)()
    assert set(drawn) == {*names, "y"}
    assert drawn["y"].shape == (6, 40)
    given = {name: drawn[name].reshape(6, *model.site_values()[name].shape) for name in names}
    again = Predictive(model.model, posterior_samples=given, parallel=True)()
    assert again["y"].shape == (6, 40)
    guide = AutoDelta(model.model)
    one = Trace_ELBO().loss(model.model, guide, y)
    for nesting in (0, 1):
        many = Trace_ELBO(num_particles=3, vectorize_particles=True, max_plate_nesting=nesting)
        assert many.loss(model.model, guide, y) == pytest.approx(one)
        pyro.clear_param_store()
        many.differentiable_loss(model.model, AutoNormal(model.model), y).backward()
