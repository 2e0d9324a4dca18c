"""Precisions: the formulas, positive definiteness, learnable parameters, batches, bad input."""

from __future__ import annotations

import math
import pickle

import pytest
import torch
from torch import nn

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.linalg import Iterative
from pyro_copula.testing import SMALL_GRAPHS, check_precision
from pyro_copula.testing.contracts import dominant_values

GRAPHS = pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())


def adjacency(graph):
    return torch.tensor(graph.to_scipy().toarray())


@GRAPHS
def test_formulas(graph):
    A = adjacency(graph)
    D = torch.diag(A.sum(0))
    eye = torch.eye(graph.num_nodes)
    torch.testing.assert_close(
        pc.LaplacianPrecision(graph)(tau=2.0, gamma=0.3).to_dense(), (D - A + 0.3 * eye) / 2
    )
    half = torch.diag(torch.where(D.diagonal() > 0, D.diagonal().rsqrt(), 0.0))
    for alpha in (0.9, -0.7):
        torch.testing.assert_close(
            pc.NormalizedAdjacencyPrecision(graph)(alpha=alpha, beta=3.0).to_dense(),
            3 * (eye - alpha * half @ A @ half),
        )
    island = torch.diag((D.diagonal() == 0).double())
    torch.testing.assert_close(
        pc.CARPrecision(graph)(rho=0.8, tau=2.0).to_dense(), 2 * (D + island - 0.8 * A)
    )


@GRAPHS
@pytest.mark.parametrize("symmetric", [True, False])
def test_edge_regression_formula(graph, symmetric):
    module = pc.EdgeRegressionPrecision(graph, in_channels=3, symmetric=symmetric, scale=2.0)
    x = torch.randn(graph.num_nodes, 3)
    A = torch.zeros(graph.num_nodes, graph.num_nodes)
    for i, j in graph.edges:
        score = module.network(torch.cat([x[i], x[j]]))
        if symmetric:
            score = (score + module.network(torch.cat([x[j], x[i]]))) / 2
        A[i, j] = A[j, i] = nn.functional.softplus(score)
    expected = 2 * (torch.eye(graph.num_nodes) + torch.diag(A.sum(0)) - A)
    torch.testing.assert_close(module(x).to_dense(), expected)
    torch.testing.assert_close(module(x, scale=1.0).to_dense(), expected / 2)


def test_edge_regression_does_not_depend_on_node_numbers():
    graph = SMALL_GRAPHS["grid"]
    order = torch.randperm(9)
    position = torch.empty(9, dtype=torch.long)
    position[order] = torch.arange(9)
    renumbered = pc.Graph.from_edges(position[torch.tensor(graph.edges)].numpy(), num_nodes=9)
    module = pc.EdgeRegressionPrecision(graph, in_channels=3)
    other = pc.EdgeRegressionPrecision(renumbered, in_channels=3)
    other.load_state_dict(module.state_dict())
    x = torch.randn(9, 3)
    dense = other(x[order]).to_dense()
    torch.testing.assert_close(dense, module(x).to_dense()[order][:, order])


def test_contracts():
    check_precision(lambda g: (m := pc.LaplacianPrecision(g), m()))
    check_precision(
        lambda g: (
            (m := pc.NormalizedAdjacencyPrecision(g, alpha=-0.95), m()) if g.num_edges else None
        )
    )
    check_precision(lambda g: (m := pc.CARPrecision(g, rho=0.999), m()))
    check_precision(
        lambda g: (
            m := pc.EdgeRegressionPrecision(g, in_channels=2),
            m(torch.randn(g.num_nodes, 2)),
        )
    )


def test_contract_check_can_fail():
    def indefinite(graph):
        module = pc.CARPrecision(graph)
        return module, pc.SparsePrecision(
            graph, torch.ones(graph.num_nodes), 2.0 * torch.ones(graph.num_edges) * module.rho()
        )

    with pytest.raises(AssertionError, match="eigenvalue"):
        check_precision(indefinite)


