"""The example in the README runs as it stands, and with the marginal swapped by one word."""

from __future__ import annotations

import re
from pathlib import Path

import pyro
import pytest
import torch

README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLE = re.search(r"<!-- example.*?-->\n```python\n(.*?)```", README, re.DOTALL).group(1)
MODEL = re.search(r"<!-- model.*?-->\n```python\n(.*?)```", README, re.DOTALL).group(1)


@pytest.mark.parametrize("law", ["Poisson", "NegativeBinomial"])
def test_example_runs(law):
    torch.set_default_dtype(torch.float32)
    before = 'laws["Poisson"]'
    assert EXAMPLE.count(before) == 1
    pyro.set_rng_seed(0)
    names: dict = {}
    exec(compile(EXAMPLE.replace(before, f'laws["{law}"]'), "README.md", "exec"), names)
    assert type(names["fitted"].marginal_dist).__name__ == law
    lower, upper = names["lower"], names["upper"]
    assert lower.shape == upper.shape == (20,)
    assert bool((lower < upper).all())
    losses = names["losses"]
    assert sum(losses[-20:]) < sum(losses[:20])
    assert 0.6 < float(names["guide"].median()["rho"]) < 1


@pytest.mark.filterwarnings("error::pyro_copula.errors.MidpointWarning")
def test_model_example_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(MODEL, "README.md", "exec"), names)
    hidden = names["prediction"]
    assert len(hidden.nodes) == int((~names["observed"]).sum()) == 20
    assert (tmp_path / "intervals.png").stat().st_size > 10_000
    assert names["posterior"].posterior["rho"].shape == (2, 100)
    assert "log_likelihood" in names["idata"].groups()
    assert "negative_binomial" in capsys.readouterr().out


def test_readme_is_one_screen_or_two():
    assert len(README.splitlines()) < 150
    assert len(EXAMPLE.strip().splitlines()) <= 26
