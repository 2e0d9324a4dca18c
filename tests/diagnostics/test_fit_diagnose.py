"""Diagnosing fits: of one law, of restarts, of posterior draws; advice that can be typed in."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula.diagnostics.advice import Setup, narrower, other_shape, wider
from pyro_copula.inference import Ensemble, Fit
from pyro_copula.inference.training import History
from pyro_copula.models import FAMILIES, CopulaGNN
from pyro_copula.models.families import make_family

SCHEDULE = pc.Schedule(max_epochs=300, check_every=10, patience=5)


def overdispersed(n=12, seed=0):
    """Negative binomial counts with a feature, on a grid; one in five is missing."""
    torch.manual_seed(seed)
    graph = pc.simulate.grid_graph(n, n)
    x = torch.randn(n * n, 1)
    mean = (1.8 + 0.5 * x[:, 0]).exp()
    law = torch.distributions.NegativeBinomial(torch.tensor(2.0), mean / (2.0 + mean))
    y = pc.GaussianCopula(law, pc.CARPrecision(graph)(rho=0.9, tau=1.0)).sample()
    y[torch.arange(n * n) % 5 == 1] = torch.nan
    return Data(x=x, edge_index=graph.edge_index, y=y)


def fitted(family, precision="car", **options):
    return pc.fit(
        CopulaGNN("linear", family, precision),
        overdispersed(),
        schedule=SCHEDULE,
        lr=0.05,
        refine=True,
        **options,
    )


def codes(diagnosis):
    return [finding.code for finding in diagnosis.findings]


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")
def test_a_poisson_fit_of_overdispersed_counts_is_told_to_be_negative_binomial():
    poisson, right = fitted("poisson").diagnose(), fitted("negative_binomial").diagnose()
    finding = next(f for f in poisson.findings if f.code == "too_narrow")
    assert finding.advice == ('Try marginal="negative_binomial", with a dispersion of its own.')
    assert "too_narrow" not in codes(right)
    assert right.ok
    assert repr(right).startswith("Diagnosis of CopulaGNN(backbone='linear'")
    assert right.marginal.histogram.num_nodes == 115


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")
def test_an_independent_fit_of_correlated_counts_is_told_to_couple_them():
    diagnosis = fitted("negative_binomial", "none").diagnose()
    finding = next(f for f in diagnosis.findings if f.code == "graph_left")
    assert 'precision="normalized_adjacency"' in finding.advice


def test_an_unfinished_fit_says_so_first():
    short = pc.Schedule(max_epochs=3)
    found = pc.fit(CopulaGNN("linear", "negative_binomial", "car"), overdispersed(), schedule=short)
    finding = found.diagnose().findings[0]
    assert finding.code == "not_converged"
    assert "stopped at 3 steps" in finding.message


def plug_in(rho):
    model = CopulaGNN("linear", "negative_binomial", "car").build(overdispersed()).eval()
    model.scalars["rho"].set_(rho)
    return Fit(model, "mle", History(verdict="converged"), settings={"seed": 0})


def test_training_that_changed_nothing_is_named():
    found = plug_in(0.9)
    found.history = History(losses=[1.0, 2.0], verdict="converged: best validation score at step 0")
    assert "not_trained" in codes(found.diagnose())
    found.history.best_epoch = 5
    assert "not_trained" not in codes(found.diagnose())


def test_restarts_are_an_equal_mixture():
    fits = [plug_in(rho) for rho in (0.5, 0.95)]
    both, first, second = (one.diagnose() for one in (Ensemble(fits), *fits))
    # counts: the places within atoms are the same, so averages of the ends are averages
    torch.testing.assert_close(
        both.conditional.u, (first.conditional.u + second.conditional.u) / 2, equal_nan=True
    )
    assert both.num_simulations == 500
    unfinished = Ensemble([fits[0], Fit(fits[1].model, "mle", History())])
    assert "1 of 2 restarts (not trained)" in unfinished.diagnose().findings[0].message


def test_posterior_draws_are_an_equal_mixture():
    base = plug_in(0.8)
    scalars = {name: torch.tensor(value) for name, value in base.scalars.items()}
    posterior = {
        name: value * (0.8 + 0.02 * torch.arange(8.0).reshape(2, 4))
        for name, value in scalars.items()
    }
    said = {"max_r_hat": 1.0, "divergences": 0}
    found = Fit(base.model, "nuts", History(verdict="converged"), posterior, said)
    rows = []
    for k in range(8):
        draw = {name: values.flatten()[k] for name, values in posterior.items()}
        with torch.no_grad():
            law = base.model.joint(**draw)
        rows.append(pc.quantile_residuals(law, base.model.data.y, kind="conditional"))
    diagnosis = found.diagnose()
    torch.testing.assert_close(diagnosis.conditional.u, torch.stack(rows).mean(0), equal_nan=True)
    assert diagnosis.num_simulations == 504


# -------------------------------------------------------------------- advice


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("advise", [wider, narrower, other_shape])
def test_advice_can_be_typed_in(family, advise):
    """Every ``marginal=...`` that is advised is one that a model takes."""
    setup = Setup(family, is_model=True)
    advice = advise(setup)
    assert advice.endswith(".")
    for part in advice.split("marginal=")[1:]:
        ends = part.index("}") + 1 if part.startswith("{") else part.index('"', 1) + 1
        make_family(eval(part[:ends]))
    assert "=" not in advise(Setup(family))


def test_advice_does_not_name_what_the_model_has():
    setup = Setup("normal", {"scale": "node"}, is_model=True)
    assert "node" not in wider(setup)
    assert '"scale": "node"' in wider(Setup("normal", is_model=True))
