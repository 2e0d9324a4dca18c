"""Warnings that a result is an approximation or an extrapolation, and perhaps a poor one."""

from __future__ import annotations

from .base import PyroCopulaWarning

__all__ = [
    "CutWarning",
    "ExtrapolationWarning",
    "MidpointWarning",
    "ParticleWarning",
    "PropagationWarning",
]


class MidpointWarning(PyroCopulaWarning):
    """The midpoint rule for discrete marginals is used where it is a poor approximation.

    Example:
        >>> import pyro_copula as pc
        >>> import torch
        >>> import pyro.distributions as dist
        >>> import warnings
        >>> K = pc.CARPrecision(pc.Graph.from_edges([(0, 1)]))(rho=0.9, tau=1.0)
        >>> copula = pc.GaussianCopula(dist.Poisson(torch.tensor([0.3, 0.3])), K)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = copula.log_prob(torch.tensor([0.0, 1.0]))
        >>> caught[0].category.__name__
        'MidpointWarning'
    """


class CutWarning(PyroCopulaWarning):
    """A composite likelihood leaves out edges, because they join different blocks.

    Args:
        cut: The share of edges left out.
        num_blocks: The number of blocks.

    Example:
        >>> print(CutWarning(0.573, 16))
        This composite likelihood leaves out 57.3% of the edges, which join different ones of the
          16 blocks. It is not the log density, and dependence fitted with it is too weak.
          Use it for a warm start or minibatches, and log_prob and the whole graph afterwards.
    """

    def __init__(self, cut: float, num_blocks: int) -> None:
        self.cut = cut
        self.num_blocks = num_blocks
        super().__init__(
            f"This composite likelihood leaves out {cut:.1%} of the edges, which join different "
            f"ones of the\n  {num_blocks} blocks. It is not the log density, and dependence fitted "
            "with it is too weak.\n  Use it for a warm start or minibatches, and log_prob and the "
            "whole graph afterwards."
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.cut, self.num_blocks)


class ExtrapolationWarning(PyroCopulaWarning):
    """A node is predicted to be far beyond every observed value.

    Args:
        node: The node that is furthest out, by name or number.
        mean: Its marginal mean, per exposure.
        largest: The largest observed value, without its sign and per exposure.
        count: How many nodes are so far out.
        hint: What to do about it.

    Example:
        >>> print(ExtrapolationWarning(17, 5234.0, 194.0, 1, "Look at its features."))
        The model says that node 17 has a mean of 5,234, but no observed value is beyond 194 (1 such
          node). Its features are unlike those of the observed nodes, or the network overfits them.
          Look at its features.
    """

    def __init__(self, node: int | str, mean: float, largest: float, count: int, hint: str) -> None:
        self.node = node
        self.mean = mean
        self.largest = largest
        self.count = count
        self.hint = hint
        nodes = "1 such\n  node" if count == 1 else f"{count:,} such\n  nodes"
        super().__init__(
            f"The model says that node {node} has a mean of {mean:,.4g}, but no observed value is "
            f"beyond {largest:,.4g} ({nodes}). Its features are unlike those of the observed "
            f"nodes, or the network overfits them.\n  {hint}"
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.node, self.mean, self.largest, self.count, self.hint)


class ParticleWarning(PyroCopulaWarning):
    """The particles of the exact rule for discrete marginals are too few or too uneven.

    Example:
        >>> issubclass(ParticleWarning, PyroCopulaWarning)
        True
    """


class PropagationWarning(PyroCopulaWarning):
    """Expectation propagation, the rule ``"ep"`` for discrete marginals, has not settled.

    Args:
        change: How far one more update would move a node's mean, in standard deviations.
        sweeps: How many updates were made.

    Example:
        >>> print(PropagationWarning(0.78, 200))
        Expectation propagation has not settled: after 200 updates, one more would move a node by
          0.78 standard deviations. Its log density may be off.
          Use discrete="exact", or compare with it: copula.exact_report(y) has both.
    """

    def __init__(self, change: float, sweeps: int) -> None:
        self.change = change
        self.sweeps = sweeps
        super().__init__(
            f"Expectation propagation has not settled: after {sweeps} updates, one more would move "
            f"a node by\n  {change:.2g} standard deviations. Its log density may be off.\n  "
            'Use discrete="exact", or compare with it: copula.exact_report(y) has both.'
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.change, self.sweeps)
