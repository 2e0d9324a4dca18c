"""The records of the two engines: graphs, resuming, and where the engines change places."""

from __future__ import annotations

import json

import crossover
import numpy as np
import pytest


def record(nodes, engine, seconds):
    return {"family": "power law", "nodes": nodes, "engine": engine, "seconds": seconds}


def keyed(*rows):
    return {(r["family"], r["nodes"], r["engine"]): r for r in rows}


def test_random_regular_graphs_have_their_degree():
    graph = crossover.random_regular(2_000, 10)
    degree = np.bincount(graph.edges.ravel(), minlength=2_000)
    assert degree.max() == 10
    assert degree.mean() > 9.9  # less what coincides
    assert len(np.unique(graph.components)) == 1


def test_the_crossover_is_where_the_lines_of_the_plot_meet():
    # exact ~ n^2 and iterative ~ n: equal at 3,000 sqrt(10 / 3), between two sizes
    rows = []
    for nodes in (3_000, 10_000):
        rows.append(record(nodes, "sparse", (nodes / 5_000) ** 2))
        rows.append(record(nodes, "iterative", nodes / 5_000))
    assert crossover.crossover(keyed(*rows), "power law") == pytest.approx(5_000)
    assert crossover.crossover(keyed(*rows[:2]), "power law") is None


def test_the_exponent_is_the_slope():
    rows = [record(n, "iterative", 1e-5 * n**1.2) for n in (3_000, 10_000, 100_000)]
    assert crossover.exponent(keyed(*rows), "power law") == pytest.approx(1.2)


def test_what_is_recorded_is_not_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(crossover, "RECORDS", tmp_path / "crossover.jsonl")
    monkeypatch.setattr(crossover, "RESULTS", tmp_path)
    monkeypatch.setattr(crossover, "SIZES", (300,))
    started = []

    class Done:
        returncode = 0
        stdout = json.dumps({"edges": 1, "operations": 5e12, "skipped": True})

    def run(command, **_):
        started.append(json.loads(command[-1]))
        return Done

    monkeypatch.setattr(crossover.subprocess, "run", run)
    for _ in range(2):
        crossover.run(300, 3e12)
    assert len(started) == 4  # two families, two engines
    assert len(crossover.load()) == 4
    crossover.run(300, 1e13)  # what was too dear then is not now
    assert len(started) == 8
