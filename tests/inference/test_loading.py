"""Saved fits, read where torch's default dtype is another."""

from __future__ import annotations

import pytest
import torch
from fit_examples import SHORT, example

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


class Net(torch.nn.Module):
    """A network of one's own."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 1)
        self.register_buffer("shift", torch.tensor(0.1))

    def forward(self, x, edge_index):
        return self.inner(x) + self.shift


def numbers(found, y):
    """What is computed from a fit, as one vector."""
    prediction = found.predict(num_samples=5)
    interval = prediction.interval(0.9)
    given = found.predict(given=torch.arange(60) % 4 == 0)
    parts = [prediction.mean, prediction.variance, *interval, prediction.log_prob(y)]
    return torch.cat([part.flatten() for part in (*parts, given.mean)])


@pytest.mark.parametrize(
    ("saved", "default"), [(torch.float64, torch.float32), (torch.float32, torch.float64)]
)
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ({"backbone": "sage", "graph_features": True, "neighbour_outcomes": True}, {}),
        ({"backbone": "gat", "precision": "edge_regression", "nugget": True}, {}),
        ({"marginal": "poisson", "precision": "none"}, {}),
        ({"marginal": "poisson", "last_layer_prior": 1.0}, {"method": "svi", "num_draws": 4}),
        ({"backbone": Net}, {"restarts": 2}),
    ],
)
def test_a_fit_predicts_the_same_whatever_the_default_dtype(
    tmp_path, saved, default, model, options
):
    arguments = {"backbone": "linear", "marginal": "normal", "precision": "car", **model}

    def specification():
        own = {"backbone": Net()} if model.get("backbone") is Net else {}
        return pc.CopulaGNN(**{**arguments, **own})

    torch.set_default_dtype(saved)
    data = example(arguments["marginal"])
    fit = pc.fit(specification(), data, data.observed, schedule=SHORT, **options)
    fit.save(tmp_path / "a.fit")
    expected = numbers(fit, data.y)
    torch.set_default_dtype(default)
    loaded = pc.load_fit(tmp_path / "a.fit", specification() if "restarts" in options else None)
    assert torch.get_default_dtype() == default
    assert loaded.model.data.y.dtype == saved
    torch.testing.assert_close(numbers(loaded, data.y), expected, rtol=0, atol=0, check_dtype=False)


@pytest.mark.parametrize("path", [3, None, b"a.fit"])
def test_a_path_that_is_none(path):
    with pytest.raises(InvalidArgumentError, match=r"`path` must be the path.*\n.*\"my.fit\""):
        pc.load_fit(path)
