"""The part of the report on full Bayes with discrete outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pyro_copula.calibration import uniformity_p_value
from pyro_copula.calibration.uniformity import holm

from . import prose
from .posteriors import CHAIN_DRAWS, CHAINS, MODELS, NUM_DRAWS, RECOMMENDED, RULES

Records = Sequence[Mapping[str, Any]]

#: The chance that a right sampler has any quantity called not uniform.
REJECTED = 0.05


def section(records: Records) -> str:
    """The tables, empty without records."""
    parts = []
    posteriors = _posteriors(records)
    if posteriors:
        parts += [prose.POSTERIORS.format(chains=CHAINS, draws=CHAIN_DRAWS).strip(), posteriors]
    ranks = _ranks(records)
    if ranks:
        parts += [prose.RANKS.format(ranks=NUM_DRAWS + 1, rule=RECOMMENDED).strip(), ranks]
    return "\n\n".join(parts)


def _posteriors(records: Records) -> str:
    lines = []
    for model in MODELS:
        for rule in RULES:
            found = [r for r in records if r["dataset"] == f"nuts:{model}" and r["model"] == rule]
            if not found:
                continue
            m = found[0]["metrics"]
            lines.append(
                [
                    model,
                    rule,
                    f"{m['max_r_hat']:.3f}",
                    f"{m['divergences']:.0f}",
                    f"{m['min_effective_sample_size']:.0f}",
                    f"{1000 * m['ess_rho'] / m['gradients']:.0f}",
                    f"{1000 * smallest(m) / m['gradients']:.0f}",
                    f"{m['mean_rho']:.3f} ({m['sd_rho']:.3f})",
                    f"{m['mean_dispersion']:.3f} ({m['sd_dispersion']:.3f})",
                ]
            )
    heads = ["model", "rule", "largest R-hat", "divergences", "smallest ESS"]
    heads += ["ESS of rho per 1,000 gradients", "of the worst parameter"]
    heads += ["rho: mean (sd)", "dispersion: mean (sd)"]
    return prose.markdown(heads, lines) if lines else ""


def smallest(metrics: Mapping[str, float]) -> float:
    """The smallest effective sample size of a parameter, latents aside."""
    return min(value for name, value in metrics.items() if name.startswith("ess_"))


def _ranks(records: Records) -> str:
    lines, p_values = [], []
    for model in MODELS:
        rows = [r["metrics"] for r in records if r["dataset"] == f"sbc:{model}"]
        if len(rows) < 10:
            continue
        for name in sorted(key for key in rows[0] if key.startswith("rank_")):
            ranks = np.array([row[name] for row in rows]).astype(int)
            p_values.append(uniformity_p_value(ranks, NUM_DRAWS + 1))
            spread = ranks.std(ddof=1) / np.sqrt(((NUM_DRAWS + 1) ** 2 - 1) / 12)
            middle = (ranks.mean() + 0.5) / (NUM_DRAWS + 1)
            what = name.removeprefix("rank_").replace("_", " ")
            lines.append([model, what, str(len(rows)), f"{middle:.3f}", f"{spread:.2f}"])
    if not lines:
        return ""
    corrected = holm(np.array(p_values))
    for line, p, after in zip(lines, p_values, corrected, strict=True):
        line += [f"{p:.2f}", f"{after:.2f}"]
    heads = ["model", "quantity", "replications", "mean rank (0.5)", "spread (1)", "p", "corrected"]
    rejected = int((corrected < REJECTED).sum())
    verdict = f"Not uniform at a rate of {REJECTED:.0%} for the whole table: {rejected or 'none'}."
    return f"{prose.markdown(heads, lines)}\n\n{verdict}"
