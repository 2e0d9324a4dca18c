"""Predictions: what they condition on, mixtures against draws, scores against other formulas."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from fit_examples import SHORT, example, quick_fit
from scipy import stats

import pyro_copula as pc
from pyro_copula import CopulaGNN, Prediction, fit
from pyro_copula.errors import InvalidArgumentError

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")

SIZES = {"num_draws": 30, "num_warmup": 20, "num_chains": 2}


@pytest.fixture(scope="module")
def posterior_fits():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield {family: quick_fit(family, "nuts", **SIZES) for family in ("normal", "poisson")}
    torch.set_default_dtype(before)


# ---------------------------------------------------------------- what is given


@pytest.mark.parametrize("method", ["mle", "svi"])
def test_conditioning_on_some_of_the_observed_nodes(method):
    data = example()
    found = quick_fit(method=method, num_draws=9)
    some = data.observed & (torch.arange(60) < 40)
    prediction = found.predict(given=some)
    assert prediction.nodes.tolist() == (~some).nonzero().squeeze(-1).tolist()
    y = torch.where(some, data.y, math.nan)
    expected = torch.cat(
        [law.condition(y).mean.reshape(-1, 60 - int(some.sum())) for law in found._laws()]
    )
    torch.testing.assert_close(prediction.mean, expected.mean(0))
    same = found.predict(given=data.observed)
    torch.testing.assert_close(same.mean, found.predict().mean)
    assert not torch.allclose(found.predict(given=some, nodes=same.nodes).mean, same.mean)
    assert torch.equal(found.model.data.observed, data.observed)  # the fit is as it was


def test_features_made_of_outcomes_see_only_what_is_given():
    data = example()
    model = CopulaGNN("linear", "normal", "none", neighbour_outcomes=True)
    found = fit(model, data, data.observed, schedule=SHORT)
    some = data.observed & (torch.arange(60) < 40)
    hidden = found.predict(given=some)
    y = torch.where(some, data.y, data.y + 100.0)
    changed = type(data)(x=data.x, edge_index=data.edge_index, y=y)
    found.model.observe(pc.models.NodeData.from_pyg(changed, data.observed))
    torch.testing.assert_close(found.predict(given=some).mean, hidden.mean)


def test_ensembles_predict_as_the_mixture_of_their_fits():
    data = example()
    found = quick_fit(restarts=3)
    some = data.observed & (torch.arange(60) % 2 == 0)
    for given in ("observed", "none", some):
        rows = [one.predict(given=given) for one in found.fits]
        mixture = found.predict(given=given)
        torch.testing.assert_close(mixture.mean, torch.stack([row.mean for row in rows]).mean(0))
        second = torch.stack([row.variance + row.mean.square() for row in rows]).mean(0)
        torch.testing.assert_close(mixture.variance, second - mixture.mean.square())


def test_a_mask_may_be_an_array_or_a_list():
    found = quick_fit(schedule=pc.Schedule(max_epochs=5))
    some = example().observed & (torch.arange(60) < 40)
    expected = found.predict(given=some).mean
    for mask in (some.numpy(), some.tolist(), pd.Series(some.numpy(), index=range(60, 0, -1))):
        assert torch.equal(found.predict(given=mask).mean, expected)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"given": "all"}, "`given`"),
        ({"given": None}, r"`given` must be boolean of shape \(60,\), but found None"),
        ({"given": ["a", "b"]}, r"boolean of shape \(60,\), but found \['a', 'b'\]"),
        ({"given": [0, 2, 3]}, r"boolean of shape \(60,\), but found torch.int64 of shape \(3,\)"),
        ({"given": np.zeros(60, dtype=bool)}, "without any node"),
        ({"given": torch.ones(60)}, "boolean"),
        ({"given": torch.ones(60, dtype=torch.bool)}, "true at node 1, not observed"),
        ({"given": torch.zeros(60, dtype=torch.bool)}, "without any node"),
        ({"given": torch.ones(3, dtype=torch.bool)}, "shape"),
        ({"nodes": [0]}, "node 0"),
        ({"nodes": [1, 60]}, "node 60"),
        ({"nodes": []}, "no node"),
        ({"nodes": ["Ashe"]}, "names if the data have"),
        ({"nodes": [1.5]}, "numbers of nodes"),
        ({"nodes": torch.ones(60, dtype=torch.bool)}, r"node 0 \(its value is given\)"),
        ({"nodes": 2**70}, "nodes="),
        ({"nodes": [2**70]}, r"node 1180591620717411303424 \(the graph has nodes 0 to 59\)"),
        ({"num_samples": 0}, "`num_samples`"),
    ],
)
def test_bad_questions(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        quick_fit(schedule=pc.Schedule(max_epochs=5)).predict(**options)


def test_bad_values_to_score():
    prediction = quick_fit(schedule=pc.Schedule(max_epochs=5)).predict()
    for y in (torch.ones(3), torch.ones(15, 1), torch.ones(59)):
        with pytest.raises(InvalidArgumentError, match="of length 15"):
            prediction.score(y)
    with pytest.raises(InvalidArgumentError, match=r"found NaN at all 15.\n  Pass the true"):
        prediction.score(torch.full((15,), math.nan))
    with pytest.raises(InvalidArgumentError, match=r"`y` must be one number .* found NoneType"):
        prediction.score(None)
    for levels in (0.9, "0.9", torch.tensor(0.9)):
        with pytest.raises(InvalidArgumentError, match=r"`levels` .*\n  Pass levels=\[0.9\]"):
            prediction.to_frame(levels)
    for level in ("0.9", None):
        with pytest.raises(InvalidArgumentError, match="`level` must be a number"):
            prediction.interval(level)
    data = example()
    everything = fit(CopulaGNN("linear", "normal", "car"), data, schedule=pc.Schedule(max_epochs=5))
    with pytest.raises(InvalidArgumentError, match="no missing node"):
        everything.predict()
    assert len(everything.predict(given="none").nodes) == 60


# ---------------------------------------------------------------- nodes and names


def test_nodes_as_masks_and_arrays():
    found = quick_fit(schedule=pc.Schedule(max_epochs=5))
    mask = ~example().observed & (torch.arange(60) < 20)
    expected = [1, 5, 9, 13, 17]
    for nodes in (
        mask,
        mask.numpy(),
        mask.tolist(),
        np.array(expected),
        np.array([1.0, 5, 9, 13, 17]),
    ):
        assert found.predict(nodes=nodes).nodes.tolist() == expected


def test_values_in_two_possible_orders_are_refused():
    data, found = example(), quick_fit(schedule=pc.Schedule(max_epochs=5))
    plain = found.predict(given="none")
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    mixed = found.predict(given="none", nodes=order)
    torch.testing.assert_close(mixed.mean, plain.mean[order])
    for use in (mixed.score, mixed.log_prob, mixed.cdf, mixed.plot):
        with pytest.raises(InvalidArgumentError, match=r"in one order.*\n  Leave `nodes`"):
            use(data.y)
    # one value fewer, and the length says which order it is
    most = found.predict(given="none", nodes=order[1:])
    assert most.score(data.y) == most.score(data.y[order[1:]])
    assert plain.score(data.y) == found.predict(given="none", nodes=range(60)).score(data.y)


@pytest.mark.parametrize("method", ["mle", "svi"])
def test_some_nodes_have_the_draws_that_they_have_among_all(method):
    found = quick_fit(method=method, num_draws=9)
    torch.manual_seed(4)
    everything = found.predict(num_samples=40)
    all_draws = everything.samples
    torch.manual_seed(4)
    some = found.predict(num_samples=40, nodes=[9, 1, 5])
    place = [everything.nodes.tolist().index(node) for node in (9, 1, 5)]
    torch.testing.assert_close(some.samples, all_draws[:, place])
    torch.testing.assert_close(some.interval(0.8).lower, everything.interval(0.8).lower[place])
    y = example().y
    torch.testing.assert_close(some.log_prob(y), everything.log_prob(y)[place])
    torch.testing.assert_close(some.cdf(y), everything.cdf(y)[place])


def test_names_of_nodes():
    data = pc.datasets.nc_sids()
    observed = torch.arange(100) % 5 != 0
    model = CopulaGNN("linear", "poisson", "car", exposure="exposure")
    found = fit(model, data, observed, schedule=SHORT)
    table = found.predict().to_frame()
    assert table.index.tolist() == data.names[::5]
    assert table.index.name == "node"
    some = found.predict(nodes=[data.names[10], data.names[0]])
    assert some.nodes.tolist() == [10, 0]
    assert some.to_frame().index.tolist() == [data.names[10], data.names[0]]
    assert found.refit("map", schedule=SHORT).predict().to_frame().index.tolist() == data.names[::5]


# ---------------------------------------------------------------- mixtures


#: The chance that one of the comparisons with draws below fails though all is right: 15 nodes, 3
#: levels and 2 families at 5 standard errors.
FAILURE_RATE = 15 * 3 * 2 * 6e-7
ERRORS = 5.0


@pytest.mark.parametrize("family", ["normal", "poisson"])
def test_quantiles_of_a_posterior_mixture_against_draws(posterior_fits, family):
    prediction = posterior_fits[family].predict(num_samples=6000)
    assert "mixture of 60" in repr(prediction)
    draws = prediction.samples
    assert draws.shape == (6000, 15)
    for q in (0.05, 0.5, 0.9):
        quantile = prediction.quantile(q)
        below = (draws <= quantile).double().mean(0)
        at = prediction.cdf(quantile)
        error = ERRORS * (at * (1 - at) / 6000).sqrt()
        assert bool(((below - at).abs() < error + 1e-9).all())
        if family == "normal":
            torch.testing.assert_close(at, torch.full_like(at, q))
        else:
            assert bool((at >= q).all())
            assert bool((prediction.cdf(quantile - 1) < q).all())
    spread = prediction.variance.sqrt()
    assert bool(((draws.mean(0) - prediction.mean).abs() < ERRORS * spread / 6000**0.5).all())
    torch.testing.assert_close(draws.var(0), prediction.variance, rtol=0.15, atol=0.0)


def test_parameter_uncertainty_is_part_of_a_prediction(posterior_fits):
    found = posterior_fits["normal"]
    prediction = found.predict()
    means = torch.cat([law.condition(found.model.data.y).mean for law in found._laws()])
    within = torch.cat([law.condition(found.model.data.y).variance for law in found._laws()])
    assert means.shape == (60, 15)
    torch.testing.assert_close(prediction.variance, within.mean(0) + means.var(0, correction=0))
    assert bool((prediction.variance > within.mean(0)).all())


def test_few_draws_come_from_all_parts_of_a_mixture():
    law = [pc.GraphNormal(torch.full((3,), 100.0 * k), _path()) for k in range(5)]
    y = torch.tensor([0.0, math.nan, math.nan])
    prediction = Prediction(
        [part.condition(y + 100.0 * k) for k, part in enumerate(law)], num_samples=10
    )
    counts = torch.bincount((prediction.samples[:, 0] / 100).round().long(), minlength=5)
    assert counts.tolist() == [2, 2, 2, 2, 2]


def test_quantiles_in_single_precision_stop_where_nothing_moves(monkeypatch):
    y = torch.tensor([0.0, math.nan, math.nan], dtype=torch.float32)
    graph = pc.Graph.from_edges([(0, 1), (1, 2)])
    path = pc.SparsePrecision(graph, y.new_full((3,), 2.0), y.new_full((2,), -0.9))
    laws = [pc.GraphNormal(y.new_full((3,), 0.1 * k), path).condition(y) for k in range(5)]
    prediction = Prediction(laws)
    calls = []

    def counted(x):
        calls.append(x)
        return Prediction._cdf(prediction, x)

    monkeypatch.setattr(prediction, "_cdf", counted)
    quantile = prediction.quantile(0.9)
    assert quantile.dtype == torch.float32
    assert len(calls) < 35  # of at most 60: a float has 24 binary digits
    below, above = (prediction.cdf(torch.nextafter(quantile, quantile + s)) for s in (-1.0, 1.0))
    assert bool((below <= 0.9 + 1e-6).all())
    assert bool((above >= 0.9 - 1e-6).all())


def _path():
    return pc.CARPrecision(pc.Graph.from_edges([(0, 1), (1, 2)]))(rho=0.9, tau=1.0)


# ---------------------------------------------------------------- scores


def test_scores_of_normal_predictions_against_other_formulas():
    data = example()
    found = quick_fit()
    prediction = found.predict(num_samples=4000)
    y, mean = data.y[prediction.nodes].numpy(), prediction.mean.numpy()
    sd = prediction.variance.sqrt().numpy()
    scores = prediction.score(data.y)
    assert scores["r2"] == pytest.approx(1 - np.mean((y - mean) ** 2) / np.var(y))
    assert scores["log_score"] == pytest.approx(np.mean(stats.norm.logpdf(y, mean, sd)))
    z = (y - mean) / sd
    crps = sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert scores["crps"] == pytest.approx(np.mean(crps), rel=1e-5)
    half = stats.norm.ppf(0.95) * sd
    assert scores["coverage"] == np.mean(np.abs(y - mean) <= half)
    assert scores["coverage_50"] == np.mean(np.abs(z) <= stats.norm.ppf(0.75))
    assert scores["width"] == pytest.approx(np.mean(2 * half))
    outside = np.maximum(np.abs(y - mean) - half, 0)
    assert scores["interval_score"] == pytest.approx(np.mean(2 * half + 20 * outside))
    assert "pit_coverage" not in scores


def test_scores_of_count_predictions_against_other_formulas():
    data = example("poisson")
    found = fit(CopulaGNN("linear", "poisson", "none"), data, data.observed, schedule=SHORT)
    prediction = found.predict(num_samples=8000)
    y, rate = data.y[prediction.nodes].numpy(), prediction.mean.numpy()
    law = stats.poisson(rate)
    scores = prediction.score(data.y, seed=3)
    a, b = 1 + y, 1 + rate
    deviance = np.sum(a * np.log(a / b) - (a - b)) / np.sum(a * np.log(a / a.mean()))
    assert scores["r2_deviance"] == pytest.approx(1 - deviance)
    assert scores["log_score"] == pytest.approx(np.mean(law.logpmf(y)))
    k = np.arange(200)[:, None]
    crps = np.mean(np.sum((law.cdf(k) - (k >= y)) ** 2, axis=0))
    assert scores["crps"] == pytest.approx(crps, rel=1e-9)
    inside = (law.ppf(0.05) <= y) & (y <= law.ppf(0.95))
    assert scores["coverage"] == np.mean(inside)
    v = torch.rand(15, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).numpy()
    pit = law.cdf(y - 1) + v * (law.cdf(y) - law.cdf(y - 1))
    assert scores["pit_coverage"] == pytest.approx(np.mean((pit >= 0.05) & (pit <= 0.95)))
    assert scores["pit_coverage_50"] == pytest.approx(np.mean((pit >= 0.25) & (pit <= 0.75)))
    assert prediction.score(data.y, seed=3) == scores
    many = [prediction.score(data.y, seed=seed)["pit_coverage_50"] for seed in range(5)]
    assert len(set(many)) > 1


def test_the_crps_of_wide_counts_and_of_small_and_large_mixtures_needs_no_luck():
    y = torch.tensor([math.nan, 1000.0, math.nan])
    truth = torch.tensor([970.0, 1000.0, 1100.0])
    rates = [900.0, 1000.0, 1150.0]
    laws = [pc.GaussianCopula(three_poissons(rate), _path()).condition(y) for rate in rates]
    counts = torch.arange(500.0, 1700.0)
    cdf = torch.stack([law.cdf(counts.unsqueeze(-1).expand(-1, 2)) for law in laws]).mean(0)
    step = (counts.unsqueeze(-1) >= truth[[0, 2]]).double()
    exact = float((cdf - step).square().sum(0).mean())
    few = Prediction(laws).score(truth)["crps"]
    assert few == pytest.approx(exact, rel=1e-3)  # 334 quantiles of each law
    pyro.set_rng_seed(1)
    many = Prediction(laws * 8)  # more laws than are scored by their quantiles
    first = many.score(truth)["crps"]
    torch.rand(3)
    assert Prediction(laws * 8).score(truth)["crps"] == first  # whatever the state of torch's own
    assert many.score(truth, seed=1)["crps"] != first
    assert first == pytest.approx(exact, rel=0.05)  # 1,000 draws
    state = torch.random.get_rng_state()
    many.score(truth)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("family", ["normal", "poisson"])
def test_values_that_are_not_known_are_left_out_and_counted(family):
    data, found = example(family), quick_fit(family, schedule=pc.Schedule(max_epochs=5))
    prediction = found.predict()
    whole = prediction.score(data.y)
    assert "num_scored" not in whole
    unknown = prediction.nodes[[2, 7, 8]]
    known = prediction.nodes[~torch.isin(prediction.nodes, unknown)]
    y = data.y.index_fill(0, unknown, math.nan)
    scores = prediction.score(y)
    assert scores.pop("num_scored") == 12
    assert scores == found.predict(nodes=known).score(data.y)
    assert scores == {k: v for k, v in prediction.score(y[prediction.nodes]).items() if k in scores}
    # also where no more than the nodes of the parts is known of the graph
    mixed = Prediction(prediction._parts, prediction.nodes.flip(0)).score(y[:58])
    assert mixed["log_score"] == pytest.approx(scores["log_score"])


@pytest.mark.parametrize("family", ["normal", "poisson"])
def test_values_that_do_not_vary_have_no_r2_and_all_other_scores(family):
    data, found = example(family), quick_fit(family, schedule=pc.Schedule(max_epochs=5))
    name = "r2" if family == "normal" else "r2_deviance"
    one = found.predict(nodes=[5]).score(data.y)
    same = found.predict().score(torch.full((15,), 3.0))
    for scores in (one, same):
        assert math.isnan(scores.pop(name))
        assert all(math.isfinite(score) for score in scores.values())
    assert one["log_score"] == float(found.predict(nodes=[5]).log_prob(data.y))


def test_truth_values_and_whole_numbers_are_scored_as_numbers():
    data = example()
    data.y = data.y > 0
    found = fit(CopulaGNN("linear", "bernoulli", "car"), data, data.observed, schedule=SHORT)
    prediction = found.predict()
    expected = prediction.score(data.y.double())
    for y in (data.y, data.y.long(), data.y.numpy(), data.y.tolist(), pd.Series(data.y.numpy())):
        assert prediction.score(y) == expected


def test_laws_of_two_kinds_are_not_mixed():
    y = torch.tensor([math.nan, 1.0, math.nan])
    counts = pc.GaussianCopula(three_poissons(2.0), _path()).condition(y)
    normal = pc.GraphNormal(torch.zeros(3), _path()).condition(y)
    with pytest.raises(InvalidArgumentError, match=r"`parts` .* both kinds of laws at node 0"):
        Prediction([counts, normal])
    ensemble = pc.Ensemble([quick_fit("poisson"), quick_fit("normal")])
    with pytest.raises(InvalidArgumentError, match="both kinds of laws at node 1"):
        ensemble.predict()


def three_poissons(rate):
    return dist.Poisson(torch.full((3,), rate))


# ---------------------------------------------------------------- pictures


def test_the_picture_of_a_prediction():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    data = example()
    prediction = quick_fit().predict()
    axes = prediction.plot(data.y, level=0.8)
    order = prediction.median.argsort(stable=True)
    (median, *_) = axes.lines
    np.testing.assert_allclose(median.get_ydata(), prediction.median[order])
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "80% interval" in labels
    inside = pc.metrics.coverage(data.y[prediction.nodes], prediction.interval(0.8))
    shown = {
        c.get_label(): len(c.get_offsets()) for c in axes.collections if "side" in c.get_label()
    }
    assert shown["value, inside"] == round(15 * inside)
    assert shown["value, inside"] + shown.get("value, outside", 0) == 15
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert ticks == [str(node) for node in prediction.nodes[order].tolist()]  # few: each is named
    assert prediction.plot(axes=axes) is axes
    plt.close(axes.figure)
