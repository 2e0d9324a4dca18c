"""Fits by every method, on a small grid: results, options, files."""

from __future__ import annotations

import copy
import math
import random

import numpy as np
import pyro
import pytest
import torch
from fit_examples import SHORT, example, quick_fit
from pyro.infer.autoguide import AutoMultivariateNormal

import pyro_copula as pc
from pyro_copula import CopulaGNN, Ensemble, Schedule, fit, load_fit
from pyro_copula.errors import FitFileError, InvalidArgumentError
from pyro_copula.inference.files import read_record, write_record

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


@pytest.mark.parametrize("method", ["mle", "map", "svi", "nuts"])
@pytest.mark.parametrize("family", ["normal", "poisson"])
def test_every_method_gives_the_same_kind_of_result(method, family):
    data = example(family)
    model = CopulaGNN("linear", family, "car")
    found = fit(
        model,
        data,
        data.observed,
        method,
        schedule=SHORT,
        num_draws=10,
        num_warmup=10,
        num_chains=1,
    )
    assert found.method == method
    assert method in repr(found)
    assert set(found.scalars) == ({"rho", "tau"} if family == "normal" else {"rho"})
    prediction = found.predict(num_samples=50)
    assert prediction.nodes.tolist() == (~data.observed).nonzero().squeeze(-1).tolist()
    assert prediction.samples.shape == (50, 15)
    lower, upper = prediction.interval(0.9)
    median = prediction.quantile(0.5)
    assert bool(((lower <= median) & (median <= upper)).all())
    scores = prediction.score(data.y)
    assert ("r2" in scores) == (family == "normal")
    assert all(math.isfinite(value) for value in scores.values())
    table = prediction.to_frame()
    assert list(table.columns[:3]) == ["mean", "median", "sd"]
    assert table.index.tolist() == prediction.nodes.tolist()
    assert len(table) == 15
    everything = found.predict(given="none")
    assert len(everything.nodes) == 60
    some = found.predict(nodes=[5, 1])
    assert some.nodes.tolist() == [5, 1]
    place = [prediction.nodes.tolist().index(k) for k in (5, 1)]
    torch.testing.assert_close(some.mean, prediction.mean[place])


def test_a_seed_decides_everything():
    data = example()
    runs = [
        fit(CopulaGNN("sage", "normal", "car"), data, data.observed, seed=s, schedule=SHORT)
        for s in (3, 3, 4)
    ]
    means = [run.predict().mean for run in runs]
    assert torch.equal(means[0], means[1])
    assert not torch.equal(means[0], means[2])


def test_mixture_quantiles_are_exact():
    data = example("poisson")
    ensemble = fit(
        CopulaGNN("sage", "poisson", "car"), data, data.observed, restarts=3, schedule=SHORT
    )
    assert isinstance(ensemble, Ensemble)
    prediction = ensemble.predict()
    for q in (0.05, 0.5, 0.95):
        k = prediction.quantile(q)
        assert bool((prediction.cdf(k) >= q).all())
        assert bool((prediction.cdf(k - 1) < q).all())
    normal = fit(
        CopulaGNN("sage", "normal", "car"), example(), data.observed, restarts=3, schedule=SHORT
    ).predict()
    torch.testing.assert_close(normal.cdf(normal.quantile(0.3)), torch.full((15,), 0.3))


def test_learning_rates_are_chosen_by_validation():
    data = example()

    def best(lr):
        model = CopulaGNN("linear", "normal", "car")
        return fit(model, data, data.observed, lr=lr, schedule=SHORT).history.best_score

    assert best((1e-6, 0.05)) == max(best(1e-6), best(0.05))


