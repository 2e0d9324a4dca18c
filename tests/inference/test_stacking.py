"""Stacks of several models: how members are picked, and that they predict as said."""

from __future__ import annotations

import pytest
import scipy.optimize
import torch
from fit_examples import SHORT, example, quick_fit

import pyro_copula as pc
from pyro_copula.errors import FitFileError, InvalidArgumentError
from pyro_copula.inference.files import read_record, write_record
from pyro_copula.inference.job import Job
from pyro_copula.inference.stacking import held_out_log_prob, pick

MODELS = [
    pc.CopulaGNN("linear", "normal", "car"),
    pc.CopulaGNN("mlp", {"family": "normal", "scale": "global"}, "none"),
]


def stacked(**options):
    data = example()
    return pc.fit(MODELS, data, data.observed, restarts=4, schedule=SHORT, **options), data


def test_weights_are_close_to_the_best_ones():
    torch.manual_seed(0)
    log_probs = torch.randn(4, 300).mul(0.7)

    def loss(raw):
        weights = torch.softmax(torch.as_tensor(raw), 0)
        return -float(torch.logsumexp(weights.log()[:, None] + log_probs, 0).mean())

    best = -scipy.optimize.minimize(loss, [0.0] * 4, method="Nelder-Mead").fun
    picked = torch.tensor(pick(log_probs, 40))
    ours = torch.logsumexp(log_probs[picked], 0).sub(torch.tensor(40.0).log()).mean()
    assert ours <= best + 1e-9  # no weights are better than the best ones
    assert ours == pytest.approx(best, abs=2e-3)


def test_a_fit_that_is_nowhere_best_is_left_out():
    good = torch.zeros(3, 50)
    assert set(pick(torch.cat([good - 1.0, good[:1]]), 10)) == {3}


def test_a_value_that_is_impossible_under_a_fit_rules_it_out():
    log_probs = torch.tensor([[3.0, -torch.inf], [-2.0, -2.0], [torch.nan, 5.0]])
    assert pick(log_probs, 1) == [1]


def test_a_stack_is_the_mixture_of_its_members():
    ensemble, data = stacked()
    assert len(ensemble.fits) == 10
    assert sum(weight for _, weight in ensemble.members) == pytest.approx(1.0)
    nodes = (~data.observed).nonzero().squeeze(-1)
    y = data.y[nodes]
    parts = [
        fit.predict(nodes=nodes).log_prob(y) + torch.tensor(w).log() for fit, w in ensemble.members
    ]
    torch.testing.assert_close(
        ensemble.predict(nodes=nodes).log_prob(y), torch.logsumexp(torch.stack(parts), 0)
    )
    means = sum(w * fit.predict(nodes=nodes).mean for fit, w in ensemble.members)
    torch.testing.assert_close(ensemble.predict(nodes=nodes).mean, means)


def test_a_stack_is_no_worse_than_any_fit_where_it_was_chosen():
    data = example()
    held_out = torch.zeros(60, dtype=torch.bool)
    held_out[data.observed.nonzero()[::3]] = True
    ensemble = pc.fit(MODELS, data, data.observed, restarts=4, schedule=SHORT, validation=held_out)
    single = [held_out_log_prob(fit, held_out).mean() for fit, _ in ensemble.members]
    nodes = held_out.nonzero().squeeze(-1)
    given = data.observed & ~held_out
    together = ensemble.predict(nodes=nodes, given=given).log_prob(data.y[nodes]).mean()
    assert together >= max(single) - 1e-9


def test_the_score_that_decides_is_that_of_training():
    data = example()
    held_out = torch.zeros(60, dtype=torch.bool)
    held_out[data.observed.nonzero()[::4]] = True
    found = quick_fit(validation=held_out)
    assert float(held_out_log_prob(found, held_out).mean()) == pytest.approx(
        found.history.best_score, abs=1e-9
    )


def test_a_stack_says_what_is_in_it_and_can_be_saved(tmp_path):
    ensemble, _ = stacked()
    text = repr(ensemble)
    assert text.startswith("Stack of")
    assert "of 4 fits" in text
    assert "%" in text
    ensemble.save(tmp_path / "stack.fit")
    loaded = pc.load_fit(tmp_path / "stack.fit")
    assert repr(loaded) == text
    torch.testing.assert_close(loaded.predict().mean, ensemble.predict().mean)
    record = read_record(tmp_path / "stack.fit", "ensemble")
    write_record(tmp_path / "other.fit", "ensemble", record | {"members": [7]})
    with pytest.raises(FitFileError, match="not in it"):
        pc.load_fit(tmp_path / "other.fit")


