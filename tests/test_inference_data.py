"""The arviz export: its leave-one-out against dense conditioning, its checks on simulated data."""

from __future__ import annotations

import math
from dataclasses import replace

import arviz as az
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pyro.distributions as dist
import pytest
import torch
import xarray as xr
from scipy import stats
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula import inference_data
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.inference import Ensemble, Fit, Schedule, fit
from pyro_copula.inference.training import History
from pyro_copula.models import CopulaGNN

matplotlib.use("Agg")

#: The chance that the statistical tests of this file fail although all is well, for each number
#: that they look at.
FAILURE_RATE = 1e-4

pytestmark = [
    # arviz 0.23 calls matplotlib 3.11 in a way that will stop working; that is theirs to mend.
    pytest.mark.filterwarnings("ignore::matplotlib.MatplotlibDeprecationWarning"),
    # Its summary divides by the variance of what never varies.
    pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning:arviz.stats.diagnostics"),
    # And its compare sorts a table in place, which pandas will drop.
    pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning:arviz"),
]


def example(family="normal", *, rows=5, columns=6, hidden=4, seed=3):
    """Values on a grid, one in ``hidden`` of them missing, drawn from a copula."""
    torch.manual_seed(seed)
    graph = pc.simulate.grid_graph(rows, columns)
    n = graph.num_nodes
    x = torch.randn(n, 2)
    K = pc.CARPrecision(graph)(rho=0.95, tau=1.0)
    mean = (2.0 + 0.4 * x[:, 0]).exp()
    law = {
        "normal": dist.Normal(x[:, 0], 1.0),
        "poisson": dist.Poisson(mean),
        "negative_binomial": dist.NegativeBinomial(torch.tensor(3.0), mean / (3.0 + mean)),
        "lognormal": dist.LogNormal(x[:, 0], 0.5),
    }[family]
    y = pc.GaussianCopula(law, precision=K).sample()
    if hidden:
        y[torch.arange(n) % hidden == 1] = math.nan
    return Data(x=x, edge_index=graph.edge_index, y=y)


def plug_in(family, data, *, precision="car", **options):
    """A fit whose parameters are where the model starts, moved a little: no training needed."""
    model = CopulaGNN("linear", family, precision, **options).build(data).eval()
    for name, scalar in model.scalars.items():
        scalar.set_({"rho": 0.93, "tau": 1.3, "nugget": 0.2}.get(name, float(scalar().detach())))
    return Fit(model, "mle", History(), settings={"seed": 0})


def with_posterior(found, chains=2, draws=30):
    """The same fit with draws of its parameters near their values, as a sampler would give."""
    generator = torch.Generator().manual_seed(1)
    posterior = {
        name: value - 0.05 * (abs(value) + 0.1) * torch.rand(chains, draws, generator=generator)
        for name, value in found.scalars.items()
    }
    if found.model.last_layer_prior is not None:
        size = found.model.last_layer_size
        posterior["last_layer"] = 0.1 * torch.randn(chains, draws, size, generator=generator)
    return Fit(found.model, "nuts", History(), posterior, {"max_r_hat": 1.0, "divergences": 0})


def dense_terms(law, y):
    """``log p(y_i | other observed y)`` by conditioning with dense matrices, scipy and no more."""
    y = y.numpy()
    index = np.flatnonzero(~np.isnan(y))
    values = y[index]
    covariance = np.linalg.inv(law.precision.to_dense().detach().numpy())
    if isinstance(law, pc.GraphNormal):
        z, jacobian = values - law.loc.detach().numpy()[index], np.zeros(len(index))
    else:
        scale = np.sqrt(np.diag(covariance))
        covariance = covariance / np.outer(scale, scale)
        count = law.marginal_dist.total_count.detach().numpy() * np.ones(len(y))
        failure = law.marginal_dist.probs.detach().numpy() * np.ones(len(y))
        marginal = stats.nbinom(count[index], 1 - failure[index])
        z = stats.norm.ppf((marginal.cdf(values - 1) + marginal.cdf(values)) / 2)
        jacobian = marginal.logpmf(values) - stats.norm.logpdf(z)
    covariance = covariance[np.ix_(index, index)]
    terms = np.empty(len(index))
    for i in range(len(index)):
        others = np.arange(len(index)) != i
        weights = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, i])
        variance = covariance[i, i] - weights @ covariance[others, i]
        terms[i] = stats.norm.logpdf(z[i], weights @ z[others], math.sqrt(variance)) + jacobian[i]
    return terms


