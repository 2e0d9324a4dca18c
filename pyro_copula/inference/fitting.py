"""``fit``: one function, four methods, one kind of result."""

from __future__ import annotations

import copy
import importlib.metadata
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyro
import torch
from pyro.infer import Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal
from torch import Tensor, nn

from ..errors import InvalidArgumentError
from ..models import CopulaGNN, NodeData
from ..scalars import Constrained
from .nuts import sample_posterior
from .result import Ensemble, Fit
from .training import History, Schedule, train

METHODS = ("mle", "map", "svi", "nuts")


def fit(
    model: CopulaGNN,
    data: Any,
    observed: Tensor | None = None,
    method: str = "mle",
    *,
    validation: float | Tensor = 0.2,
    seed: int = 0,
    lr: float | Sequence[float] = 0.01,
    scalar_lr: float | None = None,
    weight_decay: float = 5e-4,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
    schedule: Schedule | None = None,
    restarts: int | None = None,
    guide: Callable[..., Any] | None = None,
    num_draws: int = 500,
    num_warmup: int = 300,
    num_chains: int = 2,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    start: Fit | None = None,
) -> Fit | Ensemble:
    """Fits a model.

    Args:
        model: The model.
        data: A PyTorch Geometric ``Data`` with ``x``, ``edge_index`` and ``y``.
        observed: Boolean, shape ``(num_nodes,)``: the values that may be looked at. Without it,
            every value that is not NaN.
        method: ``"mle"``: maximum likelihood; ``"map"``: with the priors; ``"svi"``: a normal
            posterior of the global parameters; ``"nuts"``: draws of it, with the network at its
            MAP.
        validation: The observed nodes on which to judge when to stop: a share of them, drawn at
            random, or a boolean mask. Predictions condition on all observed nodes.
        seed: Of everything random in the fit.
        lr: The learning rate, or several to choose from by validation score.
        scalar_lr: That of the global parameters; five times ``lr`` by default, for they are few
            and on a log scale.
        weight_decay: On the network only, and there not on a linear skip.
        optimizer: Any class of torch.optim.
        schedule: How long to train; see :class:`Schedule`.
        restarts: Fit so many times from different seeds and predict with the equal mixture.
        guide: For ``"svi"``: makes the guide from the model; AutoNormal by default.
        num_draws: For ``"svi"`` and ``"nuts"``: posterior draws (per chain).
        num_warmup: For ``"nuts"``: warm-up steps per chain.
        num_chains: For ``"nuts"``.
        progress: Whether to show a progress bar; by default if this is a terminal.
        checkpoint: A file that keeps the state of training, from which the same call resumes.
        start: A fit whose parameters to start from.

    Returns:
        A :class:`Fit`, or an :class:`Ensemble` if there are restarts.
    """
    if method not in METHODS:
        raise InvalidArgumentError("method", f"one of {METHODS}", repr(method), 'Use "mle".')
    restarts = (model.recipe_restarts if start is None else 1) if restarts is None else restarts
    if not isinstance(restarts, int) or restarts < 1:
        raise InvalidArgumentError("restarts", "a positive integer", repr(restarts), "Use 1.")
    progress = sys.stderr.isatty() if progress is None else progress
    options = {
        "validation": validation,
        "lr": [float(v) for v in ([lr] if isinstance(lr, float | int) else lr)],
        "scalar_lr": scalar_lr,
        "weight_decay": weight_decay,
        "optimizer": optimizer,
        "schedule": schedule or Schedule(),
        "guide": guide,
        "draws": (num_draws, num_warmup, num_chains),
        "progress": progress,
    }
    fits = []
    for k in range(restarts):
        path = None if checkpoint is None else Path(checkpoint)
        if path is not None and restarts > 1:
            path = path.with_name(f"{path.name}.{k}")
        job = _Job(model, data, observed, method, seed + 1000 * k, start, path, options)
        fits.append(job.run())
    return fits[0] if restarts == 1 else Ensemble(fits, {"seed": seed, "restarts": restarts})


