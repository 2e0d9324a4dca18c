"""The dense oracle: the copula's formulas written down once more, in numpy, as the paper has them.

It shares no code with the package: a dense correlation matrix, partitioned as in Section 4.3 of
the paper. Everything it is given is already a number (normal scores, marginal log densities), so
that it judges the dependence; the marginals have judges of their own.
"""

from __future__ import annotations

import numpy as np
from scipy import stats


class DenseOracle:
    """Log density, conditional law and leave-one-out terms of a Gaussian copula, densely.

    Args:
        precision: Dense ``K``, shape ``(n, n)``.
    """

    def __init__(self, precision: np.ndarray) -> None:
        self.covariance = np.linalg.inv(np.asarray(precision, dtype=np.float64))
        self.scale = np.sqrt(np.diag(self.covariance))
        self.correlation = self.covariance / np.outer(self.scale, self.scale)

    def log_prob(self, z: np.ndarray, marginal: np.ndarray, observed: np.ndarray) -> float:
        """``log c(u_o) + sum_o log f_i(y_i)``.

        Args:
            z: Normal scores, shape ``(n,)``; ignored where not observed.
            marginal: Marginal log densities, shape ``(n,)``; ignored where not observed.
            observed: Boolean, shape ``(n,)``.
        """
        if not observed.any():
            return 0.0
        z_o, r_oo = z[observed], self.correlation[np.ix_(observed, observed)]
        joint = stats.multivariate_normal(cov=r_oo, allow_singular=False).logpdf(z_o)
        return float(joint - stats.norm.logpdf(z_o).sum() + marginal[observed].sum())

    def condition(self, z: np.ndarray, observed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the missing normal scores given the observed ones."""
        missing = ~observed
        r_oo = self.correlation[np.ix_(observed, observed)]
        r_mo = self.correlation[np.ix_(missing, observed)]
        r_mm = self.correlation[np.ix_(missing, missing)]
        gain = np.linalg.solve(r_oo, r_mo.T).T
        return gain @ z[observed], r_mm - gain @ r_mo.T

    def leave_one_out(
        self, z: np.ndarray, marginal: np.ndarray, observed: np.ndarray
    ) -> np.ndarray:
        """``log p(y_i | other observed y)`` as a difference of joint densities, NaN if missing."""
        result = np.full(len(z), np.nan)
        joint = self.log_prob(z, marginal, observed)
        for i in np.flatnonzero(observed):
            others = observed.copy()
            others[i] = False
            result[i] = joint - self.log_prob(z, marginal, others)
        return result
