"""Products with a graph's matrix, against PyTorch Geometric's layers and against plain loops."""

from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.nn import APPNP

from pyro_copula.nn import make_backbone
from pyro_copula.nn.products import NeighbourProduct, mean_weights, normalised_weights
from pyro_copula.testing import SMALL_GRAPHS

WEIGHTS = {"mean": mean_weights, "normalised": normalised_weights}


def by_hand(kind, x, edge_index):
    """The product, edge by edge."""
    n = len(x)
    result = torch.zeros_like(x)
    sources = [[int(i) for i, j in edge_index.T if j == node] for node in range(n)]
    for node, neighbours in enumerate(sources):
        if kind == "mean":
            for other in neighbours:
                result[node] += x[other] / len(neighbours)
        else:
            for other in [*neighbours, node]:
                result[node] += (
                    x[other] / ((len(neighbours) + 1) * (len(sources[other]) + 1)) ** 0.5
                )
    return result


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())
def test_product_is_the_sum_over_edges(graph, kind):
    x = torch.randn(graph.num_nodes, 3)
    product = NeighbourProduct(WEIGHTS[kind])
    for _ in range(2):  # made, and kept
        torch.testing.assert_close(product(x, graph.edge_index), by_hand(kind, x, graph.edge_index))


@pytest.mark.parametrize("kind", WEIGHTS)
def test_derivatives(kind):
    graph = SMALL_GRAPHS["star"]
    product = NeighbourProduct(WEIGHTS[kind])
    x = torch.randn(graph.num_nodes, 2, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: product(v, graph.edge_index), (x,))
    assert torch.autograd.gradgradcheck(lambda v: product(v, graph.edge_index) ** 2, (x,))


@pytest.mark.parametrize("kind", WEIGHTS)
def test_another_graph_is_noticed(kind):
    product = NeighbourProduct(WEIGHTS[kind])
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    x = torch.randn(3, 2)
    product(x, edges)
    edges[0, 3], edges[1, 2] = 0, 0  # in place: the path turns into directed edges
    torch.testing.assert_close(product(x, edges), by_hand(kind, x, edges))
    larger = torch.randn(5, 2)  # the same edges, more nodes
    torch.testing.assert_close(product(larger, edges), by_hand(kind, larger, edges))
    assert product(x.float(), edges).dtype == torch.float32
    assert product(x, edges).dtype == torch.float64
    torch.testing.assert_close(copy.deepcopy(product)(x, edges), product(x, edges))


def layer_by_layer(name, module, x, edge_index):
    """A backbone's output from the layers of PyTorch Geometric themselves."""
    if name == "appnp":
        first, last = module.layers
        return APPNP(K=10, alpha=0.1)(last(first(x).relu()), edge_index)
    if name != "published_sage":
        first, last = module.layers
        return last(first(x, edge_index).relu(), edge_index)
    first, last = module.layers
    hidden = torch.cat([first.convolution(x, edge_index), first.linear(x)], 1).relu()
    return last.convolution(hidden, edge_index) + last.linear(hidden)


@pytest.mark.parametrize("name", ["gcn", "sage", "appnp", "published_sage"])
@pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())
def test_backbones_are_pytorch_geometrics(graph, name):
    module = make_backbone(name, 3, 2)
    x = torch.randn(graph.num_nodes, 3)
    parameters = list(module.parameters())
    outputs = [module(x, graph.edge_index), layer_by_layer(name, module, x, graph.edge_index)]
    torch.testing.assert_close(*outputs)
    weight = torch.randn_like(outputs[0])
    gradients = [torch.autograd.grad((weight * out).sum(), parameters) for out in outputs]
    for ours, theirs in zip(*gradients):
        torch.testing.assert_close(ours, theirs)
