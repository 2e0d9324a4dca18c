"""The arguments of a copula, checked: its dependence, its latent scores, where they end."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..precision import SparsePrecision
from ..shapes import broadcast_shapes
from .latent import CovarianceLatent, Latent, PrecisionLatent
from .nugget import NuggetLatent


def checked_latent(
    precision: SparsePrecision | None,
    correlation_matrix: Tensor | None,
    correlation_cholesky: Tensor | None,
    nugget: Tensor | float | None,
) -> Latent:
    """The latent law that the arguments describe, or the error that says what is wrong."""
    if nugget is not None:
        nugget = torch.as_tensor(nugget, dtype=torch.float64)
        if not bool(((nugget > 0) & (nugget < 1)).all()):
            bad = nugget.detach()[~((nugget > 0) & (nugget < 1))].flatten()[0]
            raise InvalidArgumentError(
                "nugget",
                "strictly between 0 and 1",
                f"{float(bad):g}",
                "It is the share of independent noise; leave it out for none.",
            )
    given = [a is not None for a in (precision, correlation_matrix, correlation_cholesky)]
    if sum(given) != 1:
        raise InvalidArgumentError(
            "precision",
            "the only one given of `precision`, `correlation_matrix`, `correlation_cholesky`",
            f"{sum(given)} of them",
            "On a graph, pass precision=LaplacianPrecision(graph)(tau=1.0, gamma=0.1).",
        )
    if precision is not None:
        check_precision(precision)
        if nugget is not None:
            return NuggetLatent.unit_variance(precision, nugget)
        return PrecisionLatent(precision)
    if correlation_matrix is not None:
        _check_square("correlation_matrix", correlation_matrix)
        _check_unit_diagonal("correlation_matrix", correlation_matrix.diagonal(dim1=-2, dim2=-1))
        if not torch.allclose(correlation_matrix, correlation_matrix.mT, atol=1e-6):
            raise InvalidArgumentError(
                "correlation_matrix", "symmetric", "a matrix that is not", "Pass (R + R.T) / 2."
            )
    else:
        assert correlation_cholesky is not None
        _check_square("correlation_cholesky", correlation_cholesky)
        _check_unit_diagonal("correlation_cholesky", correlation_cholesky.square().sum(-1))
        correlation_matrix = correlation_cholesky @ correlation_cholesky.mT
    latent = CovarianceLatent(correlation_matrix)
    latent.factor  # noqa: B018  (positive definite, or the error that names the pivot)
    if nugget is None:
        return latent
    share = nugget[..., None, None]
    eye = torch.eye(latent.num_nodes, dtype=torch.float64)
    return CovarianceLatent((1 - share) * latent.covariance + share * eye)


def check_precision(precision: Any) -> None:
    """Raises the error that says what was given, if it is no :class:`SparsePrecision`."""
    if not isinstance(precision, SparsePrecision):
        raise InvalidArgumentError(
            "precision",
            "a SparsePrecision",
            type(precision).__name__,
            "Call a precision module, as in CARPrecision(graph)(rho=0.9, tau=1.0); a dense matrix "
            "goes to `correlation_matrix` of GaussianCopula.",
        )


def _check_square(argument: str, matrix: Any) -> None:
    if not torch.is_tensor(matrix) or matrix.dim() < 2 or matrix.shape[-1] != matrix.shape[-2]:
        found = f"shape {tuple(matrix.shape)}" if torch.is_tensor(matrix) else type(matrix).__name__
        raise InvalidArgumentError(
            argument, "a tensor of shape (*batch, n, n)", found, "Pass one row and column per node."
        )


def _check_unit_diagonal(argument: str, diagonal: Tensor) -> None:
    worst = float((diagonal.detach() - 1).abs().max())
    if not worst < 1e-4:
        raise InvalidArgumentError(
            argument,
            "the factor of a matrix with unit diagonal"
            if argument == "correlation_cholesky"
            else "a correlation, with ones on the diagonal",
            f"a diagonal entry off by {worst:.3g}",
            "Divide a covariance by the outer product of its standard deviations.",
        )


def check_clip(tail_clip: float | None, discrete: str) -> float | None:
    """The probability at which uniform scores end, if it is one and the rule has it."""
    if tail_clip is not None and not 0 < tail_clip < 0.5:
        raise InvalidArgumentError(
            "tail_clip", "between 0 and 0.5", repr(tail_clip), "The published value is 1e-3."
        )
    if tail_clip is not None and discrete != "midpoint":
        raise InvalidArgumentError(
            "tail_clip",
            'None unless discrete="midpoint"',
            f"{tail_clip:g} with discrete={discrete!r}",
            "Clipping belongs to the published approximation.",
        )
    return tail_clip


def latent_scores(
    scores: Any, latent: Latent, batch_shape: torch.Size, dtype: torch.dtype
) -> Tensor:
    """The latent normal scores of ``discrete="augment"``: given, or a site of the model around."""
    count = latent.num_nodes
    if isinstance(latent, NuggetLatent):
        count += latent.precision.num_nodes
    if torch.is_tensor(scores):
        if scores.is_floating_point() and scores.shape[-1:] == (count,):
            return scores
        found = f"shape {tuple(scores.shape)} and {scores.dtype}"
    elif isinstance(scores, str) and scores:
        noise = torch.zeros(*batch_shape, count, dtype=dtype)
        return pyro.sample(scores, dist.Normal(noise, 1.0).to_event(1))
    else:
        found = repr(scores)
    raise InvalidArgumentError(
        "scores",
        f"the name of a site, or floating-point numbers of shape (*sample, *batch, {count})",
        found,
        "Leave it out: the site is then called 'scores'.",
    )


def broadcast_batch(marginal_dist: Any, latent: Latent) -> torch.Size:
    """The batch shape of a copula with these marginals."""
    leading = marginal_dist.batch_shape[:-1]
    try:
        return broadcast_shapes(leading, latent.batch_shape)
    except RuntimeError:
        raise InvalidArgumentError(
            "marginal_dist",
            f"broadcastable with the batch shape {tuple(latent.batch_shape)} of the dependence",
            f"batch shape {tuple(leading)} before the nodes",
            "Give both the same leading dimensions, or none.",
        ) from None