# -------------------------------------------------------------------- leave one out


@pytest.mark.parametrize("hidden", [0, 4])
@pytest.mark.parametrize("family", ["normal", "negative_binomial"])
def test_loo_is_leave_one_out_by_dense_conditioning(family, hidden):
    data = example(family, hidden=hidden)
    found = plug_in(family, data)
    idata = pc.to_inference_data(found, num_samples=100)
    expected = dense_terms(found.model.joint(), found.model.data.y)
    loo = az.loo(idata, pointwise=True)
    assert np.abs(loo.loo_i.values - expected).max() < 1e-6
    assert abs(loo.elpd_loo - expected.sum()) < 1e-6
    assert abs(loo.p_loo) < 1e-6  # nothing was estimated while a value was left out
    assert float(loo.pareto_k.max()) < 0.5


@pytest.mark.parametrize("family", ["normal", "negative_binomial"])
def test_every_posterior_draw_has_the_terms_of_its_own_parameters(family):
    found = with_posterior(plug_in(family, example(family)))
    idata = pc.to_inference_data(found)
    assert idata.log_likelihood["y"].dims == ("chain", "draw", "node")
    for chain, draw in [(0, 0), (0, 29), (1, 7)]:
        scalars = {name: values[chain, draw] for name, values in found.posterior.items()}
        with torch.no_grad():
            law = found.model.joint(**scalars)
        terms = idata.log_likelihood["y"].sel(chain=chain, draw=draw).values
        assert np.abs(terms - dense_terms(law, found.model.data.y)).max() < 1e-6
        for name, value in scalars.items():
            assert float(idata.posterior[name].sel(chain=chain, draw=draw)) == float(value)


@pytest.mark.parametrize("family", ["normal", "lognormal", "poisson", "negative_binomial"])
@pytest.mark.parametrize(
    "options",
    [{}, {"nugget": True}, {"precision": "normalized_adjacency"}, {"last_layer_prior": 1.0}],
)
def test_batches_of_draws_agree_with_one_law_at_a_time(family, options, monkeypatch):
    monkeypatch.setattr(inference_data, "_BATCH_NUMBERS", 7 * 30)  # several batches, one short
    found = with_posterior(plug_in(family, example(family), **options), chains=2, draws=12)
    idata = pc.to_inference_data(found)
    observed = found.model.data.observed
    rows = []
    for k in range(24):
        scalars = {name: draws.flatten(0, 1)[k] for name, draws in found.posterior.items()}
        with torch.no_grad():
            law = found.model.joint(**scalars)
            rows.append(law.pointwise_log_prob(found.model.data.y)[observed])
    if "last_layer" in found.posterior:
        assert idata.posterior["last_layer"].dims == ("chain", "draw", "weight")
        assert "last_layer[0]" in az.summary(idata).index
    terms = idata.log_likelihood["y"].values.reshape(24, -1)
    np.testing.assert_allclose(terms, torch.stack(rows).numpy(), rtol=1e-9, atol=1e-9)


def test_a_long_posterior_is_thinned_and_its_draws_keep_their_numbers():
    found = with_posterior(plug_in("normal", example()), draws=100)
    idata = pc.to_inference_data(found, num_samples=50)
    assert dict(idata.posterior.sizes) == {"chain": 2, "draw": 25}
    numbers = idata.posterior.draw.values
    assert (numbers[0], numbers[-1]) == (0, 99)
    np.testing.assert_array_equal(
        idata.posterior["rho"].values, found.posterior["rho"].numpy()[:, numbers]
    )


# -------------------------------------------------------------------- comparing models


SHORT = Schedule(max_epochs=150, check_every=10, patience=4)


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")  # while training starts
@pytest.mark.parametrize("source", ["nc_sids", "simulated"])
def test_compare_prefers_negative_binomial_where_counts_are_overdispersed(source):
    if source == "nc_sids":
        data, options = pc.datasets.nc_sids(), {"exposure": "exposure"}
    else:
        data, options = example("negative_binomial", rows=10, columns=8, hidden=0), {}
    idatas = {}
    for family in ("poisson", "negative_binomial"):
        model = CopulaGNN("linear", family, "car", **options)
        found = fit(model, data, method="mle", lr=0.05, schedule=SHORT)
        idatas[family] = pc.to_inference_data(found, num_samples=100)
    table = az.compare(idatas)
    assert table.index[0] == "negative_binomial"
    assert table["elpd_diff"].iloc[1] > 0
    assert not table["warning"].any()


