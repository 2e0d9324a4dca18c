"""Simulators against their formulas: structure exactly, randomness by z-scores."""

from __future__ import annotations

import math
import random
import time

import numpy as np
import pytest
import torch
from scipy import stats

import pyro_copula as pc
from pyro_copula import metrics, simulate
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.simulate import graphs, settings
from pyro_copula.testing.graphs import SMALL_GRAPHS

#: Probability that a correct implementation fails one of the statistical checks of this file.
FAILURE_RATE = 1e-6
Z = stats.norm.isf(FAILURE_RATE / 2)

#: A small version of the paper's setting.
SMALL = {"num_nodes": 45, "num_edges": 90, "num_features": 3, "edge_count": "undirected"}


def dense(data):
    """The adjacency matrix and the covariance that the truth on the data says."""
    graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
    adjacency = graph.to_scipy().toarray()
    laplacian = np.diag(adjacency.sum(0)) - adjacency
    return adjacency, np.linalg.inv(laplacian + data.gamma * np.eye(data.num_nodes))


def both_below(a, b, rho):
    """P(z_1 <= a, z_2 <= b) at correlation rho: its derivative in rho is the joint density."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    r = rho * (nodes[:, None] + 1) / 2
    exponent = -(a**2 - 2 * r * a * b + b**2) / (2 * (1 - r**2))
    density = np.exp(exponent) / (2 * math.pi * np.sqrt(1 - r**2))
    return stats.norm.cdf(a) * stats.norm.cdf(b) + rho / 2 * (weights @ density)


def test_both_below_is_the_bivariate_normal():
    law = stats.multivariate_normal(cov=[[1, 0.97], [0.97, 1]])
    assert both_below(0.3, -0.2, 0.97) == pytest.approx(law.cdf([0.3, -0.2]), abs=1e-7)


# ---------------------------------------------------------------- graphs


def test_grid_graph():
    grid = simulate.grid_graph(3, 3)
    assert grid == SMALL_GRAPHS["grid"]
    assert simulate.grid_graph(1, 4).edges.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert simulate.grid_graph(1, 1).num_edges == 0
    assert simulate.grid_graph(40, 30).num_edges == 40 * 29 + 39 * 30


@pytest.mark.parametrize("edges_per_node", [1, 2, 7])
def test_power_law_graph_is_simple_and_connected(edges_per_node):
    graph = simulate.power_law_graph(500, edges_per_node, seed=3)
    assert graph.num_edges == edges_per_node * (500 - edges_per_node)
    assert graph.components.max() == 0
    # Every node after the star brings exactly its edges, to earlier nodes.
    brought = np.bincount(graph.edges[:, 1], minlength=500)
    assert set(brought[edges_per_node + 1 :]) == {edges_per_node}


def test_the_smallest_power_law_graphs():
    for num_nodes in range(2, 9):
        for edges_per_node in range(1, num_nodes):
            graph = simulate.power_law_graph(num_nodes, edges_per_node, seed=1)
            assert graph.num_edges == edges_per_node * (num_nodes - edges_per_node)


def test_attachment_is_proportional_to_degree():
    """The third edge of the tree joins node 3 to a node in proportion to its degree."""
    trials = 2000
    hits, expected, variance = 0, 0.0, 0.0
    for seed in range(trials):
        edges = simulate.power_law_graph(4, 1, seed=seed).edges
        degree = np.bincount(edges[edges[:, 1] < 3].ravel(), minlength=3)
        share = degree.max() / degree.sum()  # a path of three: the middle has half of all ends
        hits += int(edges[edges[:, 1] == 3][0, 0] == degree.argmax())
        expected += share
        variance += share * (1 - share)
    assert abs(hits - expected) / math.sqrt(variance) < Z


def test_the_degrees_follow_the_power_law():
    """Shares of nodes by degree against the limit 2 m (m + 1) / (d (d + 1) (d + 2))."""
    m, num_nodes = 3, 20000
    degree = simulate.power_law_graph(num_nodes, m, seed=0).degree.numpy()
    for d in (3, 4, 5, 10):
        share = 2 * m * (m + 1) / (d * (d + 1) * (d + 2))
        # The counts are less variable than binomial ones; the limit is reached as 1 / num_nodes.
        error = Z * math.sqrt(share * (1 - share) / num_nodes)
        assert abs(np.mean(degree == d) - share) < error
    assert degree.max() > 20 * degree.mean()


def test_random_regular_graphs_of_every_small_size():
    for num_nodes in range(1, 11):
        for degree in range(num_nodes):
            if num_nodes * degree % 2 == 0:
                graph = simulate.random_regular_graph(num_nodes, degree, seed=num_nodes)
                assert graph.degree.tolist() == [degree] * num_nodes


def test_random_regular_graphs_are_near_uniform():
    """The three ways to join four nodes in a cycle come up equally often."""
    counts: dict[bytes, int] = {}
    for seed in range(900):
        key = simulate.random_regular_graph(4, 2, seed=seed).edges.tobytes()
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 3
    assert stats.chisquare(list(counts.values())).pvalue > FAILURE_RATE


def test_large_graphs_are_quick():
    """A tenth of the promised sizes, in a multiple of the usual 0.2, 0.5 and 0.6 seconds."""
    start = time.process_time()
    assert simulate.grid_graph(320, 320).num_edges == 2 * 320 * 319
    assert simulate.power_law_graph(100_000, 5, seed=1).num_edges == 499_975
    assert int(simulate.random_regular_graph(100_000, 10, seed=1).degree.min()) == 10
    assert time.process_time() - start < 12


# ---------------------------------------------------------------- the latent-space graph


@pytest.mark.parametrize(("edge_count", "num_edges"), [("nonzeros", 2350), ("undirected", 5000)])
def test_both_ways_to_count_edges(edge_count, num_edges):
    graph, x, weight = simulate.latent_space_graph(edge_count=edge_count, seed=1)
    assert graph.num_edges == num_edges
    assert x.shape == (300, 10)
    assert weight.shape == (10, 10)
    if edge_count == "nonzeros":
        assert (graph.to_scipy() + np.eye(300) != 0).sum() == 5000


@pytest.mark.parametrize("chunk", [1, 200, 10**6])
def test_edges_join_the_closest_pairs(monkeypatch, chunk):
    monkeypatch.setattr(settings, "DISTANCE_CHUNK", chunk)
    graph, x, weight = simulate.latent_space_graph(30, 40, 3, 2, "undirected", seed=2)
    z = x @ weight
    distance = (z[:, None] - z[None]).norm(dim=-1)
    i, j = torch.triu_indices(30, 30, 1)
    shortest = distance[i, j].argsort()[:40]
    assert graph == pc.Graph.from_edges(torch.stack([i, j], dim=1)[shortest].numpy(), num_nodes=30)


# ---------------------------------------------------------------- the paper's settings


@pytest.mark.parametrize("family", settings.FAMILIES)
@pytest.mark.parametrize("setting", settings.SETTINGS)
def test_the_mean_is_the_formula(setting, family):
    data = simulate.paper_setting(setting, family=family, gamma=0.3, seed=4, **SMALL)
    graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=45)
    loops = graph.to_scipy().toarray() + np.eye(45)
    mu = (data.x @ data.weight).numpy()
    if setting != "b":
        mu = loops @ mu / loops.sum(1)
    np.testing.assert_allclose(data.linear_mean, mu, rtol=1e-12)
    if family == "normal":
        np.testing.assert_allclose(data.mean, mu, rtol=1e-12)
    else:
        log_mean = math.log(5.0) + 0.7 * (mu - mu.mean()) / mu.std()
        np.testing.assert_allclose(data.mean.log(), log_mean, rtol=1e-10)
        assert torch.equal(data.y, data.y.round())
        assert float(data.y.min()) >= 0


def test_thirds_in_order():
    data = simulate.paper_setting("a", num_nodes=47, num_edges=200)
    assert [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)] == [
        15,
        15,
        17,
    ]
    assert bool(data.train_mask[:15].all())
    assert bool(data.val_mask[15:30].all())
    assert bool(data.test_mask[30:].all())


def test_the_truth_is_on_the_data():
    a = simulate.paper_setting("a", sigma2=7.0, seed=5, **SMALL)
    assert (a.setting, a.family, a.seed, a.sigma2) == ("a", "normal", 5, 7.0)
    assert not {"tau", "gamma", "total_count"} & set(a.keys())
    c = simulate.paper_setting("c", tau=2.0, gamma=0.4, family="negative_binomial", **SMALL)
    assert (c.gamma, c.total_count) == (0.4, 3.0)
    assert not {"sigma2", "tau"} & set(c.keys())


@pytest.mark.parametrize(("setting", "size"), [("b", 2.0), ("c", 2.0), ("a", 5.0)])
def test_the_covariance_of_normal_outcomes(setting, size):
    """Three quadratic forms of the residuals: r' M r has mean tr(M S), variance 2 tr(M S M S)."""
    sums, means, variances = np.zeros(3), np.zeros(3), np.zeros(3)
    for seed in range(60):
        data = simulate.paper_setting(setting, sigma2=size, tau=size, gamma=0.2, seed=seed, **SMALL)
        if setting == "a":
            adjacency = pc.Graph.from_edge_index(data.edge_index, 45).to_scipy().toarray()
            sigma = size * np.eye(45)
        else:
            adjacency, sigma = dense(data)
            sigma = size * sigma
        residual = (data.y - data.mean).numpy()
        forms = (np.eye(45), adjacency, np.linalg.inv(sigma))  # size, dependence, whole shape
        for k, form in enumerate(forms):
            product = form @ sigma
            sums[k] += residual @ form @ residual
            means[k] += np.trace(product)
            variances[k] += 2 * np.trace(product @ product)
    z = (sums - means) / np.sqrt(variances)
    assert np.abs(z).max() < Z, z


