"""Networks in batches of nodes: the outputs and gradients of all nodes at once."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula.batches import even_batches, in_batches
from pyro_copula.nn import BACKBONES, LastLayer, make_backbone
from pyro_copula.testing import SMALL_GRAPHS

#: Rounding of sums in another order.
SAME = {"rtol": 1e-11, "atol": 1e-12}

GRAPHS = {**SMALL_GRAPHS, "hubs": pc.Graph.from_networkx(nx.barabasi_albert_graph(60, 2, seed=0))}


def run(name, graph, batch_nodes, features, **options):
    """Outputs, and the gradients of a function of them in weights, and in features if asked."""
    torch.manual_seed(0)
    backbone = make_backbone(name, 5, 2, batch_nodes=batch_nodes, num_layers=3, **options)
    x = torch.randn(graph.num_nodes, 5, requires_grad=features)
    outputs = backbone(x, graph.edge_index)
    value = (outputs.sin() * torch.arange(1.0, 1 + graph.num_nodes)[:, None]).sum()
    value.backward()
    every = [x, *backbone.parameters()] if features else [*backbone.parameters()]
    return [outputs.detach(), *(p.grad for p in every)]


@pytest.mark.parametrize("options", [{}, {"linear_skip": True, "num_own": 2}], ids=str)
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize("name", BACKBONES)
def test_outputs_and_gradients_are_those_of_the_whole(name, graph, options):
    for features in (False, True):
        whole = run(name, graph, None, features, **options)
        found = run(name, graph, 3, features, **options)
        torch.testing.assert_close(found, whole, **SAME)


@pytest.mark.parametrize("name", ["sage", "gat"])
def test_there_are_batches(name):
    """So that the test above compares two ways, and not one with itself."""
    graph = GRAPHS["hubs"]
    backbone = make_backbone(name, 5, 2, batch_nodes=7)
    x = torch.randn(60, 5)
    assert len(backbone.batches(x, graph.edge_index, 7)) >= 9
    assert len(backbone.batches(x, graph.edge_index, None)) == 1


@pytest.mark.parametrize("name", BACKBONES)
def test_without_derivatives_too(name):
    graph = GRAPHS["hubs"]
    backbone = make_backbone(name, 4, 1)
    x = torch.randn(graph.num_nodes, 4)
    with torch.no_grad():
        whole = backbone(x, graph.edge_index)
        backbone.batch_nodes = 7
        torch.testing.assert_close(backbone(x, graph.edge_index), whole, **SAME)


def test_another_graph_is_noticed():
    backbone = make_backbone("gat", 4, 1, batch_nodes=7)
    product = make_backbone("sage", 4, 1, batch_nodes=7)
    for seed in (0, 1):
        graph = pc.Graph.from_networkx(nx.barabasi_albert_graph(40, 2, seed=seed))
        x = torch.randn(40, 4)
        for module in (backbone, product):
            found = module(x, graph.edge_index)
            module.batch_nodes = None
            torch.testing.assert_close(found, module(x, graph.edge_index), **SAME)
            module.batch_nodes = 7


def test_dropout_is_the_same_when_a_batch_is_made_again():
    """By differences: the gradient is that of the outputs which were given."""
    graph = GRAPHS["hubs"]
    backbone = make_backbone("sage", 4, 1, batch_nodes=7, dropout=0.5)
    x = torch.randn(graph.num_nodes, 4)

    def value():
        torch.manual_seed(3)
        return backbone(x, graph.edge_index).square().sum()

    value().backward()
    weight = backbone.layers[0].lin_l.weight
    step = torch.zeros_like(weight)
    step[2, 1] = 1e-6
    with torch.no_grad():
        weight += step
        above = value()
        weight -= 2 * step
        below = value()
    assert float(weight.grad[2, 1]) == pytest.approx(float(above - below) / 2e-6, rel=1e-5)


def test_what_is_kept_for_the_derivatives_is_what_goes_in_and_comes_out():
    """Counted in numbers, not in bytes of the process: the memory of a batch is not kept."""
    graph = pc.Graph.from_networkx(nx.random_regular_graph(6, 400, seed=0))
    kept = {}
    for size in (None, 20):
        backbone = make_backbone("sage", 64, 1, batch_nodes=size)
        x = torch.randn(400, 64)
        tensors = {}

        def pack(tensor, tensors=tensors):
            tensors[tensor.data_ptr()] = tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            backbone(x, graph.edge_index)
        kept[size] = sum(tensors.values())
    assert kept[None] > 400 * 64  # the means over neighbours, as large as the features
    assert kept[20] <= kept[None] - 400 * 64
    assert kept[20] < 4 * 400 * 16  # what the hidden layer gives, and its means


def test_other_weights_of_the_last_layer_have_their_own_derivatives():
    graph = GRAPHS["hubs"]
    x = torch.randn(graph.num_nodes, 4)
    found = []
    for size in (None, 7):
        torch.manual_seed(0)
        last = LastLayer(make_backbone("sage", 4, 1, batch_nodes=size))
        vector = (2 * last.vector()).requires_grad_()
        outputs = last(last.hidden(x, graph.edge_index), graph.edge_index, vector)
        found.append((outputs.detach(), *torch.autograd.grad(outputs.square().sum(), vector)))
    torch.testing.assert_close(found[1], found[0], **SAME)


@pytest.mark.parametrize("backbone", ["sage", "gat"])
def test_a_fit_is_the_same(backbone):
    graph = GRAPHS["hubs"]
    x = torch.randn(60, 3)
    data = Data(x=x, edge_index=graph.edge_index, y=torch.poisson((3 + 0.5 * x[:, 0]).exp()))
    fits = [
        pc.fit(
            pc.CopulaGNN(backbone, "poisson", "edge_regression", batch_nodes=size),
            data,
            torch.arange(60) % 5 != 0,
            schedule=pc.Schedule(max_epochs=5),
        )
        for size in (None, 13)
    ]
    assert fits[1].model.precision.module.batch_edges == 13
    torch.testing.assert_close(*(f.model.state_dict() for f in fits), rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(*(f.history.losses for f in fits), rtol=1e-8, atol=1e-9)


def test_edge_weights_and_their_gradients_are_those_of_all_edges():
    graph = GRAPHS["hubs"]
    found = []
    for size in (None, 7):
        torch.manual_seed(0)
        precision = pc.EdgeRegressionPrecision(graph, in_channels=3, batch_edges=size)
        x = torch.randn(60, 3, requires_grad=True)
        precision(x).logdet().backward()
        found.append([x.grad, *(p.grad for p in precision.network.parameters())])
    torch.testing.assert_close(found[1], found[0], **SAME)


def test_mistakes_are_named():
    with pytest.raises(pc.errors.InvalidArgumentError, match="batch_nodes"):
        pc.CopulaGNN(batch_nodes=0)
    with pytest.raises(pc.errors.InvalidArgumentError, match="batch_edges"):
        pc.EdgeRegressionPrecision(GRAPHS["hubs"], in_channels=2, batch_edges=2.5)
    with pytest.raises(pc.errors.InvalidArgumentError, match="backbone of your own"):
        make_backbone(torch.nn.Linear(2, 1), 2, 1, batch_nodes=10)


def test_one_batch_is_no_batch():
    calls = []
    in_batches(lambda some: calls.append(some) or torch.zeros(4), even_batches(4, 4))
    assert calls == [slice(0, 4)]


def test_batches_of_attention_have_a_usual_number_of_edges():
    star = pc.Graph.from_networkx(nx.star_graph(30))  # node 0 has half of the 60 directed edges
    attention = make_backbone("gat", 3, 1, batch_nodes=5)
    found = attention.batches(torch.zeros(31, 3), star.edge_index, 5)
    assert found[0] == slice(0, 1)  # by itself
    assert [node for some in found for node in range(some.start, some.stop)] == list(range(31))
    hubs = GRAPHS["hubs"]
    degree = torch.bincount(hubs.edge_index[1], minlength=60)
    found = attention.batches(torch.zeros(60, 3), hubs.edge_index, 10)
    most = -(-10 * hubs.edge_index.shape[1] // 60)
    for some in found:
        assert some.stop - some.start <= 10
        assert int(degree[some].sum()) <= most or some.stop - some.start == 1
