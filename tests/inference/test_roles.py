"""What the graph brings: scores against fits by hand, gains, verdicts, and their picture."""

from __future__ import annotations

import math
import re
import signal
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import torch
from fit_examples import SHORT, example

import pyro_copula as pc
from pyro_copula.errors import ConditioningWarning, InvalidArgumentError, MidpointWarning
from pyro_copula.inference import role_fits, role_gains, training
from pyro_copula.inference.role_report import MODELS

mpl.use("Agg")

QUICK = {
    "schedule": SHORT,
    "backbone": "sage",
    "baseline": "mlp",
    "precision": "car",
    "refine": False,
    "progress": False,
}
ONE_SCALE = {"family": "normal", "scale": "global"}
NETWORKS = {
    "neither": ("mlp", "none"),
    "representation": ("sage", "none"),
    "correlation": ("mlp", "car"),
    "both": ("sage", "car"),
}


def quick_roles(data=None, **options):
    data = example() if data is None else data
    return pc.graph_roles(data, data.observed, **{**QUICK, "folds": 3, **options})


def shared_setup(data, folds=3):
    """What ``quick_roles`` hands to its fits."""
    nodes = pc.models.NodeData.from_pyg(data, data.observed)
    networks = [role_fits.Network.of("mlp")], [role_fits.Network.of("sage")]
    return role_fits.RoleFits(nodes, networks, "car", {"marginal": ONE_SCALE}, {}, None, folds, 0)


# ---------------------------------------------------------------- scores


def test_every_observed_node_is_scored_once():
    data = example()
    roles = quick_roles(data)
    assert torch.equal(roles.nodes, data.observed.nonzero().squeeze(-1))
    assert list(roles.log_density) == list(MODELS)
    for scores in roles.log_density.values():
        assert scores.shape == roles.nodes.shape
        assert bool(torch.isfinite(scores).all())
    assert roles.num_fits == 12


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_leave_one_out_densities_of_fits_without_the_fold(name):
    """By hand: the fold is hidden from the fit, and each of its nodes is given all others."""
    data = example()
    roles = quick_roles(data)
    fold = shared_setup(data).hidden(1)
    assert int(fold.sum()) == 15
    assert not bool((fold & ~data.observed).any())
    backbone, precision = NETWORKS[name]
    model = pc.CopulaGNN(backbone, ONE_SCALE, precision, nugget=True)
    found = pc.fit(model, data, data.observed & ~fold, schedule=SHORT, seed=1)
    law = found.model.joint()
    mean, variance = law.mean.detach(), law.variance.detach()
    assert float(variance.std()) == 0
    covariance = torch.diag(variance)
    if precision != "none":
        unscaled = torch.linalg.inv(law.precision.to_dense().detach())
        root = unscaled.diagonal().rsqrt()
        nugget = found.scalars["nugget"]
        field = (1 - nugget) * root[:, None] * unscaled * root
        covariance = variance.sqrt()[:, None] * (field + nugget * torch.eye(60)) * variance.sqrt()
    where = {int(node): k for k, node in enumerate(roles.nodes)}
    for node in fold.nonzero().squeeze(-1).tolist():
        rest = data.observed.clone()
        rest[node] = False
        gain = torch.linalg.solve(covariance[rest][:, rest], covariance[rest, node])
        expected = mean[node] + gain @ (data.y - mean)[rest]
        variance = covariance[node, node] - gain @ covariance[rest, node]
        density = torch.distributions.Normal(expected, variance.sqrt()).log_prob(data.y[node])
        assert float(roles.log_density[name][where[node]]) == pytest.approx(float(density))


def test_held_out_nodes_are_scored_given_the_observed_ones():
    data = example()
    roles = pc.graph_roles(data, data.observed, held_out=~data.observed, **QUICK)
    model = pc.CopulaGNN("sage", ONE_SCALE, "car", nugget=True)
    found = pc.fit(model, data, data.observed, schedule=SHORT)
    expected = found.predict().log_prob(data.y[~data.observed])
    assert torch.allclose(roles.log_density["both"], expected)
    assert torch.equal(roles.nodes, (~data.observed).nonzero().squeeze(-1))
    assert "held out, each given the observed ones" in repr(roles)
    again = pc.graph_roles(data, held_out=~data.observed, **QUICK)
    assert torch.equal(again.log_density["both"], roles.log_density["both"])


