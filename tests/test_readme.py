"""The example in the README runs as it stands, and with the marginal swapped."""

from __future__ import annotations

import re
from pathlib import Path

import pyro
import pytest
import torch

README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLE = re.search(r"<!-- example.*?-->\n```python\n(.*?)```", README, re.DOTALL).group(1)
SWAP = "dist.NegativeBinomial(5.0, logits=rate.log() - 1.6)"


@pytest.mark.parametrize("swapped", [False, True])
def test_example_runs(swapped):
    torch.set_default_dtype(torch.float32)
    code = EXAMPLE
    if swapped:
        assert SWAP in README
        before = "dist.Poisson((a + b * x).exp())"
        assert before in code
        code = code.replace(before, SWAP.replace("rate", "(a + b * x).exp()"))
    pyro.set_rng_seed(0)
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    lower, upper = names["lower"], names["upper"]
    assert lower.shape == upper.shape == (20,)
    assert bool((lower <= upper).all())
    assert 0 < float(names["guide"].median()["rho"]) < 1


def test_readme_is_one_screen_or_two():
    assert len(README.splitlines()) < 150
