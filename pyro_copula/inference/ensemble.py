"""Several fits as one result: restarts of a model, or a stack of models."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor

from ..crew import present_crew
from ..errors import InvalidArgumentError, SeveralFitsError
from ..models import CopulaGNN, NodeData
from .files import write_record
from .predictor import Predictor
from .result import Fit

#: The distance between the seeds of restarts, so that chains and restarts do not share any.
SEED_STEP = 1000


@dataclass(repr=False)
class Ensemble(Predictor):
    """Several fits, predicting as an equal mixture: restarts of a model, or a stack of models.

    It has what a :class:`Fit` has. What is one thing per fit, as ``diagnostics``, is a list in the
    order of ``members``; ``history`` and ``posterior`` are asked of one of the ``fits``.

    Attributes:
        fits: The fits. In a stack a fit counts as often as it is in the list.
        settings: The options that were used.

    Example:
        >>> import pyro_copula as pc
        >>> data = pc.simulate.paper_setting("b")
        >>> model = pc.CopulaGNN("linear", "normal", "laplacian")
        >>> short = pc.Schedule(max_epochs=5)
        >>> ensemble = pc.fit(model, data, data.train_mask, restarts=2, schedule=short)
        >>> len(ensemble.fits), ensemble.method
        (2, 'mle')
        >>> ensemble.predict().mean.shape
        torch.Size([200])
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
    def interrupted(self) -> bool:
        """Whether the user ended it."""
        return bool(self.settings.get("interrupted")) or any(fit.interrupted for fit in self.fits)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of what ran; all of them where the fits differ."""
        rows: dict[str, dict[str, None]] = {}
        for fit in self.fits:
            for name, version in fit.versions.items():
                rows.setdefault(name, {})[version] = None
        return {name: ", ".join(found) for name, found in rows.items()}

    @property
    def diagnostics(self) -> list[dict[str, Any]]:
        """What the sampler says of each of the ``members``, in their order."""
        return [fit.diagnostics for fit, _ in self.members]

    @property
    def history(self) -> NoReturn:
        """Each fit has one of its own: ``ensemble.fits[0].history``."""
        raise self._no_single("history", "ensemble.fits[0].history, or ensemble.plot_history()")

    @property
    def posterior(self) -> None:
        """None if no fit has one; else each has its own: ``ensemble.fits[0].posterior``."""
        if any(fit.posterior is not None for fit in self.fits):
            raise self._no_single("posterior", "ensemble.fits[0].posterior")

    @property
    def scalars(self) -> dict[str, float]:
        """The global parameters, each averaged over the fits that have it."""
        rows: dict[str, list[float]] = {}
        for fit in self.fits:
            for name, value in fit.scalars.items():
                rows.setdefault(name, []).append(value)
        return {name: sum(values) / len(values) for name, values in rows.items()}

    @property
    def members(self) -> list[tuple[Fit, float]]:
        """The different fits, each with its weight in the mixture."""
        count = Counter(id(fit) for fit in self.fits)
        return [(fit, count[id(fit)] / len(self.fits)) for fit in _different(self.fits)]

    @property
    def _data(self) -> NodeData:
        return self.model.data

    def _laws(self, hidden: Tensor | None = None) -> list[Any]:
        laws = {id(fit): fit._laws(hidden) for fit in _different(self.fits)}
        return [law for fit in self.fits for law in laws[id(fit)]]

    def _no_single(self, name: str, instead: str) -> SeveralFitsError:
        count = len(_different(self.fits))
        found = "1 fit in an ensemble" if count == 1 else f"{count} fits"
        return SeveralFitsError(name, "that of one fit", found, f"Look at {instead}.")

    def refit(self, method: str, **options: Any) -> Ensemble:
        """Fits every member again by another method, each starting from its own parameters.

        The weights in the mixture stay as they are, also those that a stack chose by the validation
        scores of the fits before. Ctrl-C ends it with the members fitted so far.

        Args:
            method: As in :func:`pyro_copula.fit`; ``"nuts"`` samples where each fit ended.
            **options: As there, for every member; those of the fits are not taken over, except for
                their seeds. A ``seed`` given here is that of the first, and the others follow as
                for restarts.

        Returns:
            A new ensemble; this one stays as it is.
        """
        for name in ("restarts", "checkpoint"):
            if options.get(name) is not None:
                raise InvalidArgumentError(
                    name,
                    "left out where several fits are refitted",
                    repr(options[name]),
                    f"Refit them one by one: ensemble.fits[0].refit({method!r}, {name}=...).",
                )
        seed = options.pop("seed", None)
        again: dict[int, Fit] = {}
        for k, fit in enumerate(_different(self.fits)):
            own = {} if seed is None else {"seed": seed + SEED_STEP * k if k else seed}
            again[id(fit)] = fit.refit(method, **options, **own)
            if again[id(fit)].interrupted:
                break
        fits = [again[id(fit)] for fit in self.fits if id(fit) in again]
        kept = {k: v for k, v in self.settings.items() if k in ("restarts", "models")}
        return Ensemble(fits, {**fits[0].settings, **kept})

    def plot_history(self, axes: Any = None) -> Any:
        """Draws the losses and the validation scores of all members, one line for each.

        Args:
            axes: Matplotlib axes to draw on; new ones by default.

        Returns:
            The axes.
        """
        from .plots import plot_history

        return plot_history([fit.history for fit, _ in self.members], axes)

    def save(self, path: str | Path) -> None:
        """Writes the fits to a file that :func:`pyro_copula.load_fit` reads.

        Args:
            path: The file to write. It holds numbers and text, and no code.
        """
        different = _different(self.fits)
        place = {id(fit): k for k, fit in enumerate(different)}
        record = {
            "fits": [fit._record() for fit in different],
            "members": [place[id(fit)] for fit in self.fits],
            "settings": self.settings,
        }
        if present_crew().leads:
            write_record(Path(path), "ensemble", record)

    def summary(self) -> str:
        """The fits in words, each with its weight in the mixture.

        Returns:
            The text.
        """
        rows = [
            f"  {weight:.0%} {textwrap.indent(fit.summary(), '    ').lstrip()}"
            for fit, weight in self.members
        ]
        return "\n".join([self._head(), *rows])

    def _head(self) -> str:
        different = _different(self.fits)
        ended = sum(fit.converged for fit in different)
        if self.settings.get("models", 1) == 1:
            asked = self.settings.get("restarts", len(self.fits))
            of = f" of {asked}" if asked != len(self.fits) else ""
            return f"Ensemble of {len(self.fits)}{of} fits, {ended} converged"
        return f"Stack of {len(different)} of {self.settings['restarts']} fits, {ended} converged"

    def __repr__(self) -> str:
        onward = "  next: .predict()  .diagnose()  .fits[k]  .save(path)"
        if self.settings.get("models", 1) == 1:
            return f"{self._head()}\n{self.fits[0].summary()}\n{onward}"
        reasons = dict.fromkeys(fit.model.family_reason for fit in _different(self.fits))
        rows = [f"  marginal   {reason}" for reason in reasons if reason]
        for fit, weight in self.members:  # restarts of one model differ in nothing but the seed
            rows.append(f"  {weight:.0%} {fit.model!r}, seed {fit.settings.get('seed')}")
        return "\n".join([self._head(), *rows, onward])


def _different(fits: Sequence[Fit]) -> list[Fit]:
    """The fits without repetitions, in order."""
    return list({id(fit): fit for fit in fits}.values())