def test_whitened_residuals_are_standard_normal():
    white = []
    for seed in range(60):
        data = simulate.paper_setting("c", tau=0.5, gamma=0.2, seed=seed, **SMALL)
        _, sigma = dense(data)
        factor = np.linalg.cholesky(0.5 * sigma)
        white.append(np.linalg.solve(factor, (data.y - data.mean).numpy()))
    assert stats.kstest(np.concatenate(white), "norm").pvalue > FAILURE_RATE


@pytest.mark.parametrize("setting", settings.SETTINGS)
@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_counts_have_their_marginals_and_their_dependence(setting, family):
    """Randomised PIT at the true marginals, and both ends of an edge being small together.

    Counts at the ends of an edge are at most their thresholds when the two normal scores are,
    which has a bivariate normal probability; edges of one seed are dependent, so that the test is
    on the 150 sums of seeds.
    """
    generator = torch.Generator().manual_seed(1)
    excess, uniform = [], []
    for seed in range(150):
        data = simulate.paper_setting(setting, family=family, gamma=0.2, seed=seed, **SMALL)
        mean, y = data.mean.numpy(), data.y.numpy()
        law = stats.poisson(mean)
        if family == "negative_binomial":
            law = stats.nbinom(data.total_count, data.total_count / (data.total_count + mean))
        uniform.append(metrics.pit(law.cdf(y - 1), law.cdf(y), generator)[seed % 45])
        i, j = data.edge_index[:, :90].numpy()
        rho = np.zeros(90)
        if setting != "a":
            _, sigma = dense(data)
            rho = sigma[i, j] / np.sqrt(sigma[i, i] * sigma[j, j])
        threshold = np.ceil(mean)
        score = stats.norm.ppf(law.cdf(threshold))
        low = y <= threshold
        excess.append(np.sum((low[i] & low[j]) - both_below(score[i], score[j], rho)))
    z = np.mean(excess) / (np.std(excess, ddof=1) / math.sqrt(len(excess)))
    assert abs(z) < Z, z
    assert stats.kstest(uniform, "uniform").pvalue > FAILURE_RATE


