"""Gradients of the log density against central differences, in every parameter."""

from __future__ import annotations

import math

import pytest
import torch
from cases import PRECISIONS, missing_pattern, values
from laws import LAWS

import pyro_copula as pc
from pyro_copula.testing import SMALL_GRAPHS

TOLERANCE = 1e-5
pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


def assert_gradients(function, inputs):
    """Every coordinate of every input, by central differences."""
    leaves = [v.clone().requires_grad_() for v in inputs]
    found = torch.autograd.grad(function(*leaves), leaves)
    for k, leaf in enumerate(leaves):
        flat = leaf.detach().reshape(-1)
        for i in range(flat.numel()):
            step = 1e-5 * max(1.0, abs(float(flat[i])))
            ends = []
            for sign in (1, -1):
                moved = flat.clone()
                moved[i] += sign * step
                arguments = [v.detach() for v in leaves]
                arguments[k] = moved.reshape(leaf.shape)
                ends.append(function(*arguments).detach())
            expected = float(ends[0] - ends[1]) / (2 * step)
            assert float(found[k].reshape(-1)[i]) == pytest.approx(
                expected, rel=TOLERANCE, abs=TOLERANCE
            ), f"input {k}, coordinate {i}"


@pytest.mark.parametrize("graph", ["star", "two_components", "isolated_node"])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_log_prob_in_parameters_of_the_marginals(law, graph):
    graph = SMALL_GRAPHS[graph]
    y = values(law, graph.num_nodes)
    y = y.masked_fill(~torch.tensor(missing_pattern(graph.num_nodes)), math.nan)
    parameters = law.parameters(graph.num_nodes)
    K = PRECISIONS["car"](graph, torch.tensor(0.8), torch.tensor(-0.3)).detach()

    def log_prob(*given):
        marginal = law.build(**dict(zip(parameters, given)))
        return pc.GaussianCopula(marginal, precision=K, validate_args=False).log_prob(y)

    assert_gradients(log_prob, list(parameters.values()))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())
@pytest.mark.parametrize("name", ["Gamma", "Poisson"])
def test_log_prob_in_parameters_of_the_precision(name, graph, precision, missing):
    law = next(law for law in LAWS if law.name == name)
    y = values(law, graph.num_nodes)
    if missing:
        y = y.masked_fill(~torch.tensor(missing_pattern(graph.num_nodes)), math.nan)
    marginal = law.build(**law.parameters(graph.num_nodes))

    def log_prob(a, b):
        K = PRECISIONS[precision](graph, a, b)
        copula = pc.GaussianCopula(marginal, precision=K)
        return copula.log_prob(y) + copula.pointwise_log_prob(y).nansum()

    assert_gradients(log_prob, [torch.tensor(0.8), torch.tensor(-0.3)])


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())
def test_graph_normal_in_location_values_and_precision(graph, missing):
    y = torch.linspace(2, -1, graph.num_nodes)
    if missing:
        y = y.masked_fill(~torch.tensor(missing_pattern(graph.num_nodes)), math.nan)

    def log_prob(loc, a, b):
        K = PRECISIONS["laplacian"](graph, a, b)
        return pc.GraphNormal(loc, precision=K).log_prob(y)

    loc = torch.linspace(-1, 1, graph.num_nodes)
    assert_gradients(log_prob, [loc, torch.tensor(0.3), torch.tensor(-1.0)])


def test_log_prob_in_the_value_of_continuous_nodes():
    graph = SMALL_GRAPHS["grid"]
    law = next(law for law in LAWS if law.name == "Gamma")
    K = PRECISIONS["car"](graph, torch.tensor(0.8), torch.tensor(-0.3)).detach()
    copula = pc.GaussianCopula(law.build(**law.parameters(9)), precision=K)
    assert_gradients(copula.log_prob, [values(law, 9)])


def test_an_outlier_has_a_finite_density_and_gradient():
    graph = SMALL_GRAPHS["path"]
    rate = torch.ones(4, requires_grad=True)
    copula = pc.GaussianCopula(
        torch.distributions.Poisson(rate), precision=pc.CARPrecision(graph)(rho=0.5, tau=1.0)
    )
    log_prob = copula.log_prob(torch.tensor([25.0, 1.0, 1000.0, 3.0]))
    (gradient,) = torch.autograd.grad(log_prob, rate)
    assert torch.isfinite(log_prob)
    assert torch.isfinite(gradient).all()


def test_second_derivatives_exist_with_the_dense_backend():
    graph = SMALL_GRAPHS["grid"]
    y = torch.linspace(2, -1, 9)
    y[4] = math.nan

    def log_prob(a):
        K = pc.LaplacianPrecision(graph, backend="dense")(tau=a.exp(), gamma=0.5)
        return pc.GraphNormal(torch.zeros(9), precision=K).log_prob(y)

    a = torch.tensor(0.3)
    hessian = torch.autograd.functional.hessian(log_prob, a)
    h = 1e-4
    expected = (log_prob(a + h) - 2 * log_prob(a) + log_prob(a - h)) / h**2
    assert float(hessian) == pytest.approx(float(expected), rel=1e-5)


