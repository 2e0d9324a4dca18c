"""``fit``: one function, four methods, one kind of result."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyro
import torch
from torch import Tensor

from ..crew import present_crew
from ..errors import (
    CutWarning,
    InvalidArgumentError,
    MidpointWarning,
    ParticleWarning,
    PropagationWarning,
)
from ..models import CopulaGNN, NodeData
from ..models.redraw import redrawn
from ..partitions import Partition
from ..precision.conditioning import warn_if_nearly_singular
from .checkpoint import Checkpoint, random_state, set_random_state
from .ensemble import SEED_STEP, Ensemble
from .files import as_path
from .fingerprints import digest
from .job import Job, versions
from .kinds import check_kinds
from .options import Options, read_validation, resolve, validation_nodes
from .result import Fit
from .stacking import stack
from .training import Schedule

#: Pyro's handlers, its parameter store and the random numbers belong to the process, not to a
#: thread: two fits at once would mix them up.
_ONE_AT_A_TIME = threading.RLock()


def fit(
    model: CopulaGNN | Sequence[CopulaGNN],
    data: Any,
    observed: Tensor | None = None,
    method: str = "mle",
    *,
    validation: float | Tensor | None = None,
    seed: int = 0,
    lr: float | Sequence[float] | None = None,
    scalar_lr: float | None = None,
    weight_decay: float | None = None,
    optimizer: Callable[..., torch.optim.Optimizer] | None = None,
    schedule: Schedule | None = None,
    restarts: int | None = None,
    refine: bool | None = None,
    guide: Callable[..., Any] | None = None,
    num_draws: int = 500,
    num_warmup: int = 300,
    num_chains: int = 2,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    start: Fit | None = None,
    judge: Callable[[Any, Tensor], float] | None = None,
    partition: Partition | None = None,
    blocks_per_step: int | None = None,
) -> Fit | Ensemble:
    """Fits a model.

    What is not given is set by the model's recipe, if it has one, and else as said below;
    ``fit.settings`` holds what was used. Pyro's parameter store and the state of the random
    numbers are left as they were. Fits in several threads wait for each other, for Pyro's state
    is that of the process: use processes to fit at once. Ctrl-C ends a fit with the best state so
    far. Inside ``with pc.distributed():`` the processes of ``torchrun`` share the work of the
    iterative backend; see :func:`pyro_copula.distributed`.

    Args:
        model: The model; or several, fitted one after the other and stacked: the prediction is a
            mixture of them with weights by their log score at the validation nodes. At each node
            all must be discrete or all continuous. A recipe may hold several models too; see
            ``model.variants()``.
        data: A PyTorch Geometric ``Data`` with ``x``, ``edge_index`` and ``y``, taken in torch's
            default dtype. ``edge_weight`` and ``edge_attr`` are not used: all edges are alike,
            unless a precision says otherwise.
        observed: Boolean, shape ``(num_nodes,)``: the values that may be looked at. Without it,
            every value that is not NaN.
        method: ``"mle"``: maximum likelihood; ``"map"``: with the priors; ``"svi"``: a normal
            posterior of the global parameters; ``"nuts"``: draws of it. The network is at its
            estimate in all of them, except for the last layer if it has a prior.
        validation: The observed nodes on which to judge when to stop: a share of them, drawn at
            random (0.2 by default), or a boolean mask, true only where ``observed`` is: with
            PyG's masks, ``observed=train_mask | val_mask, validation=val_mask``. Predictions
            condition on all observed nodes, and the posteriors of ``"svi"`` and ``"nuts"`` are
            given all of them.
        seed: Of everything random in the fit.
        lr: The learning rate (0.01 by default), or several to choose from by validation score.
        scalar_lr: That of the global parameters; five times ``lr`` by default, for they are few
            and on a log scale.
        weight_decay: On the network only, and there not on a linear skip; 5e-4 by default.
        optimizer: Any class of torch.optim with groups of parameters; Adam by default.
        schedule: How long to train; see :class:`Schedule`.
        restarts: Fit so many times from different seeds and predict with the equal mixture. Several
            models take turns, and are stacked; without ``restarts`` each has one. A backbone or
            precision given as a module starts from its own weights the first time, and later (in
            the other models of a recipe, too) from weights that its ``reset_parameters`` draw.
        refine: For ``"mle"`` and ``"map"``: whether the global parameters are moved to their
            maximum given all observed values, once the network is trained. Training stops by
            validation score, which hardly depends on some of them, and leaves those near where
            they started: refine if the dependence itself is the question. False by default,
            because a flexible network fits the observed nodes better than the missing ones.
        guide: For ``"svi"``: a class of pyro.infer.autoguide (AutoNormal by default), a function
            of the Pyro program that makes a guide, or a guide written by hand: a function of the
            values (NaN where they are missing), or a module, that draws every global parameter at
            a site of its name. What it calls ``pyro.param`` is learnt, from its initial value.
            AutoLaplaceApproximation moves to the mode and is widened there.
        num_draws: For ``"svi"`` and ``"nuts"``: posterior draws (per chain). A prediction mixes
            at most 200 of all of them, evenly thinned.
        num_warmup: For ``"nuts"``: warm-up steps per chain.
        num_chains: For ``"nuts"``.
        progress: Whether to show a progress bar; by default if this is a terminal.
        checkpoint: A file that keeps the state, from which the same call goes on, to the very
            same result. Finished candidates, restarts and chains are not run again. Another call
            (other data, model, seed or options) is refused. A function among the options counts
            by its code and the values that it uses, not by its name.
        start: A fit whose parameters to start from; see :meth:`Fit.refit`.
        judge: The validation score, higher being better, as a function of the law of all nodes
            that are not trained on (its ``nodes`` say which) and of their values, NaN where they
            are not observed. By default the mean log density of each node by itself.
        partition: For ``"mle"``: train with the *composite* likelihood of these blocks, which
            leaves out the edges between them; see ``GaussianCopula.composite_log_prob`` and
            :func:`pyro_copula.partition`. The validation score, ``refine`` and all predictions
            use the whole graph. It is a warm start: ``fit.refit("mle")`` goes on from it with the
            whole likelihood. A :class:`~pyro_copula.errors.CutWarning` says what share of the
            edges is left out.
        blocks_per_step: With ``partition``: each step looks at a minibatch of so many blocks. The
            blocks are dealt into minibatches once, at random, and each step draws one of them, so
            that the loss is unbiased for that of all blocks, which is the default.

    Returns:
        A :class:`Fit`, or an :class:`Ensemble` if there are restarts.

    Example:
        >>> import pyro_copula as pc
        >>> data = pc.simulate.paper_setting("b")
        >>> model = pc.CopulaGNN("linear", "normal", "laplacian")
        >>> observed = torch.arange(300) % 10 != 0
        >>> found = pc.fit(model, data, observed, schedule=pc.Schedule(max_epochs=50))
        >>> found.predict().nodes[:3]
        tensor([ 0, 10, 20])

        Guides: one made with options, and one written by hand.

        >>> import pyro
        >>> from pyro.infer.autoguide import AutoMultivariateNormal
        >>> options = {"schedule": pc.Schedule(max_epochs=20), "num_draws": 100}
        >>> found = pc.fit(
        ...     model,
        ...     data,
        ...     observed,
        ...     "svi",
        ...     guide=lambda program: AutoMultivariateNormal(program, init_scale=0.05),
        ...     **options,
        ... )
        >>> positive = pyro.distributions.constraints.positive
        >>> def guide(y):
        ...     for name in ("tau", "gamma"):
        ...         loc = pyro.param(f"{name}_loc", torch.tensor(0.0))
        ...         scale = pyro.param(f"{name}_scale", torch.tensor(0.1), constraint=positive)
        ...         pyro.sample(name, pyro.distributions.LogNormal(loc, scale))
        >>> found = pc.fit(model, data, observed, "svi", guide=guide, **options)
        >>> found.posterior["tau"].shape
        torch.Size([1, 100])
    """
    models = _models(model, method, start)
    given = {
        "method": method,
        "seed": seed,
        "validation": validation,
        "lr": lr,
        "scalar_lr": scalar_lr,
        "weight_decay": weight_decay,
        "optimizer": optimizer,
        "schedule": schedule,
        "restarts": restarts,
        "refine": refine,
        "guide": guide,
        "num_draws": num_draws,
        "num_warmup": num_warmup,
        "num_chains": num_chains,
        "progress": progress,
        "judge": judge,
        "partition": partition,
        "blocks_per_step": blocks_per_step,
    }
    if restarts is None and isinstance(model, Sequence):
        given["restarts"] = len(models)
    options = resolve(models[0], given, alone=start is not None)
    models = models[: options.restarts]
    nodes = NodeData.from_pyg(data, observed, models[0].exposure)
    options = replace(options, validation=read_validation(options.validation, nodes, data.y))
    if start is not None:
        _check_start(start, models[0], nodes)
    if len(models) > 1:  # fits can be compared only at the same nodes
        held_out = validation_nodes(options.validation, nodes, options.seed)
        options = replace(options, validation=held_out)
    if partition is not None:
        _check_partition(partition, models, nodes)
    names = _node_names(data, start)
    with _isolated(), warnings.catch_warnings():
        # A state on the way says nothing about the data: the fitted one is looked at below.
        warnings.simplefilter("ignore", MidpointWarning)
        warnings.simplefilter("ignore", ParticleWarning)
        warnings.simplefilter("ignore", PropagationWarning)
        warnings.simplefilter("ignore", CutWarning)  # said once, above
        turns = list(itertools.islice(itertools.cycle(models), options.restarts))
        first = len(model) if isinstance(model, Sequence) else 1
        if start is None:
            for one in turns[first:]:
                redrawn(one)  # an error here costs no fit
        if len(models) > 1:
            _check_comparable(models, nodes)
        store = _checkpoint(checkpoint, models, nodes, options, start)
        fits: list[Fit] = []
        for k, one in enumerate(turns):
            own = replace(options, seed=options.seed + SEED_STEP * k)
            job = Job(one, nodes, own, start, store, f"restart {k}", names, anew=k >= first)
            with pyro.get_param_store().scope():  # a guide would take up those of the one before
                fits.append(job.run())
            if fits[-1].interrupted:
                break
    with torch.no_grad():
        law = fits[0].model.joint()
        law.log_prob(nodes.y)  # warns if its rule is poor here
        warn_if_nearly_singular(law)
    if options.restarts == 1:
        return fits[0]
    settings = {**fits[0].settings, "restarts": options.restarts}
    if fits[-1].interrupted:  # said here, because a stack may leave that fit out
        settings["interrupted"] = True
    if len(models) > 1:
        return Ensemble(stack(fits, held_out), settings | {"models": len(models)})
    return Ensemble(fits, settings)


def _models(model: Any, method: str, start: Fit | None) -> list[CopulaGNN]:
    """The models to fit: those given, or those of the recipe of the one given."""
    several = list(model) if isinstance(model, Sequence) else [model]
    wrong = [type(one).__name__ for one in several if not isinstance(one, CopulaGNN)]
    if wrong or not several:
        raise InvalidArgumentError(
            "model",
            "a CopulaGNN, or a list of them",
            wrong[0] if wrong else "an empty list",
            'Pass CopulaGNN("sage", "normal", "car").',
        )
    if len({one.exposure for one in several}) > 1:
        raise InvalidArgumentError(
            "model",
            "models with the same exposure",
            f"{[one.exposure for one in several]}",
            "Densities of different outcomes cannot be compared.",
        )
    # A posterior is given all observed values: there are none left to weigh models by.
    alone = start is not None or method in ("svi", "nuts")
    if alone and len(several) > 1:
        raise InvalidArgumentError(
            "model",
            'one model with `start` or with method "svi" or "nuts"',
            f"{len(several)} models",
            'Stack with method="mle" or "map", or fit them one by one.',
        )
    return several if alone or len(several) > 1 else several[0].variants()


def _check_comparable(models: Sequence[CopulaGNN], data: NodeData) -> None:
    """Refuses to stack laws of counts with laws of real values, before any of them is trained."""
    with torch.no_grad():
        laws = [one.build(data).eval().joint() for one in models]
    check_kinds("model", laws, "Stack those of one kind; fit and judge the others by themselves.")


@contextmanager
def _isolated() -> Iterator[None]:
    """Leaves Pyro's parameter store and all random numbers as they were."""
    with _ONE_AT_A_TIME:
        before = random_state()
        try:
            with pyro.get_param_store().scope():
                yield
        finally:
            set_random_state(before)


