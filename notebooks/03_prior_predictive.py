# %% [markdown]
# # Prior predictive: what your priors say before the data
#
# A prior on `rho`, on a scale or on a dispersion is a statement about data that you have not seen.
# It is hard to read from the parameter. It is easy to read from data sets that the prior makes up.
#
# So draw parameters from the priors, draw a whole data set for each, and look at things you know
# something about: how alike neighbours are, how much regions differ, how large the largest count
# is. Everything here is plain Pyro: a model and `pyro.infer.Predictive`. No outcome is used until
# the very end.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import Predictive

import pyro_copula as pc

FAST = os.environ.get("PYRO_COPULA_FAST") == "1"  # the tests run every notebook in a short version
BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#999999"
DRAWS = 40 if FAST else 500

# %% [markdown]
# The graph is that of the 100 counties of North Carolina, with the births of each county as
# exposure. The counts of deaths are in `data.y`; forget them for now.

# %%
data = pc.datasets.nc_sids()
graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
births = data.exposure
print(graph)
print(f"neighbours of a county: {int(graph.degree.min())} to {int(graph.degree.max())}")

# %% [markdown]
# ## A flat prior on `rho` is not flat
#
# The proper CAR precision is `D - rho A`. `rho` runs from 0 (independent) to 1, so
# `Uniform(0, 1)` looks like the choice of someone who wants to say nothing. But `rho` is not the
# correlation of neighbours. That correlation depends on the graph, and can be computed: it is
# `Sigma_ij / (s_i s_j)` along the edges, with `Sigma` the inverse of the precision.


# %%
def neighbour_correlation(rho):
    """The mean correlation of neighbours, over all edges of the graph."""
    precision = pc.CARPrecision(graph)(rho=rho, tau=1.0)
    covariance = torch.linalg.inv(precision.to_dense().double())
    scale = covariance.diagonal().sqrt()
    correlation = covariance[graph.rows, graph.cols] / (scale[graph.rows] * scale[graph.cols])
    return float(correlation.mean())


grid = 1 - np.geomspace(1, 1e-5, 200)  # from 0 on, ever closer to 1
curve = np.array([neighbour_correlation(rho) for rho in grid])
for rho in (0.5, 0.9, 0.99, 0.999):
    print(f"rho {rho}: neighbours have correlation {neighbour_correlation(rho):.2f}")

# %% [markdown]
# Push the uniform prior through this curve, and two others that lean towards 1.

# %%
priors = {
    "Uniform(0, 1)": dist.Uniform(0.0, 1.0),
    "Beta(4, 1)": dist.Beta(4.0, 1.0),
    "Beta(20, 1)": dist.Beta(20.0, 1.0),
}
colours = [GREY, ORANGE, BLUE]
pyro.set_rng_seed(0)
implied = {
    name: np.interp(prior.sample((20_000,)).numpy(), grid, curve) for name, prior in priors.items()
}

figure, panels = plt.subplots(1, 3, figsize=(11, 3.2), constrained_layout=True)
panels[0].plot(grid, curve, color="black", linewidth=2)
panels[0].set(xlabel="rho", ylabel="mean correlation of neighbours", xlim=(0, 1), ylim=(0, 1))
panels[0].set_title("what rho means on this graph", fontsize=11)
place = torch.linspace(0.001, 0.999, 400)
for (name, prior), colour in zip(priors.items(), colours, strict=True):
    panels[1].plot(place, prior.log_prob(place).exp(), color=colour, linewidth=2, label=name)
    panels[2].hist(
        implied[name],
        bins=np.linspace(0, 1, 41),
        density=True,
        histtype="step",
        color=colour,
        linewidth=2,
    )
panels[1].set(xlabel="rho", ylabel="prior density", ylim=(0, 8))
panels[1].set_title("priors on rho", fontsize=11)
panels[1].legend(fontsize=9, loc="upper left")
panels[2].set(xlabel="mean correlation of neighbours", ylabel="implied density")
panels[2].set_title("the same priors, as correlations", fontsize=11)
plt.show()
pd.DataFrame(
    {
        name: {"below 0.2": (c < 0.2).mean(), "0.2 to 0.5": ((c >= 0.2) & (c < 0.5)).mean()}
        | {"above 0.5": (c >= 0.5).mean()}
        for name, c in implied.items()
    }
).T.round(3)