def test_held_values_are_learnable_or_fixed():
    graph = SMALL_GRAPHS["path"]
    module = pc.LaplacianPrecision(graph, tau=2.0, gamma=0.3)
    assert float(module.tau().detach()) == pytest.approx(2.0)
    assert [name for name, _ in module.named_parameters()] == ["tau.raw", "gamma.raw"]
    fixed = pc.LaplacianPrecision(graph, tau=2.0, gamma=0.3, learnable=False)
    assert list(fixed.parameters()) == []
    torch.testing.assert_close(fixed().to_dense(), module().to_dense())
    published = pc.EdgeRegressionPrecision(graph, in_channels=2, learn_scale=False)
    assert not any(name.startswith("scale") for name, _ in published.named_parameters())
    assert "0.3" in repr(module)
    assert "fixed" in repr(fixed)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    module().logdet().backward()
    optimizer.step()
    assert float(module.tau().detach()) != pytest.approx(2.0)
    assert float(module.gamma().detach()) > 0
    module.float()
    assert module().dtype == torch.float32


def test_batches_of_parameters():
    graph = SMALL_GRAPHS["grid"]
    rho = torch.tensor([[0.1], [0.5], [0.9]])
    tau = torch.tensor([1.0, 2.0])
    K = pc.CARPrecision(graph)(rho=rho, tau=tau)
    assert K.batch_shape == (3, 2)
    assert K.logdet().shape == (3, 2)
    assert K.sample((5,)).shape == (5, 3, 2, 9)
    one = pc.CARPrecision(graph)(rho=0.5, tau=2.0)
    b = torch.randn(4, 3, 2, 9)
    torch.testing.assert_close(K[1, 1].to_dense(), one.to_dense())
    torch.testing.assert_close(K.solve(b)[:, 1, 1], one.solve(b[:, 1, 1]))
    torch.testing.assert_close(K.scale()[1, 1], one.scale())


@GRAPHS
def test_operations_are_those_of_the_matrix(graph):
    diagonal, off = dominant_values(graph)
    K = pc.SparsePrecision(graph, diagonal, off)
    dense = K.to_dense()
    torch.testing.assert_close(dense, dense.mT)
    inverse = torch.linalg.inv(dense)
    b = torch.randn(3, graph.num_nodes)
    torch.testing.assert_close(K.logdet(), torch.logdet(dense))
    torch.testing.assert_close(K.solve(b), b @ inverse)
    torch.testing.assert_close(K.matvec(b), b @ dense)
    torch.testing.assert_close(K.scale(), inverse.diagonal().sqrt())
    torch.testing.assert_close(K.variance(), inverse.diagonal())
    selected = K.selected_inverse()
    torch.testing.assert_close(selected[0], inverse.diagonal())
    torch.testing.assert_close(selected[1], inverse[graph.rows, graph.cols])
    keep = torch.arange(graph.num_nodes) % 2 == 0
    torch.testing.assert_close(K.restrict(keep).to_dense(), dense[keep][:, keep])
    schur = torch.linalg.inv(inverse[keep][:, keep])
    torch.testing.assert_close(K.schur_diagonal(keep), schur.diagonal())


def test_float32_in_float32_out():
    graph = SMALL_GRAPHS["grid"]
    diagonal, off = dominant_values(graph)
    single = pc.SparsePrecision(graph, diagonal.float(), off.float())
    double = pc.SparsePrecision(graph, diagonal, off)
    assert single.logdet().dtype == single.scale().dtype == torch.float32
    assert single.sample((2,)).dtype == torch.float32
    assert single.solve(torch.ones(9)).dtype == torch.float32
    assert float(single.logdet()) == pytest.approx(float(double.logdet()), rel=1e-6)


def test_pickle_repr_and_numbers_instead_of_tensors():
    graph = SMALL_GRAPHS["path"]
    K = pc.SparsePrecision(graph, [2, 2, 2, 2], [-1.0, -1.0, -1.0])
    K.logdet()
    assert repr(K) == "SparsePrecision(num_nodes=4, num_edges=3, backend='dense')"
    assert "batch_shape=(2,)" in repr(pc.CARPrecision(graph)(rho=torch.tensor([0.1, 0.2])))
    other = pickle.loads(pickle.dumps(K))
    torch.testing.assert_close(other.logdet(), K.logdet())