def test_a_score_does_not_depend_on_whether_its_own_value_is_seen_by_the_fit():
    """A value far out in one fold changes its own score, and no fit of its fold."""
    data = example()
    before = quick_roles(data)
    fold = shared_setup(data).hidden(0).nonzero().squeeze(-1)
    data.y[fold[0]] += 20
    after = quick_roles(data)
    same = torch.isin(before.nodes, fold[1:])
    for name in ("neither", "representation"):  # others are given that value
        assert torch.equal(before.log_density[name][same], after.log_density[name][same])
        assert not torch.equal(before.log_density[name][~same], after.log_density[name][~same])


def test_restarts_are_scored_as_a_mixture():
    data = example()
    one = [
        pc.graph_roles(data, data.observed, held_out=~data.observed, seed=seed, **QUICK)
        for seed in (0, 1000)
    ]
    both = pc.graph_roles(data, data.observed, held_out=~data.observed, restarts=2, **QUICK)
    parts = torch.stack([roles.log_density["both"] for roles in one])
    mixture = torch.logsumexp(parts, 0) - math.log(2)
    assert torch.allclose(both.log_density["both"], mixture)
    folded = quick_roles(restarts=2)
    assert bool(torch.isfinite(folded.log_density["both"]).all())


def test_jobs_do_not_matter():
    one, two = quick_roles(folds=2), quick_roles(folds=2, jobs=2)
    for name in MODELS:
        assert torch.allclose(one.log_density[name], two.log_density[name])


def test_the_seed_matters():
    one, other = quick_roles(folds=2), quick_roles(folds=2, seed=5)
    assert not torch.allclose(one.log_density["both"], other.log_density["both"])


@pytest.mark.parametrize("rule", ["midpoint", "exact"])
def test_counts_are_scored_by_the_mass_of_their_values(rule):
    """The mass of all values that a node could have is one, and without a copula the marginal's."""
    data = example("poisson")
    options = {"marginal": "poisson", "discrete": rule, "schedule": pc.Schedule(max_epochs=5)}
    for backbone, precision in NETWORKS.values():
        model = pc.CopulaGNN(backbone, "poisson", precision, discrete=rule)
        found = pc.fit(model, data, data.observed, schedule=pc.Schedule(max_epochs=5))
        law = found.model.joint()
        node = 2
        total = 0.0
        for value in range(40):
            y = data.y.masked_fill(~data.observed, math.nan)
            y[node] = value
            score = float(role_fits._leave_one_out(found, y)[node])
            total += math.exp(score)
            if precision == "none":
                marginal = law.marginal_dist.log_prob(y.nan_to_num(0.0))[node]
                assert score == pytest.approx(float(marginal.detach()), rel=1e-6)
        assert total == pytest.approx(1.0, abs=1e-6 if rule == "midpoint" else 0.02)
    roles = quick_roles(data, folds=2, **options)
    assert bool(torch.isfinite(roles.log_density["both"]).all())


def test_counts_with_exposure():
    data = pc.datasets.nc_sids()
    options = {"exposure": "exposure", "folds": 2, "schedule": SHORT, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MidpointWarning)  # a close thing on these counts
        roles = pc.graph_roles(data, backbone="gcn", baseline="linear", **options)
    assert len(roles.nodes) == 100
    assert "gcn" in repr(roles)
    assert roles.marginal == "negative_binomial"


