r"""A graph field seen through independent noise: the nugget of spatial statistics.

.. math:: z = g \odot x_S + \sqrt{\nu}\, \varepsilon, \qquad x \sim N(0, K^{-1})

on the nodes ``S``. Given observed ``z_o``, the field has the precision ``P = K + diag(g_o^2 / nu)``
on the *same* graph, so nothing fills in that did not before, and:

- ``log det Cov(z_o) = log det P - log det K + n_o log nu``;
- the quadratic form is the minimum over ``x`` of ``|z_o - g_o x_o|^2 / nu + x' K x``, reached at
  ``x* = P^-1 (g_o z_o / nu)``, so that its first derivatives need none of ``x*``;
- with ``Q = Cov(z_o)^-1``: ``Q_ii = 1 / nu - g_i^2 (P^-1)_ii / nu^2`` and
  ``Q z = (z_o - g_o x*_o) / nu``;
- the missing part given the observed one is of the same form, with ``P`` in place of ``K``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..first_order import differentiable_once
from ..graph import Graph
from ..linalg import quadratic_form
from ..precision import SparsePrecision
from ..precision.values import in_place_changes
from ..shapes import broadcast_shapes
from .latent import DENSE_HINT, Latent

_LOG_2PI = math.log(2 * math.pi)


class NuggetLatent(Latent):
    """``z = gain * x[nodes] + sqrt(nugget) * noise`` with ``x ~ N(0, K^-1)``.

    Args:
        precision: The precision ``K`` of the field, on all nodes of the graph.
        gain: Shape ``(*batch, len(nodes))``; None for what gives ``z`` unit scale, see
            :meth:`unit_variance`.
        nugget: The noise variance, shape ``(*batch,)``, positive.
        nodes: The nodes at which ``z`` lives, int64; all of them by default.
        gain_is_estimated: Whether a gain that is given comes from the scale of the field.

    Attributes:
        gain_is_estimated: Whether the gain comes from there, so that ``z`` has unit scale.
    """

    def __init__(
        self,
        precision: SparsePrecision,
        gain: Tensor | None,
        nugget: Tensor,
        nodes: Tensor | None = None,
        *,
        gain_is_estimated: bool = False,
    ) -> None:
        self._given = precision
        self._given_gain = None if gain is None else gain.double()
        self.gain_is_estimated = gain is None or gain_is_estimated
        self.nugget = nugget.double()
        self.nodes = torch.arange(precision.num_nodes) if nodes is None else nodes
        self.num_nodes = len(self.nodes)
        self._made: tuple[Any, Tensor] | None = None
        shape = self.gain.shape[:-1]
        self.batch_shape = broadcast_shapes(precision.batch_shape, shape, nugget.shape)

    @property
    def precision(self) -> SparsePrecision:
        """The precision of the field in float64, with the values that it has by now."""
        return self._given.double()

    @property
    def gain(self) -> Tensor:
        """What the field is multiplied by at each node, ``(*batch, len(nodes))``."""
        if self._given_gain is not None:
            return self._given_gain
        # Made again where the precision factors anew, or the nugget has changed as well.
        key = self.precision.solver, in_place_changes(self.nugget), torch.is_grad_enabled()
        if self._made is None or self._made[0] != key:
            share = (1 - self.nugget).sqrt().unsqueeze(-1)
            self._made = key, share / self.precision.scale()
        return self._made[1]

    @classmethod
    def unit_variance(cls, precision: SparsePrecision, nugget: Tensor) -> NuggetLatent:
        """The field scaled to variance ``1 - nugget`` at every node: ``z`` has unit scale."""
        return cls(precision, None, nugget)

    def with_precision(
        self, precision: SparsePrecision, nodes: Tensor | None = None
    ) -> NuggetLatent:
        """The same with another precision of the field, on some of the nodes or on all.

        Args:
            precision: The other precision.
            nodes: Those that it has, int64; of a ``z`` that lives on all nodes.
        """
        if self.gain_is_estimated:
            return NuggetLatent.unit_variance(precision, self.nugget)
        if nodes is None:
            return NuggetLatent(precision, self.gain, self.nugget, self.nodes)
        return NuggetLatent(precision, self.gain[..., nodes], self.nugget)

    def scale(self) -> Tensor:
        if self.gain_is_estimated:
            return torch.ones(self.num_nodes, dtype=torch.float64)
        variance = self.precision.variance()[..., self.nodes]
        return (self.gain.square() * variance + self.nugget.unsqueeze(-1)).sqrt()

    def variance_error(self) -> Tensor:
        if self.gain_is_estimated:
            return super().variance_error()
        return self.gain.square() * self.precision.solver.inverse_diagonal_error()[..., self.nodes]

    def sample(self, shape: torch.Size) -> Tensor:
        field_shape = (*shape[:-1], self.precision.num_nodes)
        x = self.precision.draw(field_shape)
        noise = torch.randn(shape, dtype=torch.float64)
        return self.gain * x[..., self.nodes] + self.nugget.sqrt().unsqueeze(-1) * noise

    def log_density(self, x: Tensor, observed: Tensor) -> Tensor:
        count = int(observed.sum())
        posterior = self._posterior(observed)
        log_det = posterior.logdet() - self.precision.logdet() + count * self.nugget.log()
        quadratic = self._quadratic(x, observed, posterior)
        return -(log_det + quadratic + count * _LOG_2PI) / 2

    def condition(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Latent]:
        posterior = self._posterior(observed)
        field = self._field(x, observed, posterior)
        missing = self.nodes[~observed]
        gain = self.gain[..., ~observed]
        return gain * field[..., missing], NuggetLatent(posterior, gain, self.nugget, missing)

    def leave_one_out(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        posterior = self._posterior(observed)
        nodes, gain = self.nodes[observed], self.gain[..., observed]
        nugget = self.nugget.unsqueeze(-1)
        # 1 / Q_ii, written so that a large nugget loses no digits
        share = gain.square() * posterior.variance()[..., nodes] / nugget
        variance = nugget / (1 - share)
        fit = gain * self._field(x, observed, posterior)[..., nodes]
        z = x[..., observed]
        return z - (z - fit) / nugget * variance, variance

    def as_precision(self) -> tuple[SparsePrecision, Tensor]:
        """The field and ``z`` together: every ``z`` hangs on the graph by one edge of its own."""
        field = self.precision
        n, count = field.num_nodes, self.num_nodes
        weight = 1 / self.nugget.unsqueeze(-1).expand(*self.batch_shape, count)
        inner = self.gain.square() * weight
        full = field.diagonal.expand(*self.batch_shape, n).index_add(-1, self.nodes, inner)
        key = ("pendants", self.nodes.numpy().tobytes())
        graph, order = field.graph.cached(key, self._with_pendants, limit=4)
        edges = field.off_diagonal.expand(*self.batch_shape, -1)
        edges = torch.cat([edges, -self.gain * weight], -1)[..., order]
        diagonal = torch.cat([full, weight], -1)
        return SparsePrecision(graph, diagonal, edges), torch.arange(n, n + count)

    def _with_pendants(self) -> tuple[Graph, Tensor]:
        """The graph with one more node for every ``z``, and its edges' order among ours."""
        old = self.precision.graph
        new = np.arange(old.num_nodes, old.num_nodes + self.num_nodes)
        edges = np.concatenate([old.edges, np.stack([self.nodes.numpy(), new], 1)])
        order = np.lexsort((edges[:, 1], edges[:, 0]))
        return Graph(edges, old.num_nodes + self.num_nodes), torch.from_numpy(order)

    def __getitem__(self, index: int) -> Latent:
        batch, n = self.batch_shape, self.precision.num_nodes
        edges = self.precision.graph.num_edges
        flat = SparsePrecision(
            self.precision.graph,
            self.precision.diagonal.expand(*batch, n).reshape(-1, n)[index],
            self.precision.off_diagonal.expand(*batch, edges).reshape(-1, edges)[index],
            backend=self.precision.backend,
        )
        gain = self.gain.expand(*batch, self.num_nodes).reshape(-1, self.num_nodes)[index]
        nugget = self.nugget.expand(batch).reshape(-1)[index]
        return NuggetLatent(
            flat, gain, nugget, self.nodes, gain_is_estimated=self.gain_is_estimated
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def _posterior(self, observed: Tensor) -> SparsePrecision:
        """``P``, the precision of the field given ``z`` at the observed nodes."""
        weight = self.gain[..., observed].square() / self.nugget.unsqueeze(-1)
        return self.precision.add_diagonal(self._spread(weight, observed))

    def _field(self, x: Tensor, observed: Tensor, posterior: SparsePrecision) -> Tensor:
        """``x*``, the mean of the field given ``z`` at the observed nodes."""
        weighted = self.gain[..., observed] * x[..., observed] / self.nugget.unsqueeze(-1)
        return posterior.solve(self._spread(weighted, observed))

    def _spread(self, values: Tensor, observed: Tensor) -> Tensor:
        """Values at the observed nodes as values at all nodes of the graph, zero elsewhere."""
        full = values.new_zeros(*values.shape[:-1], self.precision.num_nodes)
        return full.index_copy(-1, self.nodes[observed], values)

    def _quadratic(self, x: Tensor, observed: Tensor, posterior: SparsePrecision) -> Tensor:
        graph, nodes = self.precision.graph, self.nodes[observed]
        values = [self.gain, self.nugget, x, self.precision.diagonal, self.precision.off_diagonal]
        if self.precision.solver.second_order:
            field = self._field(x, observed, posterior)
        else:
            with torch.no_grad():
                field = self._field(x, observed, posterior)
            once = ("The log density with a nugget", DENSE_HINT)
            values = [differentiable_once(value, *once) for value in values]
        gain, nugget, x, diagonal, off_diagonal = values
        residual = x[..., observed] - gain[..., observed] * field[..., nodes]
        noise = residual.square().sum(-1) / nugget
        return noise + quadratic_form(graph, diagonal, off_diagonal, field)