def test_coupled_counts_are_dependent():
    """The check above can fail: with tau (L + gamma I)^-1 replaced by I, neighbours agree less."""
    together = {}
    for setting in ("a", "c"):
        scores = []
        for seed in range(40):
            data = simulate.paper_setting(setting, family="poisson", gamma=0.2, seed=seed, **SMALL)
            residual = (data.y - data.mean) / data.mean.sqrt()
            scores.append(
                float((residual[data.edge_index[0]] * residual[data.edge_index[1]]).mean())
            )
        together[setting] = np.array(scores)
    assert together["c"].mean() - together["a"].mean() > 0.2


# ---------------------------------------------------------------- published data sets


@pytest.mark.parametrize("setting", settings.SETTINGS)
def test_published_numbers_come_in_the_published_order(setting):
    """Features, then what makes the graph, then what makes the mean, then the noise."""
    data = simulate.published_setting(setting, sigma2=5.0, tau=2.0, gamma=0.3, seed=7)
    numbers = np.random.RandomState(7).normal(size=300 * 10 + 10 * 10 + 10)
    x, graph_weight, weight = np.split(numbers, [3000, 3100])
    x, graph_weight = x.reshape(300, 10), graph_weight.reshape(10, 10)
    assert np.array_equal(data.x, x)
    distance = np.linalg.norm((x @ graph_weight)[None] - (x @ graph_weight)[:, None], axis=2)
    published = distance <= np.sort(distance.ravel())[4999]  # 5,000 non-zeros, the diagonal's too
    adjacency = np.zeros((300, 300))
    adjacency[tuple(data.edge_index.numpy())] = 1.0
    assert np.array_equal(adjacency + np.eye(300), published)
    average = published / published.sum(0)[:, None]
    mean = x @ weight if setting == "b" else average @ x @ weight
    np.testing.assert_allclose(data.mean, mean, atol=1e-12)
    assert np.array_equal(data.train_mask.nonzero()[:, 0], np.arange(100))
    assert data.seed == 7


def test_only_the_noise_is_drawn_anew():
    first = simulate.published_setting("c", seed=2)
    other = simulate.published_setting("c", seed=2, noise_seed=5)
    assert torch.equal(first.mean, other.mean)
    assert torch.equal(first.edge_index, other.edge_index)
    assert not torch.equal(first.y, other.y)
    assert torch.equal(other.y, simulate.published_setting("c", seed=2, noise_seed=5).y)


