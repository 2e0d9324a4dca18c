"""Adding laws: by functions, by a class, by their own methods; and what is refused."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from torch.distributions import constraints

from pyro_copula import marginals
from pyro_copula.errors import InvalidArgumentError, MissingCDFError
from pyro_copula.marginals import MarginalCDF, register_cdf


class MyExponential(dist.TorchDistribution):
    arg_constraints = {"rate": constraints.positive}
    support = constraints.positive

    def __init__(self, rate, validate_args=None):
        self.rate = rate
        super().__init__(rate.shape, torch.Size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return type(self)(self.rate.expand(batch_shape))

    def log_prob(self, value):
        return self.rate.log() - self.rate * value


class MyDie(dist.TorchDistribution):
    """A fair die with `sides` faces, numbered from one."""

    arg_constraints = {"sides": constraints.positive_integer}

    def __init__(self, sides, validate_args=None):
        self.sides = sides
        super().__init__(sides.shape, torch.Size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(1, self.sides)


class MyGeometric(dist.TorchDistribution):
    """Known by its cdf alone, and with a poor guess of the quantile."""

    arg_constraints = {"probs": constraints.unit_interval}
    support = constraints.nonnegative_integer

    def __init__(self, probs, validate_args=None):
        self.probs = probs
        super().__init__(probs.shape, torch.Size(), validate_args=validate_args)

    def cdf(self, value):
        return 1 - (1 - self.probs) ** (value + 1)

    def icdf(self, u):
        return torch.full_like(u + self.probs, 17.3)


class OwnMethods(MyExponential):
    def cdf(self, value):
        return 1 - torch.exp(-self.rate * value)

    def icdf(self, u):
        return -torch.log(1 - u) / self.rate


@pytest.fixture(autouse=True)
def _restore_registry(monkeypatch):
    monkeypatch.setattr(marginals.registry, "_REGISTRY", dict(marginals.registry._REGISTRY))


def _check_exponential(d, deep):
    reference = dist.Exponential(d.rate.detach())
    y = torch.tensor([[0.01], [0.7], [5.0], [400.0]])[: 4 if deep else 3]
    for name in ("cdf", "sf", "log_cdf", "log_sf", "normal_score"):
        f = getattr(marginals, name)
        atol = 1e-15 if name == "log_cdf" else 0.0  # by default the log of a cdf near one
        torch.testing.assert_close(f(d, y), f(reference, y), rtol=1e-9, atol=atol)
    z = torch.tensor([[-3.0], [0.2], [2.5], [25.0]])[: 4 if deep else 3]
    torch.testing.assert_close(
        marginals.from_normal_score(d, z), marginals.from_normal_score(reference, z)
    )
    assert marginals.cdf(d, torch.tensor([-1.0])).item() == 0.0
    assert marginals.is_discrete(d) is False
    moments = marginals.score_moments(d, torch.zeros(1), torch.tensor([0.9]))
    expected = marginals.score_moments(reference, torch.zeros(1), torch.tensor([0.9]))
    torch.testing.assert_close(moments, expected, rtol=1e-8, atol=0)


def test_register_functions():
    returned = register_cdf(
        MyExponential,
        cdf=lambda d, y: -torch.expm1(-d.rate * y),
        icdf=lambda d, u: -torch.log1p(-u) / d.rate,
    )
    assert returned is MyExponential
    _check_exponential(MyExponential(torch.tensor([1.7])), deep=False)


def test_register_a_class_with_both_tails():
    @register_cdf(MyExponential)
    class MyExponentialCDF(MarginalCDF):
        def cdf(self, d, value):
            return -torch.expm1(-d.rate * value)

        def icdf(self, d, u):
            return -torch.log1p(-u) / d.rate

        def log_sf(self, d, value):
            return -d.rate * value

        def isf(self, d, q):
            return -torch.log(q) / d.rate

    assert issubclass(MyExponentialCDF, MarginalCDF)
    _check_exponential(MyExponential(torch.tensor([1.7])), deep=True)

    class Subclass(MyExponential):
        pass

    _check_exponential(Subclass(torch.tensor([0.6])), deep=True)


def test_implicit_gradients_of_a_registered_law():
    register_cdf(
        MyExponential,
        cdf=lambda d, y: -torch.expm1(-d.rate * y),
        icdf=lambda d, u: (-torch.log1p(-u) / d.rate).detach(),  # as from scipy: no gradient
    )
    rate = torch.tensor([1.7], requires_grad=True)
    z = torch.tensor([0.4], requires_grad=True)
    arguments = (z, rate)
    assert torch.autograd.gradcheck(
        lambda z, rate: marginals.from_normal_score(MyExponential(rate), z), arguments
    )


def test_own_methods_need_no_registration():
    _check_exponential(OwnMethods(torch.tensor([1.7])), deep=False)
    marginals.check_marginal(OwnMethods(torch.ones(3)), 3)
    # An override wins over the entry of a parent class.
    register_cdf(MyExponential, cdf=lambda d, y: 0 * y, icdf=lambda d, u: 0 * u)
    _check_exponential(OwnMethods(torch.tensor([1.7])), deep=False)


def test_discrete_laws_are_read_from_the_support():
    register_cdf(MyDie, cdf=lambda d, y: y / d.sides, icdf=lambda d, u: torch.zeros_like(u))
    d = MyDie(torch.tensor([6.0]))
    assert marginals.is_discrete(d) is True
    faces = torch.arange(1.0, 7.0)[:, None]
    assert bool((marginals.icdf(d, marginals.cdf(d, faces)) == faces).all())
    lower, upper = marginals.normal_score_limits(d, torch.tensor([[1.0], [6.0]]))
    assert lower[0].item() == -torch.inf
    assert upper[1].item() == torch.inf
    mean, variance = marginals.score_moments(d, torch.zeros(1), torch.ones(1))
    torch.testing.assert_close(mean, torch.tensor([3.5]))
    torch.testing.assert_close(variance, torch.tensor([35 / 12]))
    assert marginals.fill_missing(d, torch.tensor([torch.nan]), torch.tensor([False])).item() == 1


def test_an_unbounded_discrete_law_known_by_its_cdf_only():
    d = MyGeometric(torch.tensor([0.3]))
    reference = dist.Geometric(probs=torch.tensor([0.3]))
    y = torch.arange(0.0, 40.0)[:, None]
    torch.testing.assert_close(
        marginals.midpoint_score(d, y), marginals.midpoint_score(reference, y), rtol=1e-5, atol=0
    )
    z = torch.linspace(-3.0, 7.0, 60)[:, None]
    same = marginals.from_normal_score(d, z) == marginals.from_normal_score(reference, z)
    assert bool(same.all())
    # 1 - cdf has no tail beyond 1e-16: the search still ends, and the score stays finite.
    far = marginals.from_normal_score(d, torch.tensor([12.0]))
    assert 90 < far.item() < 130
    assert bool(torch.isfinite(marginals.midpoint_score(d, torch.tensor([1e4]))))
    assert marginals.isf(d, torch.tensor([1e-30])).item() < 130
    moments = marginals.score_moments(d, torch.zeros(1), torch.ones(1))
    torch.testing.assert_close(moments[0], reference.mean, rtol=1e-8, atol=0)


def test_zero_inflation_of_a_registered_law():
    gate = torch.tensor([0.25])
    d = dist.ZeroInflatedDistribution(MyGeometric(torch.tensor([0.3])), gate=gate)
    base = dist.Geometric(probs=torch.tensor([0.3]))
    reference = dist.ZeroInflatedDistribution(base, gate=gate)
    y = torch.arange(0.0, 12.0)[:, None]
    torch.testing.assert_close(marginals.cdf(d, y), marginals.cdf(reference, y))
    u = torch.linspace(0.01, 0.99, 40)[:, None]
    assert bool((marginals.icdf(d, u) == marginals.icdf(reference, u)).all())


@pytest.mark.parametrize(
    ("arguments", "functions", "message"),
    [
        (("Poisson",), {"cdf": abs, "icdf": abs}, "`distribution` must be a distribution class"),
        ((int,), {"cdf": abs, "icdf": abs}, "`distribution` must be a distribution class"),
        ((MyDie,), {"cdf": abs}, "`icdf` must be a function of"),
        ((MyDie,), {"log_sf": abs}, "`cdf` must be a function of"),
        ((MyDie,), {"cdf": 3, "icdf": abs}, "`cdf` must be a function .* found 3"),
    ],
)
def test_bad_registrations(arguments, functions, message):
    with pytest.raises(InvalidArgumentError, match=message):
        register_cdf(*arguments, **functions)


def test_bad_decorations():
    with pytest.raises(InvalidArgumentError, match="`law` must be a subclass of MarginalCDF"):
        register_cdf(MyDie)(lambda d, y: y)
    with pytest.raises(InvalidArgumentError, match="without one") as error:

        @register_cdf(MyDie)
        class Half(MarginalCDF):
            def cdf(self, d, value):
                return value

    assert "icdf" in error.value.expected


def test_wrappers():
    d = dist.Poisson(torch.tensor(3.0)).expand([4])
    wrapped = dist.ExpandedDistribution(dist.Poisson(torch.tensor(3.0)), [4])
    y = torch.arange(4.0)
    for function in (marginals.cdf, marginals.midpoint_score, marginals.normal_score):
        torch.testing.assert_close(function(wrapped, y), function(d, y))
    assert marginals.cdf(wrapped, torch.tensor(1.0)).shape == (4,)
    assert marginals.from_normal_score(wrapped, torch.zeros(4)).tolist() == [3.0] * 4
    with pytest.raises(MissingCDFError, match=r"Drop \.mask"):
        marginals.cdf(d.mask(torch.tensor([True] * 4)), y)


def test_transforms_that_cannot_be_inverted():
    folded = dist.FoldedDistribution(dist.Normal(torch.zeros(1), torch.ones(1)))
    with pytest.raises(MissingCDFError, match="monotone"):
        marginals.cdf(folded, torch.ones(1))
    doubled = dist.TransformedDistribution(
        dist.Poisson(torch.ones(1)), [torch.distributions.AffineTransform(0.0, 2.0)]
    )
    with pytest.raises(MissingCDFError, match="discrete Poisson"):
        marginals.cdf(doubled, torch.ones(1))
    hurdle = dist.ZeroInflatedDistribution(
        dist.Normal(torch.zeros(1), torch.ones(1)), gate=torch.tensor([0.2])
    )
    with pytest.raises(MissingCDFError, match="zero-inflated over a discrete law"):
        marginals.check_marginal(hurdle, 1)


def test_a_cdf_that_is_announced_and_not_there():
    class Announced(dist.Normal):
        def cdf(self, value):
            raise NotImplementedError

        def icdf(self, value):
            raise NotImplementedError

    with pytest.raises(MissingCDFError, match="register_cdf"):
        marginals.check_marginal(Announced(torch.zeros(2), 1.0), 2)
