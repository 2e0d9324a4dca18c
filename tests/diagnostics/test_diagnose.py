"""The diagnosis: silent when the model is right, in the right words when it is not."""

from __future__ import annotations

import math

import matplotlib
import matplotlib.pyplot as plt
import pyro.distributions as dist
import pytest
import torch
from law_examples import law, values
from scipy import stats

import pyro_copula as pc
from pyro_copula.diagnostics import findings
from pyro_copula.errors import InvalidArgumentError

matplotlib.use("Agg")

#: The chance that a statistical test fails although all is well.
FAILURE_RATE = 1e-4

#: The rate at which a right model may be told a problem, and the simulations that it needs.
ALARMS, SIMULATIONS = 0.05, 361

GRAPH = pc.simulate.grid_graph(16, 16)
N = GRAPH.num_nodes


def copula(marginal, rho=0.9, graph=GRAPH, **options):
    return pc.GaussianCopula(marginal, pc.CARPrecision(graph)(rho=rho, tau=1.0), **options)


def independent(marginal):
    graph = pc.Graph.from_edges([], num_nodes=N)
    return pc.GaussianCopula(marginal, pc.SparsePrecision(graph, torch.ones(N), torch.ones(0)))


def counts(mean=6.0, total=3.0):
    return dist.NegativeBinomial(torch.full((N,), total), torch.tensor(mean / (mean + total)))


def codes(diagnosis):
    return [finding.code for finding in diagnosis.findings]


# -------------------------------------------------------------------- a model that is right


