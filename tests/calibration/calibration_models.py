"""Small models with exact samplers, that the tests of calibration share."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import torch

import pyro_copula as pc

NUM_VALUES = 4


def normal_model(y=None):
    """A normal mean with a normal prior, and four values."""
    mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
    with pyro.plate("values", NUM_VALUES):
        pyro.sample("y", dist.Normal(mu, 1.0), obs=y)


class Conjugate:
    """Draws from the posterior of a mean under some prior mean and noise scale.

    Args:
        prior_mean: Of the prior; 0 is right.
        scale: Of the noise; 1 is right.
        spread: What the deviations from the posterior mean are multiplied by; 1 is right.
        num_draws: How many.
    """

    def __init__(self, prior_mean=0.0, scale=1.0, spread=1.0, num_draws=99):
        self.prior_mean, self.scale, self.spread = prior_mean, scale, spread
        self.num_draws = num_draws

    def __call__(self, model, y, seed):
        y = y[~torch.isnan(y)]
        precision = 1 + len(y) / self.scale**2
        mean = (self.prior_mean + y.sum() / self.scale**2) / precision
        return {"mu": mean + self.spread * precision**-0.5 * torch.randn(self.num_draws)}


def prior_only(model, y, seed):
    """Draws that know nothing of the data."""
    return {"mu": torch.randn(99)}


GRID = pc.Graph.from_edges(
    [(i, i + 1) for i in range(9) if i % 3 < 2] + [(i, i + 3) for i in range(6)], num_nodes=9
)


def copula_model(marginal, y=None):
    """Nine normals on a grid with an unknown dependence."""
    rho = pyro.sample("rho", dist.Uniform(-0.99, 0.99))
    K = pc.CARPrecision(GRID)(rho=rho, tau=1.0)
    pyro.sample("y", marginal(K), obs=y)


def as_copula(K):
    """Standard normal marginals, coupled."""
    return pc.GaussianCopula(dist.Normal(torch.zeros(9), 1.0), precision=K)


def as_normal(K):
    """Normals with the variances of the precision."""
    return pc.GraphNormal(torch.zeros(9), precision=K)


class OnGrid:
    """The posterior of the dependence from dense densities at 400 places.

    It shares no code with the package: adjacency, inverse and normal density are those of torch.

    Args:
        marginal: Which of the two laws.
        variance: What variances are multiplied by before the density is taken; 1 is right.
    """

    def __init__(self, marginal, variance=1.0, num_draws=99):
        self.standard = marginal is as_copula
        self.variance, self.num_draws = variance, num_draws

    def __call__(self, model, y, seed):
        edges = 0.99 * torch.linspace(-1, 1, 401)
        middle = (edges[1:] + edges[:-1]) / 2
        adjacency = torch.zeros(9, 9)
        for i, j in GRID.edges.tolist():
            adjacency[i, j] = adjacency[j, i] = 1.0
        degree = torch.diag(adjacency.sum(0))
        covariance = torch.linalg.inv(degree - middle[:, None, None] * adjacency)
        if self.standard:
            scale = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
            covariance = covariance / scale[:, :, None] / scale[:, None, :]
        covariance = self.variance * covariance
        seen = ~torch.isnan(y)
        some = covariance[:, seen][:, :, seen]
        law = torch.distributions.MultivariateNormal(torch.zeros(int(seen.sum())), some)
        cell = torch.distributions.Categorical(logits=law.log_prob(y[seen]))
        chosen = cell.sample((self.num_draws,))
        width = edges[1] - edges[0]
        return {"rho": edges[chosen] + width * torch.rand(self.num_draws)}
