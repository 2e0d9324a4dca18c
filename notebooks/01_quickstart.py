# %% [markdown]
# # Quickstart: values at hidden counties
#
# You have one outcome per node of a graph: deaths per county, speed per sensor, visits per page.
# Some nodes are not observed. You want a prediction there, with an interval that you can trust.
#
# A graph can help in two ways.
#
# - **Representation.** What a node is like shows in the features of its neighbours. A graph neural
#   network uses the graph this way. It moves the *mean* of each node.
# - **Correlation.** Neighbours deviate from their means in the same direction, because they share
#   something that no feature holds. A CAR or BYM model of spatial statistics uses the graph this
#   way. Here an *observed value* next door says something about a missing one.
#
# `pyro_copula` has both in one joint law. Each node keeps its own marginal (Poisson, negative
# binomial, normal, ...), and a Gaussian copula with a sparse precision on the graph couples them.
#
# This notebook makes one fit, one set of intervals and one picture.

# %%
import os

import matplotlib.pyplot as plt
import pandas as pd
import pyro
import torch
from matplotlib.colors import LinearSegmentedColormap

import pyro_copula as pc

FAST = os.environ.get("PYRO_COPULA_FAST") == "1"  # the tests run every notebook in a short version
BLUE, ORANGE = "#0072B2", "#E69F00"  # told apart by everyone
pyro.set_rng_seed(0)

# %% [markdown]
# ## The data
#
# Sudden infant deaths in the 100 counties of North Carolina, 1974 to 1978. The counts `y` have an
# *exposure*, the number of births. Two counties are joined if they share a border. The object is a
# `Data` of PyTorch Geometric, as for any graph network.

# %%
data = pc.datasets.nc_sids()
graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
rate = 1000 * data.y / data.exposure
print(graph)
print(f"{int(data.y.sum())} deaths in {int(data.exposure.sum())} births")
print("Moran's I of the rates:", pc.morans_i(rate, graph))

# %% [markdown]
# Moran's I compares each county with its neighbours. It is far above what independent counties
# would give: neighbouring counties have similar rates. So hide every fifth county and ask the
# others about it.

# %%
observed = torch.arange(data.num_nodes) % 5 != 0
hidden = (~observed).nonzero().squeeze(-1)
print(f"{int(observed.sum())} observed counties, {len(hidden)} hidden ones")

# %% [markdown]
# ## One fit
#
# First a model that knows nothing of a county but its births: the only feature is a constant. The
# mean is `rate * births`, the counts are negative binomial (they spread more than a Poisson law
# allows), and the precision is that of a proper CAR model, `tau (D - rho A)`. If `rho` is 0, the
# counties are independent; the closer it is to 1, the further neighbours speak for each other.
#
# `discrete="exact"` takes the likelihood of counts as it is. The quicker default is an
# approximation that is poor if many counts are 0 or 1, as here. `refine=True` moves `rho` and the
# dispersion to their maximum at the end, for here they are themselves of interest.


# %%
def fit_counties(x):
    """Fits the counts of the observed counties, given the features of all."""
    given = data.clone()
    given.x = x
    model = pc.CopulaGNN(
        backbone="linear",
        marginal="negative_binomial",
        precision="car",
        exposure="exposure",
        discrete="exact",
    )
    schedule = pc.Schedule(max_epochs=20 if FAST else 2000)
    return pc.fit(model, given, observed=observed, refine=True, schedule=schedule, seed=0)


fit = fit_counties(torch.ones(data.num_nodes, 1))
print(fit)

# %% [markdown]
# ## One interval
#
# `fit.predict()` is the law of the hidden counties given the observed ones: the *conditional* law.
# With `given="none"` it is the law before any neighbour is looked at: the *marginal* one, which is
# all that a model of independent counties has.

