"""What a fit knows: its model, its parameters or their posterior, and how it went."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..models import CopulaGNN
from .files import write_record
from .prediction import Prediction
from .training import History

_MAX_PARTS = 200


@dataclass
class Fit:
    """A fitted model.

    Attributes:
        model: The model, built for the data and with its modules as they were fitted.
        method: ``"mle"``, ``"map"``, ``"svi"`` or ``"nuts"``.
        posterior: Draws of the global parameters, each ``(chains, draws)``; None for ``"mle"``
            and ``"map"``.
        history: What happened in training.
        diagnostics: What the sampler says (R-hat, effective sample size, divergences).
        settings: What was asked for, the seed included.
        versions: The versions of what ran.
    """

    model: CopulaGNN
    method: str
    history: History
    posterior: dict[str, Tensor] | None = None
    diagnostics: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def scalars(self) -> dict[str, float]:
        """The global parameters: fitted values, or posterior means."""
        if self.posterior is not None:
            return {name: float(draws.mean()) for name, draws in self.posterior.items()}
        return {name: float(scalar().detach()) for name, scalar in self.model.scalars.items()}

    @property
    def converged(self) -> bool:
        """Whether the fit ended as it should."""
        if self.method == "nuts":
            return self.diagnostics["max_r_hat"] < 1.05 and not self.diagnostics["divergences"]
        return self.history.converged

    def joint(self) -> list[Any]:
        """The joint laws of all nodes: one, or one per posterior draw (thinned to 200)."""
        with torch.no_grad():
            self.model.eval()
            outputs = self.model.outputs()
            if self.posterior is None:
                return [self.model.joint(outputs)]
            flat = {name: draws.reshape(-1) for name, draws in self.posterior.items()}
            total = len(next(iter(flat.values())))
            chosen = torch.linspace(0, total - 1, min(total, _MAX_PARTS)).round().long()
            return [
                self.model.joint(outputs, **{name: draws[k] for name, draws in flat.items()})
                for k in chosen
            ]

    def predict(
        self,
        num_samples: int = 1000,
        *,
        given: str = "observed",
        nodes: Tensor | Sequence[int] | None = None,
    ) -> Prediction:
        """Predicts values.

        Args:
            num_samples: The number of joint draws in ``samples``.
            given: ``"observed"``: every missing node given the observed ones; ``"none"``: every
                node from its marginal alone, as if nothing were observed.
            nodes: Some of these nodes only.
        """
        if given not in ("observed", "none"):
            raise InvalidArgumentError(
                "given", '"observed" or "none"', repr(given), 'Use given="observed".'
            )
        y = self.model.data.y
        with torch.no_grad():
            if given == "none":
                parts = [law.unconditional() for law in self.joint()]
            else:
                parts = [law.condition(y) for law in self.joint()]
        chosen = None if nodes is None else torch.as_tensor(nodes)
        return Prediction(parts, chosen, num_samples=num_samples, names=self.settings.get("names"))

    def refit(self, method: str, **options: Any) -> Any:
        """Fits again by another method, starting from this fit's parameters."""
        from .fitting import fit

        return fit(self.model, self.model.data, method=method, start=self, **options)

    def save(self, path: str | Path) -> None:
        """Writes the fit to a file that :func:`pyro_copula.load_fit` reads."""
        write_record(Path(path), "fit", self._record())

    def _record(self) -> dict[str, Any]:
        data = self.model.data
        return {
            "spec": json.dumps(self.model.specification()),
            "method": self.method,
            "state": {k: v.detach().clone() for k, v in self.model.state_dict().items()},
            "posterior": self.posterior,
            "history": asdict(self.history),
            "diagnostics": self.diagnostics,
            "settings": self.settings,
            "versions": self.versions,
            "data": {
                "x": data.x,
                "edges": torch.tensor(data.graph.edges),
                "y": data.y,
                "exposure": data.exposure,
            },
        }

    def summary(self) -> str:
        """The fit in words."""
        data = self.model.data
        observed = int(data.observed.sum())
        lines = [
            f"{self.model!r}",
            f"  method     {self.method}, seed {self.settings.get('seed')}",
            f"  nodes      {data.num_nodes}, of which {observed} observed",
            f"  ended      {self.history.verdict}"
            if self.method != "nuts"
            else f"  sampler    R-hat {self.diagnostics['max_r_hat']:.3f}, "
            f"{self.diagnostics['divergences']} divergences",
        ]
        values = ", ".join(f"{name} {value:.3g}" for name, value in self.scalars.items())
        if values:
            lines.append(f"  parameters {values}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{self.summary()}\n  next: .predict()  .refit(method='nuts')  .save(path)"


@dataclass
class Ensemble:
    """Several fits of the same model from different seeds, predicting as an equal mixture.

    Attributes:
        fits: The fits.
        settings: What was asked for.
    """

    fits: list[Fit]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> CopulaGNN:
        """The model of the first fit."""
        return self.fits[0].model

    @property
    def method(self) -> str:
        """How each was fitted."""
        return self.fits[0].method

    @property
    def converged(self) -> bool:
        """Whether every fit ended as it should."""
        return all(fit.converged for fit in self.fits)

    @property
    def scalars(self) -> dict[str, float]:
        """The global parameters, averaged over the fits."""
        rows = [fit.scalars for fit in self.fits]
        return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}

    def predict(
        self,
        num_samples: int = 1000,
        *,
        given: str = "observed",
        nodes: Tensor | Sequence[int] | None = None,
    ) -> Prediction:
        """Predicts by the equal mixture of the fits; see :meth:`Fit.predict`."""
        parts = [part for fit in self.fits for part in fit.predict(given=given)._parts]
        chosen = None if nodes is None else torch.as_tensor(nodes)
        return Prediction(parts, chosen, num_samples=num_samples, names=self.settings.get("names"))

    def save(self, path: str | Path) -> None:
        """Writes the fits to a file that :func:`pyro_copula.load_fit` reads."""
        record = {"fits": [fit._record() for fit in self.fits], "settings": self.settings}
        write_record(Path(path), "ensemble", record)

    def __repr__(self) -> str:
        ended = sum(fit.converged for fit in self.fits)
        return (
            f"Ensemble of {len(self.fits)} fits, {ended} converged\n{self.fits[0].summary()}\n"
            "  next: .predict()  .fits[k]  .save(path)"
        )
