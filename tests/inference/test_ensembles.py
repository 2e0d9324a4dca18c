"""Ensembles have what a fit has, or say where it is."""

from __future__ import annotations

import inspect

import pytest
import torch
from fit_examples import SHORT, example, quick_fit

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError, SeveralFitsError

QUICK = pc.Schedule(max_epochs=10, check_every=5)


@pytest.fixture
def restarts():
    return quick_fit(restarts=2, schedule=QUICK)


@pytest.fixture
def weighted():
    """A stack in which one fit counts twice."""
    fits = [quick_fit(seed=seed, schedule=QUICK) for seed in (3, 4)]
    return pc.Ensemble([fits[0], fits[0], fits[1]], {"models": 2, "restarts": 5, "seed": 3})


def test_everything_of_a_fit_is_there(restarts):
    public = {name for name, _ in inspect.getmembers(restarts.fits[0]) if name[0] != "_"}
    missing = {name for name in public if not hasattr(restarts, name)}
    assert missing == {"history"}  # which names itself, below
    assert isinstance(type(restarts).history, property)


def test_what_only_one_fit_has_is_said():
    found = quick_fit("normal", "svi", restarts=2, num_draws=3, schedule=QUICK)
    for name in ("history", "posterior"):
        said = f"`{name}` must be that of one fit, but found 2 fits.\n  Look at ensemble.fits"
        with pytest.raises(SeveralFitsError, match=said):
            getattr(found, name)
        assert not hasattr(found, name)
    assert found.diagnostics == [one.diagnostics for one in found.fits]
    alone = pc.Ensemble(found.fits[:1])
    with pytest.raises(AttributeError, match="found 1 fit in an ensemble"):
        alone.history  # noqa: B018
    assert quick_fit(restarts=2, schedule=QUICK).posterior is None


def test_versions_are_those_of_all_fits(restarts):
    assert restarts.versions == restarts.fits[0].versions
    restarts.fits[1].versions = {**restarts.versions, "torch": "0.1"}
    assert restarts.versions["torch"] == f"{restarts.fits[0].versions['torch']}, 0.1"
    assert restarts.versions["numpy"] == restarts.fits[0].versions["numpy"]


def test_the_summary_has_every_member_with_its_weight(weighted):
    text = weighted.summary()
    assert text.startswith("Stack of 2 of 5 fits, ")
    for weight, seed in (("67%", 3), ("33%", 4)):
        (line,) = (k for k, line in enumerate(text.splitlines()) if weight in line)
        assert "CopulaGNN" in text.splitlines()[line]
        assert f"mle, seed {seed}" in text.splitlines()[line + 1]
    assert not weighted.interrupted
    assert len(weighted.diagnostics) == 2


def test_the_picture_of_training_has_a_line_for_each_member(weighted):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axes = weighted.plot_history()
    drawn = [line.get_ydata().tolist() for line in axes.lines]
    assert drawn == [fit.history.losses for fit, _ in weighted.members]
    (other,) = (one for one in axes.figure.axes if one is not axes)
    assert len(other.lines) == 4  # scores, and the best step
    assert [text.get_text() for text in other.get_legend().get_texts()] == [
        "loss",
        "validation score",
        "best",
    ]
    assert weighted.plot_history(axes) is axes
    plt.close(axes.figure)


def test_refitting_keeps_the_weights_and_starts_each_where_it_ended(weighted, tmp_path):
    again = weighted.refit("map", schedule=QUICK)
    assert [weight for _, weight in again.members] == [2 / 3, 1 / 3]
    assert again.method == "map"
    assert repr(again).startswith("Stack of 2 of 5 fits")
    for (old, _), (new, _) in zip(weighted.members, again.members):
        alone = old.refit("map", schedule=QUICK)
        assert new.scalars == alone.scalars
        assert new.settings["start"] == "mle"
        assert new.settings["seed"] == old.settings["seed"]
    torch.testing.assert_close(
        again.predict().mean,
        sum(weight * fit.predict().mean for fit, weight in again.members),
    )
    again.save(tmp_path / "again.fit")
    assert repr(pc.load_fit(tmp_path / "again.fit")) == repr(again)


def test_refitted_members_do_not_share_a_seed(restarts):
    sizes = {"num_draws": 4, "num_warmup": 4, "num_chains": 1}
    again = restarts.refit("nuts", seed=7, **sizes)
    assert [fit.settings["seed"] for fit in again.fits] == [7, 1007]
    assert again.settings["restarts"] == 2
    first, second = (fit.posterior["rho"] for fit in again.fits)
    assert not torch.equal(first, second)
    with pytest.raises(InvalidArgumentError, match="`seed`"):
        restarts.refit("map", seed="seven", schedule=SHORT)


@pytest.mark.parametrize("options", [{"restarts": 2}, {"checkpoint": "state"}])
def test_what_belongs_to_a_single_fit_is_refused(restarts, options):
    (name,) = options
    said = rf"`{name}` must be left out .*\n  .*ensemble.fits\[0\].refit\('map', {name}"
    with pytest.raises(InvalidArgumentError, match=said):
        restarts.refit("map", **options)


def test_a_stack_of_a_recipe_can_be_refitted():
    data = example()
    model = pc.CopulaGNN(recipe="continuous", hidden_channels=4)
    found = pc.fit(model, data, data.observed, restarts=2, schedule=QUICK)
    again = found.refit("mle", schedule=pc.Schedule(max_epochs=2))
    assert again.settings["models"] == 2
    assert [repr(fit.model) for fit in again.fits] == [repr(fit.model) for fit in found.fits]
