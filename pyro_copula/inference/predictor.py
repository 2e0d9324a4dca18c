"""Predicting with a fit or several, and diagnosing them: what they share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..diagnostics import Diagnosis
from ..errors import InvalidArgumentError, MidpointWarning
from ..errors.counts import check_count
from ..models import NodeData
from ..models.data import read_mask
from .diagnosing import diagnose_fit
from .extrapolation import warn_if_far
from .nodes import Mask, Nodes
from .prediction import Prediction


class Predictor:
    """What a :class:`Fit` and an :class:`Ensemble` share: predictions and a diagnosis.

    Attributes:
        settings: What was used.
    """

    settings: dict[str, Any]

    @property
    def _data(self) -> NodeData:
        """The data, with all observed values."""
        raise NotImplementedError

    def _laws(self, hidden: Tensor | None = None) -> list[Any]:
        """The joint laws of all nodes, in batches, with some values hidden from the features."""
        raise NotImplementedError

    def predict(
        self,
        num_samples: int = 1000,
        *,
        given: str | Mask = "observed",
        nodes: Nodes | None = None,
    ) -> Prediction:
        """Predicts values. Masks and numbers of nodes may be tensors, arrays or lists.

        Args:
            num_samples: The number of joint draws in ``samples``.
            given: ``"observed"``: every missing node given the observed ones. A boolean mask of
                shape ``(num_nodes,)``: every other node given these observed ones (the training
                nodes alone, say). ``"none"``: every node from its marginal alone, as if nothing
                were observed; features made of neighbours' outcomes stay as they are.
            nodes: Some of these nodes only: a list of their numbers, or of their names if the data
                have names, or a boolean mask of shape ``(num_nodes,)``.

        Returns:
            The predictive law; it is exact, and draws only for ``samples``. Of a posterior it mixes
            at most 200 draws, evenly thinned. An ``ExtrapolationWarning`` says
            if a mean is far beyond every observed value.
        """
        check_count("num_samples", num_samples, "Use 1000.")
        data = self._data
        with torch.no_grad(), warnings.catch_warnings():
            # Predictions suffer little from the midpoint rule, and the fit has said so.
            warnings.simplefilter("ignore", MidpointWarning)
            if not isinstance(given, str):
                hidden = data.observed & ~_checked_mask(given, data.observed)
                laws, y = self._laws(hidden), data.hide(hidden).y
                parts = _each(laws, lambda law: law.condition_mixture(y))
            elif given == "none":
                laws = self._laws()
                parts = _each(laws, lambda law: law.unconditional())
            elif given == "observed":
                if bool(data.observed.all()):
                    raise InvalidArgumentError(
                        "given",
                        '"none" or a mask where every node is observed',
                        '"observed"',
                        "There is no missing node to predict.",
                    )
                laws = self._laws()
                parts = _each(laws, lambda law: law.condition_mixture(data.y))
            else:
                raise InvalidArgumentError(
                    "given",
                    '"observed", "none" or a boolean mask of nodes',
                    repr(given),
                    'Use given="observed".',
                )
        prediction = Prediction(
            parts,
            nodes,
            num_samples=num_samples,
            names=self.settings.get("names"),
            num_nodes=data.num_nodes,
        )
        warn_if_far(self, laws, prediction, stacklevel=2)
        return prediction

    def diagnose(
        self, *, num_simulations: int = 500, false_alarm_rate: float = 0.05, seed: int = 0
    ) -> Diagnosis:
        """Says in words what is wrong with the fit, if anything; see :func:`pyro_copula.diagnose`.

        The residuals are those of the values that it was fitted to, under the fitted parameters or
        the equal mixture of posterior draws or restarts.

        Args:
            num_simulations: The number of data sets to draw from it for comparison.
            false_alarm_rate: The chance, at most, that a right model gets a problem told.
            seed: Of the draws.

        Returns:
            The diagnosis; print it.
        """
        return diagnose_fit(
            self, num_simulations=num_simulations, false_alarm_rate=false_alarm_rate, seed=seed
        )


def _each(laws: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """A function of each law; once for a law that is in the list more than once."""
    done: dict[int, Any] = {}
    for law in laws:
        if id(law) not in done:
            done[id(law)] = function(law)
    return [done[id(law)] for law in laws]


def _checked_mask(given: Mask, observed: Tensor) -> Tensor:
    given = read_mask("given", given, len(observed))
    if bool((given & ~observed).any()):
        found = f"a mask that is true at node {int((given & ~observed).nonzero()[0])}, not observed"
    elif not bool(given.any()):
        found = "a mask without any node"
    elif bool(given.all()):
        found = "a mask of all nodes, which leaves none to predict"
    else:
        return given
    raise InvalidArgumentError(
        "given",
        f"boolean of shape {tuple(observed.shape)}, true at some observed nodes",
        found,
        'Pass a mask such as data.train_mask, or given="none".',
    )