def _checkpoint(
    path: str | Path | None,
    models: Sequence[CopulaGNN],
    data: NodeData,
    options: Options,
    start: Fit | None,
) -> Checkpoint:
    if path is None and present_crew().size == 1:
        return Checkpoint(None, {})
    pyro.set_rng_seed(options.seed)
    built = models[0].build(data) if start is None else start.model
    fingerprint = {
        "model": digest(
            [one.specification() for one in models], repr(built.backbone), built.priors
        ),
        "first parameters": digest(built.state_dict()),
        "data": digest(data.x, data.graph.edges, data.y, data.exposure),
        "seed": digest(options.seed),
        "options": digest(options.fingerprint()),
        "versions": digest(versions()),
    }
    present_crew().check_same(fingerprint)
    return Checkpoint(None if path is None else as_path("checkpoint", path), fingerprint)


def _node_names(data: Any, start: Fit | None) -> list[str] | None:
    """The names that the data have for their nodes, if there is one for each."""
    if start is not None:
        return start.settings.get("names")
    names = getattr(data, "names", None)
    if isinstance(names, list | tuple) and len(names) == len(data.y):
        return [str(name) for name in names]
    return None


def _check_partition(partition: Partition, models: Sequence[CopulaGNN], data: NodeData) -> None:
    """Refuses a partition of another graph, and says what share of the edges this one cuts."""
    if partition.graph != data.graph:
        raise InvalidArgumentError(
            "partition",
            f"of the graph of the data, {data.graph!r}",
            f"one of {partition.graph!r}",
            "Partition Graph.from_edge_index(data.edge_index, num_nodes=len(data.y)).",
        )
    if any(one.arguments["precision"] == "none" for one in models):
        raise InvalidArgumentError(
            "partition",
            'None with precision="none"',
            repr(partition),
            "Independent nodes have no edges to leave out.",
        )
    if partition.cut > 0:
        warnings.warn(CutWarning(partition.cut, partition.num_blocks), stacklevel=3)


def _check_start(start: Any, model: CopulaGNN, data: NodeData) -> None:
    if not isinstance(start, Fit):
        raise InvalidArgumentError(
            "start", "a Fit", type(start).__name__, "Of an Ensemble, pass one of its `fits`."
        )
    before = start.model.data
    problem = ""
    if before.num_nodes != data.num_nodes:
        problem = f"a fit on {before.num_nodes} nodes"
    elif digest(before.graph.edges) != digest(data.graph.edges):
        problem = "a fit on a graph with other edges"
    elif before.x.shape != data.x.shape:
        problem = f"a fit with {before.x.shape[1]} features"
    if problem:
        raise InvalidArgumentError(
            "start",
            f"a fit on this graph of {data.num_nodes} nodes and {data.x.shape[1]} features",
            problem,
            "Leave `start` out, or fit these data first.",
        )
    mine, other = model.specification(), start.model.specification()
    differing = [k for k in mine if mine[k] != other.get(k) and mine[k] != "auto"]
    if differing:
        raise InvalidArgumentError(
            "start",
            "a fit of the same model",
            f"one with another {' and '.join(differing)}",
            "Call start.refit(method=...), or leave `start` out.",
        )
