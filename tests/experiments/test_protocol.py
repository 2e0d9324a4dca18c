"""The published protocol on the library's extension points, against direct computations."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from harness import baselines, pilot, published
from harness.problems import Problem, load

import pyro_copula as pc


@pytest.fixture(scope="module")
def problem() -> Problem:
    torch.set_default_dtype(torch.float64)
    return load("c:tau=1.0", 3)


@pytest.fixture(scope="module")
def counts() -> Problem:
    torch.set_default_dtype(torch.float64)
    data = pc.simulate.paper_setting(
        "c", family="poisson", num_nodes=90, num_edges=600, count_level=2.0, seed=3
    )
    return Problem(data, data.train_mask, data.val_mask, data.test_mask, counts=True)


@pytest.fixture(params=["problem", "counts"])
def either(request) -> Problem:
    return request.getfixturevalue(request.param)


def graph_of(problem: Problem) -> pc.Graph:
    return pc.Graph.from_edge_index(problem.data.edge_index, num_nodes=problem.data.num_nodes)


def test_networks_are_the_librarys(problem):
    x, edge_index = problem.data.x, problem.data.edge_index
    for name, library in (("gcn", "gcn"), ("sage", "published_sage")):
        whole = published.PublishedNetwork(name, x, graph_of(problem))
        ours = whole.network
        theirs = pc.nn.make_backbone(library, x.shape[1], 1)
        layers = list(theirs.layers)
        for k, part in enumerate(("first", "second")):
            convolution = layers[k] if name == "gcn" else layers[k].convolution
            getattr(ours, part).weight.data = convolution.lin.weight.data.T.clone()
            if name == "sage":
                getattr(ours, f"{part}_self").load_state_dict(layers[k].linear.state_dict())
        torch.testing.assert_close(whole(x, edge_index), theirs(x, edge_index))


def test_attention_is_that_of_pytorch_geometric(problem):
    x, edge_index = problem.data.x, problem.data.edge_index
    whole = published.PublishedNetwork("gat", x, graph_of(problem))
    layers = whole.network
    theirs = layers.second(layers.first(x, edge_index).relu(), edge_index)
    torch.testing.assert_close(whole(x, edge_index), theirs)
    parameters = list(layers.parameters())
    for a, b in zip(
        torch.autograd.grad(whole(x, edge_index).square().sum(), parameters),
        torch.autograd.grad(theirs.square().sum(), parameters),
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("name", "steps"), [("appnp", 10), ("short appnp", 2)])
def test_pagerank_is_that_of_pytorch_geometric(problem, name, steps):
    from torch_geometric.nn import APPNP

    x, edge_index = problem.data.x, problem.data.edge_index
    whole = published.PublishedNetwork(name, x, graph_of(problem))
    network = whole.network
    theirs = APPNP(steps, 0.1)(network.second(network.first(x).relu()), edge_index)
    torch.testing.assert_close(whole(x, edge_index), theirs)


def test_sparse_product_has_the_right_derivative():
    graph = pc.simulate.grid_graph(3, 3)
    matrix = published.normalised_adjacency(graph)
    x = torch.randn(9, 2, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: published._Product.apply(v, matrix), (x,))


def built(problem: Problem, precision: str):
    model = published.published_model("sage", precision, problem.data, counts=problem.counts)
    return model.build(problem.data, problem.train)


def test_base_model_is_trained_on_squared_error(problem):
    model = built(problem, "none")
    y = model.data.y
    train = problem.train
    parameters = list(model.backbone.parameters())
    loss = -model.joint().log_prob(y) / int(train.sum())
    ours = torch.autograd.grad(loss, parameters)
    squared = (model.outputs()[train, 0] - y[train]).square().mean()
    for a, b in zip(ours, torch.autograd.grad(squared, parameters)):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("precision", ["alpha_beta", "regression"])
def test_joint_law_is_the_dense_one(problem, precision):
    """As published: a Gaussian copula of clamped scores times normal marginals."""
    model = built(problem, precision)
    y, train = model.data.y, problem.train
    with torch.no_grad():
        mean = model.outputs()[:, 0]
        K = model.precision(model.features).to_dense()
        covariance = K.inverse()[train][:, train]
        scale = covariance.diagonal().sqrt()
        normal = torch.distributions.Normal(mean[train], scale)
        u = normal.cdf(y[train]).clamp(1e-3, 1 - 1e-3)
        assert bool((u == 1e-3).any())  # the clamp is at work, or this tests less than it says
        z = torch.special.ndtri(u)
        R = covariance / scale.outer(scale)
        copula = -0.5 * (R.logdet() + z @ (R.inverse() - torch.eye(len(z))) @ z)
        expected = copula + normal.log_prob(y[train]).sum()
        torch.testing.assert_close(model.joint().log_prob(y), expected)


def dense_precision(model, precision, x, edge_index):
    A = np.zeros((len(x), len(x)))
    A[tuple(edge_index)] = 1
    if precision == "alpha_beta":
        root = np.sqrt(np.maximum(A.sum(1), 1))
        return math.exp(3) * (np.eye(len(x)) - math.tanh(1) * A / np.outer(root, root))
    i, j = np.nonzero(np.triu(A))
    W1, b1, W2, b2 = (p.detach().numpy() for p in model.precision.module.precision.parameters())
    hidden = np.maximum(np.hstack([x[i], x[j]]) @ W1.T + b1, 0)
    A[i, j] = A[j, i] = np.logaddexp(0, hidden @ W2.T + b2)[:, 0]
    return np.eye(len(x)) + np.diag(A.sum(1)) - A


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")
@pytest.mark.parametrize("precision", ["none", "alpha_beta", "regression"])
def test_law_of_counts_is_the_dense_one(counts, precision):
    """Poisson counts with the midpoints of their atoms clamped; rates have a floor in a copula."""
    model = built(counts, precision)
    train, y = counts.train.numpy(), counts.data.y.numpy()
    with torch.no_grad():
        logit = model.outputs()[:, 0].numpy()
        found = float(model.joint().log_prob(model.data.y))
        mean = model.joint().condition(model.data.y).mean.numpy()
    law = scipy.stats.poisson(np.exp(logit) + (0 if precision == "none" else 1e-3))
    marginal = law.logpmf(y)[train].sum()
    if precision == "none":
        assert found == pytest.approx(marginal)
        np.testing.assert_allclose(mean, law.mean()[~train])
        return
    u = ((law.cdf(y - 1) + law.cdf(y)) / 2)[train].clip(1e-3, 1 - 1e-3)
    assert 0 < (u == 1 - 1e-3).sum() < len(u)  # the clamp is at work, but not everywhere
    z = scipy.special.ndtri(u)
    K = dense_precision(model, precision, counts.data.x.numpy(), counts.data.edge_index.numpy())
    covariance = np.linalg.inv(K)
    scale = np.sqrt(np.diag(covariance))
    R = covariance / np.outer(scale, scale)
    own, across = R[np.ix_(train, train)], R[np.ix_(~train, train)]
    normal = scipy.stats.multivariate_normal(cov=own).logpdf(z)
    assert found == pytest.approx(normal - scipy.stats.norm.logpdf(z).sum() + marginal)

    gain = across @ np.linalg.inv(own)
    loc, spread = gain @ z, np.sqrt(1 - (gain * across).sum(1))
    below = law.cdf(np.arange(200)[:, None])[:, ~train]
    above = scipy.stats.norm.sf((scipy.special.ndtri(below) - loc) / spread)
    np.testing.assert_allclose(mean, above.sum(0), rtol=1e-6)


@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_clamped_normal_is_the_general_copula(problem, spread):
    """With and without scores to clamp: densities, their derivatives, predictions."""
    K = pc.CARPrecision(graph_of(problem))
    loc = torch.randn(problem.data.num_nodes, requires_grad=True)
    y = (loc + spread * K().scale() * torch.randn(len(loc))).detach()
    y = torch.where(problem.train, y, torch.nan)

    def laws():
        yield published.ClampedNormal(loc, K())
        normal = torch.distributions.Normal(loc, K().scale())
        yield pc.GaussianCopula(normal, K(), tail_clip=published.TAIL_CLIP)

    found = []
    for law in laws():
        total, conditional = law.log_prob(y), law.condition(y)
        gradients = torch.autograd.grad(total, [loc, *K.parameters()])
        with torch.no_grad():
            predicted = [conditional.mean, conditional.quantile(0.9)]
            pointwise = law.pointwise_log_prob(y)[problem.train]
            found.append([total, *gradients, *predicted, pointwise])
    scores = ((y - loc) / K().scale())[problem.train].abs()
    assert bool((scores > published.SCORE_BOUND).any()) == (spread > 1)
    for ours, general in zip(*found):
        torch.testing.assert_close(ours, general)


def test_parameters_start_as_published(problem):
    model = built(problem, "alpha_beta")
    values = {name: float(scalar().detach()) for name, scalar in model.scalars.items()}
    assert values == pytest.approx({"alpha": math.tanh(1), "beta": math.exp(3)})
    assert all(p.requires_grad for p in model.precision.parameters())
    assert not built(problem, "regression").scalars


def test_regression_precision_is_the_papers(problem):
    """``I + D - A`` with the softplus of a network on both ends, the smaller number first."""
    model = built(problem, "regression")
    K = model.precision(model.features).to_dense()
    A = -(K - K.diagonal().diag())
    torch.testing.assert_close(K.diagonal(), 1 + A.sum(1))
    network = model.precision.module.precision.network
    i, j = graph_of(problem).edges[7].tolist()
    x = problem.data.x
    score = torch.nn.functional.softplus(network(torch.cat([x[i], x[j]])))
    torch.testing.assert_close(A[i, j], score.squeeze())
    assert i < j


def test_one_group_adam():
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
    groups = [
        {"params": parameters[:2], "lr": 0.1, "weight_decay": 0.0},
        {"params": parameters[2:], "lr": 0.5, "weight_decay": 1.0},
    ]
    (group,) = published.one_group_adam(groups, lr=0.01).param_groups
    assert len(group["params"]) == 3
    assert (group["lr"], group["weight_decay"]) == (0.01, 5e-4)


def test_clamp():
    y = torch.tensor([-2.0, 1.0, 3.0])
    clamped = published.clamp_prediction(torch.tensor([-9.0, -3.0, 1.0, 2.0]), y)
    assert clamped.tolist() == [-4.0, -3.0, 1.0, 1.5]


def test_residual_scale(problem):
    model = published.published_model("mlp", "none", problem.data, counts=False)
    schedule = pc.Schedule(max_epochs=20, check_every=20)
    fit = pc.fit(
        model, problem.data, problem.observed, validation=problem.validation, schedule=schedule
    )
    published.set_residual_scale(fit, problem.validation)
    with torch.no_grad():
        residual = (problem.data.y - fit.model.outputs()[:, 0])[problem.validation]
    assert float(fit.model.family.scale) == pytest.approx(float(residual.square().mean().sqrt()))


def test_label_propagation_is_a_fixed_point(problem):
    values = problem.data.y.numpy()
    found = baselines._propagate(problem, values, 0.8)
    train = problem.train.numpy()
    assert np.array_equal(found[train], values[train])
    mean = values[train].mean()
    adjacency = graph_of(problem).to_scipy().toarray()
    degree = np.maximum(adjacency.sum(1), 1)
    expected = mean + 0.8 * adjacency @ (found - mean) / degree
    np.testing.assert_allclose(found[~train], expected[~train], atol=1e-10)


def test_label_propagation_sees_no_test_value(either):
    scores = baselines.label_propagation(either)
    changed = either.data.clone()
    changed.y = either.data.y * (1 + 1e6 * either.test)
    other = dataclasses.replace(either, data=changed)
    test = either.test.numpy()
    np.testing.assert_allclose(
        baselines._propagate(other, changed.y.numpy(), 0.8)[test],
        baselines._propagate(either, either.data.y.numpy(), 0.8)[test],
    )
    again = baselines.label_propagation(other)
    for name in ("validation", "width"):
        assert again[name] == pytest.approx(scores[name]), name


def test_label_propagation_has_one_law_whichever_nodes_are_scored(either):
    """Scores of two halves of the test nodes average to those of all: nothing is fitted there."""
    even = torch.arange(either.data.num_nodes) % 2 == 0
    halves = [
        baselines.label_propagation(dataclasses.replace(either, test=either.test & part))
        for part in (even, ~even)
    ]
    scores = baselines.label_propagation(either)
    for name in ("log_score", "crps", "coverage", "width"):
        assert np.mean([half[name] for half in halves]) == pytest.approx(scores[name]), name


def test_label_propagation_has_probabilities_of_counts():
    y = np.arange(200_000.0)
    law = scipy.stats.t(3.0, 1.2, 0.7)
    logs = baselines._log_probs(law, y, counts=True)
    rounded = np.round(np.expm1(law.rvs(100_000, random_state=0)).clip(min=0))
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-3)  # the tail beyond has the rest
    for count in (0, 1, 5, 50):
        share = (rounded == count).mean()  # six standard errors: 1 in 1e8
        assert np.exp(logs[count]) == pytest.approx(share, abs=6 * (share / 1e5) ** 0.5)
    far = law.logpdf(np.log1p(y[-1])) - np.log1p(y[-1])  # the density, where an atom is narrow
    assert logs[-1] == pytest.approx(far, abs=1e-6)


def test_label_propagation_has_the_log_score_of_its_residuals(problem):
    scores = baselines.label_propagation(problem)
    fitted, y = [], problem.data.y.numpy()
    for strength in baselines._STRENGTHS:
        smooth = baselines._propagate(problem, y, strength)
        keep = problem.validation.numpy()
        fitted.append((pc.metrics.r2(y[keep], smooth[keep]), smooth))
    residual = y - max(fitted, key=lambda pair: pair[0])[1]
    law = scipy.stats.t(*scipy.stats.t.fit(residual[problem.validation.numpy()]))
    expected = law.logpdf(residual[problem.test.numpy()]).mean()
    assert scores["log_score"] == pytest.approx(expected, abs=1e-3)
    ends = np.quantile(residual[problem.validation.numpy()], [0.05, 0.95])
    assert scores["width"] == pytest.approx(ends[1] - ends[0])
    test, train = problem.test.numpy(), y[problem.train.numpy()]
    clamped = (y - residual)[test].clip(2 * train.min(), train.max() / 2)
    assert scores["published"] == pytest.approx(pc.metrics.r2(y[test], clamped))


def test_the_pilot_takes_the_rate_with_the_better_validation_score():
    def record(row, lr, validation, seed=pilot.SEED):
        metrics = {"lr": lr, "validation": validation}
        return {"dataset": "income", "model": row, "seed": seed, "metrics": metrics}

    records = [
        record("SAGE", 0.01, 0.4),
        record("SAGE", 0.001, 0.5),
        record("GCN", 0.01, 0.3),
        record("GCN", 0.001, 0.2),
        record("MLP", 0.01, 0.9),  # the other rate was not tried
        record("SAGE", 0.01, 0.8, seed=1),
        record("SAGE", 0.001, 0.7, seed=1),
    ]
    assert pilot.chosen(records, as_run=True) == {"income SAGE": (0.01,)}
    assert pilot.chosen(records) == {"income SAGE": (0.001,), "income GCN": (0.01,)}
    assert pilot.margins(records) == [pytest.approx(0.1), pytest.approx(0.1)]
    assert pilot.SEED not in range(1, 101)