def laws(kind, rho):
    """A law whose log density depends on one parameter."""
    graph = SMALL_GRAPHS["grid"]
    marginal = torch.distributions.Normal(torch.zeros(9), 1.0)
    if kind.startswith("correlation"):
        R = torch.eye(9) + 0.9 * rho * (1 - torch.eye(9))
        nugget = 0.2 if kind == "correlation with nugget" else None
        return pc.GaussianCopula(marginal, correlation_matrix=R, nugget=nugget)
    backend, _, kind = kind.partition(" ")
    K = pc.CARPrecision(graph, backend=backend)(rho=rho, tau=torch.tensor(1.0))
    if kind == "normal":
        return pc.GraphNormal(torch.zeros(9), K)
    if kind == "normal with nugget":
        return pc.GraphNormal(torch.zeros(9), K, nugget=0.3)
    return pc.GaussianCopula(marginal, K, nugget=0.2 if kind == "copula with nugget" else None)


KINDS = [
    *(
        f"{backend} {kind}"
        for backend in ("dense", "sparse")
        for kind in ("normal", "normal with nugget", "copula", "copula with nugget")
    ),
    "correlation",
    "correlation with nugget",
]
Y = torch.tensor([1.0, 0, 2, 3, math.nan, 1, 0, 2, math.nan])


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_computed_before_without_gradients_does_not_change_them(kind):
    def log_prob(rho):
        law = laws(kind, rho)
        law.sample()
        with torch.no_grad():
            law.log_prob(Y)
            law.pointwise_log_prob(Y)
            law.condition(Y)
        return law.log_prob(Y) + law.log_prob(Y.nan_to_num(0.5))

    assert_gradients(log_prob, [torch.tensor(0.7)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_conditional_law_keeps_its_gradients(kind):
    def marginal_log_prob(rho):
        law = laws(kind, rho).condition(Y)
        with torch.no_grad():
            law.interval(0.9)
            law.mean  # noqa: B018
            law.cdf(torch.ones(2))
        wide = law.expand([2])
        held_out = torch.tensor([1.0, 2.0])
        return law.marginal_log_prob(held_out).sum() + wide.cdf(held_out).sum()

    assert_gradients(marginal_log_prob, [torch.tensor(0.7)])


def test_a_law_made_without_gradients_has_them_later():
    def log_prob(rho):
        K = pc.CARPrecision(SMALL_GRAPHS["grid"], backend="sparse")(rho=rho, tau=torch.tensor(1.0))
        with torch.no_grad():
            normal = pc.GraphNormal(torch.zeros(9), K, nugget=0.3)
            marginal = torch.distributions.Normal(torch.zeros(9), 1.0)
            copula = pc.GaussianCopula(marginal, K, nugget=0.2)
        return normal.log_prob(Y) + copula.log_prob(Y)

    assert_gradients(log_prob, [torch.tensor(0.7)])


def kept_laws(kind, K, nugget):
    """A law of a precision and a nugget, both of which will be moved in place."""
    zeros = torch.zeros(9, dtype=K.dtype)
    if kind == "normal":
        return pc.GraphNormal(zeros, K)
    if kind == "normal with nugget":
        return pc.GraphNormal(zeros, K, nugget=nugget)
    marginal = torch.distributions.Normal(zeros, torch.ones_like(zeros))
    return pc.GaussianCopula(marginal, K, nugget=nugget if kind == "copula with nugget" else None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("backend", ["dense", "sparse"])
@pytest.mark.parametrize("kind", ["normal", "normal with nugget", "copula", "copula with nugget"])
def test_a_law_kept_while_an_optimiser_moves_its_values(kind, backend, dtype):
    graph, y = SMALL_GRAPHS["grid"], Y.to(dtype)
    losses = []
    for once in (False, True):
        values = (torch.full((9,), 5.0, dtype=dtype), -torch.ones(graph.num_edges, dtype=dtype))
        nugget = torch.tensor(0.3, dtype=torch.float64)
        leaves = [v.requires_grad_() for v in (*values, nugget)]
        law, steps = None, torch.optim.SGD(leaves, lr=0.01)
        for _ in range(4):
            if law is None or not once:
                K = pc.SparsePrecision(graph, *values, backend=backend)
                law = kept_laws(kind, K, nugget)
            steps.zero_grad()
            loss = -law.log_prob(y)
            loss.backward()
            steps.step()
            losses.append(loss.detach())
    torch.testing.assert_close(losses[4:], losses[:4])
    assert losses[3] < losses[0]
