"""Guides: every automatic one, those written by hand, and what is no guide."""

from __future__ import annotations

import functools

import pyro
import pyro.distributions as dist
import pytest
import torch
from fit_examples import SHORT, example, quick_fit
from pyro import poutine
from pyro.distributions import constraints
from pyro.infer import autoguide
from pyro.infer.autoguide import AutoLaplaceApproximation, AutoNormal
from pyro.nn import PyroModule, PyroParam
from torch import nn

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError, TrainingError
from pyro_copula.inference.guides import guide_draws, guide_median, make_guide
from pyro_copula.inference.options import resolve

pytestmark = [
    pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning"),
    pytest.mark.filterwarnings("ignore:AutoRegressiveNN input_dim = 1"),
]

MODEL = pc.CopulaGNN("linear", "poisson", "car", nugget=True)
NAMES = ("rho", "nugget")


def beta(name):
    """A beta law that a guide may learn, and the name's site."""
    a = pyro.param(f"{name}.a", torch.tensor(3.0), constraint=constraints.positive)
    b = pyro.param(f"{name}.b", lambda: torch.tensor(3.0), constraint=constraints.positive)
    pyro.sample(name, dist.Beta(a, b))


def by_hand(y):
    assert int(torch.isnan(y).sum()) >= 15  # the missing nodes, and in training held out ones
    for name in NAMES:
        beta(name)


class Module(PyroModule):
    """Parameters of every kind: torch's, Pyro's, of a network, and one that is only called."""

    def __init__(self):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(2))
        self.scale = PyroParam(torch.ones(2), constraints.positive)
        self.net = nn.Linear(1, 1)

    def forward(self, y):
        shift = pyro.param("shift", torch.zeros(2)) + self.net(torch.ones(1))
        for k, name in enumerate(NAMES):
            normal = dist.Normal(self.loc[k] + shift[k], self.scale[k])
            sigmoid = dist.transforms.SigmoidTransform()
            pyro.sample(name, dist.TransformedDistribution(normal, [sigmoid]))


class OwnMessenger(autoguide.AutoNormalMessenger):
    def get_posterior(self, name, prior):
        if name != "nugget":
            return super().get_posterior(name, prior)
        return dist.Beta(pyro.param("a", torch.tensor(3.0), constraint=constraints.positive), 3.0)


def in_parts(model):
    parts = autoguide.AutoGuideList(model)
    parts.append(AutoNormal(poutine.block(model, hide=["nugget"])))
    parts.append(lambda y: beta("nugget"))
    return parts


GUIDES = {
    "AutoDelta": autoguide.AutoDelta,
    "AutoDiagonalNormal": autoguide.AutoDiagonalNormal,
    "AutoGaussian": autoguide.AutoGaussian,
    "AutoHierarchicalNormalMessenger": autoguide.AutoHierarchicalNormalMessenger,
    "AutoIAFNormal": autoguide.AutoIAFNormal,
    "AutoLaplaceApproximation": AutoLaplaceApproximation,
    "AutoLowRankMultivariateNormal": autoguide.AutoLowRankMultivariateNormal,
    "AutoMultivariateNormal": autoguide.AutoMultivariateNormal,
    "AutoNormal": AutoNormal,
    "AutoNormalMessenger": autoguide.AutoNormalMessenger,
    "AutoRegressiveMessenger": autoguide.AutoRegressiveMessenger,
    "AutoStructured": autoguide.AutoStructured,
    "a messenger of one's own": OwnMessenger,
    "a partial": functools.partial(AutoNormal, init_scale=0.05),
    "in parts": in_parts,
    "by hand": by_hand,
    "made by hand": lambda model: by_hand,
    "a module": Module().double(),
    "made, a module": lambda model: Module(),
}


def small_fit(guide, **options):
    data = example("poisson")
    options = {"schedule": pc.Schedule(max_epochs=15), "num_draws": 20, **options}
    return pc.fit(MODEL, data, data.observed, "svi", guide=guide, **options)