# -------------------------------------------------------------------- predictive checks


@pytest.mark.parametrize("family", ["normal", "lognormal", "negative_binomial"])
def test_loo_pit_is_uniform_for_data_from_the_model(family):
    """Data sets are drawn from the law itself; each gives a share of LOO-PIT values per fifth.

    Values within a data set are dependent, so a data set counts as one observation. The shares of
    joint draws scatter far more: there the check would see the dependence, not the fit.
    """
    found = plug_in(family, example(family, rows=6, columns=6))
    model, hidden = found.model, ~found.model.data.observed
    law = found.model.joint()
    shares, means = [], {"y": [], "y_rep": []}
    for y in law.sample((50,)):
        model.observe(replace(model.data, y=y).hide(hidden))
        idata = pc.to_inference_data(found, num_samples=400)
        pit = az.loo_pit(idata, y="y")
        assert pit.shape == (27,)
        shares.append(np.histogram(pit, bins=5, range=(0, 1))[0] / len(pit))
        means["y"].append(pit.mean())
        means["y_rep"].append(az.loo_pit(idata, y="y", y_hat="y_rep").mean())
    t = (np.mean(shares, 0) - 0.2) / (np.std(shares, 0, ddof=1) / math.sqrt(50))
    assert np.abs(t).max() < stats.t.ppf(1 - FAILURE_RATE / 2, 49), np.mean(shares, 0)
    assert np.std(means["y"]) < np.std(means["y_rep"]) / 2


def test_counts_that_tie_would_spoil_loo_pit_and_rounding_has_them_back():
    data = example("negative_binomial", rows=10, columns=10, hidden=0)
    idata = pc.to_inference_data(plug_in("negative_binomial", data))
    draws = idata.posterior_predictive["y"].values
    counts = np.rint(draws)
    assert 0 < np.abs(draws - counts).max() <= 1e-6
    assert (idata.observed_data["y"].values == data.y.numpy()).all()
    y = data.y.numpy()
    below, upto = (counts < y).mean((0, 1)), (counts <= y).mean((0, 1))
    pit = az.loo_pit(idata, y="y")
    assert ((below - 1e-9 <= pit) & (pit <= upto + 1e-9)).all()
    tied = upto > below
    share = (pit - below)[tied] / (upto - below)[tied]  # of the ties, uniform by node
    assert stats.kstest(share, "uniform").pvalue > FAILURE_RATE


@pytest.mark.parametrize("family", ["lognormal", "poisson"])
def test_draws_given_the_others_have_the_quantiles_of_the_conditional_law(family):
    found = plug_in(family, example(family))
    count = 4000
    idata = pc.to_inference_data(found, num_samples=count)
    law, y = found.model.joint(), found.model.data.y
    draws = np.round(idata.posterior_predictive["y"].values[0], 5 if family == "lognormal" else 0)
    threshold = stats.norm.ppf(1 - FAILURE_RATE / 2)
    for position, node in enumerate(found.model.data.observed.nonzero().squeeze(-1).tolist()[:8]):
        alone = y.clone()
        alone[node] = math.nan
        conditional = law.condition(alone)
        where = conditional.nodes.tolist().index(node)
        at = conditional.quantile(0.7).detach()
        p = float(conditional.cdf(at)[where].detach())
        share = (draws[:, position] <= float(at[where])).mean()
        assert abs(share - p) < threshold * math.sqrt(p * (1 - p) / count) + 1e-3


def test_joint_draws_carry_the_dependence_and_draws_given_the_others_do_not():
    found = plug_in("normal", example(hidden=0))
    idata = pc.to_inference_data(found, num_samples=4000)
    first, second = found.model.data.graph.edges[0]
    covariance = np.linalg.inv(found.model.joint().precision.to_dense().detach().numpy())
    expected = covariance[first, second] / math.sqrt(
        covariance[first, first] * covariance[second, second]
    )
    bound = stats.norm.ppf(1 - FAILURE_RATE / 2) / math.sqrt(4000)
    for name, correlation in [("y_rep", expected), ("y", 0.0)]:
        draws = idata.posterior_predictive[name].values[0]
        assert abs(np.corrcoef(draws[:, first], draws[:, second])[0, 1] - correlation) < bound