class _Job:
    """One fit."""

    def __init__(
        self,
        model: CopulaGNN,
        data: Any,
        observed: Tensor | None,
        method: str,
        seed: int,
        start: Fit | None,
        checkpoint: Path | None,
        options: dict[str, Any],
    ) -> None:
        self.method, self.seed, self.checkpoint = method, seed, checkpoint
        self.options = options
        pyro.set_rng_seed(seed)
        pyro.clear_param_store()
        self.data = NodeData.from_pyg(data, observed, model.exposure)
        self.held_out = _validation_nodes(options["validation"], self.data.observed, seed)
        self.training = self.data.hide(self.held_out)
        self.spec = model
        self.start = start

    def run(self) -> Fit:
        if self.method == "nuts":
            return self._nuts()
        results = []
        for k, lr in enumerate(self.options["lr"]):
            pyro.set_rng_seed(self.seed)
            model = self._fresh()
            path = self.checkpoint
            if path is not None and len(self.options["lr"]) > 1:
                path = path.with_name(f"{path.name}.lr{k}")
            results.append(self._train(model, lr, path))
        model, guide, history = max(results, key=lambda r: r[2].best_score)
        model.observe(self.data)
        posterior = None
        if self.method == "map":
            self._set_scalars(model, guide.median())
        elif self.method == "svi":
            posterior = self._guide_draws(guide)
        return self._result(model, history, posterior)

    def _fresh(self) -> CopulaGNN:
        if self.start is not None:
            model = copy.deepcopy(self.start.model)
            model.observe(self.training)
            return model
        return self.spec.build(self.training)

    def _train(
        self, model: CopulaGNN, lr: float, path: Path | None
    ) -> tuple[CopulaGNN, Any, History]:
        y, known = self.training.y, int(self.training.observed.sum())
        guide = None
        whole: nn.Module = model
        if self.method == "mle":

            def loss() -> Tensor:
                model.train()
                return -model.joint().log_prob(y) / known

            def scalars() -> dict[str, Tensor]:
                return {}
        else:
            make = self.options["guide"] or (AutoDelta if self.method == "map" else AutoNormal)
            guide = make(model.model)
            elbo = Trace_ELBO()
            guide(y)  # makes its parameters
            whole = nn.ModuleDict({"model": model, "guide": guide})

            def loss() -> Tensor:
                model.train()
                return elbo.differentiable_loss(model.model, guide, y) / known

            def scalars() -> dict[str, Tensor]:
                return guide.median()

        def score() -> float:
            model.eval()
            with torch.no_grad():
                conditional = model.joint(**scalars()).condition(y)
                values = self.data.y[conditional.nodes]
                return float(conditional.marginal_log_prob(values).nanmean())

        history = train(
            loss,
            score,
            whole,
            self._optimizer(whole, lr),
            self.options["schedule"],
            progress=self.options["progress"],
            label=f"{self.method}, lr {lr:g}",
            checkpoint=path,
        )
        return model, guide, history

    def _optimizer(self, module: nn.Module, lr: float) -> torch.optim.Optimizer:
        scalar_lr = self.options["scalar_lr"] or 5 * lr
        network, plain, scalars = [], [], []
        held = {
            id(p) for m in module.modules() if isinstance(m, Constrained) for p in m.parameters()
        }
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            if id(parameter) in held or name.startswith("guide."):
                scalars.append(parameter)
            elif ".skip." in name or name.endswith("bias"):
                plain.append(parameter)
            else:
                network.append(parameter)
        groups = [
            {"params": network, "lr": lr, "weight_decay": self.options["weight_decay"]},
            {"params": plain, "lr": lr, "weight_decay": 0.0},
            {"params": scalars, "lr": scalar_lr, "weight_decay": 0.0},
        ]
        return self.options["optimizer"]([g for g in groups if g["params"]], lr=lr)

    def _nuts(self) -> Fit:
        if self.start is None or self.start.method == "mle":
            first = copy.copy(self)
            first.method = "map"
            base = first.run()
        else:
            base = self.start
        model = copy.deepcopy(base.model)
        model.observe(self.data)
        draws, warmup, chains = self.options["draws"]
        posterior, diagnostics = sample_posterior(
            model,
            num_draws=draws,
            num_warmup=warmup,
            num_chains=chains,
            seed=self.seed,
            progress=self.options["progress"],
        )
        return self._result(model, base.history, posterior, diagnostics)

    def _set_scalars(self, model: CopulaGNN, values: dict[str, Tensor]) -> None:
        for name, scalar in model.scalars.items():
            scalar.set_(values[name].detach())

    def _guide_draws(self, guide: Any) -> dict[str, Tensor]:
        count = self.options["draws"][0]
        with torch.no_grad():
            rows = [guide(self.training.y) for _ in range(count)]
        return {name: torch.stack([row[name] for row in rows])[None] for name in rows[0]}

    def _result(
        self,
        model: CopulaGNN,
        history: History,
        posterior: dict[str, Tensor] | None = None,
        diagnostics: dict[str, Any] | None = None,
    ) -> Fit:
        model.eval()
        settings = {
            "seed": self.seed,
            "lr": self.options["lr"],
            "weight_decay": self.options["weight_decay"],
            "validation_nodes": int(self.held_out.sum()),
        }
        packages = ("torch", "pyro-ppl", "torch-geometric", "numpy", "scipy")
        versions = {name: importlib.metadata.version(name) for name in packages}
        return Fit(
            model,
            self.method,
            history,
            posterior,
            diagnostics or {},
            settings,
            versions,
        )


def _validation_nodes(validation: float | Tensor, observed: Tensor, seed: int) -> Tensor:
    """The observed nodes that are held out of training, boolean ``(num_nodes,)``."""
    if torch.is_tensor(validation):
        if validation.dtype != torch.bool or validation.shape != observed.shape:
            raise InvalidArgumentError(
                "validation",
                f"a share, or boolean of shape {tuple(observed.shape)}",
                f"{validation.dtype} of shape {tuple(validation.shape)}",
                "Pass a mask such as data.val_mask.",
            )
        chosen = validation & observed
        if not bool(chosen.any()) or bool((chosen == observed).all()):
            raise InvalidArgumentError(
                "validation",
                "true at some observed nodes, not all",
                f"{int(chosen.sum())} of {int(observed.sum())} observed nodes",
                "Both training and validation need values.",
            )
        return chosen
    if not 0 < float(validation) < 1:
        raise InvalidArgumentError(
            "validation", "a share strictly between 0 and 1", repr(validation), "Use 0.2."
        )
    known = observed.nonzero().squeeze(-1)
    count = min(max(1, round(float(validation) * len(known))), len(known) - 1)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.zeros_like(observed)
    chosen[known[torch.randperm(len(known), generator=generator)[:count]]] = True
    return chosen