BACKENDS = pytest.mark.parametrize(
    "backend",
    ["dense", "sparse", Iterative(tolerance=1e-12, solve_tolerance=1e-12, dtype=torch.float64)],
    ids=["dense", "sparse", "iterative"],
)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def log_density(K, y):
    return K.logdet() / 2 - K.quadratic_form(y) / 2 + K.variance().log().sum() - K.solve(y).sum()


@BACKENDS
@DTYPES
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("first", ["logdet", "variance", "sample", "detach"])
def test_a_result_without_derivatives_takes_none_from_later_ones(first, mode, dtype, backend):
    gradients = []
    for before in (False, True):
        rho = torch.tensor(0.9, dtype=dtype, requires_grad=True)
        tau = torch.tensor(2.0, dtype=dtype)
        K = pc.CARPrecision(SMALL_GRAPHS["grid"], backend=backend)(rho=rho, tau=tau)
        if before:
            with mode():
                getattr(K, first)()
        log_density(K, torch.linspace(-1, 1, 9, dtype=dtype)).backward()
        gradients.append(rho.grad)
    torch.testing.assert_close(*gradients)


@BACKENDS
@DTYPES
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_values_that_an_optimiser_moves_are_factored_again(optimizer, dtype, backend):
    graph = SMALL_GRAPHS["grid"]
    y = torch.linspace(-1, 1, 9, dtype=dtype)
    losses = []
    for once in (False, True):
        leaves = [v.to(dtype).requires_grad_() for v in dominant_values(graph)]
        steps = optimizer(leaves, lr=0.01)
        K = pc.SparsePrecision(graph, *leaves, backend=backend)
        for _ in range(4):
            if not once:
                K = pc.SparsePrecision(graph, *leaves, backend=backend)
            steps.zero_grad()
            loss = -log_density(K, y)
            loss.backward()
            steps.step()
            losses.append(loss.detach())
    each, kept = losses[:4], losses[4:]
    assert len({float(loss) for loss in each}) == 4
    torch.testing.assert_close(kept, each)


@BACKENDS
def test_values_changed_in_place_change_every_result(backend):
    graph = SMALL_GRAPHS["grid"]
    diagonal, off = dominant_values(graph)
    K = pc.SparsePrecision(graph, diagonal, off, backend=backend)
    detached, y = K.detach(), torch.linspace(-1, 1, 9)
    log_density(K, y)
    log_density(detached, y)
    diagonal.mul_(2)
    expected = log_density(pc.SparsePrecision(graph, diagonal, off, backend="dense"), y)
    for found in (K, detached):
        torch.testing.assert_close(log_density(found, y), expected)


@DTYPES
def test_a_solver_that_is_right_is_kept(dtype):
    diagonal, off = (v.to(dtype).requires_grad_() for v in dominant_values(SMALL_GRAPHS["grid"]))
    K = pc.SparsePrecision(SMALL_GRAPHS["grid"], diagonal, off)
    solver = K.solver
    K.logdet().backward()
    with torch.no_grad():
        double = K.double()
        assert K.solver is double.solver is solver
    assert K.double() is double
    assert K.solver is double.solver is solver


def test_values_made_in_inference_mode_are_taken():
    with torch.inference_mode():
        K = pc.SparsePrecision(GRAPH, *dominant_values(GRAPH))
        first = K.logdet()
    assert float(K.logdet()) == float(first)


