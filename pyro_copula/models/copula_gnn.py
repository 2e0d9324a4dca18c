"""CopulaGNN: a graph neural network for the marginals, a Gaussian copula for the dependence.

The model is a specification until it meets data: :meth:`CopulaGNN.build` looks at the features,
the graph and the observed values once and makes the modules. How it is fitted it does not know.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyro
import torch
from pyro.nn import pyro_method
from torch import Tensor

from ..distributions import GaussianCopula, GraphNormal
from ..errors import InvalidArgumentError
from ..linalg import Iterative
from ..nn import LastLayer, make_backbone, materialise
from ..nn.skips import check_outputs
from ..precision import SparsePrecision
from ..scalars import Proportion
from .continuous_families import NormalFamily
from .data import NodeData
from .families import automatic_family, make_family
from .family import MarginalFamily
from .features import Features
from .parameters import Parameters, not_built
from .precisions import Independent, make_precision
from .priors import read_priors
from .recipes import DEFAULT, find_recipe, resolve
from .specification import SIZES, check_arguments, describe, specification


class CopulaGNN(Parameters):
    """Node outcomes whose marginals come from a network and whose dependence from a precision.

    Args:
        backbone: ``"linear"``, ``"mlp"``, ``"gcn"``, ``"sage"`` (the default), ``"gat"``,
            ``"appnp"``, ``"published_sage"``, a module ``(x, edge_index) -> (num_nodes,
            out_channels)``, or a function ``(in_channels, out_channels) -> module``. A module is
            copied with its weights, from which the first restart of a fit starts; those of later
            ones are drawn by the ``reset_parameters`` of the modules in it. A function makes a new
            module each time. Lazy modules, such as ``SAGEConv(-1, 16)``, draw their weights when
            the model meets the data.
        marginal: ``"auto"`` (the default), which looks at the values; the name of a family (see
            ``pyro_copula.models.FAMILIES``); a dictionary with its options, such as ``{"family":
            "negative_binomial", "dispersion": "node"}``; or a
            :class:`~pyro_copula.MarginalFamily`, class or object.
        precision: ``"normalized_adjacency"`` (the default), ``"laplacian"``, ``"car"``,
            ``"edge_regression"``, ``"weighted_laplacian"``, ``"none"`` (independent nodes, the
            baseline), a dictionary with options, such as ``{"family": "car", "rho": 0.5}``, or a
            module that makes a precision, or a function ``graph -> module``.
        recipe: ``"continuous"`` or ``"counts"``: other defaults for the arguments of this model
            and of its fit, those found to predict best (``pyro_copula.models.RECIPES`` says what
            was measured). What is given explicitly wins.
        hidden_channels: The width of hidden layers; 16 as in the paper.
        num_layers: The number of layers; 2 as in the paper, which is one hidden layer.
        dropout: The share of hidden channels dropped in training; none by default.
        linear_skip: Whether a linear regression on the features is added to the network.
        graph_features: Whether log degree and neighbours' mean features join the features.
        neighbour_outcomes: Whether the mean outcome of *other* observed neighbours is used too.
            No network passes it on, so that a node's own value never reaches its own marginal.
        nugget: Whether a learned share of independent noise stands beside the graph field. With
            ``precision="none"`` there is no field, and none is added.
        exposure: The name of an attribute of the data whose logarithm is added to the log mean
            (population, births).
        clip_features: Standardised features are clamped to plus or minus this.
        discrete: The rule for discrete marginals: ``"midpoint"``, ``"exact"`` or ``"ep"``; see
            :class:`~pyro_copula.GaussianCopula`.
        num_particles: Of the exact rule.
        tail_clip: See :class:`~pyro_copula.GaussianCopula`.
        priors: Priors in place of the default ones, by name; each the law of one number. They do
            not enter maximum likelihood.
        last_layer_prior: The standard deviation of independent normal priors on the weights and
            biases of the network's last layer (a linear skip included): they become the site
            ``"last_layer"``. Without it the whole network is at its estimate.
        backend: How precisions are factored; a name, or :class:`~pyro_copula.Iterative` options
            (as an object, or a dictionary of them).
        batch_nodes: The layers of the network that would keep much for their derivatives (the
            first of ``"sage"``, all of ``"gat"``) are applied to so many nodes at a time, edge
            regressions to so many edges, and again, batch by batch, for the derivatives. The law
            and its gradients are the same as without, in less memory and more time. Dropout is
            drawn batch by batch. Only for backbones by name.

    Example:
        >>> from torch_geometric.data import Data
        >>> data = Data(
        ...     x=torch.eye(4),
        ...     edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        ...     y=torch.tensor([3.0, 14.0, 0.0, float("nan")]),
        ... )
        >>> model = CopulaGNN("linear", "auto", "car").build(data)
        >>> model
        CopulaGNN(backbone='linear', marginal='negative_binomial', precision='car')
        >>> model.family_reason
        'marginal="auto" chose \\'negative_binomial\\': counts with ... of a Poisson law'
        >>> sorted(model.scalars)
        ['dispersion', 'rho']
        >>> model.joint().condition(data.y).nodes
        tensor([3])
    """

    def __init__(
        self,
        backbone: Any = DEFAULT,
        marginal: Any = DEFAULT,
        precision: Any = DEFAULT,
        *,
        recipe: str | None = None,
        hidden_channels: int = DEFAULT,
        num_layers: int = DEFAULT,
        dropout: float = DEFAULT,
        linear_skip: bool = DEFAULT,
        graph_features: bool = DEFAULT,
        neighbour_outcomes: bool = DEFAULT,
        nugget: bool = DEFAULT,
        exposure: str | None = None,
        clip_features: float | None = DEFAULT,
        discrete: str = "midpoint",
        num_particles: int | None = None,
        tail_clip: float | None = None,
        priors: dict[str, Any] | None = None,
        last_layer_prior: float | None = None,
        backend: str | Iterative | Mapping[str, Any] = "auto",
        batch_nodes: int | None = None,
    ) -> None:
        super().__init__()
        if isinstance(backend, Mapping):
            backend = Iterative.from_changed(backend)
        arguments = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        arguments |= {k: v.item() for k, v in arguments.items() if isinstance(v, np.generic)}
        chosen = find_recipe(recipe)
        #: Arguments of :func:`pyro_copula.fit` that the recipe sets.
        self.fit_defaults: dict[str, Any] = dict(chosen.fit)
        self.arguments = resolve(chosen, arguments)
        self._given = {k: v for k, v in arguments.items() if v is not DEFAULT}
        self.given_priors = read_priors(priors)
        self.last_layer_prior = last_layer_prior
        self._data: NodeData | None = None
        check_arguments(self.arguments, self._given)

    @property
    def exposure(self) -> str | None:
        """The name of the data's attribute with exposures."""
        return self.arguments["exposure"]

    def variants(self) -> list[CopulaGNN]:
        """The models that :func:`pyro_copula.fit` stacks: this one, and those of its recipe.

        An argument given explicitly holds for all of them.

        Returns:
            The models, this one first; without a recipe, this one alone.

        Example:
            >>> len(CopulaGNN("gcn", "normal").variants())
            1
        """
        found = [self]
        has_sizes = isinstance(self.arguments["backbone"], str)
        for variant in find_recipe(self._given["recipe"]).variants:
            changes = {k: v for k, v in variant.items() if k not in self._given}
            usable = {k: v for k, v in changes.items() if has_sizes or k not in SIZES}
            other = CopulaGNN(**self._given, **usable)
            # Sizes too: whatever its backbone, a recipe has as many models.
            other.arguments |= changes
            if all(other.arguments != one.arguments for one in found):
                found.append(other)
        return found

    # ---------------------------------------------------------------- meeting the data

    @property
    def data(self) -> NodeData:
        """The data that the model was built for."""
        if self._data is None:
            raise not_built()
        return self._data

    def build(self, data: Any, observed: Tensor | None = None) -> CopulaGNN:
        """A copy of this model with its modules made for these data.

        Args:
            data: A PyTorch Geometric ``Data``, read by :meth:`NodeData.from_pyg`, or a
                :class:`NodeData`.
            observed: Boolean, shape ``(num_nodes,)``: the values that may be looked at.

        Returns:
            The copy, which has parameters and a joint law.
        """
        model = copy.deepcopy(self)
        data = model._data = NodeData.from_pyg(data, observed, self.exposure)
        model.family = model._make_family(data)
        model.feature_maker = Features(
            **model._some("graph_features", "neighbour_outcomes", "clip_features")
        )
        model.feature_maker.make(data, model.family, start=True)
        model.backbone = make_backbone(
            model.arguments["backbone"],
            model.features.shape[1],
            model.family.out_channels,
            num_own=model.feature_maker.num_outcomes,
            **model._some("hidden_channels", "num_layers", "dropout", "linear_skip", "batch_nodes"),
        )
        materialise(model.backbone, model.features, data.graph.edge_index)
        model.precision = make_precision(
            model.arguments["precision"],
            data.graph,
            model.feature_maker.fixed.shape[1],
            model.arguments["backend"],
            model.arguments["batch_nodes"],
        )
        independent = isinstance(model.precision.module, Independent)
        if independent and isinstance(model.family, NormalFamily):
            model.family.untie()
        if not model.is_tied:
            model.precision.fix_overall_scale()
        has_nugget = self.arguments["nugget"] and not independent
        model.nugget = Proportion("nugget", 0.3) if has_nugget else None
        unknown = set(self.given_priors) - set(model.priors)
        if unknown:
            raise InvalidArgumentError(
                "priors",
                f"for global parameters of this model: {sorted(model.priors)}",
                f"{sorted(unknown)}",
                "Drop the others, or choose the family and precision that have them.",
            )
        return model

    def _some(self, *names: str) -> dict[str, Any]:
        return {name: self.arguments[name] for name in names}

    def _make_family(self, data: NodeData) -> MarginalFamily:
        known, offset = data.known, data.offset
        if isinstance(self.arguments["marginal"], str) and self.arguments["marginal"] == "auto":
            seen = ~torch.isnan(known)
            seen_offset = None if offset is None else offset[seen]
            # kept, so that a saved fit does not have to choose again
            self.arguments["marginal"] = automatic_family(known[seen], seen_offset)
        family = make_family(self.arguments["marginal"])
        if offset is not None and not family.uses_offset:
            raise InvalidArgumentError(
                "exposure",
                "None unless it multiplies the mean of counts or of positive values",
                f"{self.exposure!r} with a {type(family).__name__}",
                'Use marginal="poisson", "negative_binomial", "gamma" or "lognormal".',
            )
        family.prepare(data.y, offset, known)
        return family

    def observe(self, data: NodeData) -> None:
        """Replaces the values (and with them the features made of them), not the modules.

        Args:
            data: Data on the same graph.
        """
        self.feature_maker.make(data, self.family)
        self._data = data

    @property
    def features(self) -> Tensor:
        """What goes into the network, ``(num_nodes, num_features)``."""
        return self.feature_maker()

    @property
    def family_reason(self) -> str:
        """Why the marginals are of this family, if it was chosen by ``marginal="auto"``."""
        return self.family.reason if self._data is not None else ""

    # ---------------------------------------------------------------- the law

    def hidden(self) -> Any:
        """What goes into the last layer of the network; see ``last_layer`` in :meth:`joint`.

        Returns:
            Usually a tensor of shape ``(num_nodes, hidden_channels)``.
        """
        return LastLayer(self.backbone).hidden(self.features, self.data.graph.edge_index)

    def outputs(self, last_layer: Tensor | None = None, hidden: Any = None) -> Tensor:
        """What the network says of every node, ``(*batch, num_nodes, out_channels)``.

        Args:
            last_layer: Weights and biases in place of the held ones, shape ``(*batch, size)``.
            hidden: What :meth:`hidden` gives, if it is at hand.

        Returns:
            What the marginal family makes laws of.
        """
        edge_index = self.data.graph.edge_index
        if last_layer is None:
            found = self.backbone(self.features, edge_index)
        else:
            hidden = self.hidden() if hidden is None else hidden
            found = LastLayer(self.backbone)(hidden, edge_index, last_layer)
        return check_outputs(found, self.data.num_nodes, self.family.out_channels)

    def joint(
        self,
        outputs: Tensor | None = None,
        *,
        last_layer: Tensor | None = None,
        hidden: Any = None,
        **scalars: Any,
    ) -> GaussianCopula | GraphNormal:
        """The joint law of all nodes.

        Args:
            outputs: The outputs of the network, computed if not given.
            last_layer: Weights and biases of the last layer in place of the held ones, of shape
                ``(*batch, last_layer_size)``; the outputs are then computed with them.
            hidden: What :meth:`hidden` gives, so that draws of the last layer share it.
            **scalars: Global parameters in place of the held ones, each of shape ``(*batch,)``.

        Returns:
            A :class:`~pyro_copula.GraphNormal` for normal values tied to the precision, else a
            :class:`~pyro_copula.GaussianCopula`.
        """
        data = self.data
        unknown = set(scalars) - set(self.scalars) if scalars else None
        if unknown:
            raise InvalidArgumentError(
                "scalars",
                f"among the global parameters of this model: {sorted(self.scalars)}",
                f"{sorted(unknown)}",
                "Drop the others.",
            )
        if outputs is None or last_layer is not None:
            outputs = self.outputs(last_layer, hidden)
        K = self.precision(
            self.feature_maker.fixed,
            **{name: scalars[name] for name in self.precision.scalars if name in scalars},
        )
        nugget = None if self.nugget is None else self.nugget(scalars.get("nugget"))
        family = self.family
        if isinstance(family, NormalFamily) and family.tied:
            return _tied(family, outputs, K, nugget)
        names = self.family_names().items()
        own = {name: scalars[key] for name, key in names if key in scalars}
        return GaussianCopula(
            family(outputs, data.offset, **own),
            K,
            nugget=nugget,
            **self._some("discrete", "num_particles", "tail_clip"),
        )

    @pyro_method
    def model(self, y: Tensor | None = None) -> Tensor:
        """The model as a Pyro program: one site per global parameter, and ``"y"``.

        Args:
            y: Values to condition on, NaN at missing nodes; without them, ``"y"`` is drawn.

        Returns:
            The values, drawn or given.
        """
        values = {name: pyro.sample(name, prior) for name, prior in self.priors.items()}
        return pyro.sample("y", self.joint(**values), obs=y)

    def forward(self, y: Tensor | None = None) -> Tensor:
        """The same as :meth:`model`.

        Args:
            y: As there.

        Returns:
            The values.
        """
        return self.model(y)

    # ---------------------------------------------------------------- in words

    def specification(self) -> dict[str, Any]:
        """The arguments of this model as plain values; what cannot be one is ``"<own>"``.

        Returns:
            A dictionary that JSON can hold.
        """
        return specification({**self.arguments, "priors": self.given_priors})

    def __repr__(self) -> str:
        return f"CopulaGNN({describe({**self.arguments, 'priors': self.given_priors})})"


def _tied(
    family: NormalFamily, outputs: Tensor, K: SparsePrecision, nugget: Tensor | None
) -> GraphNormal:
    """Normals with the variances of the precision, in units of the values' spread."""
    square = family.spread.square()
    noise = None if nugget is None else square * nugget / (1 - nugget)
    return GraphNormal(family.location(outputs), K * (1 / square), nugget=noise)
