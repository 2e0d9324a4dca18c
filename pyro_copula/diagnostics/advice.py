"""What to do about a model that does not fit, in words that can be typed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..distributions import GraphNormal

#: Families with the same values and a spread of their own.
_WIDER_COUNTS = {
    "poisson": "negative_binomial",
    "zero_inflated_poisson": "zero_inflated_negative_binomial",
    "zero_truncated_poisson": "zero_truncated_negative_binomial",
    "shifted_poisson": "shifted_negative_binomial",
}

#: The option that lets the spread differ by node, and its name in words.
_SPREAD_OPTION = {
    "normal": "scale",
    "student_t": "scale",
    "lognormal": "scale",
    "sinh_arcsinh": "scale",
    "gamma": "concentration",
    "negative_binomial": "dispersion",
    "zero_inflated_negative_binomial": "dispersion",
    "zero_truncated_negative_binomial": "dispersion",
    "shifted_negative_binomial": "dispersion",
}


@dataclass(frozen=True)
class Setup:
    """What is known of a model beside its law, for advice that can be typed in.

    Attributes:
        family: The name of the marginal family, as in ``pyro_copula.models.FAMILIES``; empty if
            it has none.
        options: Its options.
        precision: The name of the precision; ``"none"`` for independent nodes.
        nugget: Whether there is a nugget.
        graph_features: Whether the features are those of the graph too.
        discrete: The rule for discrete marginals.
        refined: Whether the dependence is at its maximum given all values, or has a posterior.
        is_model: Whether it is a :class:`~pyro_copula.CopulaGNN`, rather than a law.
        ended: If its fit did not converge, how that ended.
        untrained: Whether training ended where it started.
        name: What is diagnosed.
    """

    family: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    precision: str = ""
    nugget: bool = False
    graph_features: bool = False
    discrete: str = "midpoint"
    refined: bool = False
    is_model: bool = False
    ended: str = ""
    untrained: bool = False
    name: str = ""

    @classmethod
    def of_law(cls, law: Any) -> Setup:
        """What a law says of itself."""
        precision = law.precision
        independent = precision is not None and precision.graph.num_edges == 0
        if isinstance(law, GraphNormal):
            family = "normal"
        else:
            words = type(law.marginal_dist).__name__.replace("LogNormal", "Lognormal")
            family = "".join(f"_{c.lower()}" if c.isupper() else c for c in words).lstrip("_")
        return cls(
            family,
            precision="none" if independent else "",
            discrete=getattr(law, "discrete", "midpoint"),
            name=type(law).__name__,
        )

    def marginal(self, family: str) -> str:
        """How to ask for a family."""
        return f'marginal="{family}"' if self.is_model else f"{family.replace('_', ' ')} marginals"

    def spread_by_node(self) -> list[str]:
        """How to let the spread differ by node, if the family can and does not."""
        option = _SPREAD_OPTION.get(self.family)
        if option is None or self.options.get(option) == "node":
            return []
        if not self.is_model:
            return [f"a {option} that differs by node"]
        return [f'marginal={{"family": "{self.family}", "{option}": "node"}}']


def better_means(setup: Setup) -> str:
    """What to do if values are larger, or smaller, than the model expects."""
    if not setup.is_model:
        return "Let the means depend on features, or move them."
    return "Train longer, or give the marginals better features or another backbone."


def more_dependence(setup: Setup) -> str:
    """What to do if neighbours are more alike than the copula expects."""
    if not setup.is_model:
        return "Try a stronger dependence, or edges that weigh differently."
    options = [] if setup.refined else ["refine=True in the fit"]
    if setup.precision not in ("edge_regression", "weighted_laplacian"):
        options.append('precision="edge_regression"')
    if not setup.graph_features:
        options.append("graph_features=True")
    return f"Try {_either(options or ['other features or another precision'])}."


def less_dependence(setup: Setup) -> str:
    """What to do if neighbours are less alike than the copula expects."""
    if not setup.is_model:
        return "Try a weaker dependence or a nugget."
    options = [] if setup.refined else ["refine=True in the fit"]
    if not setup.nugget:
        options.append("nugget=True")
    return f"Try {_either(options or ['another precision'])}."


def wider(setup: Setup) -> str:
    """What to do if marginals are too narrow, or their tails too light."""
    if setup.family in _WIDER_COUNTS:
        return f"Try {setup.marginal(_WIDER_COUNTS[setup.family])}, with a dispersion of its own."
    if setup.family == "bernoulli":
        return "Zeros and ones have no spread of their own: look for features that tell them apart."
    options = setup.spread_by_node()
    if setup.family == "negative_binomial":
        options.append(setup.marginal("zero_inflated_negative_binomial"))
    if setup.family == "normal":
        options.append(setup.marginal("student_t"))
    return f"Try {_either(options or ['marginals with more spread'])}."


def narrower(setup: Setup) -> str:
    """What to do if marginals are too wide."""
    options = setup.spread_by_node()
    if setup.family == "negative_binomial":
        options.append(setup.marginal("poisson"))
    if setup.family == "normal":  # a few values far out make it wide for all
        options.append(setup.marginal("sinh_arcsinh"))
    if not setup.is_model:
        return f"Try {_either(['marginals with less spread', *options])}."
    first = "train longer, for a spread that was not trained to its end is the usual cause"
    return f"First {first}. Else try {_either(options)}." if options else f"First {first}."


def other_shape(setup: Setup) -> str:
    """What to do if marginals are neither too narrow nor too wide, and wrong."""
    if setup.family in ("normal", "student_t"):
        return f"Try {setup.marginal('sinh_arcsinh')}, which has skewness and tail weight."
    if setup.family in ("poisson", "negative_binomial"):
        return f"Too many zeros? Try {setup.marginal('zero_inflated_' + setup.family)}."
    return "Look at .plot() and try another family of marginals."


def _either(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"