GRAPH = SMALL_GRAPHS["path"]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: pc.NormalizedAdjacencyPrecision(GRAPH)(alpha=1.04), "`alpha` .* found 1.04"),
        (lambda: pc.NormalizedAdjacencyPrecision(GRAPH)(alpha=-1.0), "`alpha` .* found -1"),
        (lambda: pc.NormalizedAdjacencyPrecision(GRAPH)(alpha=math.nan), "`alpha` .* found nan"),
        (lambda: pc.NormalizedAdjacencyPrecision(GRAPH, alpha=2.0), "`alpha`"),
        (lambda: pc.NormalizedAdjacencyPrecision(GRAPH)(beta=0.0), "`beta` .* positive"),
        (lambda: pc.CARPrecision(GRAPH)(rho=1.0), "`rho`"),
        (lambda: pc.CARPrecision(GRAPH)(rho=torch.tensor([0.1, 1.5])), "`rho` .* found 1.5"),
        (lambda: pc.CARPrecision(GRAPH)(tau=-1.0), "`tau`"),
        (lambda: pc.LaplacianPrecision(GRAPH)(tau=math.inf), "`tau`"),
        (lambda: pc.LaplacianPrecision(GRAPH)(gamma=0.0), "`gamma`"),
        (lambda: pc.LaplacianPrecision(GRAPH, backend="gpu")(), "`backend`"),
        (lambda: pc.SparsePrecision(GRAPH, torch.ones(3), torch.ones(3)), "`diagonal`"),
        (lambda: pc.SparsePrecision(GRAPH, torch.ones(4), torch.ones(4)), "`off_diagonal`"),
        (lambda: pc.SparsePrecision(GRAPH, torch.ones(()), torch.ones(3)), "`diagonal`"),
        (lambda: pc.SparsePrecision([(0, 1)], torch.ones(2), torch.ones(1)), "`graph`"),
        (
            lambda: pc.SparsePrecision(GRAPH, torch.ones(4), torch.tensor([1.0, math.nan, 1.0])),
            "nan at position 1",
        ),
        (
            lambda: pc.SparsePrecision(GRAPH, torch.tensor([1.0, math.inf, 1, 1]), torch.ones(3)),
            "inf at position 1",
        ),
        (lambda: pc.CARPrecision(GRAPH)().solve(torch.ones(3)), "`b`"),
        (lambda: pc.CARPrecision(GRAPH)().matvec(torch.ones(())), "`v`"),
        (lambda: pc.CARPrecision(GRAPH)()[0], "no batch dimension"),
        (lambda: pc.EdgeRegressionPrecision(GRAPH, in_channels=2)(torch.ones(4, 3)), "`x`"),
        (
            lambda: pc.EdgeRegressionPrecision(GRAPH, in_channels=1)(
                torch.tensor([[1.0], [math.nan], [1.0], [1.0]])
            ),
            "NaN or infinity at node 1",
        ),
        (
            lambda: pc.EdgeRegressionPrecision(GRAPH, in_channels=1)(
                torch.tensor([[1.0], [1.0], [1.0], [math.inf]])
            ),
            "NaN or infinity at node 3",
        ),
    ],
)
def test_bad_input(make, match):
    with pytest.raises(InvalidArgumentError, match=match):
        make()


@GRAPHS
def test_weighted_laplacian_starts_plain_and_stays_bounded(graph):
    module = pc.WeightedLaplacianPrecision(graph, in_channels=2, strength=3.0, scale=2.0)
    x = torch.randn(graph.num_nodes, 2)
    degree = graph.degree.double()
    plain = 3 / (degree[graph.rows] * degree[graph.cols]).sqrt()
    torch.testing.assert_close(module.edge_weight(x), plain)
    A = torch.zeros(graph.num_nodes, graph.num_nodes)
    A[graph.rows, graph.cols] = A[graph.cols, graph.rows] = plain
    expected = 2 * (torch.eye(graph.num_nodes) + torch.diag(A.sum(0)) - A)
    torch.testing.assert_close(module(x).to_dense(), expected)
    torch.nn.init.normal_(module.network[-1].weight, std=100.0)
    ratio = module.edge_weight(x) / plain
    assert bool((ratio <= math.e**2 + 1e-9).all())
    assert bool((ratio >= math.e**-2 - 1e-9).all())
    batch = module(x, scale=torch.tensor([1.0, 2.0]), strength=torch.tensor([1.0, 3.0]))
    assert batch.batch_shape == (2,)
    assert bool((torch.linalg.eigvalsh(batch.to_dense().detach()) > 0).all())


def test_scaled_and_shifted_precisions():
    graph = SMALL_GRAPHS["grid"]
    K = pc.CARPrecision(graph)(rho=0.5, tau=1.0)
    torch.testing.assert_close((3 * K).to_dense(), 3 * K.to_dense())
    factors = torch.tensor([1.0, 2.0])
    torch.testing.assert_close((K * factors).to_dense(), factors[:, None, None] * K.to_dense())
    shift = torch.arange(9.0)
    torch.testing.assert_close(K.add_diagonal(shift).to_dense(), K.to_dense() + torch.diag(shift))
