# %% [markdown]
# # Posterior predictive: intervals at missing counties, and totals
#
# Some counties have not reported. What are their counts, how sure can one be, how many deaths are
# there in a whole district, and which county is worst? The first two are questions about one county
# at a time. The last two are about several at once, and there intervals of single counties do not
# help: one needs *joint* draws.
#
# If you come from R-INLA, CARBayes or PyMC, these are the words:
#
# | there | here |
# |---|---|
# | proper CAR (`besagproper`, `pm.CAR`) | `precision="car"`, that is `tau (D - rho A)` |
# | BYM, BYM2: a CAR part plus independent noise | `nugget=True` adds the independent part |
# | exposure, expected count, offset `E` | `exposure="exposure"` |
# | overdispersion | `marginal="negative_binomial"`, with its `dispersion` |
# | `y = NA`, imputation, kriging | NaN in `y`, or `observed=`; then `predict()` |
# | plug-in (empirical Bayes) and full Bayes | `method="map"` and `method="nuts"` |
#
# One difference: there a CAR field is added to the log rate, and the law of a count is whatever
# comes out of it. Here the law of each count is stated (negative binomial), and the field
# couples the counts without changing it. So `rho` is about dependence only, and the dispersion
# about spread only.

# %%
import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import torch
from matplotlib.collections import PolyCollection
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from scipy.spatial import Voronoi

import pyro_copula as pc

FAST = os.environ.get("PYRO_COPULA_FAST") == "1"  # the tests run every notebook in a short version
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#999999"
DRAWS = 100 if FAST else 4000
RULE = "midpoint" if FAST else "exact"  # for counts; the exact one is slower
pyro.set_rng_seed(0)

# %% [markdown]
# ## Data, and what is missing
#
# Sudden infant deaths in North Carolina, 1974 to 1978, with births as exposure. The data have a
# feature that explains most of what neighbouring counties share: with it there is next to nothing
# left for the copula to do (notebook 1). So the feature is **left out** here, as if nobody had
# recorded it: every county has the same expected deaths per birth, and neighbours are the only
# source of knowledge about a missing one.
#
# Two kinds of counties are hidden: every fifth one, scattered over the map, and a whole district,
# the capital's county Wake with all counties within two borders of it.

# %%
data = pc.datasets.nc_sids()
graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
births, rate = data.exposure, 1000 * data.y / data.exposure
joined = torch.eye(data.num_nodes)
joined[graph.rows, graph.cols] = joined[graph.cols, graph.rows] = 1.0  # itself and its neighbours
district = (joined @ joined)[data.names.index("Wake")] > 0
scattered = (torch.arange(data.num_nodes) % 5 == 0) & ~district
observed = ~district & ~scattered
print(f"hidden: {int(scattered.sum())} scattered counties, {int(district.sum())} in the district")
print(f"observed: {int(observed.sum())}")

# %% [markdown]
# The package has the centroids of the counties and not their borders. For maps, give each county
# the points that are closer to its centroid than to any other (its Voronoi cell), up to some
# distance.


# %%
def draw_map(axes, values, *, title, **colours):
    """Colours the counties; grey where the value is NaN."""
    centre = data.pos.mean(0)
    place = ((data.pos - centre) * torch.tensor([0.82, 1.0])).numpy()  # degrees are not square
    far = 100 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])  # so that every cell has an end
    cells = Voronoi(np.concatenate([place, far]))
    shapes = [cells.vertices[cells.regions[cells.point_region[i]]] for i in range(len(place))]
    drawn = PolyCollection(shapes, edgecolor="white", linewidth=0.6, **colours)
    drawn.set_array(np.ma.masked_invalid(np.asarray(values, dtype=float)))
    drawn.get_cmap().set_bad("#dddddd")
    axes.add_collection(drawn)
    discs = Path.make_compound_path(*[Path.circle(point, 0.3) for point in place])
    drawn.set_clip_path(PathPatch(discs, transform=axes.transData))
    (left, bottom), (right, top) = place.min(0) - 0.35, place.max(0) + 0.35
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])
    axes.set_frame_on(False)
    axes.set_title(title, fontsize=11)
    return drawn


figure, axes = plt.subplots(figsize=(9, 3.6), constrained_layout=True)
shown = draw_map(
    axes,
    rate.masked_fill(~observed, torch.nan),
    title="what has been reported (grey: hidden)",
    cmap="viridis",
    clim=(0, 5),
)
figure.colorbar(shown, ax=axes, label="deaths per 1,000 births", extend="max", shrink=0.85)
plt.show()