@pytest.mark.parametrize("kind", GUIDES)
def test_a_guide_gives_draws(kind, tmp_path):
    found = small_fit(GUIDES[kind])
    assert set(found.posterior) == set(NAMES)
    held = found.model.site_values()
    for name, draws in found.posterior.items():
        assert draws.shape == (1, 20)
        assert bool(((draws > -1) & (draws < 1)).all())
        assert len(draws.unique()) == (1 if kind == "AutoDelta" else 20)
        assert draws.min() <= held[name] <= draws.max()  # a fit holds the median
    assert bool(torch.isfinite(found.predict().mean).all())
    found.save(tmp_path / "fit")
    assert torch.equal(pc.load_fit(tmp_path / "fit").posterior["rho"], found.posterior["rho"])
    assert not list(pyro.get_param_store())


@pytest.mark.parametrize("kind", ["a messenger of one's own", "by hand", "a module", "in parts"])
def test_all_parameters_of_a_guide_are_learnt(kind):
    data = example("poisson")
    model = MODEL.build(data, data.observed).eval()
    guide = make_guide(model, options(GUIDES[kind]))
    loss = pyro.infer.Trace_ELBO(num_particles=3).differentiable_loss(
        model.model, guide, model.data.y
    )
    loss.backward()
    names = [name for name, p in guide.named_parameters() if p.grad is None or not p.grad.any()]
    assert not names
    expected = {"a messenger of one's own": 3, "by hand": 4, "a module": 5, "in parts": 4}
    assert len(list(guide.parameters())) == expected[kind]


def options(guide):
    given = dict.fromkeys(
        [
            *("method", "seed", "validation", "lr", "scalar_lr", "weight_decay", "optimizer"),
            *("schedule", "restarts", "refine", "guide", "num_draws", "num_warmup", "num_chains"),
            *("progress", "judge", "partition", "blocks_per_step"),
        ]
    )
    counts = {"seed": 0, "num_draws": 5, "num_warmup": 5, "num_chains": 1}
    return resolve(MODEL, {**given, **counts, "method": "svi", "guide": guide}, alone=True)


def test_a_guide_by_hand_has_the_bound_of_the_automatic_one():
    data = example()
    model = pc.CopulaGNN("linear", "normal", "car").build(data, data.observed)
    start, sigmoid = model.site_values(), dist.transforms.SigmoidTransform()
    ways = {
        "rho": [sigmoid, dist.transforms.AffineTransform(-1.0, 2.0)],
        "tau": [dist.transforms.ExpTransform()],
    }

    def normal(y):
        for name, way in ways.items():
            loc = pyro.param(f"{name}_loc", dist.transforms.ComposeTransform(way).inv(start[name]))
            scale = pyro.param(f"{name}_scale", torch.tensor(0.1), constraint=constraints.positive)
            pyro.sample(name, dist.TransformedDistribution(dist.Normal(loc, scale), way))

    results = []
    for kind in (normal, None):
        guide = make_guide(model, options(kind))
        pyro.set_rng_seed(4)
        loss = pyro.infer.Trace_ELBO().differentiable_loss(model.model, guide, model.data.y)
        loss.backward()
        gradients = {name: p.grad for name, p in guide.named_parameters()}
        pyro.set_rng_seed(5)
        results.append((loss.detach(), gradients, guide_draws(guide, model, 10)))
    (loss, by_hand, draws), (expected, automatic, expected_draws) = results
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(by_hand["raw.0"], automatic["locs.rho_unconstrained"])
    torch.testing.assert_close(by_hand["raw.2"], automatic["locs.tau_unconstrained"])
    for name in ways:
        torch.testing.assert_close(draws[name], expected_draws[name])


def test_a_laplace_approximation_is_as_wide_as_the_curvature_says():
    found = quick_fit("normal", "svi", guide=AutoLaplaceApproximation, num_draws=4000)
    model = found.model
    potential = pc.inference.potential.Potential(model)
    u = potential.start.requires_grad_()  # held is the mode
    curvature = torch.autograd.functional.hessian(potential, u)
    draws = torch.stack(
        [potential.transforms[k].inv(found.posterior[k].flatten()) for k in potential.transforms],
        dim=-1,
    )
    torch.testing.assert_close(draws.T.cov(), curvature.inverse(), rtol=0.15, atol=0.02)


def test_fits_start_from_the_guide_as_it_was_given():
    given = Module()
    before = [p.detach().clone() for p in given.parameters()]
    first, again = (small_fit(given) for _ in range(2))
    assert torch.equal(first.posterior["rho"], again.posterior["rho"])
    assert all(torch.equal(p, q) for p, q in zip(given.parameters(), before))


