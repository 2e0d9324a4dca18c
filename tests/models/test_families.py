"""Families: where they start, on ordinary and on extreme values, and what each option does."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from model_examples import example, kind_of

from pyro_copula.errors import InvalidArgumentError
from pyro_copula.models import FAMILIES, CopulaGNN, CountFamily, MarginalFamily, make_family

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")

#: Values that a fit may meet and that break naive starting values, by kind.
EXTREME = {
    "counts": {
        "one huge": lambda n: torch.ones(n).index_fill(0, torch.tensor(3), 1e6),
        "constant": lambda n: torch.full((n,), 7.0),
        "all zero": torch.zeros,
        "all one": torch.ones,
    },
    "real": {
        "one huge": lambda n: torch.zeros(n).index_fill(0, torch.tensor(3), 1e12),
        "constant": lambda n: torch.full((n,), -7.0),
        "all zero": torch.zeros,
        "tiny": lambda n: 1e-9 * torch.randn(n),
    },
    "positive": {
        "one huge": lambda n: torch.ones(n).index_fill(0, torch.tensor(3), 1e9),
        "constant": lambda n: torch.full((n,), 7.0),
        "tiny": lambda n: 1e-9 * torch.rand(n) + 1e-12,
    },
    "binary": {"all zero": torch.zeros, "all one": torch.ones},
}


def cases():
    for family in FAMILIES:
        for name, values in EXTREME[kind_of(family)].items():
            if not (family.startswith("zero_truncated") and name == "all zero"):
                yield pytest.param(family, values, id=f"{family}, {name}")


@pytest.mark.parametrize(("family", "values"), list(cases()))
def test_extreme_values_start_with_a_finite_likelihood(family, values):
    data = example()
    data.y = values(40)
    model = CopulaGNN("sage", family, "car").build(data)
    loss = -model.joint().log_prob(data.y)
    assert torch.isfinite(loss)
    loss.backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize(
    ("options", "width"),
    [
        ({"family": "normal", "scale": "tied"}, 1),
        ({"family": "normal", "scale": "global"}, 1),
        ({"family": "normal", "scale": "node"}, 2),
        ({"family": "sinh_arcsinh", "scale": "global"}, 1),
        ({"family": "sinh_arcsinh", "scale": "node"}, 2),
        ({"family": "student_t", "scale": "node"}, 2),
        ({"family": "lognormal", "scale": "node"}, 2),
        ({"family": "gamma", "concentration": "node"}, 2),
        ({"family": "negative_binomial", "dispersion": "node"}, 2),
        ({"family": "zero_inflated_poisson", "gate": "node"}, 2),
        ({"family": "zero_inflated_negative_binomial", "gate": "node", "dispersion": "node"}, 3),
        ({"family": "shifted_negative_binomial", "dispersion": "node"}, 2),
        ({"family": "negative_binomial", "lower": 1}, 1),
    ],
)
def test_options_decide_the_width_and_every_output_counts(options, width):
    family = make_family(options)
    assert family.out_channels == width
    assert family.specification() == options
    data = example(kind_of(options["family"]))
    model = CopulaGNN("sage", options, "car").build(data)
    outputs = model.outputs().detach().requires_grad_()
    y = data.y.clone()
    if family.discrete and "gate" in options:
        y[:5] = 0
    model.joint(outputs).log_prob(y).backward()
    assert outputs.grad.shape == (40, width)
    assert (outputs.grad.abs().sum(0) > 0).all()


def test_a_gate_per_node_by_hand():
    family = CountFamily(zeros="inflated", gate="node")
    family.scalars["gate"].set_(0.3)
    outputs = torch.tensor([[0.2, 0.0], [0.5, 1.0], [0.1, -2.0]])
    gate = torch.sigmoid(torch.logit(torch.tensor(0.3)) + 3 * torch.tanh(outputs[:, 1] / 3))
    rate = (12 * torch.tanh(outputs[:, 0] / 12)).exp()
    zero = gate + (1 - gate) * (-rate).exp()
    torch.testing.assert_close(family(outputs).log_prob(torch.zeros(3)).exp(), zero)
    two = (1 - gate) * dist.Poisson(rate).log_prob(torch.tensor(2.0)).exp()
    torch.testing.assert_close(family(outputs).log_prob(torch.full((3,), 2.0)).exp(), two)


def test_the_gate_starts_at_the_zeros_that_the_law_does_not_explain():
    torch.manual_seed(0)
    y = torch.poisson(torch.full((4000,), 6.0)) * (torch.rand(4000) > 0.4)
    family = CountFamily(zeros="inflated")
    family.start(y)
    assert float(family.scalars["gate"]().detach()) == pytest.approx(0.4, abs=0.04)
    assert float(family.center.exp()) == pytest.approx(6.0, abs=0.5)


def test_dispersion_starts_where_it_was_simulated():
    torch.manual_seed(0)
    y = dist.NegativeBinomial(torch.tensor(2.0), logits=torch.tensor(2.0)).sample((20_000,))
    family = make_family("negative_binomial")
    family.start(y)
    assert float(family.scalars["dispersion"]().detach()) == pytest.approx(0.5, abs=0.05)


def test_a_lower_end_is_1_or_0_and_never_more():
    for values, lower in (([3.0, 4.0], 1), ([1.0, 9.0], 1), ([0.0, 9.0], 0)):
        family = make_family("shifted_poisson")
        family.prepare(torch.tensor([*values, torch.nan]))
        assert int(family.shift) == lower


def test_families_as_classes_and_objects():
    data = example("counts")
    class_, object_ = CountFamily, CountFamily("node")
    assert isinstance(CopulaGNN("linear", class_).build(data).family, CountFamily)
    built = CopulaGNN("linear", object_).build(data)
    assert built.family is not object_
    assert built.family.dispersion == "node"
    assert float(object_.center) == 0.0  # the given one is left as it was


def test_bad_options():
    with pytest.raises(InvalidArgumentError, match="`gate`"):
        CountFamily(gate="node")
    with pytest.raises(InvalidArgumentError, match="`lower`"):
        CountFamily(lower=-1)
    with pytest.raises(InvalidArgumentError, match="`dispersion`"):
        CountFamily("many")
    with pytest.raises(NotImplementedError):
        MarginalFamily()(torch.zeros(3, 1))


def test_dispersion_is_constant_unless_a_power_is_asked_for():
    y, offset = torch.tensor([3.0, 40.0, 7.0, 0.0]), torch.tensor([0.0, 3.0, 1.0, 2.0])
    plain, powered = CountFamily("global"), CountFamily("global", power=True)
    for family in (plain, powered):
        family.start(y, offset)
    assert sorted(plain.scalars) == ["dispersion"]
    assert sorted(powered.scalars) == ["dispersion", "dispersion_power"]
    outputs = torch.zeros(4, 1)
    law = plain(outputs, offset, dispersion=torch.tensor(0.5))
    torch.testing.assert_close(law.variance, law.mean + 0.5 * law.mean.square())
    law = powered(
        outputs, offset, dispersion=torch.tensor(0.5), dispersion_power=torch.tensor(-0.2)
    )
    typical = (y.sum() + 0.5) / offset.exp().sum() * offset.mean().exp()
    expected = 0.5 * (law.mean / typical) ** -0.2
    torch.testing.assert_close(law.variance, law.mean + expected * law.mean.square())
    with pytest.raises(InvalidArgumentError, match="power"):
        CountFamily(power=True)


def test_a_power_needs_a_dispersion():
    with pytest.raises(InvalidArgumentError, match="`power` must be False without a dispersion"):
        CountFamily(None, power=True)


def test_a_capped_mean_stays_below_twice_the_largest_rate():
    y, offset = torch.tensor([3.0, 40.0, 7.0, 0.0]), torch.tensor([0.0, 3.0, 1.0, 2.0])
    plain, capped = CountFamily("global"), CountFamily("global", cap=True)
    for family in (plain, capped):
        family.start(y, offset)
    largest = float((y / offset.exp()).max())
    outputs = torch.tensor([[-2.0], [0.0], [10.0], [1000.0]])
    expected, found = plain(outputs, offset).mean, capped(outputs, offset).mean
    assert float(expected.detach()[-1]) > 1e3 * float(found.detach()[-1])
    rate = found / offset.exp()
    torch.testing.assert_close(rate[2:], torch.full((2,), 2 * largest), rtol=1e-3, atol=0.0)
    torch.testing.assert_close(found[:2], expected[:2], rtol=0.02, atol=0.0)
    assert capped.specification() == {"family": "negative_binomial", "cap": True}
    assert "cap" not in plain.specification()


def test_a_cap_with_nothing_but_zeros():
    family = CountFamily(cap=True)
    family.start(torch.zeros(10))
    assert float(family(torch.zeros(10, 1)).mean.detach()[0]) == pytest.approx(0.05, rel=0.02)