@pytest.mark.parametrize("restarts", [1, 2])
def test_saving_and_loading(tmp_path, restarts):
    data = example("poisson")
    found = fit(
        CopulaGNN("sage", "negative_binomial", "normalized_adjacency", nugget=True),
        data,
        data.observed,
        restarts=restarts,
        schedule=SHORT,
    )
    path = tmp_path / "result.fit"
    found.save(path)
    loaded = load_fit(path)
    assert type(loaded) is type(found)
    torch.testing.assert_close(loaded.predict().mean, found.predict().mean)
    assert loaded.scalars == pytest.approx(found.scalars)
    content = path.read_bytes()
    damages = {
        "damaged": content[:-100],
        "not a file of this package": b"something else",
        "checksum": content[:-1] + bytes([content[-1] ^ 1]),
        "another version": content.replace(b" 1 ", b" 7 ", 1),
    }
    for match, damage in damages.items():
        path.write_bytes(damage)
        with pytest.raises(FitFileError, match=match):
            load_fit(path)
    with pytest.raises(FitFileError, match="cannot be read"):
        load_fit(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_were_made_up(tmp_path):
    """The checksum is right, and what it is of is not."""
    path = tmp_path / "result.fit"
    write_record(path, "fit", [1, 2])
    with pytest.raises(FitFileError, match="holds no record"):
        load_fit(path)
    write_record(path, "fit", {"version": torch.Size([1]), "dtype": torch.float32})
    with pytest.raises(FitFileError, match="cannot be decoded") as caught:
        load_fit(path)
    assert "a dtype" in str(caught.value.__cause__)
    data = example()
    found = fit(CopulaGNN("linear", "normal", "car"), data, data.observed, restarts=2)
    found.save(path)
    record = read_record(path, "ensemble")
    write_record(path, "ensemble", {**record, "settings": {"restarts": "two"}})
    with pytest.raises(FitFileError, match="lacks a part of an ensemble"):
        load_fit(path)


def test_a_fit_with_an_own_module_needs_it_again(tmp_path):
    data = example()
    model = CopulaGNN(lambda a, b: pc.nn.make_backbone("mlp", a, b), "normal", "car")
    found = fit(model, data, data.observed, schedule=SHORT)
    found.save(tmp_path / "own.fit")
    with pytest.raises(InvalidArgumentError, match="your own backbone"):
        load_fit(tmp_path / "own.fit")
    loaded = load_fit(tmp_path / "own.fit", model=model)
    torch.testing.assert_close(loaded.predict().mean, found.predict().mean)


def test_predictions_condition_on_validation_nodes_too():
    data = example()
    mask = torch.zeros(60, dtype=torch.bool)
    mask[:20] = data.observed[:20]
    found = fit(
        CopulaGNN("linear", "normal", "car"), data, data.observed, validation=mask, schedule=SHORT
    )
    assert found.settings["validation_nodes"] == int(mask.sum())
    assert torch.equal(found.model.data.observed, data.observed)
    assert len(found.predict().nodes) == 15


def test_refit_starts_from_the_cheap_fit():
    data = example()
    cheap = fit(CopulaGNN("linear", "normal", "car"), data, data.observed, "map", schedule=SHORT)
    full = cheap.refit(method="nuts", num_draws=20, num_warmup=20, num_chains=2)
    assert full.posterior["rho"].shape == (2, 20)
    assert "R-hat" in repr(full)
    assert "max_r_hat" in full.diagnostics


def another_graph():
    graph = pc.simulate.grid_graph(10, 6)
    data = example()
    return fit(
        CopulaGNN("linear", "normal", "car"),
        type(data)(x=data.x, y=data.y, edge_index=graph.edge_index),
        schedule=SHORT,
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "em"}, "`method`"),
        ({"validation": 1.5}, "`validation`"),
        ({"validation": "some"}, "`validation`"),
        ({"validation": torch.ones(3, dtype=torch.bool)}, "`validation`"),
        ({"validation": example().observed}, "not all"),
        ({"validation": torch.zeros(60, dtype=torch.bool)}, "found 0 of 45 observed nodes"),
        ({"checkpoint": 3}, "`checkpoint` must be the path of a file, but found 3"),
        ({"optimizer": torch.optim.SparseAdam}, "SparseAdam does not support dense .*\\n.* AdamW"),
        ({"restarts": 0}, "`restarts`"),
        ({"restarts": True}, "`restarts`"),
        ({"observed": torch.ones(60)}, "`observed`"),
        ({"observed": torch.zeros(60, dtype=torch.bool)}, "two nodes or more"),
        ({"lr": 0.0}, "`lr` must be positive"),
        ({"refine": "yes"}, "`refine` must be True or False"),
        ({"lr": (0.01, -1.0)}, "found -1.0"),
        ({"lr": ()}, "one learning rate at least"),
        ({"lr": "fast"}, "`lr`"),
        ({"scalar_lr": math.inf}, "`scalar_lr`"),
        ({"weight_decay": -1e-3}, "`weight_decay`"),
        ({"num_draws": 0}, "`num_draws`"),
        ({"num_warmup": 1.5}, "`num_warmup`"),
        ({"num_chains": 0}, "`num_chains`"),
        ({"seed": -1}, "`seed`"),
        ({"schedule": 100}, "`schedule`"),
        ({"optimizer": "adam"}, "`optimizer`"),
        ({"optimizer": torch.optim.LBFGS}, "learning rates by group"),
        ({"guide": AutoMultivariateNormal}, "`guide`"),
        ({"method": "svi", "guide": lambda model: model}, "automatic guide"),
        ({"start": "before"}, "`start`"),
    ],
)
def test_bad_options(options, match):
    data = example()
    arguments = {"observed": data.observed, **options}
    with pytest.raises(InvalidArgumentError, match=match):
        fit(CopulaGNN("linear", "normal", "car"), data, **arguments)