def test_predictions_are_those_of_the_fit_at_the_missing_nodes():
    found = plug_in("lognormal", example("lognormal"))
    idata = pc.to_inference_data(found, num_samples=4000)
    prediction = found.predict()
    assert idata.predictions["y"].missing_node.values.tolist() == prediction.nodes.tolist()
    share = (idata.predictions["y"].values[0] <= prediction.quantile(0.8).numpy()).mean(0)
    bound = stats.norm.ppf(1 - FAILURE_RATE / 2) * math.sqrt(0.16 / 4000)
    assert np.abs(share - 0.8).max() < bound


# -------------------------------------------------------------------- ensembles


def two_fits():
    fits = [plug_in("lognormal", example("lognormal")) for _ in range(2)]
    fits[1].model.scalars["rho"].set_(0.3)
    return fits


def test_an_ensemble_of_plug_in_fits_is_the_equal_mixture():
    fits = two_fits()
    idata = pc.to_inference_data(Ensemble(fits), num_samples=101)
    y, observed = fits[0].model.data.y, fits[0].model.data.observed
    densities = [f.model.joint().pointwise_log_prob(y)[observed].exp() for f in fits]
    expected = ((densities[0] + densities[1]) / 2).log().detach().numpy()
    assert np.abs(az.loo(idata, pointwise=True).loo_i.values - expected).max() < 1e-6
    rho = idata.posterior["rho"].values[0]
    np.testing.assert_allclose(rho, np.where(np.arange(101) % 2 == 0, 0.93, 0.3), rtol=1e-6)
    assert idata.attrs["fits"] == 2


def test_the_draws_of_an_ensemble_belong_to_the_parameters_beside_them():
    idata = pc.to_inference_data(Ensemble(two_fits()), num_samples=4000)
    latent = np.log(idata.posterior_predictive["y_rep"].values[0])
    rho = idata.posterior["rho"].values[0]
    weak, strong = (np.corrcoef(latent[chosen][:, :2].T)[0, 1] for chosen in (rho < 0.5, rho > 0.5))
    # Nodes 0 and 2 of the grid are two edges apart: hardly correlated if rho is 0.3.
    assert strong - weak > 0.2


def test_chains_of_an_ensemble_of_posteriors_stand_side_by_side():
    fits = [with_posterior(part, draws=30) for part in two_fits()]
    idata = pc.to_inference_data(Ensemble(fits))
    assert dict(idata.posterior.sizes) == {"chain": 4, "draw": 30}
    np.testing.assert_array_equal(
        idata.posterior["rho"].values,
        torch.cat([part.posterior["rho"] for part in fits]).numpy(),
    )
    assert idata.attrs["plug_in"] == 0


# -------------------------------------------------------------------- what arviz makes of it


@pytest.mark.parametrize("family", ["normal", "negative_binomial"])
@pytest.mark.parametrize("kind", ["plug_in", "posterior"])
def test_the_plots_and_summaries_of_arviz_work_without_a_warning(family, kind):
    found = plug_in(family, example(family))
    idata = pc.to_inference_data(found if kind == "plug_in" else with_posterior(found, draws=150))
    assert list(az.summary(idata).index) == list(found.scalars)
    az.plot_ppc(idata, num_pp_samples=20)
    az.plot_ppc(idata, data_pairs={"y": "y_rep"}, num_pp_samples=20)
    az.plot_loo_pit(idata, y="y")
    az.plot_loo_pit(idata, y="y", ecdf=True)
    az.plot_khat(az.loo(idata, pointwise=True))
    if kind == "posterior":
        az.plot_trace(idata)
    plt.close("all")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")  # while training starts
def test_a_nuts_fit_from_end_to_end():
    data = example("negative_binomial", rows=8, columns=10)
    found = fit(
        CopulaGNN("linear", "negative_binomial", "car"),
        data,
        method="nuts",
        schedule=SHORT,
        num_draws=200,
        num_warmup=100,
    )
    idata = pc.to_inference_data(found)
    assert set(az.summary(idata)["r_hat"].round(1)) <= {1.0, 1.1}
    assert az.loo(idata).p_loo > 0
    az.plot_trace(idata)
    az.plot_loo_pit(idata, y="y")
    plt.close("all")


