"""Every error and warning of the package, made by a user's mistake, with all of its parts.

A new class in ``pyro_copula.errors`` needs a case here: the first test fails without one.
"""

from __future__ import annotations

import inspect
import math
import pickle
import warnings
from pathlib import Path

import pyro.distributions as dist
import pytest
import torch

import pyro_copula as pc
from pyro_copula import datasets, errors
from pyro_copula.crew import Crew
from pyro_copula.datasets import sources
from pyro_copula.inference.potential import Potential, find_mode
from pyro_copula.linalg import Iterative, resources
from pyro_copula.precision.conditioning import warn_if_nearly_singular
from pyro_copula.testing import SMALL_GRAPHS

PATH = SMALL_GRAPHS["path"]

#: The parts that an error keeps as attributes, and that its message has word for word.
FOUR = ("argument", "expected", "found", "hint")
ABSTRACT = {"PyroCopulaError", "PyroCopulaWarning", "DatasetError"}


def chain(distance: float, **options) -> pc.SparsePrecision:
    """A long cycle, as nearly singular as asked for, with the iterative backend."""
    n = 400
    graph = pc.Graph.from_edges([(i, (i + 1) % n) for i in range(n)])
    backend = Iterative(**options)
    return pc.NormalizedAdjacencyPrecision(graph, backend=backend)(alpha=1 - distance, beta=1.0)


def car() -> pc.SparsePrecision:
    return pc.CARPrecision(PATH)(rho=0.9, tau=1.0)


def counts(rate: float = 6.0, **options) -> pc.GaussianCopula:
    return pc.GaussianCopula(dist.Poisson(torch.full((4,), rate)), car(), **options)


# ---------------------------------------------------------------- one mistake for each class


def invalid_argument(tmp_path, monkeypatch):
    pc.Schedule(max_epochs=0)


def graph(tmp_path, monkeypatch):
    pc.Graph.from_edges([(0, 5)], num_nodes=3)


def parameter_range(tmp_path, monkeypatch):
    pc.CARPrecision(PATH)(rho=1.0, tau=1.0)


def support(tmp_path, monkeypatch):
    counts().log_prob(torch.tensor([1.0, -2.0, 3.0, math.nan]))


def missing_cdf(tmp_path, monkeypatch):
    pc.marginals.cdf(dist.VonMises(0.0, 1.0), torch.tensor(0.5))


def obs_mask(tmp_path, monkeypatch):
    counts().mask(torch.tensor([True, False, True, True]))


def several_fits(tmp_path, monkeypatch):
    data = pc.simulate.paper_setting("b")
    model = pc.CopulaGNN("linear", "normal", "laplacian")
    schedule = pc.Schedule(max_epochs=1)
    found = pc.fit(model, data, data.train_mask, restarts=2, schedule=schedule)
    found.history  # noqa: B018


def unused_data(tmp_path, monkeypatch):
    data = pc.simulate.paper_setting("b")
    data.edge_weight = torch.arange(data.edge_index.shape[1])
    pc.models.NodeData.from_pyg(data)


def not_positive_definite(tmp_path, monkeypatch):
    pc.SparsePrecision(PATH, torch.ones(4), torch.full((3,), -2.0)).logdet()


def curvature(tmp_path, monkeypatch):
    K = chain(0.5)
    pc.SparsePrecision(
        K.graph, torch.ones(400), torch.full((400,), -0.55), backend=K.backend
    ).logdet()


def convergence_error(tmp_path, monkeypatch):
    chain(1e-6, max_iterations=12).solve(torch.randn(400))


def convergence_warning(tmp_path, monkeypatch):
    chain(0.03, solve_tolerance=1e-10, max_iterations=60).solve(torch.randn(400))


def conditioning(tmp_path, monkeypatch):
    K = pc.LaplacianPrecision(PATH)(tau=1.0, gamma=1e-12)
    warn_if_nearly_singular(pc.GraphNormal(torch.zeros(4), K))


def estimate(tmp_path, monkeypatch):
    chain(1e-4, num_probes=2, rank=0, max_iterations=2000, seed=0).variance()


def second_order(tmp_path, monkeypatch):
    diagonal = torch.full((4,), 3.0, requires_grad=True)
    value = pc.SparsePrecision(PATH, diagonal, -torch.ones(3), backend="sparse").logdet()
    (first,) = torch.autograd.grad(value, diagonal, create_graph=True)
    first.sum().backward()


def memory(tmp_path, monkeypatch):
    resources.check_memory(2**60, "This test", "Try less.")


def midpoint(tmp_path, monkeypatch):
    counts(0.3).log_prob(torch.tensor([0.0, 1.0, 0.0, 0.0]))