def test_bad_models_and_starts():
    data = example()
    with pytest.raises(InvalidArgumentError, match="a CopulaGNN"):
        fit("sage", data)
    model = CopulaGNN("linear", "normal", "car")
    with pytest.raises(InvalidArgumentError, match="other edges"):
        fit(model, data, start=another_graph())
    with pytest.raises(InvalidArgumentError, match="on 60 nodes"):
        fit(model, example(n=120), start=quick_fit())
    with pytest.raises(InvalidArgumentError, match="another backbone"):
        fit(CopulaGNN("sage", "normal", "car"), data, start=quick_fit())
    with pytest.raises(InvalidArgumentError, match="one of its `fits`"):
        fit(model, data, start=quick_fit(restarts=2))
    nothing = CopulaGNN("linear", "poisson", "none")
    for method in ("map", "svi", "nuts"):
        with pytest.raises(InvalidArgumentError, match="without global parameters"):
            fit(nothing, example("poisson"), method=method)
    model.fit_defaults = {"restart": 3}
    with pytest.raises(InvalidArgumentError, match="fit_defaults"):
        fit(model, data)


@pytest.mark.parametrize("name", ["max_epochs", "check_every", "patience", "save_every"])
def test_bad_schedules(name):
    for value in (0, 2.5, True):
        with pytest.raises(InvalidArgumentError, match=f"`{name}`"):
            Schedule(**{name: value})
    with pytest.raises(InvalidArgumentError, match="`tolerance`"):
        Schedule(tolerance=-1.0)


def test_options_come_from_the_call_then_the_recipe_then_the_default():
    data = example()
    model = CopulaGNN("linear", "normal", "car")
    model.fit_defaults = {"restarts": 2, "lr": 0.02, "weight_decay": 0.1, "schedule": SHORT}
    found = fit(model, data, data.observed, weight_decay=0.0)
    assert isinstance(found, Ensemble)
    assert found.settings["restarts"] == 2
    for one, seed in zip(found.fits, (0, 1000)):
        used = one.settings
        assert (used["lr"], used["weight_decay"], used["seed"]) == (0.02, 0.0, seed)
        assert used["scalar_lr"] == pytest.approx(0.1)  # five times the recipe's rate
        assert used["schedule"]["max_epochs"] == 60
        assert used["optimizer"] == "Adam"
        assert {"torch", "pyro-ppl", "pyro-copula"} <= set(one.versions)
    plain = CopulaGNN("linear", "normal", "car")
    several = fit(plain, data, data.observed, lr=(1e-5, 0.03), schedule=SHORT, seed=7)
    assert several.settings["lr_candidates"] == [1e-5, 0.03]
    assert several.settings["lr"] in (1e-5, 0.03)
    assert several.settings["scalar_lr"] == pytest.approx(5 * several.settings["lr"])
    assert several.settings["weight_decay"] == 5e-4
    assert isinstance(found.fits[0].refit("map", schedule=SHORT), pc.Fit)  # alone again


def test_a_fit_leaves_the_world_as_it_was():
    data = example("poisson")
    before = pyro.param("mine", torch.tensor(2.0))
    pyro.set_rng_seed(5)
    expected = torch.rand(3), np.random.rand(), random.random()  # noqa: NPY002
    pyro.set_rng_seed(5)
    model = CopulaGNN("linear", "poisson", "car")
    sizes = {"num_draws": 5, "num_warmup": 5, "num_chains": 1}
    for method in ("mle", "svi", "nuts"):
        fit(model, data, data.observed, method, schedule=SHORT, **sizes)
    assert torch.equal(torch.rand(3), expected[0])
    assert (np.random.rand(), random.random()) == expected[1:]  # noqa: NPY002
    assert list(pyro.get_param_store().keys()) == ["mine"]
    assert pyro.param("mine") is before


