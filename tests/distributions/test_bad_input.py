"""Bad input gets the error that names the argument, what was expected, what was found, the cure."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch

import pyro_copula as pc
from pyro_copula.errors import (
    InvalidArgumentError,
    MidpointWarning,
    MissingCDFError,
    NotPositiveDefiniteError,
    SupportError,
)
from pyro_copula.testing import SMALL_GRAPHS

NAN, INF = math.nan, math.inf
PATH = SMALL_GRAPHS["path"]
K = pc.CARPrecision(PATH)(rho=0.9, tau=1.0)
RATE = torch.full((4,), 6.0)


def poisson(**options):
    return pc.GaussianCopula(dist.Poisson(RATE.double()), precision=K, **options)


@pytest.mark.parametrize(
    ("value", "node", "found"),
    [
        ([1.0, -2.0, 3.0, NAN], 1, "-2"),
        ([1.0, 2.0, 3.5, NAN], 2, "3.5"),
        ([1.0, 2.0, 3.0, -0.5], 3, "-0.5"),
    ],
)
def test_value_outside_the_support_names_node_and_value(value, node, found):
    with pytest.raises(SupportError, match=f"{found} at node {node}") as info:
        poisson().log_prob(torch.tensor(value))
    assert info.value.node == node
    assert info.value.value == float(found)
    for method in ("condition", "pointwise_log_prob"):
        with pytest.raises(SupportError, match=f"at node {node}"):
            getattr(poisson(), method)(torch.tensor(value))


def test_continuous_support():
    copula = pc.GaussianCopula(dist.Gamma(RATE, 1.0), precision=K)
    with pytest.raises(SupportError, match="-1 at node 2"):
        copula.log_prob(torch.tensor([1.0, 1.0, -1.0, NAN]))


@pytest.mark.parametrize("law", ["copula", "normal"])
@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([1.0, INF, 1.0, 1.0], "infinit|inf at node 1"),
        ([NAN, NAN, NAN, NAN], "NaN at every node"),
        ([1.0, 2.0, 3.0], r"shape \(3,\)"),
        (1.0, r"shape \(\)"),
    ],
)
def test_values_that_cannot_be_used(law, value, match):
    d = poisson() if law == "copula" else pc.GraphNormal(torch.zeros(4), precision=K)
    for method in ("log_prob", "condition", "pointwise_log_prob"):
        with pytest.raises(InvalidArgumentError, match=match):
            getattr(d, method)(torch.tensor(value))


def test_batch_that_does_not_broadcast():
    d = pc.GraphNormal(torch.zeros(3, 4), precision=K)
    with pytest.raises(InvalidArgumentError, match="leading dimensions"):
        d.log_prob(torch.zeros(2, 4))


def test_condition_needs_one_common_pattern_with_something_missing():
    with pytest.raises(InvalidArgumentError, match="a value at every node"):
        poisson().condition(torch.ones(4))
    rows = torch.tensor([[1.0, NAN, 1.0, 1.0], [1.0, 1.0, NAN, 1.0]])
    with pytest.raises(InvalidArgumentError, match="different patterns, first at node 1"):
        poisson().condition(rows)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 90])
def test_levels(level):
    conditional = poisson().condition(torch.tensor([6.0, NAN, 7.0, 8.0]))
    with pytest.raises(InvalidArgumentError, match="strictly between 0 and 1"):
        conditional.interval(level)
    with pytest.raises(InvalidArgumentError, match="`q`"):
        conditional.quantile(level)


@pytest.mark.parametrize("level", ["0.9", None, ["a"]])
def test_levels_that_are_no_numbers(level):
    conditional = poisson().condition(torch.tensor([6.0, NAN, 7.0, 8.0]))
    with pytest.raises(InvalidArgumentError, match="`level` must be a number, or several"):
        conditional.interval(level)


def test_marginals_that_cannot_be_used():
    with pytest.raises(InvalidArgumentError, match="to_event"):
        pc.GaussianCopula(dist.Poisson(RATE).to_event(1), precision=K)
    with pytest.raises(InvalidArgumentError, match="`marginal_dist`"):
        pc.GaussianCopula(dist.Poisson(torch.ones(3)), precision=K)
    with pytest.raises(MissingCDFError, match="register_cdf"):
        pc.GaussianCopula(dist.VonMises(torch.zeros(4), 1.0), precision=K)
    with pytest.raises(InvalidArgumentError, match="`marginal_dist`"):
        pc.GaussianCopula(torch.ones(4), precision=K)


def test_dependence_that_cannot_be_used():
    marginal = dist.Poisson(RATE)
    with pytest.raises(InvalidArgumentError, match="0 of them"):
        pc.GaussianCopula(marginal)
    with pytest.raises(InvalidArgumentError, match="2 of them"):
        pc.GaussianCopula(marginal, precision=K, correlation_matrix=torch.eye(4))
    with pytest.raises(InvalidArgumentError, match="goes to `correlation_matrix`"):
        pc.GaussianCopula(marginal, precision=torch.eye(4))
    with pytest.raises(InvalidArgumentError, match="a SparsePrecision"):
        pc.GraphNormal(torch.zeros(4), precision=torch.eye(4))
    with pytest.raises(InvalidArgumentError, match="ones on the diagonal"):
        pc.GaussianCopula(marginal, correlation_matrix=2 * torch.eye(4))
    with pytest.raises(InvalidArgumentError, match="unit diagonal"):
        pc.GaussianCopula(marginal, correlation_cholesky=2 * torch.eye(4))
    R = torch.eye(4)
    R[0, 1] = 0.5
    with pytest.raises(InvalidArgumentError, match="symmetric"):
        pc.GaussianCopula(marginal, correlation_matrix=R)
    with pytest.raises(InvalidArgumentError, match=r"\(\*batch, n, n\)"):
        pc.GaussianCopula(marginal, correlation_matrix=torch.ones(4))
    with pytest.raises(InvalidArgumentError, match=r"\(\*batch, n, n\)"):
        pc.GaussianCopula(marginal, correlation_cholesky=[[1.0]])
    R = torch.eye(4)
    R[0, 1] = R[1, 0] = 1.5
    with pytest.raises(NotPositiveDefiniteError, match="pivot at node 1"):
        pc.GaussianCopula(marginal, correlation_matrix=R)


def test_negative_weight_that_breaks_positive_definiteness_names_the_node():
    off = torch.tensor([-0.5, -3.0, -0.5])
    broken = pc.SparsePrecision(PATH, torch.ones(4), off)
    with pytest.raises(NotPositiveDefiniteError, match="pivot at node 2 is") as info:
        pc.GraphNormal(torch.zeros(4), precision=broken).log_prob(torch.zeros(4))
    assert info.value.node == 2
    assert info.value.pivot == pytest.approx(1 - 9 / 0.75)
    batch = pc.SparsePrecision(PATH, torch.ones(2, 4), torch.stack([off * 0, off]))
    with pytest.raises(NotPositiveDefiniteError, match="node 2 of batch element 1"):
        batch.logdet()


def test_batches_and_lengths_that_do_not_fit():
    many = pc.CARPrecision(PATH)(rho=torch.tensor([0.1, 0.2]), tau=1.0)
    with pytest.raises(InvalidArgumentError, match="leading dimensions"):
        pc.GaussianCopula(dist.Poisson(torch.ones(3, 4)), precision=many)
    with pytest.raises(InvalidArgumentError, match="leading dimensions"):
        pc.GraphNormal(torch.zeros(3, 4), precision=many)
    with pytest.raises(InvalidArgumentError, match="`loc`"):
        pc.GraphNormal(torch.zeros(3), precision=K)


def test_options():
    with pytest.raises(InvalidArgumentError, match="`discrete`"):
        poisson(discrete="continuity")
    for clip in (0.0, 0.5, -1.0):
        with pytest.raises(InvalidArgumentError, match="`tail_clip`"):
            poisson(tail_clip=clip)


def test_held_out_values_outside_the_support():
    conditional = poisson().condition(torch.tensor([6.0, NAN, NAN, 8.0]))
    with pytest.raises(SupportError, match="y_missing"):
        conditional.log_prob(torch.tensor([1.0, 2.5]))


def test_midpoint_warning_where_atoms_are_wide_and_only_there():
    y = torch.tensor([0.0, 0.0, 1.0, NAN])
    small = pc.GaussianCopula(dist.Poisson(torch.full((4,), 0.3)), precision=K)
    with pytest.warns(MidpointWarning, match="poor approximation"):
        small.log_prob(y)
    poisson().log_prob(torch.tensor([6.0, 5.0, 7.0, NAN]))  # warnings are errors in the tests
    pc.GaussianCopula(dist.Normal(torch.zeros(4), 0.01), precision=K).log_prob(torch.zeros(4))


def test_tail_clip_clamps_uniform_scores():
    y = torch.tensor([6.0, 5.0, 40.0, NAN])
    clipped = poisson(tail_clip=1e-3)
    scores = clipped.condition(y)
    same = pc.GaussianCopula(dist.Normal(torch.zeros(4), 1.0), precision=K, tail_clip=1e-3)
    z = same.condition(torch.tensor([0.0, 0.0, 3.5, NAN])).score_mean
    limit = pc.GaussianCopula(dist.Normal(torch.zeros(4), 1.0), precision=K).condition(
        torch.tensor([0.0, 0.0, 3.090232306167813, NAN])
    )
    torch.testing.assert_close(z, limit.score_mean)
    assert float(scores.score_mean) < float(poisson().condition(y).score_mean)