# %% [markdown]
# ## The fit and its posterior
#
# The cheap fit first. With `last_layer_prior` the one coefficient of this model, the level of the
# log rate, is a parameter like `rho` and the dispersion: MAP finds its best value, and NUTS draws
# it too. Without it the level would stay at its estimate, and the posterior would be too sure. The
# prior of the dispersion is one of those that notebook 3 compares before it looks at any count. The
# wide default leaves room for a dispersion and a `rho` that are both huge, which 61 counties cannot
# rule out, and where the sampler is slow (an exercise).

# %%
given = data.clone()
given.x = None  # no feature
model = pc.CopulaGNN(
    backbone="linear",
    marginal="negative_binomial",
    precision="car",
    exposure="exposure",
    discrete=RULE,  # the exact rule, for counts are small
    last_layer_prior=1.0,
    priors={"dispersion": dist.HalfNormal(0.3)},
)
schedule = pc.Schedule(max_epochs=5 if FAST else 2000)
fit = pc.fit(model, given, observed=observed, method="map", refine=True, schedule=schedule, seed=0)
print(fit)

# %%
chains, warmup, draws = (2, 5, 5) if FAST else (4, 200, 400)
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always", pc.errors.ParticleWarning)
    posterior = fit.refit(method="nuts", num_chains=chains, num_warmup=warmup, num_draws=draws)
print(posterior)
poor = sum(issubclass(warning.category, pc.errors.ParticleWarning) for warning in heard)
print(f"the exact rule was short of particles at {poor} of", end=" ")
print(f"{posterior.diagnostics['gradients']} gradients")

# %% [markdown]
# How to judge a sampler is the topic of notebook 4. This one is in order: no draw ended in a
# divergence, R-hat is below 1.01, and there are hundreds of effective draws.
#
# ## One county at a time: marginal against conditional
#
# `predict(given="none")` is the **marginal** law of each county: nothing but its births.
# `predict()` is the **conditional** one, given what the observed counties reported. Both mix over
# the posterior draws of the parameters.

# %%
hidden = (~observed).nonzero().squeeze(-1)
marginal = posterior.predict(num_samples=DRAWS, given="none", nodes=hidden)
conditional = posterior.predict(num_samples=DRAWS, nodes=hidden)
per_thousand = 1000 / births[hidden]


def widths(prediction, level=0.9):
    """The width of each interval, as a rate per 1,000 births; NaN at the other counties."""
    lower, upper = prediction.interval(level)
    everywhere = torch.full((data.num_nodes,), torch.nan)
    everywhere[prediction.nodes] = (upper - lower).float() * 1000 / births[prediction.nodes]
    return everywhere


figure, panels = plt.subplots(2, 1, figsize=(9, 6.6), constrained_layout=True)
for axes, prediction, title in [
    (panels[0], marginal, "before the neighbours: width of 90% intervals"),
    (panels[1], conditional, "given the neighbours: width of 90% intervals"),
]:
    shown = draw_map(axes, widths(prediction), title=title, cmap="viridis", clim=(2, 7))
figure.colorbar(shown, ax=panels, label="per 1,000 births", extend="both", shrink=0.6)
plt.show()

# %% [markdown]
# First of all, the number of births decides: in a county with few, one death more changes the rate
# by a lot. On top of it, the neighbours narrow the intervals where rates are low (in the west), and
# may widen them where rates are high, for a larger count also spreads more. Deep inside the
# district nobody near has reported, and there is little to learn.

# %%
columns = ["r2_deviance", "log_score", "crps", "coverage", "pit_coverage", "width"]
rows = {}
for where, chosen in {"scattered": scattered, "district": district}.items():
    nodes = chosen.nonzero().squeeze(-1)
    for kind in ["none", "observed"]:
        prediction = posterior.predict(given=kind, nodes=nodes)
        name = "marginal" if kind == "none" else "conditional"
        rows[where, name] = prediction.score(data.y)
pd.DataFrame(rows).T[columns].round(3)

# %% [markdown]
# The scattered counties are predicted better given their neighbours, by every score, with intervals
# that are narrower on average. In the district the neighbours mislead: the observed counties around
# it have 2.9 deaths per 1,000 births and it has 1.9, so the mean is predicted worse
# (`r2_deviance`, `crps`). The intervals allow for that, so that the log score does not suffer.
# Every `coverage` is at least 0.9. In whole numbers it tends to be too high (`pit_coverage`
# corrects for it), and 20 counties cannot tell 0.9 from 1.

# %%
order = torch.argsort(births[hidden]).flip(0)
figure, axes = plt.subplots(figsize=(11, 4), constrained_layout=True)
for prediction, name, colour, shift in [
    (marginal, "marginal", ORANGE, -0.18),
    (conditional, "conditional", BLUE, 0.18),
]:
    lower, upper = (end[order] * per_thousand[order] for end in prediction.interval(0.9))
    place = torch.arange(len(hidden)) + shift
    axes.vlines(place, lower, upper, color=colour, linewidth=3, label=f"{name} 90% interval")
