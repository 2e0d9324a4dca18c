"""Probabilities of boxes: against the dense oracle, and derivatives against differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from boxes import random_ends, random_precision, uniforms

from pyro_copula import SparsePrecision
from pyro_copula.linalg.numeric import Factor
from pyro_copula.rectangle.probability import Box
from pyro_copula.rectangle.sites import Sites
from pyro_copula.testing import rectangle_probability


@pytest.mark.parametrize("seed", range(8))
def test_the_estimate_is_the_rectangle_probability(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    precision = random_precision(rng, n)
    lower, upper = random_ends(rng, n)
    box = Box(precision, lower, upper, uniforms(rng, n, 20_000))
    covariance = np.linalg.inv(precision.to_dense().numpy())
    oracle = rectangle_probability(covariance, lower.numpy(), upper.numpy())
    error = math.hypot(box.particles.standard_error, oracle.error / oracle.value)
    # Four standard errors: one false alarm in 2,000 runs of the eight.
    assert abs(float(box.log_prob()) - math.log(oracle.value)) < 4 * error
    assert box.particles.standard_error < 0.005
    assert abs(float(box.ep_log_prob()) - math.log(oracle.value)) < 0.1


def fixed_sites(box: Box, t: np.ndarray, eta: np.ndarray) -> Box:
    """The same box, guided by given sites."""
    n = len(t)
    matrix = torch.cat([box.precision.diagonal, box.precision.off_diagonal]).detach().numpy().copy()
    matrix[:n] += t
    factor = Factor(box.symbolic, box.symbolic.plan, box.pool, matrix)
    values = np.stack([t, eta, factor.solve(eta[None])[0]])
    nothing = np.empty(0)
    box.__dict__["guide"] = Sites(values, factor, 0.0, nothing, nothing, 0, 0.0)
    return box


def central_differences(function, inputs: list[torch.Tensor], k: int, h: float) -> torch.Tensor:
    flat = inputs[k].detach().reshape(-1)
    result = torch.zeros_like(flat)
    for i in range(len(flat)):
        if not math.isfinite(flat[i]):
            continue
        ends = []
        for step in (h, -h):
            moved = flat.clone()
            moved[i] += step
            others = [x.detach() for x in inputs]
            others[k] = moved.reshape(inputs[k].shape)
            ends.append(float(function(*others)))
        result[i] = (ends[0] - ends[1]) / (2 * h)
    return result.reshape(inputs[k].shape)


@pytest.mark.parametrize("seed", range(4))
def test_derivatives_of_the_estimate(seed):
    rng = np.random.default_rng(seed)
    precision = random_precision(rng, 7)
    lower, upper = random_ends(rng, 7)
    guide = Box(precision, lower, upper, uniforms(rng, 7, 5)).guide
    t, eta = guide.values[0].copy(), guide.values[1].copy()

    def estimate(diagonal, off_diagonal, lower, upper, u):
        moved = SparsePrecision(precision.graph, diagonal, off_diagonal, backend="sparse")
        return fixed_sites(Box(moved, lower, upper, u), t, eta).log_prob()

    inputs = [
        x.detach().clone().requires_grad_()
        for x in (
            *(precision.diagonal, precision.off_diagonal),
            *(lower, upper, uniforms(rng, 7, 5)),
        )
    ]
    gradients = torch.autograd.grad(estimate(*inputs), inputs)
    for k, gradient in enumerate(gradients):
        want = central_differences(estimate, inputs, k, 1e-6)
        assert torch.allclose(gradient, want, rtol=1e-6, atol=1e-7)
        assert float(gradient.abs().max()) > 1e-3  # not a comparison of zeros


@pytest.mark.parametrize("seed", range(4))
def test_derivatives_of_expectation_propagation(seed):
    rng = np.random.default_rng(seed)
    precision = random_precision(rng, 7)
    lower, upper = random_ends(rng, 7)
    u = uniforms(rng, 7, 1)

    def answer(diagonal, off_diagonal, lower, upper):
        moved = SparsePrecision(precision.graph, diagonal, off_diagonal, backend="sparse")
        return Box(moved, lower, upper, u).ep_log_prob()

    inputs = [
        x.detach().clone().requires_grad_()
        for x in (precision.diagonal, precision.off_diagonal, lower, upper)
    ]
    gradients = torch.autograd.grad(answer(*inputs), inputs)
    for k, gradient in enumerate(gradients):
        want = central_differences(answer, inputs, k, 1e-5)
        assert torch.allclose(gradient, want, rtol=1e-5, atol=1e-6)


def test_a_free_box_has_probability_one():
    rng = np.random.default_rng(0)
    precision = random_precision(rng, 5)
    free = torch.full((5,), math.inf)
    box = Box(precision, -free, free, uniforms(rng, 5, 10))
    assert float(box.log_prob()) == pytest.approx(0.0, abs=1e-12)
    assert float(box.ep_log_prob()) == pytest.approx(0.0, abs=1e-12)


def test_the_same_numbers_twice():
    rng = np.random.default_rng(0)
    precision = random_precision(rng, 6)
    lower, upper = random_ends(rng, 6)
    u = uniforms(rng, 6, 16)
    first, second = (float(Box(precision, lower, upper, u).log_prob()) for _ in range(2))
    assert first == second
