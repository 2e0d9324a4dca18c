"""What all special functions promise: dtypes, broadcasting, second orders, a lazy import."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pyro_copula import special
from pyro_copula.errors import SecondOrderError

GAMMA = ["gammainc", "gammaincc", "log_gammainc", "log_gammaincc"]
BETA = ["betainc_logit", "log_betainc_logit", "betainc", "log_betainc"]
INVERSES = ["gammaincinv", "gammainccinv", "betaincinv_logit"]
ARITY = dict.fromkeys(GAMMA, 2) | dict.fromkeys(BETA, 3)
ARITY |= {"log_gamma_weight": 2, "log_beta_weight": 3}
ARITY |= {"gammaincinv": 2, "gammainccinv": 2, "betaincinv_logit": 3}


def test_every_public_name_is_tested():
    elsewhere = {"log_ndtr", "ndtri_exp", "log_gamma_tail"}
    assert set(special.__all__) == set(ARITY) | elsewhere


@pytest.mark.parametrize("name", ARITY)
def test_dtype_is_promoted_and_the_work_done_in_float64(name):
    function, n = getattr(special, name), ARITY[name]
    inputs = [torch.tensor([0.3, 0.6]) for _ in range(n)]
    exact = function(*inputs)
    assert exact.dtype == torch.float64
    single = function(*(x.float() for x in inputs))
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), exact, rtol=1e-6)
    mixed = function(inputs[0].float(), *inputs[1:])
    assert mixed.dtype == torch.float64
    numbers = function(1, *(x.float() for x in inputs[1:]))
    assert numbers.dtype == torch.float32
    counts = function(torch.tensor([1, 2]), *(x.float() for x in inputs[1:]))
    assert counts.dtype == torch.float32


@pytest.mark.parametrize("name", ARITY)
def test_numbers_keep_their_digits_whatever_the_default_dtype(name):
    function, n = getattr(special, name), ARITY[name]
    last = torch.tensor(0.3)
    exact = function(*[torch.tensor(0.1)] * (n - 1), last)
    torch.set_default_dtype(torch.float32)  # as users have it; the fixture sets it back
    assert function(*[0.1] * (n - 1), last) == exact


@pytest.mark.parametrize("name", ARITY)
def test_broadcasting_scalars_and_empty_tensors(name):
    function, n = getattr(special, name), ARITY[name]
    first, last = torch.tensor([[0.3], [2.0], [0.7]]), torch.tensor([0.2, 0.5])
    middle = [torch.tensor(1.5)] * (n - 2)
    result = function(first, *middle, last)
    assert result.shape == (3, 2)
    for i in range(3):
        for j in range(2):
            one = function(first[i, 0], *middle, last[j])
            assert one.shape == ()
            assert one == result[i, j]
    empty = function(torch.empty(0, 1), *middle, last)
    assert empty.shape == (0, 2)


@pytest.mark.parametrize("name", GAMMA + BETA)
def test_gradients_broadcast_and_keep_their_dtype(name):
    function, n = getattr(special, name), ARITY[name]
    first = torch.tensor(0.8, dtype=torch.float32, requires_grad=True)
    last = torch.tensor([0.2, 0.5, 0.9], requires_grad=True)
    function(first, *[torch.tensor(1.5)] * (n - 2), last).sum().backward()
    assert first.grad.shape == ()
    assert first.grad.dtype == torch.float32
    assert last.grad.shape == (3,)
    empty = torch.empty(0, requires_grad=True)
    function(*[empty] * n).sum().backward()
    assert empty.grad.shape == (0,)


@pytest.mark.parametrize("name", GAMMA + BETA)
def test_second_derivative_in_a_shape_is_an_error_and_not_zero(name):
    function, n = getattr(special, name), ARITY[name]
    inputs = [torch.tensor([0.4, 0.7], requires_grad=True) for _ in range(n)]
    for i in range(n - 1):
        (grad,) = torch.autograd.grad(function(*inputs).sum(), inputs[i], create_graph=True)
        for other in inputs:
            with pytest.raises(SecondOrderError, match="first derivatives only") as caught:
                torch.autograd.grad(grad.sum(), other, retain_graph=True)
        assert "inc" in caught.value.operation
        assert pickle.loads(pickle.dumps(caught.value)).hint == caught.value.hint


@pytest.mark.parametrize("name", GAMMA + BETA)
def test_weights_on_a_first_derivative_can_be_differentiated(name):
    # The first derivative is linear in what it is multiplied with, and that part is exact.
    function, n = getattr(special, name), ARITY[name]
    inputs = [torch.tensor([0.4, 0.7], requires_grad=True) for _ in range(n)]
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    value = (weight * function(*inputs)).sum()
    (grad,) = torch.autograd.grad(value, inputs[0], create_graph=True)
    (found,) = torch.autograd.grad(grad.sum(), weight)
    (plain,) = torch.autograd.grad(function(*inputs).sum(), inputs[0])
    assert torch.allclose(found, plain)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_a_gradient_that_is_not_needed_is_not_computed(name, monkeypatch):
    function = getattr(special, name)

    def forbidden(*args, **kwargs):
        raise AssertionError("the shape derivative was computed")

    monkeypatch.setattr(sys.modules[function.__module__], "_log_tail", forbidden)
    a, x = torch.tensor([0.4, 0.7]), torch.tensor([0.3, 0.2], requires_grad=True)
    function(a, x).sum().backward()
    assert (x.grad != 0).all()
    with pytest.raises(AssertionError, match="was computed"):
        function(a.requires_grad_(), x).sum().backward()


@pytest.mark.parametrize("name", ARITY)
def test_invalid_arguments_give_nan_and_return(name):
    function, n = getattr(special, name), ARITY[name]
    good = [torch.tensor(0.4)] * n
    for i in range(n):
        for bad in (math.nan, -3.0, -1e20) if i < n - 1 else (math.nan,):
            inputs = [*good[:i], torch.tensor(bad), *good[i + 1 :]]
            assert torch.isnan(function(*inputs)), (i, bad)


def test_importing_and_ordinary_values_do_not_load_numba():
    code = """
import sys, types
package = types.ModuleType("pyro_copula")
package.__path__ = [sys.argv[1]]
sys.modules["pyro_copula"] = package  # the folder alone, without the rest of the package
import torch
import pyro_copula.special as special
special.log_gammaincc(torch.tensor([2.0]), torch.tensor([3.0]))
special.ndtri_exp(torch.tensor([-3.0]))
assert "numba" not in sys.modules
special.log_gammaincc(torch.tensor([2.0]), torch.tensor([3000.0]))
assert "numba" in sys.modules
"""
    folder = str(Path(special.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