def test_mostly_zeros_call_for_another_rule():
    data = pc.datasets.nc_sids()
    data.y = (data.y / 10).floor()
    options = {"backbone": "gcn", "baseline": "linear", "marginal": "poisson", "progress": False}
    options |= {"exposure": "exposure", "folds": 2, "schedule": SHORT}
    with pytest.warns(MidpointWarning, match=r'graph_roles\(..., discrete="exact"\)') as caught:
        roles = pc.graph_roles(data, **options)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert roles.poor_midpoint
    assert 'call again with discrete="exact"' in repr(roles)
    options |= {"held_out": torch.arange(100) % 4 == 0, "schedule": pc.Schedule(max_epochs=2)}
    exact = pc.graph_roles(data, discrete="exact", num_particles=8, **options)
    assert exact.settings["discrete"] == "exact"
    assert not exact.poor_midpoint


# ---------------------------------------------------------------- the choice of networks


@pytest.mark.parametrize("spread", [1.0, -50.0])
def test_the_simplest_network_is_taken_unless_another_is_clearly_better(monkeypatch, spread):
    """By hand: each candidate of each model fitted, and the chosen one scored.

    A spread of -50 makes every network clearly better than the one before.
    """
    monkeypatch.setattr(role_fits, "_SPREAD", spread)
    data = example()
    options = {"schedule": SHORT, "lr": 0.05, "precision": "car", "progress": False}
    roles = pc.graph_roles(data, data.observed, folds=2, refine=False, **options)
    assert roles.num_fits == 8
    setup = shared_setup(data, folds=2)
    for name, (sees_graph, has_copula) in MODELS.items():
        candidates = role_fits.WITH_GRAPH if sees_graph else role_fits.WITHOUT_GRAPH
        precision = "car" if has_copula else "none"
        scores, judged = {0: [], 1: []}, 0
        validation = {0: 0.0, 1: 0.0}
        for fold in range(2):
            hidden = setup.hidden(fold)
            seen = data.observed & ~hidden
            judged += round(0.2 * int(seen.sum()))
            y = data.y.masked_fill(~data.observed, math.nan)
            for place, network in enumerate(candidates):
                options = {"marginal": ONE_SCALE, "precision": precision, "nugget": has_copula}
                model = pc.CopulaGNN(**network.options, **options)
                found = pc.fit(model, data, seen, schedule=SHORT, lr=0.05, seed=fold)
                validation[place] += found.history.best_score / 2
                score = found.model.joint().pointwise_log_prob(y)[hidden].sum()
                scores[place].append(float(score.detach()))
        chosen = int(validation[1] - validation[0] > spread / math.sqrt(judged))
        assert roles.networks[name] == candidates[chosen].name
        assert spread > 0 or chosen == 1
        for fold in range(2):
            found = float(roles.log_density[name][roles.fold == fold].sum())
            assert found == pytest.approx(scores[chosen][fold])


def test_networks_of_ones_own_stand_alone():
    roles = quick_roles(folds=2)
    assert set(roles.networks.values()) == {"mlp", "sage"}
    assert roles.networks["neither"] == roles.networks["correlation"] == "mlp"


def test_sizes_of_layers_are_for_networks_by_name():
    def own(in_channels, out_channels):
        return pc.nn.make_backbone("gcn", in_channels, out_channels, hidden_channels=3)

    roles = quick_roles(folds=2, backbone=own, hidden_channels=4)
    assert roles.networks["both"] == "own"
    with pytest.raises(InvalidArgumentError, match="`hidden_channels` must be left out for a back"):
        quick_roles(folds=2, backbone=own, baseline=own, hidden_channels=4)


# ---------------------------------------------------------------- gains and verdicts


def made_up(representation=0.0, correlation=0.0, both=0.0, noise=1.0, n=100, fold=None):
    """Scores whose gains over the model without the graph have these means a node."""
    torch.manual_seed(1)
    base = torch.randn(n)

    def above(gain):
        extra = torch.randn(n)
        return base + gain + noise * (extra - extra.mean())

    scores = {"neither": base, "representation": above(representation)}
    scores |= {"correlation": above(correlation), "both": above(both)}
    return pc.GraphRoles(scores, torch.arange(n), fold)


