"""The parameters of a model: global scalars, and the last layer of its network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro.distributions as dist
import torch
from pyro.nn import PyroModule
from torch import Tensor, nn

from ..errors import InvalidArgumentError
from ..nn import LastLayer
from ..scalars import Constrained, Proportion
from .continuous_families import NormalFamily
from .family import MarginalFamily
from .precisions import PrecisionPart
from .priors import Priors, default_prior, start_inside

#: The parts of a model that are made when it meets its data.
_BUILT = ("family", "feature_maker", "backbone", "precision", "nugget")


class Parameters(PyroModule):
    """What can be estimated or sampled in a model, by name; the base of ``CopulaGNN``.

    Attributes:
        family: The marginal family.
        precision: The precision.
        nugget: The share of independent noise, or None.
        backbone: The network.
        given_priors: Priors in place of the default ones, by name.
        last_layer_prior: The standard deviation of the prior on the last layer, or None.
    """

    family: MarginalFamily
    precision: PrecisionPart
    nugget: Proportion | None
    backbone: nn.Module
    given_priors: dict[str, Any]
    last_layer_prior: float | None

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            # A property that needs such a part would else be said not to exist itself. While a
            # model is being built, Pyro asks whether there is such a part.
            if name in _BUILT and vars(self).get("_data") is None:
                raise not_built() from None
            raise

    @property
    def is_tied(self) -> bool:
        """Whether the values are normal with the variances of the precision."""
        return isinstance(self.family, NormalFamily) and self.family.tied

    @property
    def scalars(self) -> dict[str, Constrained]:
        """The global parameters, by name: those of the precision, the nugget, the family."""
        found = dict(self.precision.scalars)
        if self.nugget is not None:
            found["nugget"] = self.nugget
        names = self.family_names()
        return found | {names[name]: scalar for name, scalar in self.family.scalars.items()}

    def family_names(self) -> dict[str, str]:
        """What the family's scalars are called in the model.

        Returns:
            The name in the model by the family's own.
        """
        taken = {*self.precision.scalars, "nugget"}
        return {k: f"marginal_{k}" if k in taken else k for k in self.family.scalars}

    @property
    def priors(self) -> dict[str, Any]:
        """The priors of the global parameters and, if it has one, of the last layer."""
        found = {name: default_prior(name, scalar) for name, scalar in self.scalars.items()}
        if self.last_layer_prior is not None:
            zero = torch.zeros(self.last_layer_size)
            found["last_layer"] = dist.Normal(zero, self.last_layer_prior).to_event(1)
        return Priors({k: self.given_priors.get(k, prior) for k, prior in found.items()})

    @property
    def last_layer_size(self) -> int:
        """The number of weights and biases in the last layer of the network."""
        return LastLayer(self.backbone).size

    def last_layer(self) -> Tensor:
        """The held weights and biases of the last layer as a vector.

        Returns:
            Shape ``(last_layer_size,)``.
        """
        return LastLayer(self.backbone).vector()

    def set_last_layer_(self, vector: Tensor) -> None:
        """Replaces the held weights and biases of the last layer, in place.

        Args:
            vector: Shape ``(last_layer_size,)``.
        """
        LastLayer(self.backbone).set_(vector)

    def site_values(self) -> dict[str, Tensor]:
        """The held value of every site of :meth:`model` but ``"y"``, without derivatives.

        Returns:
            The values by name.
        """
        values = {name: scalar().detach().clone() for name, scalar in self.scalars.items()}
        if self.last_layer_prior is not None:
            values["last_layer"] = self.last_layer()
        return values

    def start_values(self) -> dict[str, Tensor]:
        """Where to start with the priors: the held values, as far as the priors allow them.

        Returns:
            The values by name, each inside the support of its prior.
        """
        priors, held = self.priors, self.site_values()
        return {name: start_inside(name, priors[name], value) for name, value in held.items()}

    def set_site_values_(self, values: Mapping[str, Tensor]) -> None:
        """Replaces held values by those of these sites, in place.

        Args:
            values: The values by name.
        """
        for name, value in values.items():
            if name == "last_layer":
                self.set_last_layer_(value)
            else:
                self.scalars[name].set_(value.detach())


def not_built() -> InvalidArgumentError:
    """The error that a model knows no data yet."""
    return InvalidArgumentError(
        "model",
        "built for some data",
        "a specification only",
        "Pass it to pyro_copula.fit(model, data), or call model.build(data).",
    )