@pytest.mark.parametrize("family", ["normal", "graph_normal", "negative_binomial", "mixed"])
def test_a_right_law_is_told_a_problem_as_rarely_as_promised(family):
    found = law(family, rows=6, columns=7, rho=0.95)
    missing = list(range(0, 42, 5))
    alarms = 0
    count = 40
    for k in range(count):
        torch.manual_seed(k)
        y = values(found, missing=missing)
        diagnosis = pc.diagnose(found, y, num_simulations=SIMULATIONS, seed=k)
        alarms += not diagnosis.ok
    assert alarms <= stats.binom.ppf(1 - FAILURE_RATE, count, ALARMS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")
@pytest.mark.parametrize(
    ("mean", "rho"), [(0.3, 0.96), (1.0, 0.96), (5.0, 0.99), (50.0, 0.999), (5.0, 0.0)]
)
def test_counts_of_any_size_keep_the_promise(mean, rho):
    """Atoms of any width: the rule for them is the same in the data and in the simulations."""
    found = copula(dist.Poisson(torch.full((N,), mean)), rho=rho)
    alarms = 0
    count = 80
    for k in range(count):
        torch.manual_seed(k)
        diagnosis = pc.diagnose(found, found.sample(), num_simulations=SIMULATIONS, seed=k)
        alarms += any(f.problem and f.code != "midpoint" for f in diagnosis.findings)
    assert alarms <= stats.binom.ppf(1 - FAILURE_RATE, count, ALARMS)


def test_p_values_are_uniform_if_the_law_is_right():
    """Neither too small, which would be false alarms, nor too large, which would be blindness."""
    found = law("normal", rows=6, columns=7, rho=0.95)
    p = {"moran": [], "bias": [], "dispersion": []}
    for k in range(100):
        torch.manual_seed(k)
        diagnosis = pc.diagnose(found, values(found), num_simulations=SIMULATIONS, seed=k)
        p["moran"].append(diagnosis.moran_after.p_value)
        p["bias"].append(diagnosis.marginal.shape.p_bias)
        p["dispersion"].append(diagnosis.conditional.shape.p_dispersion)
    for name, found_p in p.items():
        assert stats.kstest(found_p, "uniform").pvalue > FAILURE_RATE, name


def test_the_words_of_a_right_model():
    torch.manual_seed(1)
    right = copula(counts())
    diagnosis = pc.diagnose(right, right.sample())
    assert diagnosis.ok
    assert diagnosis.findings == []
    text = repr(diagnosis)
    assert text.startswith("Diagnosis of GaussianCopula: nothing wrong found\n  marginal ")
    assert "before the copula +0." in text
    assert "(the model: -0." in text  # conditional residuals of neighbours are negatively related
    assert "256 observed nodes, 500 simulations, false-alarm rate 5%" in text


# -------------------------------------------------------------------- models that are wrong


def test_poisson_marginals_of_overdispersed_counts_are_too_narrow():
    torch.manual_seed(0)
    y = copula(counts()).sample()
    diagnosis = pc.diagnose(copula(dist.Poisson(torch.full((N,), 6.0))), y)
    assert not diagnosis.ok
    assert "too_narrow" in codes(diagnosis)
    finding = next(f for f in diagnosis.findings if f.code == "too_narrow")
    assert "U-shaped" in finding.message
    assert "marginals are too narrow" in finding.message
    assert finding.advice.startswith("Try negative binomial marginals")
    assert diagnosis.marginal.histogram.outside[0]
    assert diagnosis.marginal.coverage.at(0.9) < 0.85


def test_a_scale_that_is_too_wide_gives_a_hump():
    torch.manual_seed(0)
    y = copula(dist.Normal(torch.zeros(N), 1.0), rho=0.5).sample()
    diagnosis = pc.diagnose(copula(dist.Normal(torch.zeros(N), 2.0), rho=0.5), y)
    assert "too_wide" in codes(diagnosis)
    finding = next(f for f in diagnosis.findings if f.code == "too_wide")
    assert "hump-shaped" in finding.message
    assert "marginals are too wide" in finding.message
    assert diagnosis.marginal.coverage.at(0.9) > 0.95


@pytest.mark.parametrize(
    ("shift", "code", "words"), [(1, "too_low", "larger"), (-1, "too_high", "smaller")]
)
def test_a_bias_gives_a_slope(shift, code, words):
    torch.manual_seed(0)
    y = copula(dist.Normal(torch.zeros(N), 1.0), rho=0.3).sample() + 0.5 * shift
    diagnosis = pc.diagnose(copula(dist.Normal(torch.zeros(N), 1.0), rho=0.3), y)
    assert code in codes(diagnosis)
    finding = next(f for f in diagnosis.findings if f.code == code)
    assert f"values are {words} than the model expects" in finding.message
    assert not {"too_narrow", "too_wide"} & set(codes(diagnosis))


def diagnosed(outer, inner):
    """The diagnosis of values whose residuals are at these distances from a half."""
    distance = torch.cat([outer, inner])
    u = 0.5 + distance * torch.where(torch.arange(N) % 2 == 0, 1, -1)
    y = torch.special.ndtri(u)[torch.randperm(N)]
    return pc.diagnose(independent(dist.Normal(torch.zeros(N), 1.0)), y, graph=GRAPH)


def test_another_shape_is_told_apart():
    """Two humps inside, with the right spread and the right tails."""
    torch.manual_seed(0)
    outer = 0.45 + 0.05 * torch.rand(26)
    diagnosis = diagnosed(outer, 0.45 / math.sqrt(3) + 0.06 * (torch.rand(N - 26) - 0.5))
    assert codes(diagnosis) == ["shape"]
    assert "wrong shape" in diagnosis.findings[0].message
    assert "sinh arcsinh" in diagnosis.findings[0].advice


@pytest.mark.parametrize(
    ("share", "code", "words"), [(0.2, "heavy_tails", "more"), (0.03, "light_tails", "fewer")]
)
def test_tails_are_told_apart_from_a_spread(share, code, words):
    """Residuals with the right spread, and too many or too few of them in the outer tenth."""
    torch.manual_seed(0)
    count = round(share * N)
    outer = 0.45 + 0.05 * torch.rand(count)
    left = (N / 12 - float(outer.square().sum())) / (N - count)  # mean square for the others
    inner = 0.44 * torch.linspace(0, 1, N - count) ** (0.5 * (0.44**2 / left - 1))
    diagnosis = diagnosed(outer, inner)
    assert codes(diagnosis) == [code]
    assert f"{words} values are far out than the model expects" in diagnosis.findings[0].message
    advice = "student t" if share > 0.1 else "sinh arcsinh"
    assert f"{advice} marginals" in diagnosis.findings[0].advice


def test_skewed_values_widen_a_normal_law():
    torch.manual_seed(0)
    y = torch.distributions.Gamma(1.0, 1.0).sample((N,))
    y = (y - y.mean()) / y.std()
    diagnosis = pc.diagnose(independent(dist.Normal(torch.zeros(N), 1.0)), y, graph=GRAPH)
    finding = next(f for f in diagnosis.findings if f.code == "too_wide")
    assert "sinh arcsinh" in finding.advice


def test_independent_nodes_on_correlated_data():
    torch.manual_seed(0)
    marginal = dist.Normal(torch.zeros(N), 1.0)
    y = copula(marginal).sample()
    diagnosis = pc.diagnose(independent(marginal), y, graph=GRAPH)
    assert codes(diagnosis)[0] == "graph_left"
    finding = diagnosis.findings[0]
    assert "taken for independent, but the graph carries correlation" in finding.message
    assert f"{diagnosis.moran_after.statistic:.3f}" in finding.message
    assert "GaussianCopula with a precision" in finding.advice
    assert diagnosis.moran_before.statistic == pytest.approx(diagnosis.moran_after.statistic)


@pytest.mark.parametrize(
    ("fitted", "true", "code", "words"),
    [
        (0.3, 0.95, "graph_left", "still carries correlation"),
        (0.97, 0.2, "too_narrow", "neighbours agree less than the copula expects"),
        (0.97, -0.5, "graph_overdone", "takes out more correlation than the graph carries"),
    ],
)
def test_dependence_of_the_wrong_strength(fitted, true, code, words):
    torch.manual_seed(0)
    marginal = dist.Normal(torch.zeros(N), 1.0)
    y = copula(marginal, rho=true).sample()
    diagnosis = pc.diagnose(copula(marginal, rho=fitted), y)
    assert code in codes(diagnosis)
    finding = next(f for f in diagnosis.findings if f.code == code)
    assert words in finding.message
    assert "stronger" in finding.advice or "weaker" in finding.advice


def test_no_dependence_is_worth_knowing_and_no_problem():
    torch.manual_seed(3)
    marginal = dist.Normal(torch.zeros(N), 1.0)
    y = torch.randn(N)
    diagnosis = pc.diagnose(copula(marginal, rho=0.01), y)
    assert codes(diagnosis) == ["no_dependence"]
    assert diagnosis.ok
    assert "Independent nodes may do as well; compare the two." in repr(diagnosis)


@pytest.mark.parametrize("rules", [("midpoint",), ("midpoint", "exact", "ep", "augment")])
def test_wide_atoms_are_named_with_the_alternatives_there_are(rules, monkeypatch):
    monkeypatch.setattr(findings, "DISCRETE_RULES", rules)
    torch.manual_seed(0)
    found = copula(dist.Poisson(torch.full((N,), 0.3)))
    diagnosis = pc.diagnose(found, found.sample())  # and no warning besides
    finding = diagnosis.findings[0]
    assert (finding.code, finding.problem) == ("midpoint", True)
    assert ('discrete="exact"' in finding.advice) == ("exact" in rules)


# -------------------------------------------------------------------- what it takes and gives


def test_a_mixture_of_laws_is_that_of_a_batch():
    rho = torch.tensor([0.5, 0.8, 0.9])
    small = pc.simulate.grid_graph(5, 6)
    loc = torch.randn(3, 30)
    K = pc.CARPrecision(small)(rho=rho, tau=torch.ones(3))
    batch = pc.GaussianCopula(dist.Normal(loc, 1.0), precision=K)
    laws = [
        pc.GaussianCopula(dist.Normal(loc[k], 1.0), pc.CARPrecision(small)(rho=rho[k], tau=1.0))
        for k in range(3)
    ]
    y = torch.randn(30)
    first, second = pc.diagnose(batch, y), pc.diagnose(laws, y)
    torch.testing.assert_close(first.marginal.u, second.marginal.u)
    torch.testing.assert_close(first.conditional.z, second.conditional.z)
    torch.testing.assert_close(
        first.conditional.u, pc.quantile_residuals(batch, y, kind="conditional")
    )
    assert first.num_simulations == 501  # as many of each law


def test_the_state_of_the_random_numbers_is_left_alone_and_the_seed_decides():
    found = law("poisson")
    y = values(found)
    before = torch.get_rng_state()
    first = repr(pc.diagnose(found, y, seed=4))
    assert bool((torch.get_rng_state() == before).all())
    torch.manual_seed(9)
    assert repr(pc.diagnose(found, y, seed=4)) == first


def test_without_a_graph_there_is_no_moran():
    found = law("normal", dependence="matrix")
    diagnosis = pc.diagnose(found, values(found))
    assert diagnosis.moran_before is None
    assert diagnosis.moran_after is None
    assert "Moran" not in repr(diagnosis)
    diagnosis.plot()
    plt.close("all")


def test_the_figure_has_four_panels_with_titles():
    torch.manual_seed(0)
    y = copula(counts()).sample()
    diagnosis = pc.diagnose(copula(dist.Poisson(torch.full((N,), 6.0))), y)
    figure = diagnosis.plot()
    titles = [axes.get_title() for axes in figure.axes]
    assert len(titles) == 4
    assert titles[0].startswith("Marginal")
    assert titles[1].startswith("Conditional")
    same, axes = plt.subplots(1, 4)
    assert diagnosis.plot(axes) is same
    plt.close("all")


@pytest.mark.parametrize(
    ("change", "argument", "found"),
    [
        ({"num_simulations": 100}, "num_simulations", "100"),
        ({"num_simulations": 500.0}, "num_simulations", "500.0"),
        ({"false_alarm_rate": 5}, "false_alarm_rate", "5"),
        ({"law": []}, "law", "NoneType"),
        ({"y": torch.full((20,), math.nan)}, "y", "0 observed values"),
        ({"graph": pc.simulate.grid_graph(2, 2)}, "graph", "4 nodes"),
    ],
)
def test_bad_arguments_are_named(change, argument, found):
    options = {"law": law("normal"), "y": torch.randn(20), **change}
    first, y = options.pop("law"), options.pop("y")
    with pytest.raises(InvalidArgumentError, match=f"`{argument}` .*{found}"):
        pc.diagnose(first, y, **options)