def test_names_are_coordinates_and_groups_hold_what_they_should():
    data = pc.datasets.nc_sids()
    data.y[[5, 70]] = math.nan
    found = plug_in("negative_binomial", data, exposure="exposure")
    idata = pc.to_inference_data(
        found, num_samples=50, names=data.names, feature_names=data.feature_names
    )
    assert idata.groups() == [
        "posterior",
        "posterior_predictive",
        "predictions",
        "log_likelihood",
        "observed_data",
        "constant_data",
        "predictions_constant_data",
    ]
    assert float(idata.observed_data["y"].sel(node="Ashe")) == float(data.y[0])
    assert idata.predictions.missing_node.values.tolist() == [data.names[5], data.names[70]]
    assert idata.predictions["y"].dtype == np.int64
    x = idata.constant_data["x"].sel(node="Ashe", feature="sqrt_nonwhite_share")
    assert float(x) == float(data.x[0, 0])
    exposure = idata.predictions_constant_data["exposure"].sel(missing_node=data.names[70])
    assert float(exposure) == float(data.exposure[70])
    assert az.loo(idata, pointwise=True).loo_i.sel(node="Ashe").size == 1
    assert "no posterior" in idata.posterior.attrs["parameters"]


def test_a_model_without_global_parameters_shows_its_medians():
    data = example("poisson")
    found = plug_in("poisson", data, precision="none")
    idata = pc.to_inference_data(found, num_samples=50)
    assert idata.posterior["median"].dims == ("chain", "draw", "node")
    assert len(az.summary(idata)) == int(found.model.data.observed.sum())
    marginal = stats.poisson(found.model.joint().marginal_dist.rate.detach().numpy())
    observed = found.model.data.observed.numpy()
    expected = marginal.logpmf(data.y.numpy())[observed]
    assert np.abs(az.loo(idata, pointwise=True).loo_i.values - expected).max() < 1e-6


def test_what_the_sampler_reports_by_draw_is_kept():
    found = with_posterior(plug_in("normal", example()))
    found.diagnostics["diverging"] = torch.zeros(2, 30, dtype=torch.bool)
    found.diagnostics["diverging"][1, 4] = True
    idata = pc.to_inference_data(found)
    assert list(idata.sample_stats.data_vars) == ["diverging"]
    assert bool(idata.sample_stats["diverging"].sel(chain=1, draw=4))
    assert int(idata.sample_stats["diverging"].sum()) == 1


def test_it_can_be_written_and_read(tmp_path):
    idata = pc.to_inference_data(plug_in("normal", example()), num_samples=50)
    idata.to_netcdf(tmp_path / "fit.nc")
    back = az.from_netcdf(tmp_path / "fit.nc")
    assert back.groups() == idata.groups()
    np.testing.assert_array_equal(back.log_likelihood["y"], idata.log_likelihood["y"])


def test_from_arviz_1_on_it_is_a_tree_with_counts_left_alone(monkeypatch):
    found = plug_in("negative_binomial", example("negative_binomial"))
    old = pc.to_inference_data(found, num_samples=50)
    monkeypatch.setattr(inference_data.az, "__version__", "1.3.0")
    tree = pc.to_inference_data(found, num_samples=50)
    assert isinstance(tree, xr.DataTree)
    assert set(tree.children) == set(old.groups())
    assert tree["posterior_predictive"]["y"].dtype == np.int64
    assert tree["observed_data"]["y"].dtype == np.int64
    np.testing.assert_array_equal(tree["log_likelihood"]["y"], old.log_likelihood["y"])
    assert tree.attrs["inference_library"] == "pyro_copula"


# -------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "argument", "found"),
    [
        ({"num_samples": 10}, "num_samples", "10"),
        ({"num_samples": 100.0}, "num_samples", "100.0"),
        ({"names": ["a", "b"]}, "names", "2 names"),
        ({"names": ["a", "b", "a", *map(str, range(27))]}, "names", "'a' more than once"),
        ({"feature_names": ["one"]}, "feature_names", "1 names"),
    ],
)
def test_bad_arguments_are_named(options, argument, found):
    with pytest.raises(InvalidArgumentError, match=f"`{argument}` .*{found}"):
        pc.to_inference_data(plug_in("normal", example()), **options)


def test_something_else_than_a_fit_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"`fit` .*found CopulaGNN"):
        pc.to_inference_data(CopulaGNN())
