"""The features of a model: what the data have, what the graph adds, on one scale."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..nn import graph_features, neighbour_outcomes
from .data import NodeData
from .family import MarginalFamily


class Features(nn.Module):
    """Makes features of data.

    Features of the data are standardised over all nodes. Outcomes of neighbours are kept apart
    from them: they depend on the values, so no network may pass them on to the nodes they came
    from, and they are standardised by numbers that are fixed when the model is built.

    Args:
        graph_features: Whether log degree and neighbours' mean features join the features.
        neighbour_outcomes: Whether the mean outcome of *other* observed neighbours is used.
        clip_features: Standardised features are clamped to plus or minus this.
    """

    location: Tensor
    scale: Tensor

    def __init__(
        self, *, graph_features: bool, neighbour_outcomes: bool, clip_features: float | None
    ) -> None:
        super().__init__()
        self.with_graph, self.clip = graph_features, clip_features
        self.num_outcomes = 2 if neighbour_outcomes else 0
        self.register_buffer("location", torch.zeros(self.num_outcomes))
        self.register_buffer("scale", torch.ones(self.num_outcomes))
        self.fixed, self._outcomes = torch.zeros(0, 0), torch.zeros(0, 0)

    def make(self, data: NodeData, family: MarginalFamily, *, start: bool = False) -> None:
        """Makes the features of these data.

        Args:
            data: The data.
            family: Knows on which scale values are averaged.
            start: Whether to fix the scale of neighbours' outcomes by these data.
        """
        x = (
            torch.cat([data.x, graph_features(data.graph, data.x)], -1)
            if self.with_graph
            else data.x
        )
        if x.shape[1]:
            spread = x.std(0, correction=0)
            x = torch.where(spread > 1e-12, (x - x.mean(0)) / spread.clamp(min=1e-12), 0.0)
        self.fixed = self._clipped(x)  # (num_nodes, num_features)
        if not self.num_outcomes:
            return
        scaled = family.outcome_scale(data.y, data.exposure)
        self._outcomes = neighbour_outcomes(data.graph, scaled, data.observed)  # (num_nodes, 2)
        if start:
            self.location.copy_(self._outcomes.mean(0))
            self.scale.copy_(self._outcomes.std(0, correction=0).clamp(min=1e-6))

    def forward(self) -> Tensor:
        """All features, those that depend on values last."""
        if not self.num_outcomes:
            return self.fixed
        outcomes = self._clipped((self._outcomes - self.location) / self.scale)
        return torch.cat([self.fixed, outcomes], -1)

    def extra_repr(self) -> str:
        return (
            f"graph_features={self.with_graph}, neighbour_outcomes={self.num_outcomes > 0}, "
            f"clip_features={self.clip}"
        )

    def _clipped(self, x: Tensor) -> Tensor:
        return x if self.clip is None else x.clamp(-self.clip, self.clip)