def test_the_rows_of_a_stack_tell_its_members_apart():
    data, quick = example("poisson"), pc.Schedule(max_epochs=2)
    fits = [
        pc.fit(pc.CopulaGNN("mlp", hidden_channels=h), data, data.observed, seed=s, schedule=quick)
        for h, s in ((2, 0), (3, 1), (3, 2))
    ]
    found = pc.Ensemble([fits[0], *fits], {"models": 2, "restarts": 3})
    _, reason, *rows, _ = repr(found).splitlines()
    assert reason == f"  marginal   {fits[0].model.family_reason}"
    assert 'marginal="auto" chose' in reason
    said = [f"{fit.model!r}, seed {seed}" for seed, fit in enumerate(fits)]
    assert rows == [f"  50% {said[0]}", f"  25% {said[1]}", f"  25% {said[2]}"]
    assert len(set(said)) == 3
    assert "hidden_channels=2" in said[0]
    given = [pc.fit(one, example(), schedule=quick) for one in MODELS]
    assert "marginal   " not in repr(pc.Ensemble(given, {"models": 2, "restarts": 2}))


def test_a_stack_of_different_models_can_be_exported():
    ensemble, data = stacked()
    exported = pc.to_inference_data(ensemble, num_samples=50)
    assert exported.log_likelihood["y"].shape[-1] == int(data.observed.sum())


def test_a_checkpoint_holds_a_stack(tmp_path):
    first, _ = stacked(checkpoint=tmp_path / "state")
    again, _ = stacked(checkpoint=tmp_path / "state")
    torch.testing.assert_close(first.predict().mean, again.predict().mean, rtol=0, atol=0)
    data, other = example(), [MODELS[0], pc.CopulaGNN("gcn", "normal", "none")]
    options = {"restarts": 4, "schedule": SHORT, "checkpoint": tmp_path / "state"}
    with pytest.raises(FitFileError, match="model"):
        pc.fit(other, data, data.observed, **options)


def test_what_cannot_be_stacked_is_refused():
    data = example()
    with pytest.raises(InvalidArgumentError, match="an empty list"):
        pc.fit([], data)
    with pytest.raises(InvalidArgumentError, match="str"):
        pc.fit(["linear"], data)
    with pytest.raises(InvalidArgumentError, match="2 models"):
        pc.fit(MODELS, data, method="nuts")
    offset = pc.CopulaGNN("linear", "poisson", "car", exposure="births")
    with pytest.raises(InvalidArgumentError, match="exposure"):
        pc.fit([pc.CopulaGNN("linear", "poisson", "car"), offset], data)


@pytest.mark.parametrize(
    ("families", "family"),
    [
        (("poisson", "normal"), "poisson"),
        (("auto", {"family": "normal", "scale": "node"}), "poisson"),
        (("normal", "bernoulli"), "bernoulli"),
    ],
)
def test_probabilities_and_densities_are_not_compared(monkeypatch, families, family):
    data = example("poisson")
    if family == "bernoulli":
        data.y = (data.y > 1).double()
    monkeypatch.setattr(Job, "run", lambda job: pytest.fail("trained before it was refused"))
    models = [pc.CopulaGNN("linear", marginal, "car") for marginal in families]
    with pytest.raises(InvalidArgumentError, match=r"`model` must be all .*\n  Stack those"):
        pc.fit(models, data, data.observed, schedule=SHORT)


def test_kinds_are_compared_node_by_node():
    data = example("poisson")
    even = torch.arange(60) % 2 == 0
    mixed = [{"family": "mixed", "kind": {"poisson": m, "normal": ~m}} for m in (even, ~even)]
    models = [pc.CopulaGNN("linear", marginal, "car") for marginal in (mixed[0], *mixed)]
    assert pc.fit(models[:2], data, data.observed, schedule=pc.Schedule(max_epochs=2)).fits
    with pytest.raises(InvalidArgumentError, match="both kinds of laws at node 0"):
        pc.fit(models[1:], data, data.observed, schedule=SHORT)


def test_models_take_turns():
    data = example()
    once = pc.fit(MODELS, data, data.observed, schedule=SHORT)
    assert once.settings["restarts"] == 2
    assert {fit.settings["seed"] for fit, _ in once.members} <= {0, 1000}
    first = pc.fit(MODELS, data, data.observed, schedule=SHORT, restarts=1)
    assert isinstance(first, pc.Fit)  # the first of them alone


def test_a_recipe_is_a_stack_of_its_variants():
    data = example()
    model = pc.CopulaGNN(recipe="continuous", hidden_channels=4)
    assert len(model.variants()) == 5
    assert all(one.arguments["hidden_channels"] == 4 for one in model.variants())
    quick = pc.Schedule(max_epochs=10, check_every=5)
    found = pc.fit(model, data, data.observed, schedule=quick)
    assert found.settings["models"] == 5
    plain = pc.fit(model, data, data.observed, schedule=quick, restarts=1)
    assert plain.model.arguments["precision"] == model.arguments["precision"]


def test_a_posterior_is_that_of_the_first_model():
    data = example()
    model = pc.CopulaGNN(recipe="continuous", backbone="linear", linear_skip=False)
    options = {"num_draws": 4, "schedule": pc.Schedule(max_epochs=5), "restarts": 2}
    found = pc.fit(model, data, data.observed, "svi", **options)
    assert {repr(fit.model) for fit in found.fits} == {repr(found.model)}
