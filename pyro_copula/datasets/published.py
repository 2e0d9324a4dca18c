"""The real data sets of the paper, and the splits it was scored on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from ..errors import DatasetError, InvalidArgumentError
from ..graph import Graph
from .sources import locate

#: The columns of the election file, in order.
ELECTION_COLUMNS = (
    "income",
    "migration_rate",
    "birth_rate",
    "death_rate",
    "education",
    "unemployment",
    "election",
)

#: The columns that the paper predicts from the others.
ELECTION_TARGETS = ("income", "education", "unemployment", "election")

WIKIPEDIA_NAMES = ("chameleon", "squirrel")


class Split(NamedTuple):
    """Three boolean masks of shape ``(num_nodes,)``, every node in exactly one.

    Attributes:
        train_mask: The nodes to train on.
        val_mask: Those on which to judge when to stop.
        test_mask: Those to predict.

    Example:
        >>> split = published_split(10, seed=1, kind="election")
        >>> (split.train_mask | split.val_mask | split.test_mask).all(), int(split.test_mask.sum())
        (tensor(True), 2)
    """

    train_mask: Tensor
    val_mask: Tensor
    test_mask: Tensor


def election(target: str = "income", root: str | os.PathLike | None = None) -> Any:
    """Demography and the 2012 vote in the counties of the United States.

    3,234 counties, an edge between two that touch (9,483), six features and one outcome: the seven
    columns take turns. The demographic ones are standardised; ``election`` is the margin of the
    vote, from -1 to 1. Ten counties have no neighbour.

    Args:
        target: The outcome: ``"income"``, ``"education"``, ``"unemployment"`` or ``"election"``.
        root: The data directory. Without it, ``PYRO_COPULA_DATA``, and without that a download
            into a per-user cache.

    Returns:
        A PyTorch Geometric ``Data`` with ``x`` (3234, 6), ``edge_index`` in both directions, ``y``
        (3234,), ``feature_names`` and ``target_name``.

    Raises:
        DatasetError: If a file is missing, altered or cannot be downloaded.

    Example:
        >>> data = election("income")
        >>> data.y.shape, data.feature_names[:2]
        (torch.Size([3234]), ['migration_rate', 'birth_rate'])

    References:
        Jia and Benson, Residual correlation in graph neural network regression, KDD 2020.
    """
    _check_choice("target", target, ELECTION_TARGETS)
    table = _read("election/2012_xy.csv", root, _read_csv)
    edges = _read("election/2012_adj.csv", root, lambda file: _read_csv(file, np.int64))
    column = ELECTION_COLUMNS.index(target)
    return _make_data(
        Graph.from_edges(edges - 1, num_nodes=len(table)),
        np.delete(table, column, axis=1),
        table[:, column],
        name="election",
        feature_names=[name for name in ELECTION_COLUMNS if name != target],
        target_name=target,
    )


def wikipedia(name: str = "chameleon", root: str | os.PathLike | None = None) -> Any:
    """Monthly traffic of Wikipedia pages on one animal, an edge where two pages are linked.

    Chameleon has 2,277 pages and 31,371 edges, squirrel 5,201 and 198,353. Features are eight
    principal components of the words of a page; the outcome is its monthly traffic in thousands, a
    count that is never zero.

    Args:
        name: ``"chameleon"`` or ``"squirrel"``.
        root: The data directory, as for :func:`election`.

    Returns:
        A PyTorch Geometric ``Data`` with ``x`` (n, 8), ``edge_index`` in both directions, ``y``
        (n,), ``feature_names`` and ``target_name``.

    Raises:
        DatasetError: If a file is missing, altered or cannot be downloaded.

    Example:
        >>> data = wikipedia("chameleon")
        >>> data.y.shape, data.num_edges
        (torch.Size([2277]), 62742)

    References:
        Rozemberczki, Allen and Sarkar, Multi-scale attributed node embedding, 2021.
    """
    _check_choice("name", name, WIKIPEDIA_NAMES)
    edge_index, x, y = (
        _read(f"wiki/wiki-{name}-{part}.npy", root, _read_npy) for part in ("edge", "x", "y")
    )
    return _make_data(
        Graph.from_edge_index(edge_index, num_nodes=len(y)),
        x,
        y,
        name=f"wiki-{name}",
        feature_names=_component_names(x.shape[1]),
        target_name="monthly traffic (thousands)",
    )


def emnlp(root: str | os.PathLike | None = None) -> Any:
    """Citations of EMNLP papers, an edge where two are cited together by at least two papers.

    2,600 papers and 7,969 edges; 1,339 papers have no neighbour. Features are principal components
    of the words of title and abstract, and the year; the outcome counts the citations from outside
    EMNLP and is never zero.

    Args:
        root: The data directory, as for :func:`election`.

    Returns:
        A PyTorch Geometric ``Data`` with ``x`` (2600, 8), ``edge_index`` in both directions, ``y``
        (2600,), ``feature_names`` and ``target_name``.

    Raises:
        DatasetError: If a file is missing, altered or cannot be downloaded.

    Example:
        >>> data = emnlp()
        >>> data.y.shape, float(data.y.min())
        (torch.Size([2600]), 1.0)

    References:
        Ma, Chang, Zhang and Mei, CopulaGNN, ICLR 2021.
    """
    adjacency = _read("emnlp/emnlp-adj.npz", root, scipy.sparse.load_npz)  # refuses pickles
    x = _read("emnlp/emnlp-x.npy", root, _read_npy)
    y = _read("emnlp/emnlp-y.npy", root, _read_npy)
    return _make_data(
        Graph.from_scipy(adjacency),
        x,
        y,
        name="emnlp",
        feature_names=_component_names(x.shape[1]),
        target_name="citations from outside",
    )


def published_split(data: Any, seed: int, kind: str) -> Split:
    """The split of the nodes that the paper used for this seed.

    Nodes are permuted by ``numpy.random.RandomState(seed)``. For ``"election"`` the parts are 6:2:2
    and for ``"counts"`` 1:1:1, the test nodes being whatever rounding leaves.

    Args:
        data: A ``Data``, or the number of nodes.
        seed: The seed of the trial.
        kind: ``"election"`` or ``"counts"`` (Wikipedia and EMNLP).

    Example:
        >>> split = published_split(10, seed=1, kind="counts")
        >>> [int(mask.sum()) for mask in split]
        [3, 3, 4]
    """
    _check_choice("kind", kind, ("election", "counts"))
    num_nodes = data if isinstance(data, int) else getattr(data, "num_nodes", None)
    if not isinstance(num_nodes, int) or num_nodes < 1:
        raise InvalidArgumentError(
            "data",
            "a PyTorch Geometric Data or a positive number of nodes",
            repr(data),
            "Pass what a loader returned, or n.",
        )
    order = torch.from_numpy(np.random.RandomState(seed).permutation(num_nodes))
    part = num_nodes // 5 if kind == "election" else num_nodes // 3
    train_end = 3 * part if kind == "election" else part
    masks = []
    for nodes in (order[:train_end], order[train_end : train_end + part]):
        mask = torch.zeros(num_nodes, dtype=torch.bool)
        mask[nodes] = True
        masks.append(mask)
    return Split(masks[0], masks[1], ~(masks[0] | masks[1]))


# ---------------------------------------------------------------- reading


def _read(name: str, root: str | os.PathLike | None, reader: Callable[[Any], Any]) -> Any:
    path = locate(name, root)
    try:
        with path.open("rb") as file:  # numpy leaves a file open that it cannot read
            return reader(file)
    except Exception as error:  # numpy and scipy raise many kinds on a file that is not theirs
        raise DatasetError(
            name,
            f"at {str(path)!r} cannot be read ({type(error).__name__}: {error})",
            "Delete it, so that it is downloaded again, or copy it again.",
        ) from error


def _read_csv(file: Any, dtype: Any = np.float64) -> np.ndarray:
    return np.loadtxt(file, delimiter=",", skiprows=1, dtype=dtype, ndmin=2)


def _read_npy(file: Any) -> np.ndarray:
    return np.load(file, allow_pickle=False)


def _make_data(graph: Graph, x: np.ndarray, y: np.ndarray, **names: Any) -> Any:
    """A ``Data`` in the default dtype, with what else it should remember."""
    from torch_geometric.data import Data

    dtype = torch.get_default_dtype()
    return Data(
        x=torch.tensor(x, dtype=dtype),
        edge_index=graph.edge_index.clone(),
        y=torch.tensor(y, dtype=dtype),
        num_nodes=graph.num_nodes,
        **names,
    )


def _component_names(count: int) -> list[str]:
    return [f"component_{i + 1}" for i in range(count)]


def _check_choice(argument: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidArgumentError(
            argument, f"one of {choices}", repr(value), f"Pass {argument}={choices[0]!r}."
        )
