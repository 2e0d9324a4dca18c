"""The data sets of the paper: the real files where they are, small ones of the same form."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch

import pyro_copula as pc
from pyro_copula import datasets, errors
from pyro_copula.datasets import sources
from pyro_copula.errors import InvalidArgumentError, PyroCopulaError

real_files = pytest.mark.skipif(
    not os.environ.get("PYRO_COPULA_DATA"), reason="PYRO_COPULA_DATA names no data directory"
)


def put(root: Path, name: str, content: bytes, monkeypatch) -> None:
    """Writes a file and makes its checksum the recorded one."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    source = sources.Source(sources.FILES[name].remote, hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(sources.FILES, name, source)


def npy(array: np.ndarray, **options) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


@pytest.fixture
def small_election(tmp_path, monkeypatch):
    """Three counties in a row and a fourth alone; column k of county i is 10 i + k."""
    table = "x1,x2,x3,x4,x5,x6,x7\n" + "".join(
        ",".join(str(10 * i + k) for k in range(1, 8)) + "\n" for i in range(4)
    )
    edges = "x1,x2\n1,1\n1,2\n2,1\n2,2\n3,2\n2,3\n3,3\n4,4\n"
    put(tmp_path, "election/2012_xy.csv", table.encode(), monkeypatch)
    put(tmp_path, "election/2012_adj.csv", edges.encode(), monkeypatch)
    return tmp_path


# ---------------------------------------------------------------- small files


