"""Fits by every method, on a small grid: results, files, checkpoints, interruptions."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula.errors import FitFileError, InvalidArgumentError, TrainingError
from pyro_copula.inference import Ensemble, Schedule, fit, load_fit, training
from pyro_copula.models import CopulaGNN

SHORT = Schedule(max_epochs=60, check_every=5, patience=5)
pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


def example(family="normal", n=60):
    torch.manual_seed(2)
    graph = pc.simulate.grid_graph(6, n // 6)
    x = torch.randn(n, 2)
    K = pc.CARPrecision(graph)(rho=0.95, tau=1.0)
    mean = x[:, 0]
    if family == "normal":
        y = pc.GraphNormal(mean, precision=K).sample()
    else:
        rate = (1 + 0.5 * mean).exp()
        y = pc.GaussianCopula(torch.distributions.Poisson(rate), precision=K).sample()
    data = Data(x=x, edge_index=graph.edge_index, y=y)
    data.observed = torch.arange(n) % 4 != 1
    return data


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
    assert list(table.columns[:4]) == ["node", "mean", "median", "sd"]
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


def test_a_fit_with_an_own_module_needs_it_again(tmp_path):
    data = example()
    model = CopulaGNN(lambda a, b: pc.nn.make_backbone("mlp", a, b), "normal", "car")
    found = fit(model, data, data.observed, schedule=SHORT)
    found.save(tmp_path / "own.fit")
    with pytest.raises(InvalidArgumentError, match="your own backbone"):
        load_fit(tmp_path / "own.fit")
    loaded = load_fit(tmp_path / "own.fit", model=model)
    torch.testing.assert_close(loaded.predict().mean, found.predict().mean)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("moment", [3, 17, 42])
def test_a_resumed_fit_ends_in_the_same_state(tmp_path, monkeypatch, moment):
    data = example()
    model = CopulaGNN("sage", "normal", "car", dropout=0.3)
    schedule = Schedule(max_epochs=60, check_every=2, patience=50, save_every=1)
    undisturbed = fit(model, data, data.observed, schedule=schedule)
    step = training._step

    def mortal(epoch, *rest):
        if epoch == moment:
            raise Killed
        step(epoch, *rest)

    path = tmp_path / "state"
    monkeypatch.setattr(training, "_step", mortal)
    with pytest.raises(Killed):
        fit(model, data, data.observed, schedule=schedule, checkpoint=path)
    monkeypatch.setattr(training, "_step", step)
    resumed = fit(model, data, data.observed, schedule=schedule, checkpoint=path)
    assert resumed.history == undisturbed.history
    for name, value in undisturbed.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name


def test_ctrl_c_keeps_the_best_state(monkeypatch):
    data = example()
    step = training._step

    def interrupted(epoch, *rest):
        if epoch == 30:
            raise KeyboardInterrupt
        step(epoch, *rest)

    monkeypatch.setattr(training, "_step", interrupted)
    found = fit(CopulaGNN("linear", "normal", "car"), data, data.observed, schedule=SHORT)
    assert "interrupted" in found.history.verdict
    assert not found.converged
    assert torch.isfinite(found.predict().mean).all()


def test_a_loss_that_is_not_finite_sends_training_back(monkeypatch):
    data = example()
    model = CopulaGNN("linear", "normal", "car")
    joint, calls = CopulaGNN.joint, []

    def broken(self, *arguments, **scalars):
        law = joint(self, *arguments, **scalars)
        if self.training:
            calls.append(1)
            if len(calls) == 12:
                return pc.GraphNormal(
                    law.loc * math.nan, precision=law.precision, validate_args=False
                )
        return law

    monkeypatch.setattr(CopulaGNN, "joint", broken)
    found = fit(model, data, data.observed, schedule=SHORT)
    assert found.history.setbacks == [11]
    assert torch.isfinite(found.predict().mean).all()
    monkeypatch.setattr(
        CopulaGNN,
        "joint",
        lambda self, *a, **k: pc.GraphNormal(
            joint(self, *a, **k).loc * math.nan,
            precision=joint(self, *a, **k).precision,
            validate_args=False,
        ),
    )
    with pytest.raises(TrainingError, match="not finite at the start"):
        fit(model, data, data.observed, schedule=SHORT)


def test_predictions_condition_on_validation_nodes_too():
    data = example()
    mask = torch.zeros(60, dtype=torch.bool)
    mask[:20] = True
    found = fit(
        CopulaGNN("linear", "normal", "car"), data, data.observed, validation=mask, schedule=SHORT
    )
    assert found.settings["validation_nodes"] == int((mask & data.observed).sum())
    assert torch.equal(found.model.data.observed, data.observed)
    assert len(found.predict().nodes) == 15


def test_refit_starts_from_the_cheap_fit():
    data = example()
    cheap = fit(CopulaGNN("linear", "normal", "car"), data, data.observed, "map", schedule=SHORT)
    full = cheap.refit(method="nuts", num_draws=20, num_warmup=20, num_chains=2)
    assert full.posterior["rho"].shape == (2, 20)
    assert "R-hat" in repr(full)
    assert "max_r_hat" in full.diagnostics


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "em"}, "`method`"),
        ({"validation": 1.5}, "`validation`"),
        ({"validation": torch.ones(3, dtype=torch.bool)}, "`validation`"),
        ({"validation": torch.ones(60, dtype=torch.bool)}, "not all"),
        ({"restarts": 0}, "`restarts`"),
        ({"observed": torch.ones(60)}, "`observed`"),
    ],
)
def test_bad_options(options, match):
    data = example()
    arguments = {"observed": data.observed, **options}
    with pytest.raises(InvalidArgumentError, match=match):
        fit(CopulaGNN("linear", "normal", "car"), data, **arguments)


def test_bad_questions_of_a_fit():
    data = example()
    found = fit(CopulaGNN("linear", "normal", "car"), data, data.observed, schedule=SHORT)
    with pytest.raises(InvalidArgumentError, match="`given`"):
        found.predict(given="all")
    with pytest.raises(InvalidArgumentError, match="node 0"):
        found.predict(nodes=[0])
    with pytest.raises(InvalidArgumentError, match="length 3"):
        found.predict().score(torch.ones(3))
