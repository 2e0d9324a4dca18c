"""What the graph is good for: gains in predictive density, their errors, and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: The four models: whether the graph is used as representation, and as correlation.
MODELS = {
    "neither": (False, False),
    "representation": (True, False),
    "correlation": (False, True),
    "both": (True, True),
}

#: Each gain is the difference between two of the models.
GAINS = {
    "representation": ("representation", "neither"),
    "correlation": ("correlation", "neither"),
    "both": ("both", "neither"),
    "representation given correlation": ("both", "correlation"),
    "correlation given representation": ("both", "representation"),
}

#: A gain can be told from noise above so many standard errors, and above so many nats: the errors
#: of smaller differences are not normal (Sivula, Magnusson, Matamoros and Vehtari, Uncertainty in
#: Bayesian leave-one-out cross-validation based model comparison, 2020).
SURE, LEAST = 2.0, 4.0

#: One role is the main one if it brings so many times what the other does.
_MAIN = 5.0


class Gain(NamedTuple):
    """What one model gains over another, in nats over all scored nodes.

    Example:
        >>> Gain("correlation", 12.0, 3.0, 60).per_node
        0.2
    """

    role: str
    total: float
    se: float
    num_nodes: int

    @property
    def per_node(self) -> float:
        """The mean gain of a node."""
        return self.total / self.num_nodes

    @property
    def per_node_se(self) -> float:
        """Its standard error."""
        return self.se / self.num_nodes

    @property
    def sure(self) -> bool:
        """Whether it can be told from noise."""
        return self.total > max(SURE * self.se, LEAST)

    @property
    def lost(self) -> bool:
        """Whether it is a loss that can be told from noise."""
        return -self.total > max(SURE * self.se, LEAST)

    def __repr__(self) -> str:
        return f"Gain({self.role}: {self.total:.1f} nats, se {self.se:.1f})"


@dataclass(repr=False)
class GraphRoles:
    """What the graph brings to the prediction of some data, as ``graph_roles`` gives it.

    Attributes:
        log_density: Of the four models ``"neither"``, ``"representation"``, ``"correlation"`` and
            ``"both"``: the log predictive density at each scored node, ``(num_scored,)``.
        nodes: The scored nodes.
        networks: The network without the graph, and the one with it, in words.
        scored: How nodes were scored, in words.
        marginal: The family of the marginals.
        precision: The precision of the copula.
        unconverged: How many of the fits stopped while they were still improving.
        num_fits: How many fits there were.
        interrupted: Whether the user ended the run; the folds that were finished are there.
        settings: The options that were used.

    Example:
        >>> scores = {name: torch.zeros(50) for name in MODELS}
        >>> scores["correlation"] = scores["both"] = 0.5 + torch.linspace(-1, 1, 50)
        >>> GraphRoles(scores, torch.arange(50))
        GraphRoles: 50 nodes scored
          log density of a node        without copula  with copula
            without graph                       0.000        0.500
            with graph                          0.000        0.500
          gain in nats                        total    se     a node    se
            representation                      0.0   0.0      0.000 0.000
            correlation                        25.0   4.2      0.500 0.084
            both                               25.0   4.2      0.500 0.084
            representation given correlation    0.0   0.0      0.000 0.000
            correlation given representation   25.0   4.2      0.500 0.084
          verdict: mostly correlation
          next: .plot()  .to_frame()  .gains  .log_density
    """

    log_density: dict[str, Tensor]
    nodes: Tensor
    networks: tuple[str, str] = ("without graph", "with graph")
    scored: str = ""
    marginal: str = ""
    precision: str = ""
    unconverged: int = 0
    num_fits: int = 4
    interrupted: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def gains(self) -> dict[str, Gain]:
        """The gains by role; their errors are those of paired differences."""
        return {
            role: _gain(role, self.log_density[better], self.log_density[worse])
            for role, (better, worse) in GAINS.items()
        }

    @property
    def verdict(self) -> str:
        """What the graph is good for, in words.

        A gain above two standard errors (and four nats) counts. Both roles are named if each adds
        to the other; one is the main one if it adds five times as much, or if the other adds
        nothing.
        """
        alone = self.gains["representation"].sure, self.gains["correlation"].sure
        added = (
            self.gains["representation given correlation"],
            self.gains["correlation given representation"],
        )
        if not (any(alone) or self.gains["both"].sure):
            if self.gains["both"].lost:
                return "the graph brings nothing: models that use it predict worse"
            return "the graph brings nothing that can be told from noise"
        by_representation, by_correlation = added
        if by_representation.sure and by_correlation.sure:
            if by_correlation.total > _MAIN * by_representation.total:
                return "mostly correlation, and some representation"
            if by_representation.total > _MAIN * by_correlation.total:
                return "mostly representation, and some correlation"
            return "both representation and correlation"
        if by_correlation.sure:
            return "mostly correlation"
        if by_representation.sure:
            return "mostly representation"
        # Neither adds to the other: which one does more alone?
        difference = _gain("", self.log_density["correlation"], self.log_density["representation"])
        if not any(alone):
            return "the graph helps, but by which role cannot be told"
        if not alone[0] or difference.sure:
            return "mostly correlation"
        if not alone[1] or difference.lost:
            return "mostly representation"
        return "either representation or correlation: one can stand in for the other"

    def to_frame(self) -> Any:
        """A pandas table: one row a role, with the gain in nats and its standard error."""
        import pandas as pd

        rows = self.gains.values()
        columns = {
            "gain": [gain.total for gain in rows],
            "se": [gain.se for gain in rows],
            "per_node": [gain.per_node for gain in rows],
            "per_node_se": [gain.per_node_se for gain in rows],
        }
        return pd.DataFrame(columns, index=pd.Index(list(self.gains), name="role"))

    def plot(self, axes: Any = None) -> Any:
        """Draws the gain of each role with an interval of two standard errors."""
        from .role_plots import plot_roles

        return plot_roles(self, axes)

    def __repr__(self) -> str:
        lines = [self._headline(), "  log density of a node        without copula  with copula"]
        for network, pair in zip(
            self.networks, (("neither", "correlation"), ("representation", "both")), strict=True
        ):
            means = [float(self.log_density[name].mean()) for name in pair]
            lines.append(f"    {network:<26.26} {means[0]:>14.3f} {means[1]:>12.3f}")
        lines.append("  gain in nats                        total    se     a node    se")
        for role, gain in self.gains.items():
            lines.append(
                f"    {role:<33}{gain.total:>6.1f}{gain.se:>6.1f}"
                f"{gain.per_node:>11.3f}{gain.per_node_se:>6.3f}"
            )
        lines.append(f"  verdict: {self.verdict}")
        if self.interrupted:
            lines.append("  interrupted: only the finished folds are scored")
        if self.unconverged:
            lines.append(
                f"  {self.unconverged} of {self.num_fits} fits stopped while still improving: "
                "raise schedule.max_epochs"
            )
        return "\n".join([*lines, "  next: .plot()  .to_frame()  .gains  .log_density"])

    def _headline(self) -> str:
        how = f", {self.scored}" if self.scored else ""
        law = f"; {self.marginal} marginals, {self.precision} precision" if self.marginal else ""
        return f"GraphRoles: {len(self.nodes)} nodes scored{how}{law}"


def _gain(role: str, better: Tensor, worse: Tensor) -> Gain:
    """The sum of paired differences; its variance is n times that of one difference."""
    difference = (better - worse).double()
    n = len(difference)
    se = math.sqrt(n) * float(torch.std(difference)) if n > 1 else math.inf
    return Gain(role, float(difference.sum()), se, n)
