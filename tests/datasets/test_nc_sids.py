"""The data set that comes with the package."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pyro_copula as pc
from pyro_copula import datasets
from pyro_copula.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("period", "deaths", "births", "nonwhite"),
    [(1974, 667, 329962, 105081), (1979, 836, 422392, 135281)],
)
def test_the_published_totals(period, deaths, births, nonwhite):
    data = datasets.nc_sids(period)
    assert data.num_nodes == 100
    assert int(data.y.sum()) == deaths
    assert int(data.exposure.sum()) == births
    assert int(data.nonwhite_births.sum()) == nonwhite
    assert data.period == period
    assert bool((data.nonwhite_births <= data.exposure).all())


def test_one_county_as_libpysal_has_it():
    data = datasets.nc_sids(1974)
    anson = data.names.index("Anson")
    assert data.fips[anson] == "37007"
    assert (data.y[anson], data.exposure[anson], data.nonwhite_births[anson]) == (15, 1570, 952)


def test_the_graph_is_a_map():
    data = datasets.nc_sids()
    graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=100)
    assert graph.num_edges == 231
    assert data.edge_index.shape == (2, 462)
    assert graph.components.max() == 0
    assert len(set(data.names)) == len(set(data.fips)) == 100
    # Neighbours are near: the longest edge is under a degree and a half, the state spans nine.
    ends = data.pos[torch.from_numpy(graph.edges.copy())]
    assert float((ends[:, 0] - ends[:, 1]).norm(dim=-1).max()) < 1.5
    longitude, latitude = data.pos.T
    assert -84.4 < longitude.min() < longitude.max() < -75.4
    assert 33.8 < latitude.min() < latitude.max() < 36.6
    # Martin, Bertie and Washington meet at the Roanoke river, Ashe and Dare do not meet.
    number = {name: i for i, name in enumerate(data.names)}
    edges = {frozenset(pair) for pair in graph.edges.tolist()}
    assert frozenset((number["Martin"], number["Bertie"])) in edges
    assert frozenset((number["Ashe"], number["Dare"])) not in edges


def test_the_feature_is_standardised_on_the_square_root_scale():
    data = datasets.nc_sids()
    assert data.x.shape == (100, 1)
    assert float(data.x.mean()) == pytest.approx(0.0, abs=1e-12)
    assert float(data.x.std(correction=0)) == pytest.approx(1.0)
    share = (data.nonwhite_births / data.exposure).sqrt()
    assert np.corrcoef(share, data.x[:, 0])[0, 1] == pytest.approx(1.0)


def test_the_dtype_is_the_default_one():
    torch.set_default_dtype(torch.float32)
    data = datasets.nc_sids()
    assert data.x.dtype == data.y.dtype == data.exposure.dtype == torch.float32
    assert int(data.exposure.sum()) == 329962


def test_the_licence_travels_with_the_figures():
    from importlib import resources

    note = resources.files("pyro_copula.datasets").joinpath("nc_sids_attribution.md").read_text()
    assert "PySAL Developers" in note
    assert "Cressie" in note


def test_an_unknown_period():
    with pytest.raises(InvalidArgumentError, match="`period` must be 1974 or 1979"):
        datasets.nc_sids(1984)
