"""A specification is plain JSON, and makes the same model again."""

from __future__ import annotations

import json

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from model_examples import example, kind_of

from pyro_copula.models import (
    FAMILIES,
    PRECISIONS,
    RECIPES,
    CopulaGNN,
    CountFamily,
    MarginalFamily,
    MixedFamily,
    NormalFamily,
)
from pyro_copula.models.priors import SignedBeta
from pyro_copula.precision import CARPrecision

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")

CASES = {
    "plain": {},
    "continuous": {"recipe": "continuous"},
    "counts": {"recipe": "counts", "dropout": 0.0},
    "family object": {"marginal": CountFamily("node", zeros="inflated", gate="node")},
    "family class": {"marginal": NormalFamily},
    "family dictionary": {"marginal": {"family": "normal", "scale": "node"}},
    "mixed": {"marginal": MixedFamily({"normal": [0, 2], "poisson": [1]})},
    "mixed dictionary": {
        "marginal": {"family": "mixed", "kind": {"normal": torch.tensor([True, False])}}
        | {"kind": ["normal", "poisson"]}
    },
    "precision dictionary": {"precision": {"family": "car", "rho": 0.5}},
    "priors": {"priors": {"rho": dist.Beta(18.0, 2.0), "nugget": SignedBeta(2.0, 3.0)}},
    "last layer": {"last_layer_prior": 0.5, "neighbour_outcomes": True},
    "others": {"exposure": "births", "discrete": "ep", "tail_clip": 1e-3, "backend": "dense"},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_round_trip(options):
    spec = CopulaGNN(**options).specification()
    assert "<own>" not in spec.values()
    again = CopulaGNN(**json.loads(json.dumps(spec)))
    assert again.specification() == spec
    assert again.fit_defaults == CopulaGNN(**options).fit_defaults


@pytest.mark.parametrize("family", FAMILIES)
def test_families_by_object(family):
    made = FAMILIES[family]()
    spec = CopulaGNN(marginal=made).specification()
    assert spec["marginal"]["family"] == family
    data = example(kind_of(family))
    torch.manual_seed(0)
    first = CopulaGNN("linear", made).build(data)
    torch.manual_seed(0)
    second = CopulaGNN("linear", spec["marginal"]).build(data)
    assert first.state_dict().keys() == second.state_dict().keys()
    torch.testing.assert_close(first.joint().log_prob(data.y), second.joint().log_prob(data.y))


def test_auto_is_kept_as_it_was_chosen():
    data = example("counts")
    built = CopulaGNN("linear").build(data)
    spec = json.loads(json.dumps(built.specification()))
    other = example("real")  # from which another family would be chosen
    other.y = torch.poisson(torch.full((40,), 3.0))
    again = CopulaGNN(**spec).build(other)
    assert type(again.family) is type(built.family)
    assert again.family_reason == built.family_reason != ""
    assert again.specification() == built.specification()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_state_of_one_loads_into_the_other(precision):
    data = example("counts")
    model = CopulaGNN("gat", "shifted_poisson", precision, neighbour_outcomes=True, nugget=True)
    built = model.build(data, torch.arange(40) < 30)
    built.observe(built.data)
    again = CopulaGNN(**built.specification()).build(data)
    again.load_state_dict(built.state_dict())
    again.observe(built.data)
    torch.testing.assert_close(again.outputs(), built.outputs(), rtol=0, atol=0)
    torch.testing.assert_close(again.joint().log_prob(data.y), built.joint().log_prob(data.y))


def test_what_is_the_users_own_is_said_to_be():
    class Own(MarginalFamily):
        def forward(self, outputs, offset=None, **scalars):
            return dist.Laplace(outputs[..., 0], 1.0)

        def start(self, y, offset=None):
            pass

    model = CopulaGNN(
        torch.nn.Identity(), Own, CARPrecision, priors={"rho": dist.Beta(2.0, 2.0).mask(True)}
    )
    spec = model.specification()
    for name in ("backbone", "marginal", "precision", "priors"):
        assert spec[name] == "<own>"
    assert repr(model) == (
        "CopulaGNN(backbone=Identity, marginal=Own, precision=CARPrecision, "
        "priors={'rho': MaskedDistribution()})"
    )
    own = MixedFamily({"mine": [0], "normal": [1]}, families={"mine": Own})
    assert own.specification() == "<own>"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, ""),
        ({"hidden_channels": 16, "nugget": False}, ""),  # as without
        ({"hidden_channels": 8, "num_layers": 3}, ", hidden_channels=8, num_layers=3"),
        ({"dropout": 0.25, "linear_skip": True}, ", dropout=0.25, linear_skip=True"),
        (
            {"neighbour_outcomes": True, "nugget": np.True_, "graph_features": np.True_},
            ", graph_features=True, neighbour_outcomes=True, nugget=True",
        ),
        (
            {"discrete": "exact", "num_particles": 50, "clip_features": 5.0, "tail_clip": 1e-3},
            ", clip_features=5, discrete='exact', num_particles=50, tail_clip=0.001",
        ),
        (
            {"priors": {"alpha": SignedBeta(2.0, 3.0)}, "exposure": "births", "batch_nodes": 7},
            ", exposure='births', priors={'alpha': SignedBeta(2, 3)}, batch_nodes=7",
        ),
        ({"backend": {"num_probes": 4}}, ", backend=Iterative(num_probes=4)"),
    ],
)
def test_a_model_prints_what_is_not_as_usual(options, said):
    model = CopulaGNN("gcn", "normal", "laplacian", **options)
    usual = "CopulaGNN(backbone='gcn', marginal='normal', precision='laplacian'"
    assert repr(model) == f"{usual}{said})"
    json.dumps(model.specification())


@pytest.mark.parametrize("recipe", RECIPES)
def test_models_of_a_recipe_print_differently(recipe):
    models = CopulaGNN(recipe=recipe).variants()
    assert len({repr(model) for model in models}) == len(models)
    sizes = ("hidden_channels", "num_layers", "dropout")
    for model in models:  # a regression has no layers to have sizes
        is_linear = model.arguments["backbone"] == "linear"
        assert not (is_linear and any(name in repr(model) for name in sizes))


def test_given_priors_are_used_and_survive():
    data = example("counts")
    model = CopulaGNN("linear", "poisson", "car", priors={"rho": dist.Uniform(0.2, 0.7)})
    for built in (model.build(data), CopulaGNN(**model.specification()).build(data)):
        assert float(built.priors["rho"].high) == 0.7
