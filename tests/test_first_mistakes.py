"""What a new user does wrong once: each mistake is named, and so is the way out."""

from __future__ import annotations

import math

import pytest
import torch

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError

OBSERVED = torch.arange(100) % 5 != 0


def model(**changes):
    given = {"backbone": "linear", "marginal": "poisson", "precision": "car"}
    return pc.CopulaGNN(**{**given, "exposure": "exposure", **changes})


def fit(observed=OBSERVED, **changes):
    """A short fit to the counties, with some attributes of the data changed."""
    data = pc.datasets.nc_sids()
    for name, change in changes.items():
        setattr(data, name, change(getattr(data, name)))
    short = pc.Schedule(max_epochs=1)
    return pc.fit(model(), data, observed=observed, schedule=short, progress=False)


def with_first(value):
    """Puts a value at the first place of a tensor."""

    def change(tensor):
        tensor = tensor.clone()
        tensor.view(-1)[0] = value
        return tensor

    return change


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"marginal": "poison"}, r"found 'poison'.\n  Did you mean 'poisson'\?"),
        ({"marginal": "zebra"}, 'Use marginal="normal" for real values'),
        ({"precision": "carr"}, r"Did you mean 'car'\?"),
        ({"precision": 3}, 'Use precision="normalized_adjacency"'),
        ({"backbone": "sgae"}, r"Did you mean 'sage'\?"),
        ({"backbone": "GCN"}, r"Did you mean 'gcn'\?"),
        ({"backbone": "transformer"}, 'Use backbone="sage"'),
        ({"recipe": "count"}, r"Did you mean 'counts'\?"),
        ({"recipe": "best"}, 'Use recipe="continuous" for real values'),
    ],
)
def test_a_name_that_does_not_exist(changes, said):
    with pytest.raises(InvalidArgumentError, match=said):
        model(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"y": lambda y: y[:50]}, r"`data.y` must be as long as data.x, which has 100 rows"),
        ({"y": lambda y: y.numpy()}, r"found ndarray.\n  .*data.y = torch.as_tensor\(data.y\)"),
        ({"y": lambda y: y - 1}, r"found -1, and 11 such values in all.\n  Correct them"),
        ({"y": lambda y: y + 0.5}, r"found 0.5, and 80 such values in all"),
        ({"x": lambda x: x[:50]}, r"`data.x` must be of shape \(100, num_features\)"),
        ({"x": with_first(math.nan)}, "nan at node 0, feature 0"),
        ({"edge_index": with_first(100)}, r"from 0 to 99, but found \(100, 1\)"),
        ({"edge_index": lambda e: e.float()}, "must be integer, but found dtype float32"),
        ({"edge_index": lambda e: e.T}, r"must be of shape \(2, E\)"),
        ({"observed": OBSERVED[:50]}, "Give every node an entry"),
        ({"observed": OBSERVED.long()}, r"Pass observed.bool\(\)"),
        ({"observed": torch.arange(10)}, r"torch.isin\(torch.arange\(100\), numbers\)"),
        ({"observed": ~OBSERVED & OBSERVED}, "found 0 observed values"),
    ],
)
def test_data_that_do_not_fit(changes, said):
    with pytest.raises(InvalidArgumentError, match=said):
        fit(**changes)


def test_zeros_under_a_law_without_them():
    family = pc.models.make_family("zero_truncated_poisson")
    with pytest.raises(InvalidArgumentError, match='Use marginal="negative_binomial", which has'):
        family.check(torch.tensor([0.0, 2.0]))


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")  # small counts
def test_nodes_that_are_not_predicted():
    found = fit()
    for nodes, said in [
        ([100], r"found node 100 \(the graph has nodes 0 to 99\)"),
        ([1], r"found node 1 \(its value is given\)"),
        (["Wakee"], r"found 'Wakee'.\n  Did you mean 'Wake'\?"),
        (["Paris"], "Check the spelling"),
        ([0.5], "Pass whole numbers in one dimension, or a mask of all nodes"),
        (OBSERVED.long(), r"numbers of nodes, or a boolean mask.*\n  Pass mask.bool\(\)"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            found.predict(nodes=nodes)
    with pytest.raises(InvalidArgumentError, match=r"Pass 0\.9 for 90%"):
        found.predict().interval(90)


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")
def test_nan_without_a_mask_is_a_missing_node():
    found = fit(observed=None, y=with_first(math.nan))
    assert found.predict().nodes.tolist() == [0]


@pytest.mark.parametrize(
    "precision",
    [
        pc.LaplacianPrecision,
        pc.NormalizedAdjacencyPrecision,
        pc.CARPrecision,
        lambda graph: pc.EdgeRegressionPrecision(graph, in_channels=2),
        lambda graph: pc.WeightedLaplacianPrecision(graph, in_channels=2),
    ],
)
def test_something_else_for_a_graph(precision):
    data = pc.datasets.nc_sids()
    for other in (data.edge_index, data):
        with pytest.raises(InvalidArgumentError, match=r"`graph` must be a pyro_copula\.Graph"):
            precision(other)


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        (
            [(0, 1), (1, 2, 3)],
            r"`edges` must be a sequence of pairs, but found \(1, 2, 3\) at edge 1",
        ),
        ([(0, 1), 2], "found 2 at edge 1"),
        (5, "a sequence of pairs, but found int"),
        ([(0, 5)], r"found \(0, 5\) at edge 0.\n  Pass .* as `num_nodes`, which is 3 here"),
    ],
)
def test_edges_that_are_none(edges, said):
    with pytest.raises(InvalidArgumentError, match=said):
        pc.Graph.from_edges(edges, num_nodes=3)


def test_a_word_for_a_number():
    precision = pc.CARPrecision(pc.Graph.from_edges([(0, 1)]))
    with pytest.raises(InvalidArgumentError, match="`rho` must be a number"):
        precision(rho="0.5", tau=1.0)


def test_a_dictionary_for_data():
    data = pc.datasets.nc_sids().to_dict()
    with pytest.raises(InvalidArgumentError, match=r"found a dict with .*\n  Make one of it"):
        pc.fit(model(), data)
