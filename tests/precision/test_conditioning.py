"""The condition number, and the warning: where results really lose digits, and nowhere else."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

import pyro_copula as pc
from pyro_copula.errors import ConditioningWarning
from pyro_copula.precision import conditioning
from pyro_copula.precision.conditioning import ACCURACY, few_digits, warn_if_nearly_singular
from pyro_copula.testing import SMALL_GRAPHS

GRID = SMALL_GRAPHS["grid"]

#: Precisions that become singular as the distance goes to zero.
FAMILIES = {
    "car": lambda graph, d: pc.CARPrecision(graph)(rho=1 - d, tau=1.0),
    "adjacency": lambda graph, d: pc.NormalizedAdjacencyPrecision(graph)(alpha=1 - d, beta=1.0),
    "alternating": lambda graph, d: pc.NormalizedAdjacencyPrecision(graph)(alpha=d - 1, beta=1.0),
    "laplacian": lambda graph, d: pc.LaplacianPrecision(graph)(tau=3.0, gamma=d),
}


def made(family: str, distance: float, backend: str) -> pc.SparsePrecision:
    K = FAMILIES[family](GRID, distance)
    return pc.SparsePrecision(GRID, K.diagonal.detach(), K.off_diagonal.detach(), backend=backend)


def exact_inverse(K: pc.SparsePrecision) -> mpmath.matrix:
    with mpmath.workdps(50):
        return mpmath.inverse(mpmath.matrix(K.to_dense().tolist()))


def exact_condition(K: pc.SparsePrecision, inverse: mpmath.matrix) -> float:
    """The product of the largest row sums of the scaled matrix and of its inverse."""
    matrix = K.to_dense().numpy()
    root = np.sqrt(np.diag(matrix))
    scaled = np.array(inverse.tolist(), dtype=float) * np.outer(root, root)
    return float((abs(matrix) / np.outer(root, root)).sum(1).max() * abs(scaled).sum(1).max())


@pytest.mark.parametrize("backend", ["dense", "sparse"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_warning_is_given_where_digits_are_lost(family, backend, tally):
    """Variances in 50 digits say how wrong those in float64 are."""
    lost = 0
    for exponent in range(1, 15):
        K = made(family, 10.0**-exponent, backend)
        inverse = exact_inverse(K)
        variance = [float(inverse[i, i]) for i in range(GRID.num_nodes)]
        error = float((K.variance() / torch.tensor(variance) - 1).abs().max())
        condition = float(K.condition_number())
        assert condition == pytest.approx(exact_condition(K, inverse), rel=0.05)
        law = pc.GraphNormal(torch.zeros(GRID.num_nodes), K)
        warned = few_digits(law) is not None
        lost += error > ACCURACY
        if error > ACCURACY:
            assert warned
        if exponent <= 8:  # far beyond what ordinary fits have
            assert not warned
            assert error < ACCURACY
        if exponent >= 10:
            assert warned
        tally("extreme cases", 1)
    assert lost > 0  # the comparison above was not empty


def test_the_scale_of_the_nodes_does_not_matter():
    K = made("car", 0.01, "sparse")
    s = 10.0 ** torch.linspace(-6, 6, GRID.num_nodes)
    scaled = pc.SparsePrecision(
        GRID, K.diagonal * s.square(), K.off_diagonal * s[GRID.rows] * s[GRID.cols]
    )
    torch.testing.assert_close(scaled.condition_number(), K.condition_number())


def test_signs_do_not_fool_the_estimate():
    """Random couplings of either sign: the estimate is a lower bound, and a close one."""
    torch.manual_seed(0)
    graph = pc.simulate.grid_graph(6, 6)
    for _ in range(20):
        edges = torch.randn(graph.num_edges)
        diagonal = torch.zeros(36).index_add(0, graph.rows, edges.abs())
        diagonal = diagonal.index_add(0, graph.cols, edges.abs()) * 1.001
        K = pc.SparsePrecision(graph, diagonal, edges, backend="sparse")
        inverse = np.linalg.inv(K.to_dense().numpy())
        root = K.diagonal.sqrt().numpy()
        matrix = abs(K.to_dense().numpy()) / np.outer(root, root)
        exact = (abs(inverse) * np.outer(root, root)).sum(1).max() * matrix.sum(1).max()
        assert exact / 3 < float(K.condition_number()) < exact * 1.0001


def test_a_batch_has_a_number_each():
    graph = SMALL_GRAPHS["path"]
    K = pc.CARPrecision(graph)(rho=torch.tensor([0.5, 0.99, 0.9999]), tau=1.0)
    found = K.condition_number()
    for each, rho in zip(found, (0.5, 0.99, 0.9999)):
        one = pc.CARPrecision(graph)(rho=rho, tau=1.0).condition_number()
        torch.testing.assert_close(each, one)
    assert not found.requires_grad


def test_no_edges_are_perfectly_conditioned():
    K = pc.SparsePrecision(pc.Graph.from_edges([], num_nodes=3), torch.ones(3) * 7, torch.ones(0))
    assert float(K.condition_number()) == 1.0


def test_the_message_has_the_number():
    law = pc.GraphNormal(torch.zeros(GRID.num_nodes), made("laplacian", 1e-12, "sparse"))
    with pytest.warns(ConditioningWarning, match=r"relative error of 0\.00") as caught:
        warn_if_nearly_singular(law)
    assert caught[0].message.condition == pytest.approx(few_digits(law))


def test_an_iterative_backend_speaks_for_itself():
    K = made("car", 0.5, "iterative")
    assert few_digits(pc.GraphNormal(torch.zeros(GRID.num_nodes), K)) is None


def test_a_fit_warns_and_a_diagnosis_says_so(monkeypatch):
    graph = pc.simulate.grid_graph(4, 4)
    law = pc.GraphNormal(torch.zeros(16), pc.LaplacianPrecision(graph)(tau=1.0, gamma=1e-12))
    found = pc.diagnose(law, law.sample(), num_simulations=91, false_alarm_rate=0.2)
    assert "nearly_singular" in [finding.code for finding in found.findings]
    data = pc.simulate.paper_setting("b")
    model = pc.CopulaGNN("linear", "normal", "laplacian")
    monkeypatch.setattr(conditioning, "MAX_CONDITION", 1.0)
    with pytest.warns(ConditioningWarning):
        pc.fit(model, data, data.train_mask, schedule=pc.Schedule(max_epochs=1))
