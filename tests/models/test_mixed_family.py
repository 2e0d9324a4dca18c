"""Different families at different nodes: the same law as one built by hand."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch
from model_examples import example
from pyro import poutine

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.models import CopulaGNN, MixedFamily, make_family

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")

IS_COUNT = torch.arange(40) % 3 == 0


def mixed_data():
    data = example()
    data.y = torch.where(IS_COUNT, example("counts").y, data.y)
    return data


def mixed_family():
    return MixedFamily({"normal": ~IS_COUNT, "negative_binomial": IS_COUNT})


def test_the_joint_law_is_that_of_a_mixed_copula_built_by_hand():
    data = mixed_data()
    model = CopulaGNN("sage", mixed_family(), "car", nugget=True).build(data)
    outputs = model.outputs()
    assert outputs.shape == (40, 2)
    reals, counts = data.y[~IS_COUNT], data.y[IS_COUNT]
    loc = reals.mean() + reals.std(correction=0) * outputs[:, 0]
    log_mean = ((counts.sum() + 0.5) / len(counts)).log()
    log_mean = log_mean + 12 * torch.tanh(outputs[:, 1] / 12)
    dispersion = model.scalars["negative_binomial_dispersion"]()
    log_dispersion = dispersion.log()
    by_hand = pc.marginals.Mixed(
        {
            "normal": dist.Normal(loc, reals.std(correction=0)),
            "counts": dist.NegativeBinomial(
                (-log_dispersion).exp(), logits=log_mean + log_dispersion
            ),
        },
        IS_COUNT.long(),
    )
    K = pc.CARPrecision(model.data.graph)(rho=0.9, tau=1.0)
    expected = pc.GaussianCopula(by_hand, K, nugget=torch.tensor(0.3))
    y = data.y.clone()
    y[::7] = math.nan
    torch.testing.assert_close(model.joint().log_prob(y), expected.log_prob(y))


def test_without_dependence_it_is_two_models():
    data = mixed_data()
    model = CopulaGNN("linear", mixed_family(), "none").build(data)
    outputs = model.outputs()
    total = torch.tensor(0.0)
    for k, (name, mine) in enumerate((("normal", ~IS_COUNT), ("negative_binomial", IS_COUNT))):
        options = {"family": name, "scale": "global"} if name == "normal" else name
        family = make_family(options)
        family.start(data.y[mine])
        total = total + family(outputs[mine, k : k + 1]).log_prob(data.y[mine]).sum()
    torch.testing.assert_close(model.joint().log_prob(data.y), total)


def test_sites_scalars_and_priors():
    model = CopulaGNN("linear", mixed_family(), "car").build(mixed_data())
    trace = poutine.trace(model.model).get_trace(model.data.y)
    assert set(trace.stochastic_nodes) == {
        "rho",
        "normal_scale",
        "negative_binomial_dispersion",
    }
    assert isinstance(model.priors["negative_binomial_dispersion"], dist.HalfNormal)
    wide = model.joint(normal_scale=torch.tensor(2.0))
    ratio = wide.marginal_dist.variance / model.joint().marginal_dist.variance
    torch.testing.assert_close(ratio.detach(), torch.where(IS_COUNT, 1.0, 4.0))
    batch = model.joint(normal_scale=torch.tensor([1.0, 2.0]), rho=torch.tensor([0.5, 0.9]))
    assert batch.log_prob(model.data.y).shape == (2,)


def test_exposure_counts_where_it_means_something():
    data = mixed_data()
    plain = CopulaGNN("linear", mixed_family(), "none").build(data)
    exposed = CopulaGNN("linear", mixed_family(), "none", exposure="exposure").build(data)
    outputs = torch.zeros(40, 2)
    before, after = plain.joint(outputs).mean, exposed.joint(outputs).mean
    torch.testing.assert_close(after[~IS_COUNT], before[~IS_COUNT])
    rate = after[IS_COUNT] / data.exposure[IS_COUNT]
    torch.testing.assert_close(rate, rate[:1].expand_as(rate))


def test_it_predicts_and_starts_from_observed_values_only():
    data = mixed_data()
    observed = torch.arange(40) % 4 != 1
    model = CopulaGNN("linear", mixed_family(), "car", neighbour_outcomes=True).build(
        data, observed
    )
    conditional = model.joint().condition(model.data.y)
    draws = conditional.sample((20,))
    counts = IS_COUNT[conditional.nodes]
    assert (draws[:, counts] % 1 == 0).all()
    assert (draws[:, ~counts] % 1 != 0).all()
    normal = model.family.parts["normal"]
    torch.testing.assert_close(normal.center, data.y[observed & ~IS_COUNT].mean())
    assert torch.isfinite(model.features).all()


def test_three_ways_to_say_it():
    by_mask = mixed_family()
    by_position = MixedFamily(
        {"normal": (~IS_COUNT).nonzero().squeeze(-1), "negative_binomial": IS_COUNT.nonzero()[:, 0]}
    )
    by_name = MixedFamily(["negative_binomial" if c else "normal" for c in IS_COUNT])
    kinds = [family.specification()["kind"] for family in (by_mask, by_position, by_name)]
    assert kinds[0] == kinds[1] == kinds[2]


def test_options_of_the_parts():
    family = MixedFamily(
        {"births": [0, 2], "rate": [1]},
        families={
            "births": {"family": "negative_binomial", "dispersion": "node"},
            "rate": {"family": "normal", "scale": "node"},
        },
    )
    assert family.out_channels == 4
    assert "births_dispersion" in family.scalars
    assert make_family(family.specification()).specification() == family.specification()


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        ({"normal": [0, 1], "poisson": [1, 2]}, "both 'normal' and 'poisson' at node 1"),
        ({"normal": [0], "poisson": [2]}, "none at node 1"),
        ({"normal": [0, 1], "poisson": torch.zeros(3).bool()}, "none at node 2"),
        ({"normal": [0.5]}, "positions of nodes"),
        ({"weird": [0]}, "`marginal`"),
        ({}, "one family at least"),
        ([], "name for every node"),
        ([1, 2], "name for every node"),
    ],
)
def test_every_node_is_in_exactly_one_part(kind, match):
    with pytest.raises(InvalidArgumentError, match=match):
        MixedFamily(kind)


def test_parts_must_fit_the_data():
    data = mixed_data()
    with pytest.raises(InvalidArgumentError, match="40 nodes"):
        CopulaGNN("linear", MixedFamily(["normal"] * 39)).build(data)
    with pytest.raises(InvalidArgumentError, match="observed at some"):
        CopulaGNN("linear", mixed_family()).build(data, ~IS_COUNT)
    with pytest.raises(InvalidArgumentError, match="whole number"):
        CopulaGNN("linear", MixedFamily({"normal": IS_COUNT, "poisson": ~IS_COUNT})).build(data)
    with pytest.raises(InvalidArgumentError, match="names in `kind`"):
        MixedFamily({"normal": [0]}, families={"poisson": "poisson"})


def test_its_parts_are_printed_alone_and_in_a_model():
    shown = "MixedFamily(normal: 26 nodes of normal(scale='global'), negative_binomial: 14 nodes)"
    assert repr(mixed_family()) == shown
    assert shown in repr(CopulaGNN("linear", mixed_family()))
    kind = ["normal" if not count else "negative_binomial" for count in IS_COUNT]
    kind.sort(key=lambda name: name != "normal")
    by_name = CopulaGNN("linear", {"family": "mixed", "kind": kind})
    assert shown in repr(by_name)
    own = MixedFamily({"deaths": [0], "size": [1, 2]}, {"deaths": "poisson", "size": "gamma"})
    assert repr(own).startswith("MixedFamily(deaths: 1 node of poisson, size: 2 nodes of gamma")


@pytest.mark.parametrize("kind", [[], [1, 2, 3]])
def test_names_by_node_are_names(kind):
    with pytest.raises(InvalidArgumentError, match="a name for every node"):
        MixedFamily(kind)
