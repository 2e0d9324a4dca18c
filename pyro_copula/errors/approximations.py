"""Warnings that a result is an approximation, and perhaps a poor one."""

from __future__ import annotations

from .base import PyroCopulaWarning

__all__ = [
    "CutWarning",
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