# %% [markdown]
# A prior that is flat in the correlation would have 0.2, 0.3 and 0.5 in the three columns. None is
# flat. The uniform prior holds that neighbours are hardly alike: that is a strong opinion, and it
# was meant to be none. `Beta(4, 1)` covers the middle, with little at either end. `Beta(20, 1)`
# rules out weak dependence altogether. Which one is right depends on what you know; the point is to
# choose it on the scale of the right panel.
#
# ## A prior on the scale is not one on the spread
#
# In a CAR model with normal outcomes (`pc.GraphNormal`) the precision `tau (D - rho A)` sets the
# spread of the values as well: the standard deviation of a county is the square root of a diagonal
# entry of the inverse. So a prior on `tau` means something else for each `rho`, and for each
# county, because counties differ in their number of neighbours.

# %%
tau = dist.LogNormal(0.0, 1.0)
pyro.set_rng_seed(0)
some_rho = [0.1, 0.5, 0.9, 0.99, 0.999]
taus = tau.sample((4000,))
spread = {}
for rho in some_rho:
    scale = pc.CARPrecision(graph)(rho=rho, tau=1.0).scale()  # one number per county
    spread[rho] = (scale.unsqueeze(0) / taus.sqrt().unsqueeze(1)).reshape(-1)

figure, axes = plt.subplots(figsize=(8, 3), constrained_layout=True)
for place, rho in enumerate(some_rho):
    low, first, middle, third, high = np.quantile(spread[rho], [0.05, 0.25, 0.5, 0.75, 0.95])
    axes.plot([low, high], [place, place], color=BLUE, linewidth=2)
    axes.plot([first, third], [place, place], color=BLUE, linewidth=7, solid_capstyle="butt")
    axes.plot(middle, place, "o", color="white", markersize=5)
axes.set_yticks(range(len(some_rho)), [f"rho = {rho}" for rho in some_rho])
axes.set(xscale="log", xlabel="standard deviation of a county, 50% and 90% of prior draws")
axes.set_xticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
axes.minorticks_off()
axes.set_title("One prior on tau, log-normal(0, 1), at five values of rho", fontsize=11)
plt.show()

# %% [markdown]
# The spread grows by itself as `rho` nears 1. This is known from BYM models, where the structured
# part is scaled for that reason. A copula needs no such care: it takes the *correlation* from the
# precision and the spread from the marginals, so `tau` drops out, and the prior on the dispersion
# is about the spread of a county whatever `rho` is.
#
# ## A prior for the whole model
#
# The model of notebook 1, in plain Pyro, without features: a rate for the state, a dispersion, and
# `rho`. The priors come in as arguments, so that they can be compared. `Predictive` runs the model
# many times without an observation, and keeps what it sampled.


# %%
def model(priors, y=None):
    log_rate = pyro.sample("log_rate", priors["log_rate"])
    dispersion = pyro.sample("dispersion", priors["dispersion"])
    rho = pyro.sample("rho", priors["rho"])
    mean = births * log_rate.exp()
    counts = dist.NegativeBinomial(1 / dispersion, logits=(mean * dispersion).log())
    precision = pc.CARPrecision(graph)(rho=rho, tau=1.0)
    pyro.sample("y", pc.GaussianCopula(counts, precision=precision, discrete="exact"), obs=y)


def draw(priors):
    """Parameters and data sets that these priors make up."""
    pyro.set_rng_seed(0)
    return {k: v.squeeze() for k, v in Predictive(model, num_samples=DRAWS)(priors).items()}


vague = {
    "log_rate": dist.Normal(0.0, 10.0),
    "dispersion": dist.HalfCauchy(1.0),
    "rho": dist.Uniform(0.0, 1.0),
}

# %% [markdown]
# These are the priors of someone who wants to be careful. Before anything else, look at the number
# of deaths in the whole state that they expect.

