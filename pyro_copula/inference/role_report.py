"""What the graph is good for: gains in predictive density, their errors, and a verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .role_gains import Gain, dominant_node

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

#: One role is the main one if it brings so many times what the other does.
_MAIN = 5.0


@dataclass(repr=False)
class GraphRoles:
    """What the graph brings to the prediction of some data, as ``graph_roles`` gives it.

    Attributes:
        log_density: Of the four models ``"neither"``, ``"representation"``, ``"correlation"`` and
            ``"both"``: the log predictive density at each scored node, ``(num_scored,)``.
        nodes: The scored nodes.
        fold: The fold of each, ``(num_scored,)``, or None if all were scored by the same fits.
        networks: The network of each model, in words.
        scored: How nodes were scored, in words.
        marginal: The family of the marginals.
        precision: The precision of the copula.
        unconverged: How many of the fits stopped while they were still improving.
        nearly_singular: How many of them ended at a precision that is nearly singular, so that
            their scores have fewer digits.
        num_fits: How many fits there were.
        interrupted: Whether the user ended the run; the folds that were finished are there.
        poor_midpoint: Whether the copulas were fitted by the midpoint rule where it is poor.
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
            the graph network brings nothing that can be told from noise (0 ± 0) alone, and brings
              nothing that can be told from noise (0 ± 0) beside the copula
            the copula brings 25 ± 4 nats alone, and brings 25 ± 4 nats beside the graph network
          next: .plot()  .to_frame()  .gains  .log_density
    """

    log_density: dict[str, Tensor]
    nodes: Tensor
    fold: Tensor | None = None
    networks: Mapping[str, str] = field(default_factory=dict)
    scored: str = ""
    marginal: str = ""
    precision: str = ""
    unconverged: int = 0
    nearly_singular: int = 0
    num_fits: int = 4
    interrupted: bool = False
    poor_midpoint: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def gains(self) -> dict[str, Gain]:
        """The gains by role, with the standard errors of paired differences.

        Nodes of one fold are scored by the same fits and share their luck. So the variance of a
        difference is estimated twice, from all nodes and from the means of the folds, and the
        larger estimate is taken.
        """
        return {role: self._gain(role, *pair) for role, pair in GAINS.items()}

    @cached_property
    def needs(self) -> dict[str, Gain]:
        """What it costs to do without a role: the better model that has it over the better without.

        As a rule this is what the role adds to the other one. It differs where the model with both
        predicts worse than a simpler one: that one then stands for the role.
        """
        return {
            role: self._gain(role, self._best(place), self._best(place, False))
            for place, role in enumerate(("representation", "correlation"))
        }

    def _gain(self, role: str, better: str, worse: str) -> Gain:
        return Gain.between(role, self.log_density[better], self.log_density[worse], self.fold)

    def _best(self, place: int, with_role: bool = True) -> str:
        """The model of the highest log density among those with a role, or without it."""
        names = [name for name, uses in MODELS.items() if uses[place] == with_role]
        return max(names, key=lambda name: float(self.log_density[name].sum()))

    @property
    def verdict(self) -> str:
        """What the graph is good for, in words that follow from the gains.

        A gain counts above two standard errors (and four nats). A role is named if the models
        without it are worse (:attr:`needs`); a gain that it brings alone does not suffice, for the
        other role may bring the same. Of two roles that are named one is the main one if it is
        needed five times as much.
        """
        representation, correlation = self.needs["representation"], self.needs["correlation"]
        if representation.sure and correlation.sure:
            if correlation.total > _MAIN * representation.total:
                return "mostly correlation, and some representation"
            if representation.total > _MAIN * correlation.total:
                return "mostly representation, and some correlation"
            return "both representation and correlation"
        if representation.sure or correlation.sure:
            roles = [representation, correlation]
            clear, unclear = roles if representation.sure else roles[::-1]
            if clear.total > unclear.total:
                return f"mostly {clear.role}"
            return f"{clear.role}; {unclear.role} may bring more, or nothing"
        alone = [self.gains[role].sure for role in ("representation", "correlation")]
        if all(alone):
            return "either representation or correlation: one can stand in for the other"
        if any(alone) or self.gains["both"].sure:
            return "the graph helps, but by which role cannot be told"
        if all(self.gains[role].lost for role in ("representation", "correlation", "both")):
            return "the graph brings nothing: models that use it predict worse"
        return "the graph brings nothing that can be told from noise"

    @property
    def reasons(self) -> list[str]:
        """The gains behind the verdict, as sentences."""
        words = {"representation": "the graph network", "correlation": "the copula"}
        found = []
        for role, other in (list(words), list(words)[::-1]):
            alone, added = self.gains[role], self.gains[f"{role} given {other}"]
            found.append(f"{words[role]} {alone.words} alone, and {added.words} beside")
            found[-1] += f" {words[other]}"
            if alone.sure and not added.sure and self.needs[other].sure:
                found[-1] += f": alone it stands in for a part of the {other}"
        return found

    @property
    def outliers(self) -> list[str]:
        """Nodes that alone keep a role from being told from noise, as sentences."""
        found = []
        for role, gain in self.gains.items():
            better, worse = (self.log_density[name] for name in GAINS[role])
            place = dominant_node(better, worse)
            if place is None or gain.sure or gain.lost or "given" not in role:
                continue
            rest = torch.arange(len(better)) != place
            fold = None if self.fold is None else self.fold[rest]
            others = Gain.between(role, better[rest], worse[rest], fold)
            if not others.sure and not others.lost:
                continue
            found.append(
                f"node {int(self.nodes[place])} makes most of the variance of {role!r} "
                f"({float(better[place] - worse[place]):+.0f} nats): look at it; without it, "
                f"{others.total:.0f} ± {others.se:.0f}"
            )
        return found

    def to_frame(self) -> Any:
        """A pandas table: one row a role, with the gain in nats and its standard error.

        Returns:
            The table.
        """
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
        """Draws the gain of each role with an interval of two standard errors.

        Args:
            axes: Matplotlib axes to draw on; new ones by default.

        Returns:
            The axes.
        """
        from .role_plots import plot_roles

        return plot_roles(self, axes)

    def __repr__(self) -> str:
        lines = [self._headline(), "  log density of a node        without copula  with copula"]
        rows = {
            "without graph": ("neither", "correlation"),
            "with graph": ("representation", "both"),
        }
        for plain, pair in rows.items():
            network = " / ".join(dict.fromkeys(self.networks.get(name, plain) for name in pair))
            means = [float(self.log_density[name].mean()) for name in pair]
            lines.append(f"    {network:<26.26} {means[0]:>14.3f} {means[1]:>12.3f}")
        lines.append("  gain in nats                        total    se     a node    se")
        for role, gain in self.gains.items():
            lines.append(
                f"    {role:<33}{gain.total:>6.1f}{gain.se:>6.1f}"
                f"{gain.per_node:>11.3f}{gain.per_node_se:>6.3f}"
            )
        lines.append(f"  verdict: {self.verdict}")
        for reason in (*self.reasons, *self.outliers):
            lines += textwrap.wrap(reason, 96, initial_indent="    ", subsequent_indent="      ")
        if self.poor_midpoint:
            lines.append(
                '  the midpoint rule is poor for these counts: call again with discrete="exact"'
            )
        if self.interrupted:
            lines.append("  interrupted: only the finished folds are scored")
        if self.nearly_singular:
            lines.append(
                f"  {self.nearly_singular} of {self.num_fits} fits ended at a nearly singular "
                "precision: their scores have fewer digits"
            )
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
