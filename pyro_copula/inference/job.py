"""One fit from one seed: candidates trained, the best chosen, its posterior if there is one."""

from __future__ import annotations

import copy
import importlib.metadata
from dataclasses import replace
from typing import Any, NamedTuple

import pyro
import torch
from pyro.infer import Trace_ELBO
from torch import Tensor, nn

from ..errors import InvalidArgumentError
from ..models import CopulaGNN, NodeData
from ..models.redraw import redrawn
from ..scalars import Constrained
from .checkpoint import Checkpoint, Slot
from .guides import guide_draws, guide_median, make_guide
from .minibatches import Minibatches
from .nuts import sample_posterior
from .options import Options, validation_nodes
from .potential import refine_
from .result import Fit
from .training import History, train
from .variational import fit_posterior


class _Candidate(NamedTuple):
    """What one learning rate gave."""

    model: CopulaGNN
    guide: Any
    history: History
    lr: float


class Job:
    """One fit.

    Args:
        model: The specification.
        data: The data, with all observed values.
        options: The options, with the seed of this fit.
        start: A fit to start from, or None.
        checkpoint: Where states are kept.
        name: What the parts of this fit are called there.
        names: Names of the nodes, or None.
        anew: Whether modules given as objects start at new weights, and not at their own.
    """

    def __init__(
        self,
        model: CopulaGNN,
        data: NodeData,
        options: Options,
        start: Fit | None,
        checkpoint: Checkpoint,
        name: str,
        names: list[str] | None,
        *,
        anew: bool = False,
    ) -> None:
        self.spec, self.data, self.options, self.start = model, data, options, start
        self.checkpoint, self.name, self.names, self.anew = checkpoint, name, names, anew
        self.held_out = validation_nodes(options.validation, data, options.seed)
        self.training = data.hide(self.held_out)

    def run(self) -> Fit:
        """The fit; if it is interrupted, the best state so far."""
        if self.options.method == "nuts":
            return self._nuts()
        best = self._best_candidate()
        model, guide, history = best.model, best.guide, best.history
        model.observe(self.data)
        model.eval()
        if guide is not None:
            self._hold(model, guide)
        if self.options.method == "svi":
            posterior, diagnostics = self._posterior(best)
            return self._result(model, history, best.lr, posterior, diagnostics)
        if self.options.refine and not history.interrupted:
            refine_(model, self.options.method)
        return self._result(model, history, best.lr, None, {})

    def _posterior(self, best: _Candidate) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Draws from the guide given all observed values, and how that ended."""
        diagnostics: dict[str, Any] = {}
        if not best.history.interrupted:
            # Seeded again, as the draws below: no stage depends on whether one before was resumed.
            pyro.set_rng_seed(self.options.seed)
            with pyro.get_param_store().scope():
                second = fit_posterior(best.model, best.guide, self.options, best.lr, self._slot)
            self._hold(best.model, best.guide)
            bound = f"converged: evidence bound {second.best_score:.2f}"
            diagnostics["posterior"] = bound if second.converged else second.verdict
            diagnostics["interrupted"] = second.verdict if second.interrupted else ""
        pyro.set_rng_seed(self.options.seed)
        return guide_draws(best.guide, best.model, self.options.num_draws), diagnostics

    @staticmethod
    def _hold(model: CopulaGNN, guide: Any) -> None:
        model.set_site_values_(guide_median(guide, model))

    def _slot(self, *name: Any) -> Slot:
        return self.checkpoint.slot(self.name, *name)

    # ---------------------------------------------------------------- training

    def _best_candidate(self) -> _Candidate:
        found: list[_Candidate] = []
        for k, lr in enumerate(self.options.lr):
            pyro.set_rng_seed(self.options.seed)
            # a store of its own: a guide would take up the parameters of the one before
            with pyro.get_param_store().scope():
                found.append(self._train(lr, self._slot("candidate", k)))
            if found[-1].history.interrupted:
                break
        return max(found, key=lambda candidate: candidate.history.best_score)

    def _fresh(self) -> CopulaGNN:
        if self.start is None:
            spec = redrawn(self.spec) if self.anew else self.spec
            return spec.build(self.training)
        model = copy.deepcopy(self.start.model)
        model.observe(self.training)
        return model

    def _train(self, lr: float, slot: Slot) -> _Candidate:
        options, y = self.options, self.training.y
        known = int(self.training.observed.sum())
        model = self._fresh()
        guide = None if options.method == "mle" else make_guide(model, options)
        elbo = Trace_ELBO()
        minibatches = None
        if options.partition is not None:
            minibatches = Minibatches(options.partition, options.blocks_per_step, options.seed)
        whole: nn.Module = model
        if guide is not None:
            whole = nn.ModuleDict({"model": model, "guide": guide})

        def loss() -> Tensor:
            if not model.training:  # after a look
                model.train()
            if guide is None and minibatches is not None:
                return -minibatches.log_prob(model.joint(), y) / known
            if guide is None:
                return -model.joint().log_prob(y) / known
            return elbo.differentiable_loss(model.model, guide, y) / known

        def score() -> float:
            model.eval()
            with torch.no_grad():
                values = {} if guide is None else guide_median(guide, model)
                conditional = model.joint(**values).condition(y)
                truth = self.data.y[conditional.nodes]
                return float((options.judge or _log_score)(conditional, truth))

        history = train(
            loss,
            score,
            whole,
            self._optimizer(whole, lr),
            options.schedule,
            progress=options.progress,
            label=f"{options.method}, lr {lr:g}",
            slot=slot,
        )
        return _Candidate(model, guide, history, lr)

    def _optimizer(self, module: nn.Module, lr: float) -> torch.optim.Optimizer:
        """Weight decay on the network only, and there not on a linear skip or a bias."""
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
        groups: list[dict[str, Any]] = [
            {"params": network, "lr": lr, "weight_decay": self.options.weight_decay},
            {"params": plain, "lr": lr, "weight_decay": 0.0},
            {"params": scalars, "lr": self.options.rate_of_scalars(lr), "weight_decay": 0.0},
        ]
        make = self.options.optimizer
        fused = {"fused": True} if make is torch.optim.Adam else {}  # one kernel for all parameters
        try:
            return make([g for g in groups if g["params"]], lr=lr, **fused)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                "optimizer",
                "a torch optimizer with learning rates by group",
                f"{self.options.optimizer!r} ({error})",
                "Use torch.optim.Adam, AdamW or SGD.",
            ) from error

    # ---------------------------------------------------------------- sampling

    def _nuts(self) -> Fit:
        base = self.start
        if base is None or base.method == "mle":
            first = copy.copy(self)
            first.options = replace(self.options, method="map")
            base = first.run()
            if base.history.interrupted:
                return base
        model = copy.deepcopy(base.model)
        model.observe(self.data)
        model.eval()
        posterior, diagnostics = sample_posterior(
            model,
            num_draws=self.options.num_draws,
            num_warmup=self.options.num_warmup,
            num_chains=self.options.num_chains,
            seed=self.options.seed,
            progress=self.options.progress,
            slot=self._slot,
        )
        lr = base.settings["lr"]
        return self._result(model, base.history, lr, posterior, diagnostics)

    def _result(
        self,
        model: CopulaGNN,
        history: History,
        lr: float,
        posterior: dict[str, Tensor] | None,
        diagnostics: dict[str, Any],
    ) -> Fit:
        model.eval()
        settings = self.options.settings(lr) | {
            "validation_nodes": int(self.held_out.sum()),
            "start": None if self.start is None else self.start.method,
            "names": self.names,
        }
        method = self.options.method
        return Fit(model, method, history, posterior, diagnostics, settings, versions())


def versions() -> dict[str, str]:
    """The versions of what decides a result."""
    packages = ("pyro-copula", "torch", "pyro-ppl", "torch-geometric", "numpy", "scipy")
    return {name: importlib.metadata.version(name) for name in packages}


def _log_score(conditional: Any, values: Tensor) -> float:
    return float(conditional.marginal_log_prob(values).nanmean())