# %%
pyro.set_rng_seed(0)
rate = vague["log_rate"].sample((10_000,)).exp()
print(f"births in the state: {int(births.sum())}")
everyone, nobody = (rate > 1).float().mean(), (rate * births.sum() < 1).float().mean()
print(f"prior probability of more deaths than births: {everyone:.2f}")
print(f"prior probability of less than one death:     {nobody:.2f}")

# %% [markdown]
# So "vague" turned out to mean: with a probability of about one half, more children die than are
# born. Such a prior is not modest, it is wrong. People know that these deaths are rare, at most a
# few in a thousand births. `Normal(log 0.002, 1)` says so, with a factor of seven to either side.
#
# That leaves the dispersion and `rho`, where intuition is weaker. Compare three sets.

# %%
log_rate = dist.Normal(np.log(0.002), 1.0)
sets = {
    "wide dispersion, uniform rho": {
        "log_rate": log_rate,
        "dispersion": dist.HalfCauchy(1.0),
        "rho": dist.Uniform(0.0, 1.0),
    },
    "small dispersion, uniform rho": {
        "log_rate": log_rate,
        "dispersion": dist.HalfNormal(0.3),
        "rho": dist.Uniform(0.0, 1.0),
    },
    "small dispersion, rho near 1": {
        "log_rate": log_rate,
        "dispersion": dist.HalfNormal(0.3),
        "rho": dist.Beta(20.0, 1.0),
    },
}
made_up = {name: draw(priors) for name, priors in sets.items()}

# %% [markdown]
# ## What the made-up data look like
#
# Three numbers for each data set, all of which someone who knows the state could judge:
#
# - **Moran's I of the rates**: how alike neighbours are. Without dependence it is about 0.
# - **The highest rate over that of the state**, among the counties with more than 1,000 births.
# - **The spread of regions**: cut the state into five regions from west to east, take the rate of
#   each, and divide the highest by that of the state. Independent noise averages out within a
#   region; shared noise does not.

# %%
longitude = data.pos[:, 0].contiguous()
region = torch.bucketize(longitude, torch.quantile(longitude, torch.arange(1, 5) / 5))
member = torch.nn.functional.one_hot(region).to(births.dtype)  # (num_nodes, 5)
large = births > 1000


def summaries(y):
    """What is looked at, of one data set."""
    state = y.sum() / births.sum()
    if state == 0:  # nobody died, and there is nothing to compare
        return {"Moran's I": np.nan, "highest county": np.nan, "highest region": np.nan}
    return {
        "Moran's I": pc.morans_i(y / births, graph).statistic,
        "highest county": float((y / births)[large].max() / state),
        "highest region": float(((y @ member) / (births @ member)).max() / state),
    }


tables = {
    name: pd.DataFrame([summaries(y) for y in drawn["y"]]).dropna()
    for name, drawn in made_up.items()
}
pd.concat({name: t.quantile([0.05, 0.5, 0.95]) for name, t in tables.items()}).round(2)

# %%
figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), constrained_layout=True)
for axes, column in zip(panels, ["Moran's I", "highest county", "highest region"], strict=True):
    everything = np.concatenate([t[column] for t in tables.values()])
    most = 1.0 if column == "Moran's I" else 0.97  # the last bin holds what is further out
    bins = np.linspace(everything.min(), np.quantile(everything, most), 30)
    for (name, table), colour in zip(tables.items(), [GREY, ORANGE, BLUE], strict=True):
        axes.hist(
            np.clip(table[column], bins[0], bins[-1]),
            bins=bins,
            density=True,
            histtype="step",
            color=colour,
            linewidth=2,
            label=name,
        )
    axes.set(xlabel=column, yticks=[])
panels[0].set_ylabel("prior predictive density")
panels[1].set_xlabel("highest county / state")
panels[2].set_xlabel("highest region / state")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
plt.show()

