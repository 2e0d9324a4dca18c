"""The diagnosis of a model: every check, and what they say together."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .. import marginals
from ..distributions import GaussianCopula, GraphNormal
from ..distributions.scores import wide_atoms
from ..errors import InvalidArgumentError
from ..graph import Graph
from ..precision.conditioning import few_digits
from .advice import Setup
from .findings import Evidence, Finding, find
from .moran import MoransI, Neighbours, morans_i
from .pit import LEVELS, CoverageCurve, PITHistogram, coverages, heights, simultaneous_band
from .reference import BINS, Reference, data_residuals, simulate
from .residuals import Residuals, check_law, checked_values
from .uniformity import Uniformity, p_words, rank_p_value, ranked, shape_numbers

#: Four numbers of two kinds of residuals, and Moran's I.
_NUM_TESTS = 9

#: Below so many observed nodes there is nothing to see.
_MIN_NODES = 10

_BAND = 0.95


@dataclass(frozen=True, repr=False, eq=False)
class Check:
    """One kind of residuals, and how uniform they are.

    Attributes:
        u: The residuals, shape ``(num_nodes,)``, NaN at missing nodes.
        z: The same on the normal scale.
        histogram: Their histogram.
        coverage: The coverage of intervals by level.
        shape: Bias, dispersion, tails and distance from uniform ones.

    Example:
        >>> import pyro_copula as pc
        >>> law = pc.GraphNormal(torch.zeros(36), pc.CARPrecision(pc.simulate.grid_graph(6, 6))())
        >>> _ = torch.manual_seed(0)
        >>> found = diagnose(law, law.sample(), num_simulations=200, false_alarm_rate=0.2)
        >>> found.conditional.z.shape, found.conditional.histogram.num_nodes
        (torch.Size([36]), 36)
    """

    u: Tensor
    z: Tensor
    histogram: PITHistogram
    coverage: CoverageCurve
    shape: Uniformity

    def __repr__(self) -> str:
        return f"Check\n  {self.histogram}\n  {self.coverage}\n  {self.shape}"


@dataclass(frozen=True, repr=False, eq=False)
class Diagnosis:
    """What :func:`diagnose` and ``fit.diagnose()`` found; print it.

    Attributes:
        findings: What was found, in words, the most basic first.
        marginal: Residuals of each node by itself.
        conditional: Residuals of each node given every other observed one.
        moran_before: Moran's I of marginal residuals on the normal scale, against no dependence;
            None without a graph that joins four observed nodes.
        moran_after: Moran's I of conditional residuals on the normal scale, against what the model
            gives. That is not zero: given each other, neighbours' residuals have negative
            correlations where the dependence is positive.
        num_simulations: The number of data sets drawn from the model.
        false_alarm_rate: The chance that a model which is right gets a problem told.
        name: What was diagnosed.

    Example:
        >>> import pyro_copula as pc
        >>> law = pc.GraphNormal(torch.zeros(36), pc.CARPrecision(pc.simulate.grid_graph(6, 6))())
        >>> _ = torch.manual_seed(0)
        >>> found = diagnose(law, law.sample() + 3.0, num_simulations=200, false_alarm_rate=0.2)
        >>> found.ok
        False
    """

    findings: list[Finding]
    marginal: Check
    conditional: Check
    moran_before: MoransI | None
    moran_after: MoransI | None
    num_simulations: int
    false_alarm_rate: float
    name: str = field(default="")

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not any(finding.problem for finding in self.findings)

    def summary(self) -> str:
        """The diagnosis in words.

        Returns:
            The text, which printing the diagnosis shows, too.
        """
        problems = sum(finding.problem for finding in self.findings)
        verdict = ("nothing wrong found", "one problem found")[problems] if problems < 2 else None
        lines = [f"Diagnosis of {self.name}: {verdict or f'{problems} problems found'}"]
        for finding in self.findings:
            mark = "!" if finding.problem else "-"
            lines += textwrap.wrap(
                f"{mark} {finding.message}", 100, initial_indent="  ", subsequent_indent="    "
            )
            lines += textwrap.wrap(
                finding.advice, 100, initial_indent="      ", subsequent_indent="      "
            )
        lines += [
            f"  marginal     {self.marginal.shape.words()}",
            f"  conditional  {self.conditional.shape.words()}",
        ]
        if self.moran_before is not None and self.moran_after is not None:
            lines += [
                f"  Moran's I    before the copula {_moran_words(self.moran_before)}",
                f"               after it {_moran_words(self.moran_after)}",
            ]
        nodes = self.marginal.histogram.num_nodes
        rate = f"{100 * self.false_alarm_rate:g}%"
        lines.append(
            f"  from         {nodes} observed nodes, {self.num_simulations} simulations, "
            f"false-alarm rate {rate}"
        )
        return "\n".join(lines)

    def plot(self, axes: Any = None) -> Any:
        """Draws both histograms, coverage by level and Moran's I, and returns the figure.

        Args:
            axes: Four matplotlib axes to draw on; a new 2 x 2 figure by default.

        Returns:
            The figure.
        """
        from .plots import plot_diagnosis

        return plot_diagnosis(self, axes)

    def __repr__(self) -> str:
        return f"{self.summary()}\n  next: .plot()  .findings  .marginal  .conditional"


def diagnose(
    law: GaussianCopula | GraphNormal | Sequence[GaussianCopula | GraphNormal],
    y: Tensor,
    *,
    graph: Graph | None = None,
    num_simulations: int = 500,
    false_alarm_rate: float = 0.05,
    seed: int = 0,
    discrete: str | None = None,
    setup: Setup | None = None,
) -> Diagnosis:
    """Looks for what is wrong with a joint law of some values, and says it in words.

    Residuals of each node by itself say whether the marginals are right; those of each node given
    every other observed one, whether predictions are. Moran's I says how much correlation the graph
    carries before the copula, and whether any is left after it. What chance allows is found by
    drawing data sets from the law and treating each as the data are treated: residuals at different
    nodes depend on each other, so tests for independent ones would be wrong.

    It is honest about a given law, less so about a fit: parameters that were fitted to the same
    values make residuals look better than those of new nodes, a flexible network more so, and the
    drawn data sets are not fitted again. So a problem found is worth believing, and that none was
    found is weaker evidence. To judge predictions, hide some values and score them. If features are
    made of neighbours' outcomes, they stay as they are when a value is left out or drawn.

    Args:
        law: The joint law. A batch of it, or several laws, are an equal mixture: posterior draws.
        y: Values, shape ``(num_nodes,)``, NaN at missing nodes.
        graph: The graph of Moran's I; by default that of the law's precision.
        num_simulations: The number of data sets to draw. The time goes with it; from 91 on they
            are enough for a false-alarm rate of 0.2.
        false_alarm_rate: The chance, at most, that a law which is right gets a problem told. It
            is divided among nine tests (Bonferroni).
        seed: Of the draws, and of the places within atoms.
        discrete: How *other* discrete nodes are conditioned on, in the data and in the draws: by
            default as the law does it. ``"midpoint"`` is much quicker where the law's rule is
            ``"exact"`` or ``"ep"``, and no less honest, for data and draws are treated alike.
        setup: What is known of the model, for advice; ``fit.diagnose()`` gives it.

    Example:
        >>> import pyro.distributions as dist
        >>> import pyro_copula as pc
        >>> graph = pc.simulate.grid_graph(12, 12)
        >>> K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
        >>> _ = torch.manual_seed(0)
        >>> rate = torch.full((144,), 6.0)
        >>> y = pc.GaussianCopula(dist.NegativeBinomial(3.0, rate / 9.0), precision=K).sample()
        >>> found = diagnose(pc.GaussianCopula(dist.Poisson(rate), precision=K), y)
        >>> found.ok, found.findings[-1].code
        (False, 'too_narrow')
        >>> found.findings[-1].advice
        'Try negative binomial marginals, with a dispersion of its own.'
    """
    laws = [law] if not isinstance(law, Sequence) else list(law)
    for one in laws or [None]:
        check_law(one)
    _check_options(num_simulations, false_alarm_rate)
    if discrete not in (None, "midpoint"):
        raise InvalidArgumentError(
            "discrete",
            'None or "midpoint"',
            repr(discrete),
            "Leave it out: the law's own rule is used.",
        )
    y = checked_values(y, laws[0].num_nodes)
    observed = ~torch.isnan(y)
    _check_enough(observed)
    setup = Setup.of_law(laws[0]) if setup is None else setup
    graph = _graph_of(laws[0]) if graph is None else graph
    neighbours = _neighbours(graph, observed)

    residuals = data_residuals(laws, y, seed, discrete)
    reference = simulate(laws, observed, neighbours, num_simulations, seed, discrete)
    count = len(reference.shapes["marginal"])
    marginal, conditional = (
        _check(residuals[kind], observed, reference, kind) for kind in ("marginal", "conditional")
    )
    before = after = None
    if neighbours is not None and graph is not None and reference.moran is not None:
        before = morans_i(marginal.z, graph)
        after = _against(neighbours, conditional.z[observed], reference.moran)
    evidence = Evidence(
        marginal.shape,
        conditional.shape,
        before,
        after,
        setup.discrete == "midpoint" and _has_wide_atoms(laws[0], y),
        false_alarm_rate / _NUM_TESTS,
        few_digits(laws[0]),
    )
    return Diagnosis(
        find(setup, evidence),
        marginal,
        conditional,
        before,
        after,
        count,
        false_alarm_rate,
        setup.name,
    )


# ---------------------------------------------------------------- the parts


def _check(residuals: Residuals, observed: Tensor, reference: Reference, kind: str) -> Check:
    u = residuals.u[observed]
    n = len(u)
    edges = torch.linspace(0, 1, BINS + 1, dtype=torch.float64)
    bars = simultaneous_band(reference.heights[kind], _BAND)
    curve = simultaneous_band(reference.coverages[kind], _BAND)
    return Check(
        residuals.u,
        residuals.z,
        PITHistogram(edges, heights(u, BINS), *bars, _BAND, n),
        CoverageCurve(LEVELS, coverages(u), *curve, _BAND, n),
        ranked(shape_numbers(u), reference.shapes[kind], n),
    )


def _against(neighbours: Neighbours, values: Tensor, simulated: Tensor) -> MoransI:
    """Moran's I against that of data sets drawn from the model."""
    found = float(neighbours.statistic(values))
    return MoransI(
        found,
        float(simulated.mean()),
        float(simulated.std()),
        rank_p_value(found, simulated),
        neighbours.num_nodes,
        len(neighbours.rows),
        "the model",
        2 / (len(simulated) + 1),
    )