@pytest.mark.parametrize(
    ("target", "column"), [("income", 1), ("education", 5), ("unemployment", 6), ("election", 7)]
)
def test_election_takes_one_column_out(small_election, target, column):
    data = datasets.election(target, root=small_election)
    assert data.y.tolist() == [10 * i + column for i in range(4)]
    assert data.x[1].tolist() == [10 + k for k in range(1, 8) if k != column]
    assert len(data.feature_names) == 6
    assert target not in data.feature_names
    assert data.target_name == target
    assert sorted(map(tuple, data.edge_index.T.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert data.num_nodes == 4


def test_wikipedia_is_symmetrised_without_self_loops(tmp_path, monkeypatch):
    edge_index = np.array([[0, 1, 2, 2], [1, 0, 2, 1]])
    put(tmp_path, "wiki/wiki-squirrel-edge.npy", npy(edge_index), monkeypatch)
    put(tmp_path, "wiki/wiki-squirrel-x.npy", npy(np.eye(4)), monkeypatch)
    put(tmp_path, "wiki/wiki-squirrel-y.npy", npy(np.array([1.0, 2, 3, 4])), monkeypatch)
    monkeypatch.setenv("PYRO_COPULA_DATA", str(tmp_path))
    data = datasets.wikipedia("squirrel")
    assert sorted(map(tuple, data.edge_index.T.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert data.y.tolist() == [1, 2, 3, 4]
    assert data.x.dtype == data.y.dtype == torch.float64


def test_emnlp_reads_a_sparse_matrix(tmp_path, monkeypatch):
    buffer = io.BytesIO()
    scipy.sparse.save_npz(buffer, scipy.sparse.csc_array(([1], ([0], [2])), shape=(3, 3)))
    put(tmp_path, "emnlp/emnlp-adj.npz", buffer.getvalue(), monkeypatch)
    put(tmp_path, "emnlp/emnlp-x.npy", npy(np.eye(3)), monkeypatch)
    put(tmp_path, "emnlp/emnlp-y.npy", npy(np.array([3, 1, 2])), monkeypatch)
    data = datasets.emnlp(root=tmp_path)
    assert sorted(map(tuple, data.edge_index.T.tolist())) == [(0, 2), (2, 0)]
    assert data.y.tolist() == [3, 1, 2]


# ---------------------------------------------------------------- errors


def test_a_missing_file_is_named(small_election):
    (small_election / "election/2012_adj.csv").unlink()
    with pytest.raises(errors.MissingFileError, match=r"2012_adj\.csv.*`root`") as caught:
        datasets.election(root=small_election)
    assert isinstance(caught.value, PyroCopulaError)
    assert caught.value.name == "election/2012_adj.csv"


def test_the_variable_is_named_when_it_gave_the_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("PYRO_COPULA_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(errors.MissingFileError, match="given by PYRO_COPULA_DATA"):
        datasets.emnlp()


def test_an_altered_file_is_refused(small_election):
    path = small_election / "election/2012_xy.csv"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(errors.ChecksumError, match=r"is not the published one(.|\n)*autocrlf"):
        datasets.election(root=small_election)


@pytest.mark.parametrize("content", [b"", b"not numpy", npy(np.arange(3))[:-4]])
def test_an_unreadable_file_is_an_error_of_this_package(tmp_path, monkeypatch, content):
    put(tmp_path, "wiki/wiki-chameleon-edge.npy", content, monkeypatch)
    with pytest.raises(errors.DatasetError, match="cannot be read"):
        datasets.wikipedia(root=tmp_path)


def test_a_pickle_is_never_executed(tmp_path, monkeypatch):
    content = npy(np.array([{"a": 1}], dtype=object), allow_pickle=True)
    put(tmp_path, "wiki/wiki-chameleon-edge.npy", content, monkeypatch)
    with pytest.raises(errors.DatasetError, match="allow_pickle"):
        datasets.wikipedia(root=tmp_path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.election("votes"), "`target` must be one of"),
        (lambda: datasets.wikipedia("crocodile"), "`name` must be one of"),
        (lambda: datasets.published_split(9, 1, "synthetic"), "`kind` must be one of"),
        (lambda: datasets.published_split("nine", 1, "counts"), "`data` must be"),
        (lambda: datasets.published_split(0, 1, "counts"), "`data` must be"),
    ],
)
def test_unknown_names(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()


# ---------------------------------------------------------------- splits


@pytest.mark.parametrize(
    ("kind", "num_nodes", "sizes"),
    [
        ("election", 3234, (1938, 646, 650)),
        ("counts", 2277, (759, 759, 759)),
        ("counts", 5201, (1733, 1733, 1735)),
    ],
)
def test_the_published_split(kind, num_nodes, sizes):
    split = datasets.published_split(num_nodes, seed=1, kind=kind)
    assert tuple(int(mask.sum()) for mask in split) == sizes
    assert bool((sum(mask.int() for mask in split) == 1).all())
    order = np.random.RandomState(1).permutation(num_nodes)
    assert bool(split.train_mask[order[: sizes[0]]].all())
    assert bool(split.val_mask[order[sizes[0] : sizes[0] + sizes[1]]].all())
    other = datasets.published_split(num_nodes, seed=2, kind=kind)
    assert not torch.equal(split.train_mask, other.train_mask)


def test_the_split_leaves_the_global_generator_alone():
    before = str(np.random.get_state())  # noqa: NPY002
    datasets.published_split(30, seed=1, kind="counts")
    assert str(np.random.get_state()) == before  # noqa: NPY002


# ---------------------------------------------------------------- the real files


@real_files
@pytest.mark.parametrize(
    ("load", "num_nodes", "num_edges", "num_features", "isolated"),
    [
        (lambda: datasets.election("unemployment"), 3234, 9483, 6, 10),
        (lambda: datasets.wikipedia("chameleon"), 2277, 31371, 8, 0),
        (lambda: datasets.wikipedia("squirrel"), 5201, 198353, 8, 0),
        (lambda: datasets.emnlp(), 2600, 7969, 8, 1339),
    ],
    ids=["election", "chameleon", "squirrel", "emnlp"],
)
def test_the_published_sizes(load, num_nodes, num_edges, num_features, isolated):
    data = load()
    graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
    assert (graph.num_nodes, graph.num_edges) == (num_nodes, num_edges)
    assert data.edge_index.shape == (2, 2 * num_edges)
    assert data.x.shape == (num_nodes, num_features)
    assert data.y.shape == (num_nodes,)
    assert int((graph.degree == 0).sum()) == isolated
    assert bool(data.x.isfinite().all())
    assert bool(data.y.isfinite().all())


@real_files
@pytest.mark.parametrize(
    ("load", "mean", "variance"),
    [
        (lambda: datasets.wikipedia("chameleon"), 14.7, 1569),
        (lambda: datasets.wikipedia("squirrel"), 28.5, 3713),
        (lambda: datasets.emnlp(), 4.8, 230),
    ],
    ids=["chameleon", "squirrel", "emnlp"],
)
def test_the_published_counts(load, mean, variance):
    y = load().y
    assert float(y.min()) == 1
    assert torch.equal(y, y.round())
    assert float(y.mean()) == pytest.approx(mean, abs=0.05)
    assert float(y.var(correction=0)) == pytest.approx(variance, abs=0.5)