# %% [markdown]
# - With a *wide dispersion* one county often has many times the rate of the state (the last bin of
#   the second panel holds everything beyond it). That would have been noticed long before anyone
#   fitted a model.
# - With a *small dispersion and a uniform rho* Moran's I is mostly small. This prior leans towards
#   a graph that does not matter, without ruling out that it does.
# - With *rho near 1* Moran's I is hardly ever near 0. This prior has decided that neighbours are
#   alike, and leaves open how much. It also lets regions differ more.
#
# A marginal's spread and the dependence act together on the regions: shared noise must be there
# (dispersion) and must be shared (`rho`).
#
# ## Made-up maps
#
# Numbers convince less than maps. Here are three data sets of the last prior, from low to high
# Moran's I. Could one of them be North Carolina?

# %%
drawn = made_up["small dispersion, rho near 1"]
table = tables["small dispersion, rho near 1"]
moran = table["Moran's I"]
chosen = [(moran - moran.quantile(q)).abs().idxmin() for q in (0.1, 0.5, 0.9)]

figure, panels = plt.subplots(3, 1, figsize=(8, 7), constrained_layout=True)
ends = torch.stack([data.pos[graph.rows], data.pos[graph.cols]])  # (2, num_edges, 2)
for axes, k in zip(panels, chosen, strict=True):
    y = drawn["y"][k]
    relative = (y / births) / (y.sum() / births.sum())
    axes.plot(ends[..., 0], ends[..., 1], color="#d0d0d0", linewidth=0.7, zorder=1)
    picture = axes.scatter(*data.pos.T, c=relative, s=60, cmap="viridis", vmin=0, vmax=3, zorder=2)
    axes.set(aspect=1.22, xticks=[], yticks=[])
    title = f"rho {drawn['rho'][k]:.3f}, dispersion {drawn['dispersion'][k]:.2f}"
    axes.set_title(f"{title}, Moran's I {moran[k]:.2f}", fontsize=10)
figure.colorbar(picture, ax=panels, label="rate / rate of the state", shrink=0.6, extend="max")
plt.show()

# %% [markdown]
# ## And the data?
#
# Now, and only now, look at the real counts. The question is not whether a prior predicts them
# well. It is whether they would be a surprise: the share of made-up data sets with a smaller value
# should not be close to 0 or 1.

# %%
actual = summaries(data.y)
shares = {
    name: {column: (table[column] < actual[column]).mean() for column in table}
    for name, table in tables.items()
}
pd.concat([pd.DataFrame({"the data": actual}).T, pd.DataFrame(shares).T]).round(2)

# %% [markdown]
# The first row has the values of the data; the others say where they fall among the made-up ones.
# None of the three priors is contradicted. A prior under which the data would be unusual can still
# be overruled by them, but with 100 counties it may pull the answer its way. Say which prior you
# used, and try a second one.
#
# `CopulaGNN` has weak priors by default, for `method="map"`, `"svi"` and `"nuts"`. They can be
# replaced by name: `pc.CopulaGNN(..., priors={"rho": dist.Beta(20.0, 1.0)})`.

# %%
network = pc.CopulaGNN(
    backbone="linear",
    marginal="negative_binomial",
    precision="car",
    exposure="exposure",
    priors={"rho": dist.Beta(20.0, 1.0), "dispersion": dist.HalfNormal(0.3)},
)
for name, prior in network.build(data).priors.items():
    low, high = np.quantile(prior.sample((4000,)), [0.05, 0.95])
    print(f"{name}: 90% of the prior between {low:.2f} and {high:.2f}")

# %% [markdown]
# ## Exercises
#
# 1. Repeat the first figure on your own graph. On a tree or a path `rho` = 0.9 is already a strong
#    dependence. Why?
# 2. `pc.LaplacianPrecision(graph)(tau=1.0, gamma=gamma)` has `gamma` in place of `rho`. Which prior
#    on `log gamma` is about flat in the correlation of neighbours?
# 3. Find a transformation of a uniform number that is *exactly* flat in the mean correlation of
#    neighbours: invert the curve of the first figure with `np.interp`.
# 4. Give the model the feature `data.x`, with `slope ~ Normal(0, 1)`. What does the prior on the
#    slope do to Moran's I? Compare with `Normal(0, 0.3)`.