def _graph_of(law: GaussianCopula | GraphNormal) -> Graph | None:
    return None if law.precision is None else law.precision.graph


def _neighbours(graph: Graph | None, observed: Tensor) -> Neighbours | None:
    """The weights of Moran's I, or None if too few observed nodes are neighbours."""
    if graph is None:
        return None
    if graph.num_nodes != len(observed):
        raise InvalidArgumentError(
            "graph",
            f"of {len(observed)} nodes, as the law",
            f"{graph.num_nodes} nodes",
            "Pass the graph that the values live on.",
        )
    try:
        return Neighbours(graph, observed.numpy())
    except InvalidArgumentError:
        return None


def _has_wide_atoms(law: Any, y: Tensor) -> bool:
    if isinstance(law, GraphNormal):
        return False
    value = y.expand(*law.batch_shape, len(y))
    observed = ~torch.isnan(value)
    return wide_atoms(
        law.marginal_dist, marginals.fill_missing(law.marginal_dist, value, observed), observed
    )


def _check_options(num_simulations: Any, false_alarm_rate: Any) -> None:
    if not 0 < false_alarm_rate < 1:
        raise InvalidArgumentError(
            "false_alarm_rate", "strictly between 0 and 1", f"{false_alarm_rate}", "Pass 0.05."
        )
    least = int(2 * _NUM_TESTS / false_alarm_rate) + 1
    whole = isinstance(num_simulations, int) and not isinstance(num_simulations, bool)
    if not whole or num_simulations < least:
        raise InvalidArgumentError(
            "num_simulations",
            f"an integer from {least} on for a false-alarm rate of {false_alarm_rate:g}",
            repr(num_simulations),
            "Fewer cannot show anything that rare; draw more, or allow more false alarms.",
        )


def _check_enough(observed: Tensor) -> None:
    count = int(observed.sum())
    if count < _MIN_NODES:
        raise InvalidArgumentError(
            "y",
            f"observed at {_MIN_NODES} nodes or more",
            f"{count} observed values",
            "Look at quantile_residuals(law, y) yourself: so few show no shape.",
        )


# ---------------------------------------------------------------- words


def _moran_words(moran: MoransI) -> str:
    return (
        f"{moran.statistic:+.3f} ({moran.null}: {moran.expected:+.3f} ± {moran.sd:.3f}, "
        f"{p_words(moran.p_value, moran.least_p)})"
    )