axes.plot(rate[hidden][order], "D", color="black", markersize=4, ls="", label="true rate")
labels = [data.names[i] + (" *" if district[i] else "") for i in hidden[order].tolist()]
axes.set_xticks(range(len(hidden)), labels, fontsize=8, rotation=75)
axes.set(ylabel="deaths per 1,000 births", ylim=(-0.2, 10), xlim=(-1, len(hidden)))
axes.set_title("Hidden counties, from the most births to the fewest (*: district)", fontsize=11)
axes.legend(fontsize=9, loc="upper left", ncols=3)
plt.show()

# %% [markdown]
# ## Several counties at once: the total of the district
#
# How many deaths are there in the district? Three ways to an interval of the total:
#
# 1. **Add up the ends** of the counties' intervals.
# 2. **Take the counties for independent**: draw each from its own predictive law and add up. Here
#    that is done by shuffling each county's draws by itself: every single interval stays the same.
# 3. **Add up joint draws.** A row of `samples` is one possible state of all counties, so the sum of
#    a row is one possible total.

# %%
nodes = district.nonzero().squeeze(-1)


def shuffled(samples):
    """The same draws for each county, without what ties the counties together."""
    return torch.stack([column[torch.randperm(len(column))] for column in samples.T], dim=1)


def ends(totals, level=0.9):
    """The equal-tailed interval of some draws."""
    return [float(totals.quantile(q)) for q in ((1 - level) / 2, (1 + level) / 2)]


prediction = posterior.predict(num_samples=DRAWS, nodes=nodes)
joint, independent = prediction.samples.sum(1), shuffled(prediction.samples).sum(1)
truth = float(data.y[nodes].sum())
single = prediction.interval(0.9)
intervals = {
    "ends added up": [float(single.lower.sum()), float(single.upper.sum())],
    "independent counties": ends(independent),
    "joint draws": ends(joint),
}
table = pd.DataFrame(intervals, index=["lower", "upper"]).T
table["width"] = table["upper"] - table["lower"]
print(f"true total: {truth:.0f} deaths in {int(births[nodes].sum())} births")
table.round(0)

# %%
figure, axes = plt.subplots(figsize=(9, 3.6), constrained_layout=True)
bins = np.arange(float(joint.min()), float(joint.quantile(0.998)) + 10, 10)
for totals, colour in [(independent, ORANGE), (joint, BLUE)]:
    axes.hist(totals.numpy(), bins=bins, density=True, histtype="step", linewidth=2, color=colour)
top = axes.get_ylim()[1]
for height, (name, (lower, upper)), colour in zip(
    [1.32, 1.22, 1.12], intervals.items(), [GREY, ORANGE, BLUE], strict=True
):
    axes.plot([lower, upper], [height * top] * 2, color=colour, linewidth=4, label=name)
axes.axvline(truth, color="black", linewidth=1.5, linestyle="--", label="true total")
axes.set(xlabel="deaths in the district", yticks=[], ylim=(0, 1.4 * top))
axes.set_title("The total of 20 counties: draws, and 90% intervals above them", fontsize=11)
axes.legend(fontsize=9, loc="center right")
plt.show()
print(
    f"standard deviation of the total: joint {joint.std():.0f}, independent {independent.std():.0f}"
)

# %% [markdown]
# - **Adding up the ends** is far too wide: all counties would have to be at their upper ends at
#   once.
# - **Independent counties** are too narrow: their deviations cancel in the sum, and the interval
#   misses the true total.
# - **Joint draws** know that neighbours deviate together, and that all counties share the same
#   uncertain parameters. What pushes one count up pushes up the others, and nothing cancels. The
#   standard deviation is more than half as large again, and the interval holds the truth.
#
# Every single county has the same interval in the second and the third. Calibrated intervals of
# counties do not make a calibrated interval of their total.
#
# ## Does it hold elsewhere?
#
# One district proves little. So take every county in turn, hide it with all counties within two
# borders, and predict the total from the rest. For this, fit once to all counties. (The three
# parameters have then seen the hidden values too. Three numbers from a hundred counties can tell
# little of any one of them, but strictly each district would need a fit of its own.)

