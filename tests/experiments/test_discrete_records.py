"""What the committed records say of the rules for discrete outcomes is what is promised of them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from harness import (
    augmented,
    committed,
    discrete,
    discrete_report,
    posterior_report,
    posteriors,
    report,
)

from pyro_copula.calibration import uniformity_p_value
from pyro_copula.calibration.uniformity import holm

RESULTS = Path(report.PUBLISHED).parent
RECORDS = committed.read(RESULTS / "discrete.jsonl")
#: The largest standard deviation of a log likelihood with 64 particles, by graph.
NOISE = dict(zip(discrete.GRAPHS, (0.1, 0.05, 0.05), strict=True))
#: The most that a value and a gradient may cost, in evaluations of the midpoint rule.
VALUE, GRADIENT = 10.0, 20.0
DATA_SETS, REPLICATIONS = 30, 200


def metrics(dataset, model="exact"):
    found = [r["metrics"] for r in RECORDS if r["dataset"] == dataset and r["model"] == model]
    assert len(found) == 1, f"{dataset}, {model}: {len(found)} records"
    return found[0]


@pytest.mark.parametrize("graph", discrete.GRAPHS)
def test_particles_are_quiet(graph):
    found = metrics(f"noise:{graph}")
    assert found["sd"] < NOISE[graph]
    assert found["reported_error"] > 0.5 * found["sd"]  # and what they say of themselves is right


@pytest.mark.parametrize("graph", discrete.GRAPHS)
@pytest.mark.parametrize("rule", ["exact", "ep"])
def test_a_value_and_a_gradient_are_affordable(graph, rule):
    found = metrics(f"cost:{graph}")
    assert found[f"{rule}_value"] < VALUE
    assert found[f"{rule}_gradient"] < GRADIENT


@pytest.mark.parametrize("mean", discrete.MEANS)
@pytest.mark.parametrize("metric", ["logit_error", "log_mean_error"])
def test_exact_rules_are_unbiased_where_the_midpoint_is_not(mean, metric):
    for rule in ("exact", "ep"):
        errors = discrete_report.errors(RECORDS, mean, rule, metric)
        assert len(errors) >= DATA_SETS
        assert abs(errors.mean()) < 2 * errors.std(ddof=1) / math.sqrt(len(errors))
    midpoint = discrete_report.errors(RECORDS, mean, "midpoint", metric)
    if mean < 1:
        assert midpoint.mean() > 20 * midpoint.std(ddof=1) / math.sqrt(len(midpoint))


@pytest.mark.parametrize("model", posteriors.MODELS)
def test_posteriors_converge_and_agree(model):
    best = metrics(f"nuts:{model}", posteriors.RECOMMENDED)
    for rule in posteriors.RULES:
        found = metrics(f"nuts:{model}", rule)
        assert found["max_r_hat"] < 1.01
        assert found["divergences"] == 0
        for name in ("rho", "dispersion", "weights[0]", "weights[1]"):
            spread = best[f"sd_{name}"] * math.sqrt(
                1 / found[f"ess_{name}"] + 1 / best[f"ess_{name}"]
            )
            error = abs(found[f"mean_{name}"] - best[f"mean_{name}"])
            # Four standard errors, and what expectation propagation may be off by.
            assert error < 4 * spread + (0.1 * best[f"sd_{name}"] if rule == "ep" else 0.0)


@pytest.mark.parametrize("model", posteriors.MODELS)
def test_the_latents_of_the_library_mix_best(model):
    """By the worst parameter: gradients of all three cost about the same."""

    def worst(rule):
        found = metrics(f"nuts:{model}", rule)
        return posterior_report.smallest(found) / found["gradients"]

    assert worst("augment") > max(worst(rule) for rule in augmented.DENSITIES)


def test_ranks_are_uniform():
    p_values = []
    for model in posteriors.MODELS:
        rows = [r["metrics"] for r in RECORDS if r["dataset"] == f"sbc:{model}"]
        assert len(rows) >= REPLICATIONS
        assert {"rank_rho", "rank_dispersion", "rank_log_likelihood"} <= set(rows[0])
        for name in rows[0]:
            ranks = np.array([row[name] for row in rows]).astype(int)
            p_values.append(uniformity_p_value(ranks, posteriors.NUM_DRAWS + 1))
    assert len(p_values) == 10
    assert holm(np.array(p_values)).min() > posterior_report.REJECTED
