"""CopulaGNN: a graph neural network for the marginals, a Gaussian copula for the dependence.

The model is a specification until it meets data: :meth:`CopulaGNN.build` looks at the features,
the graph and the observed values once and makes the modules. How it is fitted it does not know.
"""

from __future__ import annotations

import copy
from typing import Any

import pyro
import torch
from pyro.nn import PyroModule, pyro_method
from torch import Tensor

from ..distributions import GaussianCopula, GraphNormal
from ..errors import InvalidArgumentError
from ..nn import graph_features, make_backbone, neighbour_outcomes
from ..precision import SparsePrecision
from ..scalars import Constrained, Proportion
from .data import NodeData
from .families import NormalFamily, make_family
from .precisions import make_precision
from .priors import default_prior


class CopulaGNN(PyroModule):
    """Node outcomes whose marginals come from a network and whose dependence from a precision.

    Args:
        backbone: ``"linear"``, ``"mlp"``, ``"gcn"``, ``"sage"``, ``"gat"``, ``"appnp"``,
            ``"published_sage"``, or a module ``(x, edge_index) -> (num_nodes, out_channels)``.
        marginal: The name of a family (see ``pyro_copula.models.FAMILIES``), a
            :class:`~pyro_copula.models.MarginalFamily`, or ``"auto"``, which looks at the values.
        precision: ``"normalized_adjacency"``, ``"laplacian"``, ``"car"``, ``"edge_regression"``,
            ``"weighted_laplacian"``, ``"none"`` (independent nodes, the baseline), or a module
            that makes a precision.
        hidden_channels: The width of hidden layers; 16 as in the paper.
        num_layers: The number of layers; 2 as in the paper.
        dropout: The share of hidden channels dropped in training.
        linear_skip: Whether a linear regression on the features is added to the network.
        graph_features: Whether log degree and neighbours' mean features join the features.
        neighbour_outcomes: Whether the mean outcome of *other* observed neighbours joins them.
        nugget: Whether a learned share of independent noise stands beside the graph field.
        exposure: The name of an attribute of the data whose logarithm is added to the log mean of
            counts (population, births).
        clip_features: Standardised features are clamped to plus or minus this.
        discrete: The rule for discrete marginals.
        tail_clip: See :class:`~pyro_copula.GaussianCopula`.
        priors: Priors in place of the default ones, by name.
        backend: How precisions are factored.

    Example:
        >>> CopulaGNN(backbone="sage", marginal="negative_binomial", precision="car")
        CopulaGNN(backbone='sage', marginal='negative_binomial', precision='car')
    """

    def __init__(
        self,
        backbone: Any = "sage",
        marginal: Any = "auto",
        precision: Any = "normalized_adjacency",
        *,
        hidden_channels: int = 16,
        num_layers: int = 2,
        dropout: float = 0.0,
        linear_skip: bool = False,
        graph_features: bool = False,
        neighbour_outcomes: bool = False,
        nugget: bool = False,
        exposure: str | None = None,
        clip_features: float | None = None,
        discrete: str = "midpoint",
        tail_clip: float | None = None,
        priors: dict[str, Any] | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.spec = {"backbone": backbone, "marginal": marginal, "precision": precision}
        self.network_options: dict[str, Any] = {
            "hidden_channels": hidden_channels,
            "num_layers": num_layers,
            "dropout": dropout,
            "linear_skip": linear_skip,
        }
        self.feature_options: dict[str, Any] = {
            "graph_features": graph_features,
            "neighbour_outcomes": neighbour_outcomes,
            "clip_features": clip_features,
        }
        self.with_nugget = nugget
        self.exposure = exposure
        self.discrete = discrete
        self.tail_clip = tail_clip
        self.given_priors = dict(priors or {})
        self.backend = backend
        self.recipe_restarts = 1
        self._data: NodeData | None = None
        self.features = torch.zeros(0, 0)

    # ---------------------------------------------------------------- meeting the data

    @property
    def data(self) -> NodeData:
        """The data that the model was built for."""
        if self._data is None:
            raise InvalidArgumentError(
                "model",
                "built for some data",
                "a specification only",
                "Pass it to pyro_copula.fit(model, data), or call model.build(data).",
            )
        return self._data

    def build(self, data: Any, observed: Tensor | None = None) -> CopulaGNN:
        """A copy of this model with its modules made for these data.

        Args:
            data: A PyTorch Geometric ``Data``, or :class:`NodeData`.
            observed: Boolean, shape ``(num_nodes,)``: the values that may be looked at.
        """
        model = copy.deepcopy(self)
        model.observe(NodeData.from_pyg(data, observed, self.exposure))
        width = model.features.shape[1]
        known = model.data.observed
        offset = model.data.offset
        y = model.data.y[known]
        family = make_family(self.spec["marginal"], y, None if offset is None else offset[known])
        if isinstance(family, NormalFamily) and self.spec["precision"] == "none":
            family.untie()
        family.check(y)
        family.start(y, None if offset is None else offset[known])
        model.family = family
        model.backbone = make_backbone(
            self.spec["backbone"], width, family.out_channels, **self.network_options
        )
        model.precision = make_precision(
            self.spec["precision"], model.data.graph, width, self.backend
        )
        if not (isinstance(family, NormalFamily) and family.tied):
            model.precision.fix_overall_scale()
        model.nugget = Proportion("nugget", 0.3) if self.with_nugget else None
        unknown = set(self.given_priors) - set(model.scalars)
        if unknown:
            raise InvalidArgumentError(
                "priors",
                f"for global parameters of this model: {sorted(model.scalars)}",
                f"{sorted(unknown)}",
                "Drop the others, or choose the family and precision that have them.",
            )
        return model

    def observe(self, data: NodeData) -> None:
        """Replaces the values (and with them the features made of them), not the modules."""
        self._data = data
        self.features = self._make_features(data)

    def _make_features(self, data: NodeData) -> Tensor:
        options = self.feature_options
        columns = [data.x]
        if options["graph_features"]:
            columns.append(graph_features(data.graph, data.x))
        if options["neighbour_outcomes"]:
            columns.append(neighbour_outcomes(data.graph, self._outcome_scale(data), data.observed))
        x = torch.cat(columns, dim=-1)
        spread = x.std(0, correction=0)
        x = torch.where(spread > 1e-12, (x - x.mean(0)) / spread.clamp(min=1e-12), 0.0)
        clip = options["clip_features"]
        return x if clip is None else x.clamp(-clip, clip)

    @staticmethod
    def _outcome_scale(data: NodeData) -> Tensor:
        """Values on the scale on which neighbours are averaged: the log rate for counts."""
        y = data.y if data.exposure is None else data.y / data.exposure * data.exposure.mean()
        seen = y[data.observed]
        is_count = bool((seen >= 0).all()) and bool((data.y[data.observed] % 1 == 0).all())
        return torch.log1p(y) if is_count else y

    # ---------------------------------------------------------------- the law

    @property
    def scalars(self) -> dict[str, Constrained]:
        """The global parameters, by name: those of the precision, the nugget, the family."""
        found = dict(self.precision.scalars)
        if self.nugget is not None:
            found["nugget"] = self.nugget
        for name, scalar in self.family.scalars.items():
            found[f"marginal_{name}" if name in found else name] = scalar
        return found

    @property
    def priors(self) -> dict[str, Any]:
        """The priors of the global parameters."""
        return {name: self.given_priors.get(name, default_prior(name)) for name in self.scalars}

    def outputs(self) -> Tensor:
        """What the network says of every node, ``(num_nodes, out_channels)``."""
        return self.backbone(self.features, self.data.graph.edge_index)

    def joint(self, outputs: Tensor | None = None, **scalars: Any) -> GaussianCopula | GraphNormal:
        """The joint law of all nodes.

        Args:
            outputs: The outputs of the network, computed if not given.
            **scalars: Global parameters in place of the held ones, each of shape ``(*batch,)``.
        """
        data = self.data
        outputs = self.outputs() if outputs is None else outputs
        known = dict(self.precision.scalars)
        K = self.precision(
            self.features, **{name: scalars[name] for name in known if name in scalars}
        )
        nugget = None if self.nugget is None else self.nugget(scalars.get("nugget"))
        family = {
            name: scalars[key]
            for name in self.family.scalars
            if (key := f"marginal_{name}" if name in known else name) in scalars
        }
        if isinstance(self.family, NormalFamily) and self.family.tied:
            return self._tied(outputs, K, nugget)
        marginal = self.family(outputs, data.offset, **family)
        return GaussianCopula(
            marginal, K, nugget=nugget, discrete=self.discrete, tail_clip=self.tail_clip
        )

    def _tied(self, outputs: Tensor, K: SparsePrecision, nugget: Tensor | None) -> GraphNormal:
        """Normals with the variances of the precision, in units of the values' spread."""
        square = self.family.spread.square()
        noise = None if nugget is None else square * nugget / (1 - nugget)
        return GraphNormal(self.family.location(outputs), K * (1 / square), nugget=noise)

    @pyro_method
    def model(self, y: Tensor | None = None) -> Tensor:
        """The model as a Pyro program: one site per global parameter, and ``"y"``.

        Args:
            y: Values to condition on, NaN at missing nodes; without them, ``"y"`` is drawn.
        """
        scalars = {name: pyro.sample(name, prior) for name, prior in self.priors.items()}
        return pyro.sample("y", self.joint(**scalars), obs=y)

    def forward(self, y: Tensor | None = None) -> Tensor:
        """The same as :meth:`model`."""
        return self.model(y)

    def specification(self) -> dict[str, Any]:
        """The arguments of this model as plain values; a module of the user's is ``"<own>"``."""
        spec = {k: v if isinstance(v, str) else "<own>" for k, v in self.spec.items()}
        return {
            **spec,
            **self.network_options,
            **self.feature_options,
            "nugget": self.with_nugget,
            "exposure": self.exposure,
            "discrete": self.discrete,
            "tail_clip": self.tail_clip,
            "backend": self.backend,
        }

    def __repr__(self) -> str:
        parts = [f"{name}={_short(value)}" for name, value in self.spec.items()]
        if self.with_nugget:
            parts.append("nugget=True")
        return f"CopulaGNN({', '.join(parts)})"


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, str) else type(value).__name__