# %%
everywhere = pc.fit(model, given, method="map", refine=True, schedule=schedule, seed=0)
covered = {"joint": [], "independent": []}
for centre in range(0, data.num_nodes, 50 if FAST else 1):
    hide = (joined @ joined)[centre] > 0
    samples = everywhere.predict(num_samples=DRAWS // 2, given=~hide).samples
    total = float(data.y[hide].sum())
    for name, totals in {"joint": samples.sum(1), "independent": shuffled(samples).sum(1)}.items():
        lower, upper = ends(totals)
        covered[name].append({"covered": lower <= total <= upper, "width": upper - lower})
summary = {name: pd.DataFrame(found).astype(float).mean() for name, found in covered.items()}
pd.DataFrame(summary).T.round(2)

# %% [markdown]
# `covered` should be 0.9. Joint draws come close. Taking the counties for independent, one in five
# totals is missed, where one in ten should be. (The districts overlap, so this is less evidence
# than a hundred separate ones.)
#
# ## Which county is highest?
#
# Joint draws answer this as well: in each draw find the county with the highest rate, and count.
# Of the hidden counties, take those with at least 1,000 births.

# %%
large = hidden[births[hidden] >= 1000]
samples = posterior.predict(num_samples=DRAWS, nodes=large).samples
before = posterior.predict(num_samples=DRAWS, nodes=large, given="none").samples


def chance_of_highest(samples):
    """For each county, the share of draws in which its rate is the highest."""
    highest = (samples / births[large]).argmax(1)
    return torch.bincount(highest, minlength=len(large)) / len(samples)


state = float(data.y[observed].sum() / births[observed].sum())
table = pd.DataFrame(
    {
        "births": births[large],
        "true rate": rate[large],
        "highest, before neighbours": chance_of_highest(before),
        "highest, given them": chance_of_highest(samples),
        "rate above the state's": (samples / births[large] > state).float().mean(0),
        "above twice the state's": (samples / births[large] > 2 * state).float().mean(0),
    },
    index=[data.names[i] for i in large.tolist()],
)
print(f"{len(large)} counties; rate of the observed counties: {1000 * state:.2f} per 1,000")
table.sort_values("highest, given them", ascending=False).head(8).round(2)

# %% [markdown]
# If all counties were alike, each would be the highest with probability 1/36, or 0.03. The
# neighbours raise that at most to about 0.1: nobody can name the county, and a ranking by predicted
# rates would pretend to. But the short list is good. Of its first six, four are the hidden counties
# with the highest true rates (Halifax, Hertford, Hoke and Bladen); Martin and Caswell are not. The
# last two columns are the *exceedance probabilities* of disease mapping. Here they are on the map,
# for all hidden counties.

# %%
exceedance = torch.full((data.num_nodes,), torch.nan)
exceedance[hidden] = (conditional.samples / births[hidden] > state).float().mean(0)
figure, axes = plt.subplots(figsize=(9, 3.6), constrained_layout=True)
shown = draw_map(
    axes,
    exceedance,
    title="hidden counties: probability of a rate above the state's (grey: observed)",
    cmap="cividis",
    clim=(0, 1),
)
figure.colorbar(shown, ax=axes, label="probability", shrink=0.85)
plt.show()

# %% [markdown]
# ## Plug-in against posterior
#
# So far the parameters were drawn from their posterior. What if they are put at their best values,
# as a MAP (or maximum likelihood) fit does?

# %%
rows = {}
for name, one in {"plug-in (map)": fit, "posterior (nuts)": posterior}.items():
    counties = one.predict(num_samples=DRAWS, nodes=hidden)
    totals = one.predict(num_samples=DRAWS, nodes=nodes).samples.sum(1)
    lower, upper = ends(totals)
    rows[name] = {
        "mean width, one county": counties.score(data.y)["width"],
        "coverage, one county": counties.score(data.y)["coverage"],
        "log score": counties.score(data.y)["log_score"],
        "total: lower": lower,
        "total: upper": upper,
        "total: width": upper - lower,
    }
pd.DataFrame(rows).T.round(2)

# %% [markdown]
# The plug-in intervals ignore that `rho`, the dispersion and the level are known only roughly. For
# one county that matters little: most of its uncertainty is its own. For the total it matters more,
# because an error in the level is shared by all counties and does not cancel. Which of the two is
# better cannot be seen from scores of single counties, which hardly differ. It is a reason to
# prefer a posterior wherever sums are asked for.
#
# ## Exercises
#
# 1. Put the feature back (`given = data`). What remains of the difference between joint and
#    independent totals?
# 2. Add `nugget=True`, the independent part of a BYM model. Is the share of independent noise
#    determined by these data? Look at its posterior.
# 3. Use the joint draws for another question: the probability that the district has more than 200
#    deaths, or that Wake has a lower rate than Durham. Which of them need joint draws?
# 4. Hide the district only. Do the parameters change?
# 5. Leave out the prior of the dispersion. What do R-hat, the effective sample size and the number
#    of divergences say, and what happens to the total's interval?
# 6. Leave `last_layer_prior` out. Which intervals get narrower, those of counties or those of
#    totals?
# 7. In R-INLA or PyMC, fit a Poisson model with a BYM field to the same observed counties, and
#    compare the interval of the district's total.
