"""What a calibration run found: ranks, a test of their uniformity, and the sampler's health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InvalidArgumentError
from .uniformity import holm, uniformity_p_value

#: R-hat above this is counted as a chain that did not mix.
R_HAT = 1.05


@dataclass(frozen=True)
class Failure:
    """A replication that gave no ranks.

    Attributes:
        replication: Its number.
        seed: Of its truth: ``pyro.set_rng_seed(seed)`` and then the model draws the same data. The
            sampler was given the next seed.
        error: What it ended with, in a line.
        traceback: Where.

    Example:
        >>> Failure(3, 12345, "ValueError: no", "...")
        Failure(replication 3, seed 12345: ValueError: no)
    """

    replication: int
    seed: int
    error: str
    traceback: str

    def __repr__(self) -> str:
        return f"Failure(replication {self.replication}, seed {self.seed}: {self.error})"


@dataclass(repr=False)
class SBCResult:
    """Ranks of true values among posterior draws; uniform if the sampler is right.

    Attributes:
        ranks: By quantity, integers from 0 to ``num_draws``, shape ``(num_replications,)``.
        truths: The true values, of the same shapes.
        num_draws: The number of draws that each truth was ranked among.
        seeds: The seeds of the replications, shape ``(num_replications,)``.
        failures: The replications that gave no ranks.
        health: What the samplers said, one array a name; empty if they said nothing.
        requested: How many replications were asked for.
        interrupted: Whether the user ended the run.

    Example:
        >>> generator = np.random.default_rng(0)
        >>> ranks = {"rho": generator.integers(0, 100, 300), "mu": generator.integers(0, 50, 300)}
        >>> found = SBCResult(ranks, num_draws=99)
        >>> found
        SBCResult: 300 replications, each truth ranked among 99 draws
          mu   draws too high   p < 1e-10
          rho  uniform          p = ...
          not uniform at 1% after Holm's correction: mu
          next: .summary()  .plot()  .to_frame()  .ranks
        >>> found.rejected()
        ['mu']
    """

    ranks: dict[str, np.ndarray]
    num_draws: int
    truths: dict[str, np.ndarray] = field(default_factory=dict)
    seeds: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    failures: list[Failure] = field(default_factory=list)
    health: dict[str, np.ndarray] = field(default_factory=dict)
    requested: int | None = None
    interrupted: bool = False

    @property
    def num_replications(self) -> int:
        """How many replications gave ranks."""
        return len(next(iter(self.ranks.values())))

    @property
    def num_ranks(self) -> int:
        """How many ranks there can be: one more than the draws."""
        return self.num_draws + 1

    @cached_property
    def p_values(self) -> dict[str, float]:
        """The exact p-value of uniformity of each quantity, without any correction."""
        return {name: uniformity_p_value(x, self.num_ranks) for name, x in self.ranks.items()}

    @cached_property
    def corrected_p_values(self) -> dict[str, float]:
        """The p-values after Holm's correction for the number of quantities."""
        corrected = holm(np.array(list(self.p_values.values())))
        return dict(zip(self.p_values, corrected.tolist(), strict=True))

    def rejected(self, level: float = 0.01) -> list[str]:
        """The quantities whose ranks are not uniform.

        If the sampler is right, the list is empty with probability ``1 - level`` or more, however
        many quantities there are and however they depend on each other.

        Args:
            level: The chance of a false alarm over all quantities together.

        Returns:
            Their names.
        """
        if not 0 < level < 1:
            raise InvalidArgumentError("level", "between 0 and 1", repr(level), "Use 0.01.")
        return [name for name, p in self.corrected_p_values.items() if p <= level]

    def to_frame(self) -> Any:
        """A pandas table: one row a quantity.

        ``mean_rank`` is 0.5 and ``spread`` is 1 for uniform ranks: a mean above 0.5 means that the
        draws are too low, a spread above 1 that the posterior is too narrow.

        Returns:
            The table.
        """
        import pandas as pd

        names = list(self.ranks)
        columns = {
            "replications": [len(self.ranks[name]) for name in names],
            "mean_rank": [self._mean(name) for name in names],
            "spread": [self._spread(name) for name in names],
            "p_value": [self.p_values[name] for name in names],
            "p_holm": [self.corrected_p_values[name] for name in names],
        }
        return pd.DataFrame(columns, index=pd.Index(names, name="quantity"))

    def plot(
        self,
        kind: str = "ecdf",
        *,
        quantities: Sequence[str] | None = None,
        level: float = 0.95,
        max_panels: int = 12,
        axes: Any = None,
    ) -> Any:
        """Draws the ranks, one panel a quantity.

        Args:
            kind: ``"ecdf"``: the empirical distribution minus the uniform one, with a band that
                holds all curves together with probability ``level``; ``"histogram"``: counts, with
                the interval of each bar by itself.
            quantities: Which ones; by default those with the smallest p-values.
            level: Of the band or the intervals.
            max_panels: At most so many, unless ``quantities`` are named.
            axes: Where to draw, one axes a quantity; a new figure if not given.

        Returns:
            The axes, in the order of the quantities.
        """
        from .plots import plot_ranks

        return plot_ranks(self, kind, quantities, level, max_panels, axes)

    def summary(self) -> str:
        """The table in words, with the test, the failures and the sampler's health.

        Returns:
            The text, which printing the result shows, too.
        """
        rows = [("quantity", "mean rank", "spread", "p", "p (Holm)", "")]
        rows += [
            (
                name,
                f"{self._mean(name):.3f}",
                f"{self._spread(name):.2f}",
                _p(self.p_values[name]),
                _p(self.corrected_p_values[name]),
                self._verdict(name),
            )
            for name in self.ranks
        ]
        widths = [max(len(row[k]) for row in rows) for k in range(5)]
        lines = [self._headline()]
        for row in rows:
            cells = [row[0].ljust(widths[0])]
            cells += [row[k].rjust(widths[k]) for k in range(1, 5)]
            lines.append("  " + "  ".join([*cells, row[5]]).rstrip())
        lines += [
            "  p: exact test of uniform ranks by the largest excursion of their distribution",
            "  (Säilynoja, Bürkner and Vehtari 2022); mean rank 0.5 and spread 1 are right",
        ]
        return "\n".join(lines + self._notes())

    def __repr__(self) -> str:
        width = max(len(name) for name in self.ranks)
        words = {name: self._verdict(name) for name in self.ranks}
        lines = [self._headline()]
        for name in sorted(self.ranks, key=lambda name: self.p_values[name])[:8]:
            relation = _p(self.p_values[name])
            relation = f"p {relation}" if relation.startswith("<") else f"p = {relation}"
            verdict = words[name].ljust(max(map(len, words.values())))
            lines.append(f"  {name.ljust(width)}  {verdict}   {relation}")
        if len(self.ranks) > 8:
            lines.append(f"  and {len(self.ranks) - 8} more with larger p-values")
        lines += [*self._notes(), "  next: .summary()  .plot()  .to_frame()  .ranks"]
        return "\n".join(lines)

    # ---------------------------------------------------------------- internals

    def _mean(self, name: str) -> float:
        return float(self.ranks[name].mean() / self.num_draws)

    def _spread(self, name: str) -> float:
        variance = (self.num_ranks**2 - 1) / 12
        squares = (self.ranks[name] - self.num_draws / 2) ** 2
        return float(np.sqrt(squares.mean() / variance))

    def _verdict(self, name: str) -> str:
        """What the ranks say, in words; the larger of the two deviations decides."""
        if self.p_values[name] > 0.05:
            return "uniform"
        root = np.sqrt(self.num_replications)
        shift = root * (self._mean(name) - 0.5) / np.sqrt(1 / 12)
        width = root * (self._spread(name) ** 2 - 1) / np.sqrt(0.8)  # 1.8 is its kurtosis
        if abs(shift) >= abs(width):
            words = "draws too low" if shift > 0 else "draws too high"
        else:
            words = "posterior too narrow" if width > 0 else "posterior too wide"
        return words if self.corrected_p_values[name] <= 0.01 else f"{words}?"

    def _headline(self) -> str:
        asked = "" if self.requested in (None, self.num_replications) else f" of {self.requested}"
        return (
            f"SBCResult: {self.num_replications}{asked} replications, each truth ranked among "
            f"{self.num_draws} draws"
        )

    def _notes(self) -> list[str]:
        rejected = self.rejected()
        lines = [
            f"  not uniform at 1% after Holm's correction: {', '.join(rejected)}"
            if rejected
            else "  no quantity departs from uniform ranks at 1% after Holm's correction"
        ]
        if self.interrupted:
            lines.append("  interrupted: these are the replications that were finished")
        if self.failures:
            lines.append(f"  {len(self.failures)} replications failed, and ranks may be biased:")
            for failure in self.failures[:3]:
                first = failure.error.splitlines()[0]
                lines.append(f"    {failure.replication} (seed {failure.seed}): {first}")
        return lines + self._sampler_notes()

    def _sampler_notes(self) -> list[str]:
        said, lines = self.health, []
        if "max_r_hat" in said:
            bad = int((said["max_r_hat"] > R_HAT).sum())
            lines.append(f"R-hat above {R_HAT} in {bad} of {len(said['max_r_hat'])} replications")
        if "min_effective_sample_size" in said:
            size = said["min_effective_sample_size"]
            lines.append(f"effective sample size: median {np.median(size):.0f}")
            few = int((size < self.num_draws).sum())
            if few:
                lines[-1] += f", below the {self.num_draws} ranked draws in {few}: raise `thin`"
        if "divergences" in said:
            bad = int((said["divergences"] > 0).sum())
            lines.append(f"divergences in {bad} of {len(said['divergences'])} replications")
        return [f"  sampler: {line}" for line in lines]


def _p(value: float) -> str:
    return "< 1e-10" if value < 1e-10 else f"{value:.2g}"