@pytest.mark.parametrize("method", ["map", "svi"])
def test_restarts_do_not_share_a_guide(method):
    def run(**more):
        return quick_fit(method=method, num_draws=5, **more)

    last = run(restarts=2).fits[1]
    alone = run(seed=1000)
    assert last.scalars == alone.scalars
    assert last.model.site_values() == alone.model.site_values()


def test_a_checkpoint_of_a_guide_by_hand(tmp_path):
    path = tmp_path / "state"
    expected = small_fit(by_hand)
    for _ in range(2):  # written, and resumed from
        found = small_fit(by_hand, checkpoint=path)
        assert torch.equal(found.posterior["rho"], expected.posterior["rho"])


def test_a_median_that_is_not_known_is_that_of_draws():
    data = example("poisson")
    model = MODEL.build(data, data.observed)
    guide = make_guide(model, options(by_hand))
    before = torch.get_rng_state()
    median = guide_median(guide, model)
    assert torch.equal(torch.get_rng_state(), before)
    assert guide_median(guide, model) == median  # the noise is the same at every look
    assert float(median["rho"]) == pytest.approx(0.5, abs=0.1)


def no_sites(y):
    pyro.param("a", torch.tensor(1.0))


def half(y):
    beta("rho")


def as_vector(y):
    pyro.sample("rho", dist.Beta(torch.ones(1), 2.0).to_event(1))
    beta("nugget")


def with_nothing_to_learn(y):
    for name in NAMES:
        pyro.sample(name, dist.Beta(2.0, 2.0))


def broken(y):
    raise KeyError("mine")


def with_a_network(y):
    network = pyro.module("network", nn.Linear(1, 1))
    beta("nugget")
    pyro.sample("rho", dist.Beta(network(torch.ones(1))[0].exp(), 2.0))


@pytest.mark.parametrize(
    ("guide", "match"),
    [
        (AutoNormal(by_hand), "a guide of another model, AutoNormal"),
        (autoguide.AutoNormalizingFlow, "AutoNormalizingFlow, which raised TypeError"),
        (autoguide.AutoDiscreteParallel, "AutoDiscreteParallel, which raised NotImplementedError"),
        (lambda model: AutoNormal(model, init_scale=-1.0), "given the model ValueError: Expected"),
        (lambda model: model, "observes \\['y'\\]"),
        (no_sites, "no_sites, which draws {}"),
        (half, r"half, which draws {'rho': \(\)}"),
        (as_vector, r"'rho': \(1,\)"),
        (with_nothing_to_learn, "which has no parameters"),
        (with_a_network, "which calls pyro.module"),
        (broken, "broken, which raised KeyError: 'mine', and given the model KeyError"),
    ],
)
def test_what_is_no_guide(guide, match):
    with pytest.raises(InvalidArgumentError, match=match) as caught:
        small_fit(guide)
    assert caught.value.argument == "guide"
    assert "Trace Shapes" not in str(caught.value)


def test_errors_of_the_model_are_not_taken_for_those_of_the_guide():
    data = example()
    model = pc.CopulaGNN("linear", "normal", "car", priors={"rho": dist.Uniform(2.0, 3.0)})
    with pytest.raises(InvalidArgumentError, match="`rho` must be strictly between -1 and 1"):
        pc.fit(model, data, data.observed, "svi", guide=AutoNormal, schedule=SHORT)


def test_a_laplace_approximation_needs_second_derivatives():
    data = example("poisson")
    model = pc.CopulaGNN("linear", "poisson", "car", discrete="ep")
    seen = []
    with pytest.raises(InvalidArgumentError, match="first derivatives only, but found AutoLaplace"):
        pc.fit(
            model,
            data,
            data.observed,
            "svi",
            guide=AutoLaplaceApproximation,
            judge=lambda law, values: seen.append(law),
        )
    assert not seen  # before training


def test_a_laplace_approximation_needs_a_mode(monkeypatch):
    def fail(self, *args):
        torch.linalg.cholesky(-torch.eye(2))

    monkeypatch.setattr(AutoLaplaceApproximation, "laplace_approximation", fail)
    with pytest.raises(TrainingError, match="not curved downwards"):
        small_fit(AutoLaplaceApproximation)
