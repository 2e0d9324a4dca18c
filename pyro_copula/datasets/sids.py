"""North Carolina SIDS: a classic of spatial statistics, shipped with the package."""

from __future__ import annotations

import csv
from importlib import resources
from typing import Any

import numpy as np
import torch

from ..errors import InvalidArgumentError
from ..graph import Graph


def nc_sids(period: int = 1974) -> Any:
    r"""Sudden infant deaths in the 100 counties of North Carolina.

    The outcome is the number of deaths and the exposure the number of live births, so that
    ``y / exposure`` is the rate. The one feature follows Cressie and Chan (1989), who work on the
    square-root scale: the square root of the share of births that are non-white, standardised over
    the counties. Counties are joined where they share a border (231 edges).

    Args:
        period: 1974 for 1974-78 (667 deaths in 329,962 births) or 1979 for 1979-84 (836 deaths in
            422,392 births).

    Returns:
        A PyTorch Geometric ``Data`` with ``x`` (100, 1), ``edge_index`` in both directions, ``y``
        (100,), ``exposure`` (100,), ``nonwhite_births`` (100,), ``pos`` (100, 2) the longitude and
        latitude of the centroids in degrees, ``names`` (counties), ``fips``, ``feature_names``,
        ``target_name`` and ``period``.

    References:
        Cressie, Statistics for Spatial Data, 1993, pages 386-389 (the figures).
        Cressie and Chan, Spatial modeling of regional variables, JASA 1989.
        PySAL, example ``sids2`` (BSD-3), from which the files were made; see
        ``nc_sids_attribution.md`` beside them.

    Example:
        >>> data = nc_sids()
        >>> int(data.y.sum()), int(data.exposure.sum()), data.names[0]
        (667, 329962, 'Ashe')
    """
    from torch_geometric.data import Data

    if period not in (1974, 1979):
        raise InvalidArgumentError(
            "period", "1974 or 1979", repr(period), "1974 is 1974-78 and 1979 is 1979-84."
        )
    nodes, edges = _rows("nc_sids_nodes.csv"), _rows("nc_sids_edges.csv")
    number = {row["fips"]: i for i, row in enumerate(nodes)}
    graph = Graph.from_edges(
        [(number[row["fips_a"]], number[row["fips_b"]]) for row in edges], num_nodes=len(nodes)
    )

    def column(name: str) -> np.ndarray:
        return np.array([float(row[name]) for row in nodes])

    births, nonwhite = column(f"births_{period}"), column(f"nonwhite_births_{period}")
    share = np.sqrt(nonwhite / births)
    share = (share - share.mean()) / share.std()
    dtype = torch.get_default_dtype()
    return Data(
        x=torch.tensor(share, dtype=dtype).unsqueeze(-1),  # (num_nodes, 1)
        edge_index=graph.edge_index.clone(),
        y=torch.tensor(column(f"deaths_{period}"), dtype=dtype),
        exposure=torch.tensor(births, dtype=dtype),
        nonwhite_births=torch.tensor(nonwhite, dtype=dtype),
        pos=torch.tensor(np.stack([column("longitude"), column("latitude")], axis=1), dtype=dtype),
        num_nodes=graph.num_nodes,
        name="nc_sids",
        names=[row["name"] for row in nodes],
        fips=list(number),
        feature_names=["sqrt_nonwhite_share"],
        target_name="SIDS deaths",
        period=period,
    )


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
