"""Corners: laws built on laws that do not fit, and batches with nothing in them."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch

from pyro_copula import marginals
from pyro_copula.errors import MissingCDFError


def test_zero_inflation_of_a_law_without_zero_is_refused():
    base = marginals.ZeroTruncated(dist.Poisson(torch.ones(3)))
    law = dist.ZeroInflatedDistribution(base, gate=torch.tensor(0.2))
    with pytest.raises(MissingCDFError, match="starts elsewhere"):
        marginals.cdf(law, torch.zeros(3))


@pytest.mark.parametrize("law", [dist.Poisson(torch.ones(0)), dist.Gamma(torch.ones(0), 1.0)])
def test_empty_batches_give_empty_results(law):
    for function in (marginals.cdf, marginals.from_normal_score, marginals.midpoint_score):
        assert function(law, torch.ones(0)).shape == (0,)


def test_draw_dtype_needs_no_mean():
    assert marginals.result_dtype(dist.Poisson(torch.ones(2, dtype=torch.float32))) == torch.float32
    assert marginals.result_dtype(dist.Poisson(torch.ones(2, dtype=torch.float64))) == torch.float64