# %%
marginal = fit.predict(nodes=hidden, given="none")
conditional = fit.predict(nodes=hidden)
marginal_interval, interval = marginal.interval(0.9), conditional.interval(0.9)
k = 0  # the first hidden county
name, births, deaths = data.names[hidden[k]], data.exposure[hidden[k]], data.y[hidden[k]]
print(f"{name}: {births:.0f} births, deaths (hidden): {deaths:.0f}")
print(f"  marginal    {marginal_interval.lower[k]:.0f} to {marginal_interval.upper[k]:.0f}")
print(f"  conditional {interval.lower[k]:.0f} to {interval.upper[k]:.0f}")
conditional.to_frame(levels=[0.9]).head()

# %% [markdown]
# Because the true counts are known, both can be scored. `coverage` should be near 0.9 (with 20
# counties it can only be a multiple of 0.05); `width` is the mean width of the intervals; a higher
# `log_score` and a lower `crps` are better. Twenty counties are little evidence, so take small
# differences for noise.

# %%
columns = ["r2_deviance", "log_score", "crps", "coverage", "width"]
scores = pd.DataFrame(
    {"marginal": marginal.score(data.y), "conditional": conditional.score(data.y)}
).T[columns]
scores.round(3)

# %% [markdown]
# ## One picture
#
# A map of the widths. Each large circle is a hidden county at its centroid. Its colour is the width
# of the conditional interval over that of the marginal one: blue where the neighbours made the
# interval narrower, orange where they made it wider. The small dots are the observed counties, blue
# if their rate is below that of the whole state, orange if it is above.

# %%
marginal_width = marginal_interval.upper - marginal_interval.lower
width = interval.upper - interval.lower
blue_orange = LinearSegmentedColormap.from_list("blue_orange", [BLUE, "#f2f2f2", ORANGE])
state_rate = 1000 * data.y[observed].sum() / data.exposure[observed].sum()

figure, axes = plt.subplots(figsize=(9, 3.7), constrained_layout=True)
ends = torch.stack([data.pos[graph.rows], data.pos[graph.cols]])  # (2, num_edges, 2)
axes.plot(ends[..., 0], ends[..., 1], color="#d0d0d0", linewidth=0.7, zorder=1)
for colour, chosen, label in [
    (BLUE, rate < state_rate, "observed, rate below the state's"),
    (ORANGE, rate >= state_rate, "observed, rate above it"),
]:
    axes.scatter(*data.pos[observed & chosen].T, s=16, color=colour, label=label, zorder=2)
shown = axes.scatter(
    *data.pos[hidden].T,
    c=width / marginal_width,
    s=190,
    cmap=blue_orange,
    vmin=0.4,
    vmax=1.6,
    edgecolor="black",
    linewidth=1.0,
    label="hidden",
    zorder=3,
)
axes.set(aspect=1.22, xticks=[], yticks=[])  # a degree of latitude is longer than one of longitude
axes.set_title("90% intervals at hidden counties: what the neighbours change", fontsize=11)
axes.legend(loc="lower left", fontsize=9, frameon=False)
figure.colorbar(shown, ax=axes, shrink=0.8, label="width: conditional / marginal")
plt.show()
print(f"narrower at {int((width < marginal_width).sum())} hidden counties,", end=" ")
print(f"as wide at {int((width == marginal_width).sum())},", end=" ")
print(f"wider at {int((width > marginal_width).sum())}")

# %% [markdown]
# Among neighbours with low rates the interval shrinks: the count will be small, and small counts
# spread little. Among neighbours with high rates it may grow, because a count with a larger mean
# spreads more. Knowing more does not always mean a narrower interval. It means one in a better
# place, which is why the scores improve.
#
# The same intervals as rates, county by county, with the true rates. On the right are the counties
# with few births, where one death more or less changes the rate by a lot.

