"""How far to trust the exact rule for discrete marginals at one value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..errors import InvalidArgumentError
from .exact import TRUSTED_SHARE, rows_of

if TYPE_CHECKING:
    from .gaussian_copula import GaussianCopula

#: Where the weights have a heavy tail, they must be nearly equal instead.
_EVEN_SHARE, _HEAVY = 0.9, 0.7


@dataclass(frozen=True)
class ExactReport:
    """How far to trust the exact rule at one value.

    Attributes:
        log_prob: The estimate.
        standard_error: Its Monte Carlo standard error.
        num_particles: How many were drawn.
        effective_size: How many of them the weights leave.
        k_hat: The tail shape of the weights; above 0.7 the standard error
            cannot be trusted, unless the weights are nearly equal.
        ep_log_prob: Expectation propagation's answer.
        ep_sweeps: How many updates it took.
        ep_settled: Whether they came to an end; if not, that answer may be off.
    """

    log_prob: float
    standard_error: float
    num_particles: int
    effective_size: float
    k_hat: float
    ep_log_prob: float
    ep_sweeps: int
    ep_settled: bool = True

    @property
    def gap(self) -> float:
        """Expectation propagation's answer minus the estimate."""
        return self.ep_log_prob - self.log_prob

    @property
    def reliable(self) -> bool:
        """Whether enough particles count, and no few of them may dominate.

        Below 25 particles that cannot be told, and the answer is no.
        """
        if math.isnan(self.k_hat):
            return False
        share = self.effective_size / self.num_particles
        return share >= (_EVEN_SHARE if self.k_hat > _HEAVY else TRUSTED_SHARE)

    def __repr__(self) -> str:
        verdict = "reliable" if self.reliable else "NOT reliable: use more particles"
        if math.isnan(self.k_hat):
            verdict = "too few particles to tell whether it is reliable"
        unsettled = "" if self.ep_settled else " (which has not settled)"
        return (
            f"ExactReport(log_prob={self.log_prob:.4f} +- {self.standard_error:.2g}, "
            f"effective={self.effective_size:.0f} of {self.num_particles}, "
            f"k_hat={self.k_hat:.2f}, ep={self.ep_log_prob:.4f}{unsettled}, {verdict})"
        )


def report(copula: GaussianCopula, value: Any) -> ExactReport:
    """The report at one value."""
    if not copula._has_boxes:
        raise InvalidArgumentError(
            "discrete",
            '"exact" or "ep", with a discrete marginal somewhere',
            repr(copula.discrete),
            'Make the copula with discrete="exact".',
        )
    with torch.no_grad():
        rows, beside, _ = rows_of(copula, value)
        if len(rows) != 1:
            raise InvalidArgumentError(
                "y", "one value of all nodes", f"{len(rows)} of them", "Report on one at a time."
            )
        box, particles = rows[0].box, rows[0].box.particles
        base = float(rows[0].log_density() + beside.reshape(()))
        return ExactReport(
            base + float(box.log_prob()),
            particles.standard_error,
            len(particles.log_weights),
            particles.effective_size,
            particles.k_hat,
            base + float(box.ep_log_prob()),
            box.converged_sites.sweeps,
            box.converged_sites.settled,
        )