def test_gains_are_sums_of_paired_differences():
    roles = made_up(0.1, 0.2, 0.3)
    gain = roles.gains["correlation given representation"]
    difference = roles.log_density["both"] - roles.log_density["representation"]
    assert gain.total == pytest.approx(float(difference.sum()))
    assert gain.per_node == pytest.approx(0.2)
    assert gain.se == pytest.approx(math.sqrt(100 * float(difference.var())))
    assert gain.per_node_se == pytest.approx(gain.se / 100)
    table = roles.to_frame()
    assert table.loc["both", "gain"] == pytest.approx(30.0)
    assert list(table.columns) == ["gain", "se", "per_node", "per_node_se"]
    assert len(table) == 5


def test_the_error_of_a_gain_is_that_of_folds_where_these_differ():
    """By hand, a sum over five folds: its variance is five times that of a fold's sum."""
    fold = torch.arange(100) % 5
    luck = 2.0 * torch.tensor([1.0, -1.0, 0.5, 0.0, -0.5])[fold]
    roles = made_up(0.1, 0.2, 0.3, fold=fold)
    plain = made_up(0.1, 0.2, 0.3)
    roles.log_density["both"] = roles.log_density["both"] + luck
    difference = roles.log_density["both"] - roles.log_density["neither"]
    sums = torch.stack([difference[fold == k].sum() for k in range(5)])
    assert roles.gains["both"].se == pytest.approx(math.sqrt(5 * float(sums.var())))
    assert roles.gains["both"].se > 2 * plain.gains["both"].se
    assert roles.gains["both"].total == pytest.approx(plain.gains["both"].total)


def test_the_error_is_right_on_average_and_never_below_that_of_nodes():
    """Over many made-up cases without luck, folds widen errors a little and never narrow them."""
    wider = []
    for seed in range(200):
        torch.manual_seed(seed)
        scores = {name: torch.randn(100) for name in MODELS}
        fold = torch.arange(100) % 5
        alone = pc.GraphRoles(scores, torch.arange(100)).gains["both"].se
        wider.append(pc.GraphRoles(scores, torch.arange(100), fold).gains["both"].se / alone)
    assert min(wider) == 1.0
    # simulated apart from the package: a mean of 1.11 and a standard deviation of 0.19
    assert sum(wider) / 200 == pytest.approx(1.11, abs=4 * 0.19 / math.sqrt(200))


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ((0.0, 0.0, 0.0), "the graph brings nothing that can be told from noise"),
        ((-1.0, -1.0, -1.0), "the graph brings nothing: models that use it predict worse"),
        ((0.0, 1.0, 1.0), "mostly correlation"),
        ((1.0, 0.0, 1.0), "mostly representation"),
        ((1.0, 0.5, 1.0), "mostly representation"),
        ((1.0, 1.0, 2.0), "both representation and correlation"),
        ((0.0, 0.0, 1.0), "both representation and correlation"),
        ((1.0, 9.0, 10.0), "mostly correlation, and some representation"),
        ((9.0, 1.0, 10.0), "mostly representation, and some correlation"),
        ((1.0, 1.0, 1.0), "either representation or correlation"),
        ((0.06, 0.06, 0.12), "the graph helps, but by which role cannot be told"),
        ((0.12, 0.06, 0.12), "the graph helps, but by which role cannot be told"),
        # a model with both that is worse than one with one does not hide that one
        ((0.5, 1.0, 0.0), "mostly correlation"),
        ((0.0, 0.5, 0.1), "mostly correlation"),
        ((0.5, -0.5, 0.1), "mostly representation"),
        ((1.0, 0.5, 0.0), "mostly representation"),
    ],
)
def test_the_verdict_follows_from_the_gains(gains, verdict):
    roles = made_up(*gains, noise=0.5)
    assert roles.verdict.startswith(verdict)
    assert f"verdict: {roles.verdict}" in repr(roles)
    if "," not in verdict:
        assert "," not in roles.verdict


def test_a_small_gain_that_is_clear_is_not_called_the_main_one_beside_a_large_unclear_one():
    roles = made_up(0.9, 0.1, 1.0, noise=0.01)
    roles.log_density["correlation"] = roles.log_density["correlation"].clone()
    roles.log_density["correlation"][:2] -= torch.tensor([60.0, -60.0])  # two nodes decide
    assert not roles.needs["representation"].sure
    assert roles.verdict == "correlation; representation may bring more, or nothing"


