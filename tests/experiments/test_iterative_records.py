"""What the committed records say of the iterative engine is what is promised of it."""

from __future__ import annotations

import json

import iterative
import pytest

RECORDS = json.loads(iterative.RESULTS.read_text())
#: The largest root mean square error of a log determinant with 16 probes, by precision.
LOGDET = {"0.9": 0.15, "0.99": 0.35, "softplus": 0.15}
#: Seconds and GiB of a training step by number of nodes, and seconds of a prediction.
STEP = {"step": (4.0, 1.0), "large": (40.0, 4.0)}
PREDICTION = 180.0


@pytest.mark.parametrize("kind", LOGDET)
def test_log_determinants_and_variances_are_close(kind):
    found = RECORDS["accuracy"][kind]
    assert RECORDS["accuracy"]["probes"] == 16
    assert found["logdet_rmse"] < LOGDET[kind]
    assert found["variance_relative_rmse"] < 0.02
    # The stated error is that of 16 probes, and an average over 20 seeds of what it should be.
    assert 0.6 < found["logdet_z_rms"] < 1.4


def test_edge_gradients_are_close():
    assert RECORDS["accuracy"]["softplus"]["edge_gradient_relative_rmse"] < 0.08


@pytest.mark.parametrize("name", STEP)
def test_large_graphs_are_affordable(name):
    seconds, memory = STEP[name]
    found = RECORDS[name]
    assert found["edges"] > 4.9 * found["nodes"]
    assert found["wall_seconds"] < seconds
    assert found["peak_GiB"] < memory
    if name == "large":
        assert found["nodes"] == 1_000_000
        assert found["prediction_wall_seconds"] < PREDICTION


def test_the_cost_is_nearly_linear():
    found = RECORDS["growth"]
    assert (found["nodes"][0], found["nodes"][-1]) == (10_000, 1_000_000)
    assert found["preferential_attachment"]["exponent"] < 1.15


@pytest.mark.parametrize("marginal", ["normal", "poisson"])
def test_fits_of_both_engines_agree(marginal):
    rows = RECORDS["election"][f"{marginal}, linear"]
    assert len(rows) == iterative.SPLITS
    for row in rows:
        found = row["iterative"]
        assert abs(found["r2_off"]) < 0.005
        moved = [value for name, value in found.items() if name.startswith("standard errors off")]
        assert moved
        assert all(abs(value) < 2 for value in moved)


def test_two_processes_share_the_work_of_many_probes():
    found = RECORDS["processes"]
    assert found["256 probes"]["wall_ratio"] > 1.6
    assert all(abs(f["relative_difference_of_log_density"]) < 1e-9 for f in found.values())
