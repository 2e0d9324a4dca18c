"""How the iterative engine works: probes, accuracy, random numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import InvalidArgumentError
from ...errors.counts import check_count


@dataclass(frozen=True)
class Iterative:
    """The iterative backend with options of its own; ``backend="iterative"`` has the defaults.

    Where a default says *training* and *evaluation*, training is when derivatives of the precision
    are recorded, evaluation when they are not.

    Attributes:
        num_probes: How many vectors of random signs the averages go over: 16 in training, 64 in
            evaluation. Standard errors fall with its square root.
        tolerance: The relative residual at which the solves behind the averages stop: 1e-4 in
            training, 1e-6 in evaluation. At 1e-2 the averages are visibly biased.
        solve_tolerance: The same for solves with given right-hand sides, which have no noise to
            hide in: always float64.
        max_iterations: Conjugate gradients that need more end in a
            :class:`~pyro_copula.errors.ConvergenceWarning` or ``ConvergenceError``.
        rank: The number of eigenvectors in the control variate.
        dtype: Of the blocks of vectors: float32 in training, float64 in evaluation. Sums over
            nodes are always float64.
        seed: Of the probes. Without it, training takes a new one from torch's generator for every
            precision, so that its steps are independent and ``pyro.set_rng_seed`` repeats them;
            evaluation uses the same probes every time, so that results repeat, and those at
            different parameters can be compared. With it, all precisions share their probes: the
            log density is then a smooth function of the parameters, as NUTS and L-BFGS need.

    Example:
        >>> import pyro_copula as pc
        >>> pc.Iterative(num_probes=32, seed=1)
        Iterative(num_probes=32, seed=1)
        >>> graph = pc.Graph.from_edges([(0, 1), (1, 2)])
        >>> pc.CARPrecision(graph, backend=pc.Iterative(num_probes=32))(rho=0.9, tau=1.0)
        SparsePrecision(num_nodes=3, num_edges=2, backend='iterative')
    """

    num_probes: int | None = None
    tolerance: float | None = None
    solve_tolerance: float = 1e-8
    max_iterations: int = 500
    rank: int = 16
    dtype: torch.dtype | None = None
    seed: int | None = None

    name = "iterative"

    def __post_init__(self) -> None:
        for argument, least in (("num_probes", 2), ("max_iterations", 1), ("rank", 0)):
            value = getattr(self, argument)
            if value is None and argument == "num_probes":
                continue
            check_count(argument, value, "Leave it out.", least=least)
        for argument in ("tolerance", "solve_tolerance"):
            value = getattr(self, argument)
            if value is not None and not (0 < value < 1 and math.isfinite(value)):
                raise InvalidArgumentError(
                    argument, "between 0 and 1", repr(value), "Leave it out for the default."
                )
        if self.dtype not in (None, torch.float32, torch.float64):
            raise InvalidArgumentError(
                "dtype", "torch.float32 or torch.float64", str(self.dtype), "Leave it out."
            )

    def settled(self, training: bool) -> Iterative:
        """The same options with every default filled in but the seed."""
        probes, tolerance, dtype = (
            (16, 1e-4, torch.float32) if training else (64, 1e-6, torch.float64)
        )
        return Iterative(
            num_probes=self.num_probes or probes,
            tolerance=self.tolerance or tolerance,
            solve_tolerance=self.solve_tolerance,
            max_iterations=self.max_iterations,
            rank=self.rank,
            dtype=self.dtype or dtype,
            seed=self.seed,
        )

    def changed(self) -> dict[str, Any]:
        """The options that are not the default, as plain values that a file can hold."""
        default = Iterative.__dataclass_fields__
        found = {k: getattr(self, k) for k in default if getattr(self, k) != default[k].default}
        return {k: str(v) if isinstance(v, torch.dtype) else v for k, v in found.items()}

    @classmethod
    def from_changed(cls, options: Mapping[str, Any]) -> Iterative:
        """The options that :meth:`changed` gives, as an object again."""
        unknown = sorted(set(options) - set(cls.__dataclass_fields__))
        if unknown:
            raise InvalidArgumentError(
                "backend",
                f"options of Iterative: {sorted(cls.__dataclass_fields__)}",
                f"{unknown}",
                "Drop the others.",
            )
        dtype = {"torch.float32": torch.float32, "torch.float64": torch.float64}
        return cls(**{k: dtype.get(v, v) if k == "dtype" else v for k, v in options.items()})

    def __repr__(self) -> str:
        shown = (f"{name}={value}" for name, value in self.changed().items())
        return f"Iterative({', '.join(shown)})"