def test_reasons_say_what_each_role_brings_alone_and_beside_the_other():
    first, second = made_up(1.0, 0.5, 1.0, noise=0.5).reasons
    assert first.startswith("the graph network brings 100 ± 5 nats alone, and brings 50 ±")
    assert second.startswith("the copula brings 50 ± 5 nats alone, and brings nothing that can be")
    assert second.endswith("alone it stands in for a part of the representation")
    assert "the copula loses 100 ± " in made_up(-1.0, -1.0, -1.0, noise=0.5).reasons[1]


def test_a_gain_of_a_few_nats_is_not_told_from_noise():
    assert made_up(0.03, 0.03, 0.03, noise=0.01).verdict.endswith("told from noise")
    assert made_up(0.05, 0.05, 0.05, noise=0.01).verdict.startswith("either")


def test_the_picture_shows_each_gain_with_its_error():
    roles = made_up(-1.0, 1.0, 1.0)
    axes = roles.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == list(roles.gains)
    dots = [float(container.lines[0].get_xdata()[0]) for container in axes.containers]
    assert dots == pytest.approx([gain.per_node for gain in roles.gains.values()])
    segment = axes.containers[1].lines[2][0].get_segments()[0]
    width = segment[1][0] - segment[0][0]
    assert width == pytest.approx(4 * roles.gains["correlation"].per_node_se)
    assert axes.get_title() == "Mostly correlation"
    own = plt.subplots()[1]
    assert roles.plot(own) is own
    plt.close("all")


# ---------------------------------------------------------------- Ctrl-C, errors


