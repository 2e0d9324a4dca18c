"""What a fit knows: its model, its parameters or their posterior, and how it went."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..crew import present_crew
from ..models import CopulaGNN, NodeData
from .files import write_record
from .predictor import Predictor
from .training import History

#: A prediction mixes at most so many posterior draws, evenly thinned, in batches of so many
#: numbers: enough to make loops cheap, few enough for the memory.
_MAX_PARTS, _BATCH_NUMBERS = 200, 200_000


@dataclass(repr=False)
class Fit(Predictor):
    """A fitted model, as :func:`pyro_copula.fit` gives it.

    Attributes:
        model: The model, built for the data and with its modules as they were fitted.
        method: ``"mle"``, ``"map"``, ``"svi"`` or ``"nuts"``.
        history: What happened in training.
        posterior: Draws of the parameters, each ``(chains, draws, ...)``; None for ``"mle"`` and
            ``"map"``.
        diagnostics: What the sampler says (R-hat, effective sample size, divergences).
        settings: The options that were used, the seed included.
        versions: The versions of what ran.

    Example:
        >>> import pyro_copula as pc
        >>> data = pc.simulate.paper_setting("b")
        >>> model = pc.CopulaGNN("linear", "normal", "laplacian")
        >>> found = pc.fit(model, data, data.train_mask, schedule=pc.Schedule(max_epochs=20))
        >>> found
        CopulaGNN(backbone='linear', marginal='normal', precision='laplacian')
          method     mle, seed 0
          nodes      300, of which 100 observed
          training   stopped at 20 steps, still improving
          parameters tau ..., gamma ...
          next: .predict()  .diagnose()  .plot_history()  .refit(method='nuts')  .save(path)
        >>> sorted(found.scalars), found.converged
        (['gamma', 'tau'], False)
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
            return {name: float(self.posterior[name].mean()) for name in self.model.scalars}
        return {name: float(scalar().detach()) for name, scalar in self.model.scalars.items()}

    @property
    def interrupted(self) -> bool:
        """Whether the user ended it."""
        return self.history.interrupted or bool(self.diagnostics.get("interrupted"))

    @property
    def converged(self) -> bool:
        """Whether the fit ended as it should."""
        if self.interrupted:
            return False
        if self.method == "nuts":
            return self.diagnostics["max_r_hat"] < 1.05 and not self.diagnostics["divergences"]
        second = self.diagnostics.get("posterior", "converged")
        return self.history.converged and second.startswith("converged")

    @property
    def _data(self) -> NodeData:
        return self.model.data

    def _laws(self, hidden: Tensor | None = None) -> list[Any]:
        model = self.model
        if hidden is not None:
            model = copy.deepcopy(model)
            model.observe(model.data.hide(hidden))
        model.eval()
        with torch.no_grad():
            if self.posterior is None:
                return [model.joint()]
            sampled = "last_layer" in self.posterior
            fixed = {"hidden": model.hidden()} if sampled else {"outputs": model.outputs()}
            flat = {name: draws.flatten(0, 1) for name, draws in self.posterior.items()}
            total = len(next(iter(flat.values())))
            chosen = torch.linspace(0, total - 1, min(total, _MAX_PARTS)).round().long()
            size = max(1, _BATCH_NUMBERS // model.data.num_nodes)
            return [
                model.joint(**fixed, **{name: draws[some] for name, draws in flat.items()})
                for some in chosen.split(size)
            ]

    def refit(self, method: str, **options: Any) -> Any:
        """Fits again by another method, starting from this fit's parameters.

        Args:
            method: As in :func:`pyro_copula.fit`; ``"nuts"`` samples where this fit ended.
            **options: As there; those of this fit are not taken over, except for the seed.

        Returns:
            A new fit; this one stays as it is.
        """
        from .fitting import fit

        options = {"seed": self.settings.get("seed", 0), **options}
        return fit(self.model, self.model.data, method=method, start=self, **options)

    def plot_history(self, axes: Any = None) -> Any:
        """Draws the loss at every step and the validation score at every look.

        Args:
            axes: Matplotlib axes to draw on; new ones by default.

        Returns:
            The axes.
        """
        from .plots import plot_history

        return plot_history([self.history], axes)

    def save(self, path: str | Path) -> None:
        """Writes the fit to a file that :func:`pyro_copula.load_fit` reads.

        Args:
            path: The file to write. It holds numbers and text, and no code.
        """
        if present_crew().leads:
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
        """The fit in words.

        Returns:
            The text, which printing the fit shows, too.
        """
        data = self.model.data
        observed = int(data.observed.sum())
        lines = [
            f"{self.model!r}",
            f"  method     {self.method}, seed {self.settings.get('seed')}",
            f"  nodes      {data.num_nodes}, of which {observed} observed",
            f"  training   {self.history.verdict}",
        ]
        again = len(self.history.setbacks)
        if again:
            steps = "1 step" if again == 1 else f"{again} steps"
            lines.append(f"  setbacks   at {steps} with a loss or gradient that is not finite:")
            lines.append("             back to the last good state, and half the step from there")
        if self.model.family_reason:
            lines.insert(1, f"  marginal   {self.model.family_reason}")
        if self.method == "svi" and "posterior" in self.diagnostics:
            lines.append(f"  posterior  {self.diagnostics['posterior']}")
        if self.method == "nuts":
            lines.append(f"  sampler    {self._sampler()}")
        values = ", ".join(self._described(name) for name in self.model.scalars)
        if values:
            lines.append(f"  parameters {values}")
        return "\n".join(lines)

    def _sampler(self) -> str:
        said = self.diagnostics
        chains, draws = said["diverging"].shape
        ended = f"; {said['interrupted']}" if said["interrupted"] else ""
        return (
            f"{chains} x {draws} draws, R-hat {said['max_r_hat']:.3f}, effective sample size "
            f"{said['min_effective_sample_size']:.0f}, {said['divergences']} divergences{ended}"
        )

    def _described(self, name: str) -> str:
        if self.posterior is None:
            return f"{name} {self.scalars[name]:.3g}"
        draws = self.posterior[name]
        return f"{name} {float(draws.mean()):.3g} (sd {float(draws.std(correction=0)):.2g})"

    def __repr__(self) -> str:
        onward = "" if self.method == "nuts" else "  .refit(method='nuts')"
        shown = f".predict()  .diagnose()  .plot_history(){onward}  .save(path)"
        return f"{self.summary()}\n  next: {shown}"