def test_candidates_of_a_guide_do_not_share_parameters():
    rates = (0.01, 0.002)
    alone = [quick_fit(method="map", lr=rate).history for rate in rates]
    together = quick_fit(method="map", lr=rates)
    assert together.history in alone
    assert together.history.best_score == max(one.best_score for one in alone)


def test_a_fit_prints_usefully():
    found = quick_fit("poisson", "svi", num_draws=5)
    text = repr(found)
    for words in ("method     svi, seed 0", "60, of which 45 observed", "rho", "(sd", ".predict()"):
        assert words in text
    data = example("poisson")
    automatic = fit(CopulaGNN("linear", "auto", "car"), data, data.observed, schedule=SHORT)
    assert "chose" in repr(automatic)
    assert repr(quick_fit(restarts=2)).startswith("Ensemble of 2 fits")


def test_any_optimizer_guide_and_judge():
    data = example()
    model = CopulaGNN("linear", "normal", "car")
    seen = []

    def judge(law, values):
        seen.append((law.nodes, values))
        return -float((law.mean - values).square().nanmean())

    found = fit(model, data, data.observed, optimizer=torch.optim.SGD, judge=judge, schedule=SHORT)
    assert found.settings["optimizer"] == "SGD"
    assert found.settings["judge"] == "judge"
    nodes, values = seen[0]
    held_out = ~torch.isnan(values)
    assert int(held_out.sum()) == found.settings["validation_nodes"] == 9
    assert torch.equal(values[held_out], data.y[nodes[held_out]])
    assert bool(data.observed[nodes[held_out]].all())
    joint = fit(
        model,
        data,
        data.observed,
        "svi",
        guide=AutoMultivariateNormal,
        num_draws=7,
        schedule=SHORT,
    )
    assert joint.posterior["rho"].shape == (1, 7)
    assert joint.settings["guide"] == "AutoMultivariateNormal"


def test_the_last_layer_is_part_of_the_posterior(tmp_path):
    data = example()
    model = CopulaGNN("gcn", "normal", "car", hidden_channels=3, last_layer_prior=1.0)
    for method in ("map", "svi", "nuts"):
        found = fit(
            model,
            data,
            data.observed,
            method,
            schedule=SHORT,
            num_draws=8,
            num_warmup=8,
            num_chains=2,
        )
        prediction = found.predict(num_samples=20)
        assert torch.isfinite(prediction.mean).all()
        if method == "map":
            assert found.posterior is None
            continue
        assert found.posterior["last_layer"].shape[2:] == (found.model.last_layer_size,)
        assert "last_layer" not in found.scalars
        found.save(tmp_path / method)
        torch.testing.assert_close(load_fit(tmp_path / method).predict().mean, prediction.mean)


def test_the_picture_of_training():
    import matplotlib

    matplotlib.use("Agg")
    found = quick_fit()
    axes = found.plot_history()
    assert axes.lines[0].get_ydata().tolist() == found.history.losses
    matplotlib.pyplot.close(axes.figure)
    assert copy.copy(found.history) == found.history


@pytest.mark.parametrize("method", ["mle", "map"])
def test_refined_scalars_are_at_their_maximum(method):
    plain, refined = (quick_fit(method=method, refine=refine) for refine in (False, True))
    assert refined.settings["refine"]
    model, y = refined.model, refined.model.data.y
    with torch.no_grad():
        outputs = model.outputs()
        torch.testing.assert_close(outputs, plain.model.outputs())  # the same network

        def density(values):
            total = model.joint(outputs, **values).log_prob(y)
            if method == "map":
                total = total + sum(model.priors[k].log_prob(v) for k, v in values.items())
            return float(total)

        values = model.site_values()
        best = density(values)
        assert best > density(plain.model.site_values()) + 1e-3
        for name, value in values.items():
            for step in (-0.01, 0.01):
                moved = (value + step).clamp(max=0.9999) if name == "rho" else value + step
                assert density({**values, name: moved}) < best + 1e-4


def test_a_saved_fit_is_loaded_without_data(tmp_path):
    with pytest.raises(InvalidArgumentError, match="load_fit\\(path\\) is enough"):
        load_fit(tmp_path / "fit", example())