def cut(tmp_path, monkeypatch):
    law = pc.GraphNormal(torch.zeros(9), pc.CARPrecision(SMALL_GRAPHS["grid"])(rho=0.9, tau=1.0))
    parts = pc.Partition(law.precision.graph, torch.arange(9) // 3)
    law.composite_log_prob(torch.zeros(9), parts)


def extrapolation(tmp_path, monkeypatch):
    data = pc.simulate.paper_setting("b")
    data.y = data.y.exp().round()
    unseen = int(data.test_mask.nonzero()[0])
    data.x[unseen] = 100.0
    model = pc.CopulaGNN("linear", "poisson", "none")
    fit = pc.fit(model, data, data.train_mask, schedule=pc.Schedule(max_epochs=20))
    fit.predict(nodes=[unseen])


def particle(tmp_path, monkeypatch):
    from pyro_copula.rectangle.particles import Particles

    monkeypatch.setattr(Particles, "effective_size", property(lambda self: 2.0))
    counts(0.8, discrete="exact").log_prob(torch.zeros(4))


def propagation(tmp_path, monkeypatch):
    from pyro_copula.rectangle import probability

    monkeypatch.setattr(probability, "MAX_SWEEPS", 1)
    counts(0.8, discrete="ep").log_prob(torch.zeros(4))


def training(tmp_path, monkeypatch):
    data = pc.simulate.paper_setting("b")
    model = pc.CopulaGNN("linear", "normal", "laplacian")
    found = pc.fit(model, data, data.train_mask, schedule=pc.Schedule(max_epochs=1))
    potential = Potential(found.model)
    potential.y = torch.full_like(potential.y, math.inf)
    find_mode(potential)


def calibration(tmp_path, monkeypatch):
    def broken(model, y, seed):
        raise ZeroDivisionError("always")

    def model(y=None):
        import pyro

        mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        return pyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    pc.simulation_based_calibration(
        model, sampler=broken, num_simulations=20, num_draws=9, progress=False
    )


def distributed(tmp_path, monkeypatch):
    with Crew(rank=1, size=2)._answered():
        raise RuntimeError("[src/transport/tcp/pair.cc:553] Connection closed by peer. Try again.")


def fit_file(tmp_path, monkeypatch):
    pc.load_fit(tmp_path / "no such file")


def output(tmp_path, monkeypatch):
    data = pc.simulate.paper_setting("b")
    model = pc.CopulaGNN("linear", "normal", "laplacian")
    found = pc.fit(model, data, data.train_mask, schedule=pc.Schedule(max_epochs=1))
    found.save(tmp_path)  # a directory


def missing_file(tmp_path, monkeypatch):
    datasets.election(root=tmp_path)


def checksum(tmp_path, monkeypatch):
    for name in sources.FILES:
        path = Path(tmp_path) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("something else")
    datasets.election(root=tmp_path)


def download(tmp_path, monkeypatch):
    monkeypatch.delenv(sources.ROOT_VARIABLE, raising=False)
    monkeypatch.setenv(sources.URL_VARIABLE, "http://127.0.0.1:9/data")
    monkeypatch.setattr(sources, "cache_directory", lambda: tmp_path)
    datasets.election()


#: The class, what causes it, and the attributes that its message has.
CASES = {
    "InvalidArgumentError": (invalid_argument, FOUR),
    "GraphError": (graph, FOUR),
    "ParameterRangeError": (parameter_range, FOUR),
    "SupportError": (support, (*FOUR, "node", "support")),
    "MissingCDFError": (missing_cdf, FOUR),
    "ObsMaskError": (obs_mask, FOUR),
    "SeveralFitsError": (several_fits, FOUR),
    "UnusedDataWarning": (unused_data, ("name", "meaning", "hint")),
    "NotPositiveDefiniteError": (not_positive_definite, ("argument", "node", "hint")),
    "CurvatureError": (curvature, ("argument", "node")),
    "ConvergenceError": (convergence_error, ("iterations",)),
    "ConvergenceWarning": (convergence_warning, ("iterations",)),
    "ConditioningWarning": (conditioning, ()),
    "EstimateError": (estimate, ("what", "node", "probes")),
    "SecondOrderError": (second_order, ("operation", "hint")),
    "MemoryLimitError": (memory, ("what", "hint")),
    "MidpointWarning": (midpoint, ()),
    "CutWarning": (cut, ("num_blocks",)),
    "ExtrapolationWarning": (extrapolation, ("node", "hint")),
    "ParticleWarning": (particle, ()),
    "PropagationWarning": (propagation, ("sweeps",)),
    "TrainingError": (training, ("problem", "hint")),
    "CalibrationError": (calibration, ("replication", "seed", "error")),
    "DistributedError": (distributed, ("rank", "size", "reason")),
    "FitFileError": (fit_file, ("path", "problem", "hint")),
    "OutputError": (output, ("path", "problem", "hint")),
    "MissingFileError": (missing_file, ("name", "found", "hint")),
    "ChecksumError": (checksum, ("name", "found", "hint")),
    "DownloadError": (download, ("name", "found", "hint")),
}


def caused(mistake, *fixtures) -> BaseException:
    """The error or the first warning of this package that a mistake leads to."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            mistake(*fixtures)
        except errors.PyroCopulaError as error:
            return error
    (first, *_) = (w.message for w in caught if isinstance(w.message, errors.PyroCopulaWarning))
    return first


def test_every_class_has_a_case():
    named = {name for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
    assert named - ABSTRACT == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_it_says_what_is_wrong_and_what_to_do(name, tmp_path, monkeypatch):
    mistake, parts = CASES[name]
    found = caused(mistake, tmp_path, monkeypatch)
    assert type(found) is getattr(errors, name)
    text = str(found)
    for part in parts:
        value = getattr(found, part)
        assert str(value).strip()
        assert str(value) in text, part
    # A sentence, and what to do in lines of their own.
    _, *rest = text.splitlines()
    assert rest
    assert rest[-1].startswith("  ")
    assert rest[-1].endswith((".", ")"))


@pytest.mark.parametrize("name", CASES)
def test_it_outlives_the_way_to_another_process(name, tmp_path, monkeypatch):
    mistake, parts = CASES[name]
    found = caused(mistake, tmp_path, monkeypatch)
    copy = pickle.loads(pickle.dumps(found))
    assert type(copy) is type(found)
    assert str(copy) == str(found)
    for part in parts:
        assert getattr(copy, part) == getattr(found, part)


def test_the_base_classes_catch_them_all():
    for name in CASES:
        cls = getattr(errors, name)
        base = errors.PyroCopulaWarning if name.endswith("Warning") else errors.PyroCopulaError
        assert issubclass(cls, base)
        assert cls.__doc__