def test_noise_of_published_data_sets_has_the_covariance():
    """Whitened residuals of many data sets are standard normal."""
    squares, count = 0.0, 0
    for seed in range(1, 9):
        data = simulate.published_setting("c", tau=2.0, gamma=0.3, seed=seed)
        residual = (data.y - data.mean).numpy()
        _, covariance = dense(data)
        squares += residual @ np.linalg.solve(2.0 * covariance, residual)
        count += 300
    assert abs(squares - count) / math.sqrt(2 * count) < Z
    data = simulate.published_setting("a", sigma2=5.0, seed=3)
    squares = float((data.y - data.mean).square().sum()) / 5.0
    assert abs(squares - 300) / math.sqrt(600) < Z


# ---------------------------------------------------------------- seeds


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: simulate.power_law_graph(60, 2, seed=seed).edges,
        lambda seed: simulate.random_regular_graph(60, 4, seed=seed).edges,
        lambda seed: simulate.latent_space_graph(seed=seed).x,
        lambda seed: simulate.paper_setting("c", family="poisson", seed=seed, **SMALL).y,
        lambda seed: simulate.published_setting("a", seed=seed).y,
    ],
    ids=["power_law", "regular", "latent_space", "paper", "published"],
)
def test_the_seed_decides_and_the_global_state_stays(make):
    before = torch.get_rng_state(), str(np.random.get_state()), random.getstate()  # noqa: NPY002
    first = np.asarray(make(1))
    torch.rand(3)  # a simulator that read the global state would now differ
    torch.set_rng_state(before[0])
    second, other = np.asarray(make(1)), np.asarray(make(2))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert str(np.random.get_state()) == before[1]  # noqa: NPY002
    assert random.getstate() == before[2]
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_settings_of_one_seed_share_everything_but_the_law():
    a, b, c = (simulate.paper_setting(s, seed=6, **SMALL) for s in settings.SETTINGS)
    assert torch.equal(a.x, b.x)
    assert torch.equal(a.edge_index, c.edge_index)
    assert torch.equal(b.weight, c.weight)
    # b and c have the same covariance and noise, up to the rounding of two sums.
    torch.testing.assert_close(b.y - b.mean, c.y - c.mean)


def test_the_dtype_is_the_default_one_and_the_draw_the_same():
    double = simulate.paper_setting("b", family="poisson", seed=1, **SMALL)
    torch.set_default_dtype(torch.float32)
    single = simulate.paper_setting("b", family="poisson", seed=1, **SMALL)
    assert single.x.dtype == single.y.dtype == single.mean.dtype == torch.float32
    assert torch.equal(single.y.double(), double.y)
    assert torch.equal(single.edge_index, double.edge_index)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate.paper_setting("d"), "`setting` must be one of"),
        (lambda: simulate.paper_setting("a", family="gamma"), "`family` must be one of"),
        (lambda: simulate.paper_setting("a", sigma2=0.0), "`sigma2` must be positive"),
        (lambda: simulate.paper_setting("b", tau=math.nan), "`tau` must be positive"),
        (lambda: simulate.paper_setting("a", seed=-1), "`seed` must be an integer from 0"),
        (lambda: simulate.published_setting("d"), "`setting` must be one of"),
        (lambda: simulate.published_setting("a", gamma=0.0), "`gamma` must be positive"),
        (lambda: simulate.published_setting("a", seed=2**32), "from 0 to 4294967295"),
        (
            lambda: simulate.published_setting("a", noise_seed=-1),
            "`noise_seed` must be an integer from 0",
        ),
        (lambda: simulate.latent_space_graph(edge_count="directed"), "`edge_count` must be one"),
        (lambda: simulate.latent_space_graph(10, 9), "`num_edges` must be from 10 to 100"),
        (lambda: simulate.latent_space_graph(10, 46, edge_count="undirected"), "from 0 to 45"),
        (lambda: simulate.latent_space_graph(10.5), "`num_nodes` must be a positive integer"),
        (lambda: simulate.grid_graph(0, 3), "`rows` must be a positive integer"),
        (lambda: simulate.power_law_graph(3, 3), "`num_nodes` must be an integer from 4"),
        (lambda: simulate.random_regular_graph(5, 3), "even product"),
        (lambda: simulate.random_regular_graph(5, 6), "less than num_nodes = 5"),
    ],
)
def test_bad_input_says_what_is_wrong(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()


def test_giving_up_is_an_error_of_this_package(monkeypatch):
    monkeypatch.setattr(graphs, "MAX_ROUNDS", 1)
    with pytest.raises(pc.errors.PyroCopulaError, match="Try another seed"):
        simulate.random_regular_graph(50, 20)
    with pytest.raises(pc.errors.PyroCopulaError, match="Try another seed"):
        simulate.power_law_graph(200, 5)
