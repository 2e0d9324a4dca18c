"""Priors on the global parameters, each with its reason.

They are weak: they rule out what cannot be, and leave the rest to the data. Locations and scales
are in units of the observed values' spread (the families standardise), so one set serves all data.
Replace any of them with ``CopulaGNN(..., priors={"rho": dist.Beta(18, 2)})``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Self

import pyro.distributions as dist
import torch
from pyro.distributions import constraints, transforms
from torch import Tensor
from torch.distributions import biject_to

from ..errors import InvalidArgumentError
from ..scalars import Constrained, Correlation, Positive, Proportion


class SignedBeta(dist.TransformedDistribution):
    """A beta law stretched to (-1, 1).

    Args:
        concentration1: Pulls towards 1.
        concentration0: Pulls towards -1.

    Example:
        >>> SignedBeta(4.0, 1.0).sample((100,)).abs().max() < 1
        tensor(True)
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.interval(-1.0, 1.0)

    def __init__(self, concentration1: float | Tensor, concentration0: float | Tensor) -> None:
        self.concentration1, self.concentration0 = torch.broadcast_tensors(
            torch.as_tensor(concentration1), torch.as_tensor(concentration0)
        )
        super().__init__(
            dist.Beta(self.concentration1, self.concentration0),
            [transforms.AffineTransform(-1.0, 2.0)],
            validate_args=False,
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same law with a larger batch shape.

        Args:
            batch_shape: The new batch shape.

        Returns:
            The expanded law.
        """
        new = self._get_checked_instance(SignedBeta, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    @property
    def mean(self) -> Tensor:
        """That of the beta law, stretched."""
        return 2 * self.base_dist.mean - 1

    @property
    def variance(self) -> Tensor:
        """That of the beta law, stretched."""
        return 4 * self.base_dist.variance

    def __repr__(self) -> str:
        return show_prior(self)


class Priors(dict[str, Any]):
    """The priors of a model by name, which print with their parameters.

    Example:
        >>> Priors(rho=dist.Beta(18.0, 2.0), tau=dist.LogNormal(0.0, 1.0))
        {'rho': Beta(18, 2), 'tau': LogNormal(0, 1)}
    """

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{k!r}: {show_prior(v)}" for k, v in self.items()) + "}"


_PRIORS: dict[str, Callable[[], Any]] = {
    "alpha": lambda: SignedBeta(4.0, 1.0),
    "rho": lambda: SignedBeta(4.0, 1.0),
    "tau": lambda: dist.LogNormal(0.0, 1.0),
    "beta": lambda: dist.LogNormal(0.0, 1.0),
    "scale": lambda: dist.LogNormal(0.0, 1.0),
    "strength": lambda: dist.LogNormal(1.0, 1.0),
    "gamma": lambda: dist.LogNormal(-1.0, 1.0),
    "nugget": lambda: dist.Uniform(0.0, 1.0),
    "dispersion": lambda: dist.HalfNormal(2.0),
    "dispersion_power": lambda: dist.Normal(0.0, 0.5),
    "df": lambda: dist.Gamma(2.0, 0.1),
    "skew": lambda: dist.Normal(0.0, 0.5),
    "tailweight": lambda: dist.LogNormal(0.0, 0.3),
    "concentration": lambda: dist.LogNormal(0.5, 1.0),
    "gate": lambda: dist.Beta(1.0, 4.0),
}


def default_prior(name: str, scalar: Constrained | None = None) -> Any:
    """The prior of one global parameter.

    By name, or by what follows the name of a part, as in ``negative_binomial_dispersion``:

    - ``alpha``, ``rho``: a Beta(4, 1) stretched to (-1, 1). On sparse graphs neighbours are
      visibly alike only near 1; repulsion is possible but rare.
    - ``tau``, ``beta``, ``scale``: LogNormal(0, 1), a factor of seven either way around the
      observed spread.
    - ``strength``: LogNormal(1, 1), the same around 3, where a node depends on its neighbours
      three times as much as on itself and the fit starts.
    - ``gamma``: LogNormal(-1, 1), correlation lengths of a few edges.
    - ``nugget``: uniform, any share of independent noise.
    - ``dispersion``: HalfNormal(2), which shrinks to Poisson unless the data object; the typical
      one if the network gives every node its own.
    - ``dispersion_power``: Normal(0, 0.5), a mild trend of the dispersion with the mean.
    - ``df``: Gamma(2, 0.1), away from zero and from infinity (Juarez and Steel, 2010).
    - ``skew``: Normal(0, 0.5); ``tailweight``: LogNormal(0, 0.3): a normal law unless the data
      object.
    - ``concentration``: LogNormal(0.5, 1), from nearly exponential to nearly normal.
    - ``gate``: Beta(1, 4), few zeros beyond those of the law itself; the typical share if the
      network gives every node its own.

    A parameter of the user's own, which no name here fits, or whose range is another one, gets a
    prior of its range: LogNormal(0, 1), SignedBeta(1, 1), Uniform(0, 1) or Normal(0, 1).

    Args:
        name: The name of the parameter.
        scalar: The parameter, for its range.

    Example:
        >>> default_prior("negative_binomial_dispersion")
        HalfNormal(...)
    """
    fitting = [key for key in _PRIORS if name == key or name.endswith(f"_{key}")]
    if fitting:
        prior = _PRIORS[max(fitting, key=len)]()
        if scalar is None or _ends(prior.support) == _ends(scalar.support):
            return prior
    if isinstance(scalar, Positive):
        return dist.LogNormal(0.0, 1.0)
    if isinstance(scalar, Correlation):
        return SignedBeta(1.0, 1.0)
    if isinstance(scalar, Proportion):
        return dist.Uniform(0.0, 1.0)
    return dist.Normal(0.0, 1.0)


def _ends(support: Any) -> tuple[float, float]:
    """The ends of a range of numbers."""
    lower, upper = (
        getattr(support, "lower_bound", -math.inf),
        getattr(support, "upper_bound", math.inf),
    )
    return float(lower), float(upper)


def read_priors(priors: Any) -> Priors:
    """The priors that the user gives, checked as far as they can be without data.

    Args:
        priors: By name, each as :func:`read_prior` takes it; or None.
    """
    if priors is not None and not isinstance(priors, Mapping):
        raise InvalidArgumentError(
            "priors",
            "a dictionary of distributions by the name of a global parameter",
            f"a {type(priors).__name__}",
            'Pass priors={"rho": dist.Beta(18, 2)}, or None for the default ones.',
        )
    return Priors({name: read_prior(name, prior) for name, prior in (priors or {}).items()})


def read_prior(name: str, prior: Any) -> Any:
    """A prior, from itself or from the dictionary that :func:`describe_prior` makes of it.

    Args:
        name: The name of the parameter, for the error.
        prior: A distribution, or ``{"family": name in pyro.distributions, argument: value}``.
    """
    if isinstance(prior, Mapping):
        options = {key: torch.tensor(v) for key, v in prior.items() if key != "family"}
        family = str(prior.get("family"))
        made: Any = SignedBeta if family == "SignedBeta" else getattr(dist, family, None)
        is_law = isinstance(made, type) and issubclass(made, torch.distributions.Distribution)
        if is_law:
            prior = made(**options)
    if not isinstance(prior, torch.distributions.Distribution):
        raise InvalidArgumentError(
            f"priors[{name!r}]",
            "a Pyro distribution",
            repr(prior),
            "Pass an object such as dist.Beta(18, 2).",
        )
    vector = name == "last_layer"  # the one that is no single number
    if prior.batch_shape or (prior.event_shape and not vector):
        raise InvalidArgumentError(
            f"priors[{name!r}]",
            f"one law of one {'vector' if vector else 'number'}",
            f"batch shape {tuple(prior.batch_shape)} and event shape {tuple(prior.event_shape)}",
            "Add .to_event(1)." if vector else "Pass numbers, as in dist.Beta(18.0, 2.0).",
        )
    return prior


def start_inside(name: str, prior: Any, value: Tensor) -> Tensor:
    """A value, as it is where it is inside the support of a prior, else the prior's mean.

    On the edge of the support, and beyond it, the map to the unconstrained scale is flat: nothing
    that starts there would move. The centre of the support stands in for a mean that is infinite,
    unknown or no better.

    Args:
        name: The name of the parameter, for the error.
        prior: Its prior.
        value: A value of it.

    Example:
        >>> start_inside("rho", dist.Uniform(0.0, 0.5), torch.tensor(0.9))
        tensor(0.2500)
    """
    if prior.event_shape != value.shape:
        raise InvalidArgumentError(
            f"priors[{name!r}]",
            f"a law of shape {tuple(value.shape)}",
            f"one of shape {tuple(prior.event_shape)}",
            f"Pass dist.Normal(torch.zeros({value.numel()}), 0.5).to_event(1), say.",
        )
    support = prior.support
    try:
        centre = biject_to(support)(torch.zeros_like(value))
    except NotImplementedError as error:
        raise InvalidArgumentError(
            f"priors[{name!r}]",
            "a law on the line, a half line or an interval",
            f"{show_prior(prior)}, whose support is {support}",
            "Pass a law such as dist.Beta(18, 2) or dist.Uniform(0.2, 0.7).",
        ) from error
    try:
        mean = prior.mean
    except (NotImplementedError, ValueError):
        mean = centre
    other = torch.where(_inside(support, mean), mean, centre)
    return torch.where(_inside(support, value), value, other.to(value))


def _inside(support: Any, value: Tensor) -> Tensor:
    """Whether numbers are inside a support, and further from its edges than rounding goes."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    inside = support.check(value) & value.isfinite()
    rounding = 4 * torch.finfo(value.dtype).eps
    for name in ("lower_bound", "upper_bound"):
        edge = getattr(support, name, None)
        if edge is not None:
            inside = inside & ((value - edge).abs() > rounding * abs(edge))
    return inside


def describe_prior(prior: Any) -> Any:
    """A prior as plain values, or ``"<own>"`` if it is not one of Pyro's simple laws.

    Example:
        >>> describe_prior(dist.Beta(18.0, 2.0))
        {'family': 'Beta', 'concentration1': 18.0, 'concentration0': 2.0}
    """
    family = type(prior).__name__
    simple = type(prior) in (SignedBeta, getattr(dist, family, None)) and prior.arg_constraints
    if not simple:
        return "<own>"
    return {"family": family} | {key: getattr(prior, key).tolist() for key in prior.arg_constraints}


def show_prior(prior: Any) -> str:
    """A prior as it would be written, if its parameters are numbers; else as Pyro prints it.

    Args:
        prior: A distribution.

    Returns:
        The text.

    Example:
        >>> show_prior(dist.Beta(18.0, 2.0))
        'Beta(18, 2)'
        >>> show_prior(dist.Normal(torch.zeros(3), 1.0).to_event(1))
        'Normal(0, 1) of shape (3,)'
    """
    if isinstance(prior, dist.Independent) and not prior.batch_shape:
        law, shape = prior.base_dist, f" of shape {tuple(prior.event_shape)}"
    else:
        law, shape = prior, ""
    described = describe_prior(law)
    if not isinstance(described, dict):
        return repr(prior)
    values = []
    for name in described:
        if name == "family" or (name in ("logits", "probs") and name not in law.__dict__):
            continue
        parameter = getattr(law, name)
        if not bool((parameter == parameter.reshape(-1)[0]).all()):
            return repr(prior)  # one number would not say it
        values.append(f"{float(parameter.reshape(-1)[0]):g}")
    return f"{described['family']}({', '.join(values)}){shape}"
