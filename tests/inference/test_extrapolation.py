"""A prediction far beyond every observed value is told of, and nothing else is."""

from __future__ import annotations

import warnings

import pyro.distributions as dist
import pytest
import torch
from fit_examples import SHORT, example

import pyro_copula as pc
from pyro_copula.errors import ExtrapolationWarning

pytestmark = pytest.mark.filterwarnings(
    "ignore::pyro_copula.errors.MidpointWarning",
    "ignore::pyro_copula.errors.ExtrapolationWarning",
)

FAR = 5  # a missing node of the example


def fitted(marginal="poisson", *, distance=40.0, change=None, **options):
    """A fit of the example in which one missing node has a feature like no other."""
    data = example("poisson")
    data.x[FAR, 0] = distance
    if change is not None:
        change(data)
    model = pc.CopulaGNN("linear", marginal, "car", **options)
    return data, pc.fit(model, data, data.observed, schedule=SHORT)


def told(found, **options) -> list[ExtrapolationWarning]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found.predict(**options)
    return [w.message for w in caught if isinstance(w.message, ExtrapolationWarning)]


def test_a_mean_beyond_all_counts():
    data, found = fitted()
    (warning,) = told(found)
    assert (warning.node, warning.count) == (FAR, 1)
    assert warning.largest == float(data.y[data.observed].max())
    assert warning.mean == pytest.approx(float(found.predict(given="none").mean[FAR]))
    assert warning.mean > 10 * warning.largest
    assert "marginal={'family': 'poisson', 'cap': True}" in str(warning)
    assert told(found, given="none")
    assert told(found, given=data.observed)


def test_only_of_nodes_that_are_asked_for():
    _, found = fitted()
    assert told(found, nodes=[FAR])
    assert not told(found, nodes=[1, 9])


@pytest.mark.parametrize(
    "remedy", [{"marginal": {"family": "poisson", "cap": True}}, {"clip_features": 3.0}]
)
def test_its_advice_helps(remedy):
    assert not told(fitted(**remedy)[1])


def test_usual_predictions_are_not_told_of():
    assert not told(fitted(distance=0.0)[1])


def test_a_law_without_a_cap_gets_other_advice():
    def positive(data):
        data.y = data.y + 1.0

    (warning,) = told(fitted("gamma", change=positive)[1])
    assert "clip_features=5.0" in warning.hint


def test_it_is_the_rate_that_counts():
    """A large exposure makes a large mean, which is no extrapolation."""

    def exposed(data):
        data.exposure = torch.ones(60)
        data.exposure[FAR] = 1e4

    _, found = fitted(distance=0.0, change=exposed, exposure="exposure")
    assert float(found.predict(nodes=[FAR]).mean) > 100 * 10
    assert not told(found)


def test_zeros_alone_say_nothing_of_what_is_far():
    def nothing(data):
        data.y = torch.zeros(60)

    assert not told(fitted(distance=0.0, change=nothing)[1])


def test_a_named_node_is_called_by_its_name():
    def named(data):
        data.names = [f"county {k}" for k in range(60)]

    (warning,) = told(fitted(change=named)[1])
    assert warning.node == f"county {FAR}"


def test_the_warning_points_at_the_call():
    _, found = fitted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found.predict()
    (warning,) = (w for w in caught if issubclass(w.category, ExtrapolationWarning))
    assert warning.filename == __file__


class Exponentiated(pc.MarginalFamily):
    """A law of one's own, for which torch has no mean."""

    out_channels = 1

    def forward(self, outputs, offset=None, **scalars):
        normal = dist.Normal(outputs[..., 0], torch.ones_like(outputs[..., 0]))
        return dist.TransformedDistribution(normal, dist.transforms.ExpTransform())

    def start(self, y, offset=None):
        pass


def test_a_law_without_a_mean_of_its_own_is_predicted():
    data = example("poisson")
    data.y = data.y + 1.0
    found = pc.fit(
        pc.CopulaGNN("linear", Exponentiated(), "car"), data, data.observed, schedule=SHORT
    )
    prediction = found.predict()
    assert bool(prediction.mean.isfinite().all())
    assert not told(found)
