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
    crossover.run(300, 1e14, ["iterative"])
    assert len(started) == 10  # two families


def test_errors_are_against_the_exact_engine_or_a_spread():
    found = {
        "values": [-10.0, -12.0],
        "gradients": [1.9, 2.1],
        "evaluation": -11.2,
        "evaluation_error": 0.25,
        "step_error": 1.5,
    }
    exact = {"seconds": 1.0, "values": [-11.0], "gradients": [2.0]}
    assert crossover.error_cells(exact, found) == ["1.00", "1.50", "-0.200 (0.250)", "5.0%"]
    alone = crossover.error_cells({"skipped": True}, found)
    assert alone == ["spread 1.41", "1.50", "(0.250)", "spread 7.1%"]


def test_a_case_states_its_own_errors():
    problem = crossover.Problem("power law", 300, "iterative")
    steps = [problem.step() for _ in range(4)]
    values, stated = np.array([s[0] for s in steps]), np.array([s[3] for s in steps])
    assert len(set(values)) == len(set(stated)) == 4  # every step has probes of its own
    found = crossover.evaluation(problem)
    assert 0 < found["evaluation_error"] < stated.min()
    assert np.abs(values - found["evaluation"]).max() < 8 * stated.max()
    exact = crossover.Problem("power law", 300, "sparse").step()
    assert exact[3] == 0