@pytest.fixture
def listening_to_ctrl_c():
    """As in a terminal: shells start background jobs, such as those of CI, deaf to SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_in_fit(monkeypatch, number):
    """A real SIGINT in one of the fits, counted from 1."""
    fits, step = [], training._step

    def interrupted(epoch, *rest):
        fits.extend([1] if epoch == 0 else [])
        if len(fits) == number and epoch == 3:
            signal.raise_signal(signal.SIGINT)
        step(epoch, *rest)

    monkeypatch.setattr(training, "_step", interrupted)


@pytest.mark.usefixtures("listening_to_ctrl_c")
def test_ctrl_c_keeps_the_finished_folds(monkeypatch):
    whole = quick_roles()
    interrupt_in_fit(monkeypatch, 10)
    roles = quick_roles()
    assert roles.interrupted
    assert len(roles.nodes) == 30
    assert "only the finished folds are scored" in repr(roles)
    same = torch.isin(whole.nodes, roles.nodes)
    assert torch.equal(roles.log_density["both"], whole.log_density["both"][same])


@pytest.mark.usefixtures("listening_to_ctrl_c")
def test_ctrl_c_in_the_first_fold_goes_through(monkeypatch):
    interrupt_in_fit(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        quick_roles()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "`folds` must be from 2 to 22 with 45 observed nodes"),
        ({"folds": 2.0}, "`folds` must be a positive integer"),
        ({"jobs": 0}, "`jobs`"),
        ({"backbone": "mlp"}, "`backbone` must be a network that sees the graph"),
        ({"baseline": "gcn"}, "`baseline` must be a network that does not see the graph"),
        ({"precision": "none"}, "`precision` must be one with edges"),
        ({"graph_features": True}, "`graph_features` must be left out"),
        ({"recipe": "counts"}, "`recipe` must be left out"),
        ({"checkpoint": "a"}, "options of CopulaGNN or of fit, but found 'checkpoint'"),
        ({"no_such": 1}, r"but found 'no_such'.\n  Of the model: \['backbone'"),
        ({"nugget_share": 1}, "but found 'nugget_share'.\n  Did you mean 'nugget'?"),
        ({"held_out": torch.ones(60)}, "`held_out` must be boolean"),
        ({"held_out": torch.zeros(60, dtype=torch.bool)}, "`held_out` must be boolean"),
        ({"held_out": torch.ones(60, dtype=torch.bool)}, "node 0 in both"),
        ({"marginal": "no_such"}, "`marginal`"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        quick_roles(**options)


def test_held_out_nodes_need_values():
    data = example()
    data.y[1] = math.nan
    with pytest.raises(InvalidArgumentError, match="but found a node without value"):
        pc.graph_roles(data, held_out=~data.observed, **QUICK)


def test_a_value_that_a_model_takes_for_impossible_is_named(monkeypatch):
    monkeypatch.setattr(role_fits, "_leave_one_out", lambda found, y: torch.full_like(y, -math.inf))
    with pytest.raises(InvalidArgumentError, match=r"not finite at node \d+ in the model"):
        quick_roles()


def test_unconverged_fits_are_said():
    roles = quick_roles(folds=2, schedule=pc.Schedule(max_epochs=5))
    assert roles.unconverged == 8
    assert "8 of 8 fits stopped while still improving" in repr(roles)


def test_nearly_singular_fits_are_counted(monkeypatch):
    def warned(law):
        warnings.warn(ConditioningWarning(1e12), stacklevel=2)

    monkeypatch.setattr("pyro_copula.inference.fitting.warn_if_nearly_singular", warned)
    roles = quick_roles(folds=2)
    assert roles.nearly_singular == 8
    assert "8 of 8 fits ended at a nearly singular precision" in repr(roles)


def test_a_node_that_alone_hides_a_role_is_named():
    scores = {name: torch.zeros(60) for name in ("neither", "representation")}
    scores |= {name: 0.5 + torch.linspace(-1, 1, 60) for name in ("correlation", "both")}
    scores["both"][17] = scores["correlation"][17] = -80.0
    roles = pc.GraphRoles(scores, torch.arange(100, 160))
    assert roles.verdict == "the graph brings nothing that can be told from noise"
    (said,) = [line for line in roles.outliers if "correlation given" in line]
    assert said.startswith("node 117 makes most of the variance of 'correlation given")
    kept = torch.arange(60) != 17
    total = float((scores["both"] - scores["representation"])[kept].sum())
    assert f"(-80 nats): look at it; without it, {total:.0f} ±" in said
    assert "node 117" in repr(roles)
    scores["both"][17] = scores["correlation"][17] = 0.5
    assert pc.GraphRoles(scores, torch.arange(60)).outliers == []


def test_a_node_that_hides_no_role_is_not_named():
    """It makes most of the variance, but without it nothing can be told from noise either."""
    scores = {name: torch.zeros(60) for name in MODELS}
    scores["both"] = 0.01 * torch.linspace(-1, 1, 60)
    scores["both"][17] = 2.0
    assert role_gains.dominant_node(scores["both"], scores["correlation"]) == 17
    assert pc.GraphRoles(scores, torch.arange(60)).outliers == []


# ---------------------------------------------------------------- the paper's settings


VERDICTS = {
    "a": "mostly representation",
    "b": "mostly correlation",
    "c": "both representation and correlation",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "seed"), [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 2), *zip("ccc", range(3))]
)
def test_the_roles_in_the_settings_of_the_paper(setting, seed):
    data = pc.simulate.paper_setting(setting, sigma2=0.5, seed=seed)
    roles = pc.graph_roles(data, seed=seed, progress=False)
    assert roles.verdict.startswith(VERDICTS[setting]), repr(roles)


@pytest.mark.slow
def test_in_one_of_them_a_node_is_in_the_way():
    """Fourteen nodes without neighbours and a pair have several times the spread of the others."""
    data = pc.simulate.paper_setting("b", sigma2=0.5, seed=1)
    roles = pc.graph_roles(data, seed=1, progress=False)
    assert roles.verdict == "the graph brings nothing that can be told from noise"
    (said,) = [line for line in roles.outliers if "correlation given" in line]
    found = re.search(r"node (\d+) .* without it, (\d+) ± (\d+)", said)
    node, total, se = (int(part) for part in found.groups())
    assert int((data.edge_index[0] == node).sum()) <= 1  # at most one neighbour
    assert total > 2 * se