# %%
order = torch.argsort(data.exposure[hidden]).flip(0)
per_birth = 1000 / data.exposure[hidden]
figure, axes = plt.subplots(figsize=(9, 3.7), constrained_layout=True)
kinds = [("marginal", marginal_interval, ORANGE, -0.17), ("conditional", interval, BLUE, 0.17)]
for label, (lower, upper), colour, shift in kinds:
    place = torch.arange(len(hidden)) + shift
    low, high = (lower * per_birth)[order], (upper * per_birth)[order]
    axes.vlines(place, low, high, color=colour, linewidth=4, label=f"{label} interval")
axes.plot(rate[hidden][order], "D", color="black", markersize=4.5, ls="", label="true rate")
axes.set_xticks(range(len(hidden)), [data.names[int(i)] for i in hidden[order]], fontsize=8)
axes.tick_params(axis="x", rotation=60)
axes.set(ylabel="deaths per 1,000 births", ylim=(-0.3, 8))
axes.set_title("Hidden counties, from the most births to the fewest", fontsize=11)
axes.legend(fontsize=9, loc="upper left", ncols=3)
plt.show()

# %% [markdown]
# ## Does the model fit?
#
# `fit.diagnose()` looks at residuals and says in words what it finds. It simulates from the fitted
# model, so that it knows how large a deviation happens by chance.

# %%
print(fit.diagnose())

# %% [markdown]
# ## When a feature explains it
#
# The data have one feature: the (square root of the) share of births that are non-white, long known
# to go with the rate in these data. It varies smoothly over the state. Give it to the model, and
# see what is left for the correlation to do.

# %%
with_feature = fit_counties(data.x)
after = with_feature.predict(nodes=hidden, given="none"), with_feature.predict(nodes=hidden)
for kind, prediction in zip(["feature, marginal", "feature, conditional"], after, strict=True):
    scores.loc[kind] = pd.Series(prediction.score(data.y))[columns]
print(f"rho without the feature: {fit.scalars['rho']:.2f}")
print(f"rho with the feature:    {with_feature.scalars['rho']:.2f}")
scores.round(3)

# %%
print(with_feature.diagnose())

# %% [markdown]
# `rho` drops, the conditional intervals are no better than the marginal ones, and the diagnosis
# says that independent counties may do as well. That is how it should be: most of what neighbours
# shared *was* this feature. The neighbours' values stood in for it as long as it was missing.
#
# So the copula earns its place where a feature is missing, and costs little where none is.
#
# ## Which role does your graph play?
#
# `pc.graph_roles` measures it. It fits four models (a network that sees the graph or one that does
# not, with independent nodes or with a copula) and compares the densities that they predict at
# held-out nodes. Here it is for these counties, with the feature.

# %%
roles = pc.graph_roles(
    data,
    held_out=~observed,
    backbone="sage",
    baseline="linear",
    marginal="negative_binomial",
    precision="car",
    exposure="exposure",
    discrete="exact",
    schedule=pc.Schedule(max_epochs=5 if FAST else 2000),
)
print(roles)

# %% [markdown]
# Look at each gain beside its standard error. Twenty held-out counties can show a large gain only;
# without `held_out` the comparison uses all observed nodes, in folds, and takes longer.
#
# ## Next steps
#
# 1. Hide another fifth of the counties (`% 5 != 1`), or half of them. How do the two rows of scores
#    change?
# 2. Take `pc.datasets.nc_sids(1979)`, the next period. Is there less left for the neighbours?
# 3. Swap the marginal for `"poisson"` and call `fit.diagnose()`. What does it advise?
# 4. `fit.refit(method="nuts")` starts a sampler from this fit and gives a posterior of `rho` and
#    the dispersion. Is `rho = 0` ruled out?
# 5. `pc.simulate.paper_setting("b")` has correlated deviations and `"a"` means that depend on
#    neighbours' features. What does `pc.graph_roles` say of each, with which networks?
# 6. Notebook 2 builds the copula from scratch; notebook 3 asks what a prior on `rho` means;
#    notebook 6 swaps the marginal and compares the results.
