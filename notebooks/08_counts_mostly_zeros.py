# %% [markdown]
# # Counts that are mostly zeros
#
# Under a Gaussian copula every node has a latent normal score. A measured amount says what the
# score is. A count says only that it lies in some *interval*, and if most counts are zero, most of
# these intervals are wide. How should the likelihood treat them? `GaussianCopula(discrete=...)`
# names the rule:
#
# - `"midpoint"`, the default: put the score in the middle of its interval. Quick, and good for
#   counts that spread over many values.
# - `"exact"` (also called `"ghk"`): the probability of all intervals together, by importance
#   sampling.
# - `"ep"`: the same probability by expectation propagation. No random numbers, not quite exact.
# - `"augment"`: latent scores become a site of the Pyro model, for NUTS and SVI.
#
# This notebook shows where the midpoint misleads, what the other rules do about it, how to see
# whether they can be trusted, and which one to take.

# %%
import math
import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import scipy.optimize
import scipy.stats
import torch
from matplotlib.patches import Rectangle
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide

import pyro_copula as pc

FAST = os.environ.get("PYRO_COPULA_FAST") == "1"  # the tests run every notebook in a short version
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#999999"
STYLES = {"midpoint": (ORANGE, "^"), "exact": (BLUE, "o"), "ep": (GREEN, "s")}

torch.set_default_dtype(torch.float64)  # so that comparisons by hand agree to many digits
pyro.set_rng_seed(0)

# %% [markdown]
# ## Two nodes
#
# Take two nodes with Poisson counts of mean 0.3 and a correlation of 0.9 between their scores. The
# likelihood of a pair of counts is the probability that the scores fall into its box: left, below.
# Three quarters of the scores of a node belong to the count 0.
#
# The midpoint rule replaces each box by the density in one point (the crosses), times the two
# marginal probabilities. That is a sensible thing to do if the density hardly changes within a box.
# Here it does. One way to see the damage: add up what the rule gives to all pairs of counts. A law
# adds up to one.

# %%
counts = torch.arange(40.0)
pairs = torch.cartesian_prod(counts, counts)


def total_mass(mean, correlation):
    """What the midpoint rule gives to all pairs of counts together."""
    R = torch.tensor([[1.0, correlation], [correlation, 1.0]])
    copula = pc.GaussianCopula(dist.Poisson(torch.full((2,), mean)), correlation_matrix=R)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pc.errors.MidpointWarning)  # more of it below
        return float(copula.log_prob(pairs).exp().sum())


means = [0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0]
mass = {r: [total_mass(mean, r) for mean in means] for r in (0.5, 0.9)}

figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.9), constrained_layout=True)
line = np.linspace(-3.2, 3.2, 161)
a, b = np.meshgrid(line, line)
joint = scipy.stats.multivariate_normal(np.zeros(2), [[1.0, 0.9], [0.9, 1.0]])
panels[0].contourf(a, b, joint.pdf(np.stack([a, b], -1)), levels=8, cmap="Greys", alpha=0.7)
poisson = scipy.stats.poisson(0.3)
ends = np.clip(scipy.stats.norm.ppf(poisson.cdf(np.arange(-1, 3))), -3.2, 3.2)
middles = scipy.stats.norm.ppf((poisson.cdf(np.arange(-1, 2)) + poisson.cdf(np.arange(3))) / 2)
for i in range(3):
    for j in range(3):
        sides = ends[i + 1] - ends[i], ends[j + 1] - ends[j]
        panels[0].add_patch(Rectangle((ends[i], ends[j]), *sides, fill=False, color=BLUE))
        panels[0].plot(middles[i], middles[j], "x", color=ORANGE, markersize=8, markeredgewidth=2)
names = (ends[:-1] + ends[1:]) / 2
panels[0].set_xticks(names, ["0", "1", "2"])
panels[0].set_yticks(names, ["0", "1", "2"])
panels[0].set(aspect="equal", xlabel="count at node 0", ylabel="count at node 1")
panels[0].set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2))
panels[0].set_title("boxes of normal scores, Poisson(0.3)", fontsize=11)
for (r, values), colour, marker in zip(mass.items(), [GREEN, ORANGE], ["s", "^"], strict=True):
    panels[1].plot(means, values, color=colour, marker=marker, label=f"correlation {r}")
panels[1].axhline(1, color="black", linewidth=0.8)
panels[1].set(xscale="log", xlabel="mean of the counts", ylabel="total mass")
panels[1].set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
panels[1].set_title("what the midpoint rule adds up to", fontsize=11)
panels[1].legend(fontsize=9)
plt.show()
for mean in (0.3, 1.0, 3.0, 10.0):
    print(f"mean {mean:4.1f}, correlation 0.9: total mass {mass[0.9][means.index(mean)]:.3f}")

# %% [markdown]
# From a mean of about 3 on the rule is a law, nearly. At 0.3 it hands out half again too much, and
# the stronger the dependence, the more. That is how it misleads a fit: whoever maximises this
# "likelihood" is paid for every increase of the correlation.
#
# ## The warning
#
# The rule warns if more than a fifth of the observed nodes have a count of probability above 0.3.

# %%
side = 3
small = pc.simulate.grid_graph(side, side)
K = pc.CARPrecision(small)(rho=0.95, tau=1.0)
law = dist.Poisson(torch.full((small.num_nodes,), 0.5))
zeros = torch.zeros(small.num_nodes)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    log_prob = float(pc.GaussianCopula(law, precision=K).log_prob(zeros))
print(f"log probability of nine zeros by the midpoint rule: {log_prob:.4f}")
for warning in caught:
    print(f"{warning.category.__name__}: {warning.message}")

# %% [markdown]
# A log probability above zero is no probability at all. (The rest of this notebook uses the
# midpoint rule on purpose, so it turns the warning off.)
#
# ## The exact rule, checked by hand
#
# `discrete="exact"` is one word. Nine nodes are few enough to compute the box with another program:
# scipy's integral of the multivariate normal density. Here are a few draws, and nine zeros, under
# each rule.

# %%
warnings.simplefilter("ignore", pc.errors.MidpointWarning)


def box_probability(y, R, mean):
    """The probability of the box of the observed counts, by scipy; NaN is a missing node."""
    seen = ~np.isnan(y)
    marginal = scipy.stats.poisson(mean)
    lower, upper = (scipy.stats.norm.ppf(marginal.cdf(y[seen] - k)) for k in (1, 0))
    return scipy.stats.multivariate_normal.cdf(
        upper,
        np.zeros(seen.sum()),
        R[seen][:, seen],
        lower_limit=lower,
        maxpts=20_000 if FAST else 1_000_000,
        abseps=1e-9,
        releps=1e-5,
        rng=np.random.default_rng(0),
    )


covariance = torch.linalg.inv(K.to_dense())
scale = covariance.diagonal().sqrt()
R = (covariance / torch.outer(scale, scale)).numpy()

pyro.set_rng_seed(5)
draws = [*pc.GaussianCopula(law, precision=K).sample((4,)), zeros]
rows = {}
for y in draws:
    row = {"scipy": math.log(box_probability(y.numpy(), R, 0.5))}
    for rule in ("exact", "ep", "midpoint"):
        row[rule] = float(pc.GaussianCopula(law, precision=K, discrete=rule).log_prob(y))
    rows[" ".join(f"{count:.0f}" for count in y)] = row
pd.DataFrame(rows).T.rename_axis("counts").round(4)

# %% [markdown]
# `"exact"` agrees with scipy to three or four digits, and to 0.004 for nine zeros, the widest box.
# `"ep"` is within a few hundredths. The midpoint rule errs by whole units, in both directions.
#
# ## How far to trust it
#
# The exact rule draws *particles*, latent vectors inside of the box, and averages their weights.
# The average is unbiased whatever the draws are like. How noisy it is depends on how well they
# follow the true law, and for that they are guided by expectation propagation. `exact_report` tells
# how it went:
#
# - `effective` particles: as many equally weighted ones would be worth the same. Most of them
#   should be left.
# - `k_hat`: how heavy the tail of the weights is. Above 0.7 a few particles could dominate, and the
#   standard error cannot be trusted unless the weights are nearly equal.
# - the Monte Carlo standard error of the log probability, and the answer of `"ep"` beside it.
#
# On a lattice of some hundred nodes:

# %%
SIDE = 8 if FAST else 20
lattice = pc.simulate.grid_graph(SIDE, SIDE)
RHO = 0.96


def lattice_copula(rho, mean, **options):
    """Poisson counts with one mean on the lattice; both parameters may have a batch shape."""
    mean = torch.as_tensor(mean).unsqueeze(-1).expand(*np.shape(mean), lattice.num_nodes)
    K = pc.CARPrecision(lattice)(rho=rho, tau=1.0)
    return pc.GaussianCopula(dist.Poisson(mean), precision=K, **options)


pyro.set_rng_seed(2)
y = lattice_copula(RHO, 0.3).sample()
print(f"{int((y == 0).sum())} of {len(y)} counts are zero, the largest is {int(y.max())}\n")
for num_particles in (4, 16, 64, 256):
    copula = lattice_copula(RHO, 0.3, discrete="exact", num_particles=num_particles)
    report = copula.exact_report(y)
    seeds = [
        float(
            lattice_copula(
                RHO, 0.3, discrete="exact", num_particles=num_particles, seed=s
            ).log_prob(y)
        )
        for s in range(4 if FAST else 20)
    ]
    print(f"num_particles={num_particles}, spread over seeds {np.std(seeds, ddof=1):.3f}")
    print(f"  {report}")

# %% [markdown]
# From 64 particles on, the stated standard error agrees with what other seeds give. A handful of
# particles cannot judge themselves: the error comes out too small and `k_hat` not at all. The
# default is 64, and more on graphs of under 256 nodes, where particles cost next to nothing.
#
# The random numbers are *fixed* by `seed=`. The same ones are used at every value of the
# parameters, so the estimate is a smooth function of them, with a derivative. That is what lets an
# optimiser or NUTS work with it. Below is the log likelihood along `rho` with very few particles
# (4) to make the noise visible: in blue as it is, in orange if every evaluation had its own seed.

# %%
near = np.linspace(0.925, 0.98, 10 if FAST else 40)
options = {"discrete": "exact", "num_particles": 4}
common = [float(lattice_copula(r, 0.3, **options).log_prob(y)) for r in near]
fresh = [float(lattice_copula(r, 0.3, seed=k, **options).log_prob(y)) for k, r in enumerate(near)]
reference = [
    float(lattice_copula(r, 0.3, discrete="exact", num_particles=256).log_prob(y)) for r in near
]

figure, axes = plt.subplots(figsize=(8, 3.2), constrained_layout=True)
axes.plot(near, fresh, "x", color=ORANGE, markersize=5, label="4 particles, a new seed each time")
axes.plot(near, common, color=BLUE, linewidth=2, label="4 particles, the same seed (as it is)")
axes.plot(near, reference, ":", color="black", label="256 particles")
axes.set(xlabel="rho", ylabel="log likelihood")
axes.legend(fontsize=9)
plt.show()

# %% [markdown]
# ## What a fit makes of it
#
# Now maximise the likelihood over `rho` and the mean, by each rule, on several simulated lattices
# with `rho` = 0.96 and means of 0.3, 1 and 3.


# %%
def estimate(y, rule):
    """The maximum-likelihood estimates of rho and the mean."""

    def objective(place):
        place = torch.tensor(place, requires_grad=True)
        loss = -lattice_copula(place[0].sigmoid(), place[1].exp(), discrete=rule).log_prob(y)
        loss.backward()
        return loss.item(), place.grad.numpy()

    start = np.array([2.0, math.log(float(y.nanmean()) + 0.1)])
    bounds = [(-5, 10), (-7, 7)]
    found = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return {"rho": 1 / (1 + math.exp(-found.x[0])), "mean": math.exp(found.x[1])}


found = []
for mean in (0.3, 1.0, 3.0):
    for k in range(1 if FAST else 12):
        pyro.set_rng_seed(k)
        simulated = lattice_copula(RHO, mean).sample()
        for rule in STYLES:
            found.append({"truth": mean, "rule": rule, **estimate(simulated, rule)})
found = pd.DataFrame(found)
found["ratio"] = found["mean"] / found["truth"]
found.groupby(["truth", "rule"], sort=False)[["rho", "mean", "ratio"]].median().round(3)

# %%
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.6), constrained_layout=True)
for place, mean in enumerate((0.3, 1.0, 3.0)):
    for shift, (rule, (colour, marker)) in zip((-0.25, 0, 0.25), STYLES.items(), strict=True):
        some = found[(found["truth"] == mean) & (found["rule"] == rule)]
        spot = place + shift + np.linspace(-0.07, 0.07, len(some))
        look = {"color": colour, "marker": marker, "ls": "", "ms": 5, "alpha": 0.8}
        panels[0].plot(spot, 1 - some["rho"], label=rule if place == 0 else None, **look)
        panels[1].plot(spot, some["ratio"], **look)
panels[0].axhline(1 - RHO, color="black", linewidth=1)
panels[0].set(yscale="log", ylabel="estimate of 1 - rho (up: more dependence)")
panels[0].invert_yaxis()
panels[1].axhline(1, color="black", linewidth=1)
panels[1].set(ylabel="estimated mean / true mean")
for axes in panels:
    axes.set_xticks(range(3), ["mean 0.3", "mean 1", "mean 3"])
figure.legend(loc="outside upper center", ncols=3, fontsize=9)
plt.show()

# %% [markdown]
# At a mean of 0.3 the midpoint estimates run away on every lattice: `rho` towards 1, and the mean
# with it, far above the truth. The two go together. If all scores are nearly equal, a mean that is
# too high is excused by one common score that happens to be low. At a mean of 3 all rules agree.
#
# The scatter of `"exact"` is no error of the rule. The truth lies amidst its estimates: 400 small
# counts simply say little about a dependence. (With more and larger lattices the medians come out
# right: see `experiments/README.md`.) And `"ep"`, which has no random numbers at all, gives nearly
# the same estimates.
#
# ## Predictions
#
# What does a count of zero next door say? By the midpoint rule: the score there is *this number*.
# By the exact rule: it is somewhere in that interval, together with all the others, and the
# prediction is a mixture over where it may be. So `condition(y)` keeps the uncertainty inside of
# the atoms.
#
# The judge is again scipy: the probability of a count $k$ at the hidden node in the middle of the
# 3 x 3 grid is the box of all nine over the box of the eight observed ones.

# %%
nan = math.nan
settings = {
    "zeros all around": torch.tensor([0.0, 0, 0, 0, nan, 0, 0, 0, 0]),
    "a one on every side": torch.tensor([0.0, 1, 0, 1, nan, 1, 0, 1, 0]),
    "a single three": torch.tensor([0.0, 3, 0, 0, nan, 0, 0, 0, 0]),
}
ks = range(4)
figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, constrained_layout=True)
difference = {"exact": 0.0, "midpoint": 0.0}
for axes, (title, given) in zip(panels, settings.items(), strict=True):
    whole = [given.nan_to_num(float(k)).numpy() for k in ks]
    below = box_probability(given.numpy(), R, 0.5)
    by_hand = np.array([box_probability(values, R, 0.5) for values in whole]) / below
    axes.bar(ks, by_hand, width=0.8, color=GREY, alpha=0.45, label="scipy")
    for rule, shift in (("exact", -0.15), ("midpoint", 0.15)):
        conditional = pc.GaussianCopula(law, precision=K, discrete=rule).condition(given)
        values = torch.arange(float(len(ks))).unsqueeze(-1)  # (count, missing node)
        chance = conditional.marginal_log_prob(values).exp().squeeze(-1).numpy()
        colour, marker = STYLES[rule]
        axes.plot(np.array(ks) + shift, chance, marker, color=colour, ms=8, label=rule)
        difference[rule] = max(difference[rule], np.abs(chance - by_hand).max())
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("count at the hidden node")
panels[0].set_ylabel("probability given the others")
panels[0].legend(fontsize=9)
plt.show()
for rule, largest in difference.items():
    print(f"{rule:8s}: largest difference from scipy {largest:.4f}")

# %% [markdown]
# Given the right parameters, the midpoint predictions are off by some hundredths. Now the whole
# way, as in practice: a third of a lattice is hidden, `rho` and the mean are estimated from the
# rest, and the hidden counts are predicted. The log score is the mean log probability of the hidden
# counts (higher is better). The last column is the share of 90% intervals that hold the count.

# %%
rows = []
for k in range(1 if FAST else 12):
    pyro.set_rng_seed(100 + k)
    simulated = lattice_copula(RHO, 0.3).sample()
    hidden = torch.rand(lattice.num_nodes) < 1 / 3
    seen = simulated.masked_fill(hidden, nan)
    laws = {"the truth, exact": lattice_copula(RHO, 0.3, discrete="exact")}
    for rule in ("midpoint", "exact"):
        laws[rule] = lattice_copula(**estimate(seen, rule), discrete=rule)
    for label, copula in laws.items():
        conditional = copula.condition(seen)
        lower, upper = conditional.interval(0.9)
        value = simulated[hidden]
        rows.append(
            {
                "parameters and rule": label,
                "log score": float(conditional.marginal_log_prob(value).mean()),
                "mean, predicted": float(conditional.mean.mean()),
                "mean, true": float(value.mean()),
                "coverage": float(((lower <= value) & (value <= upper)).double().mean()),
            }
        )
pd.DataFrame(rows).groupby("parameters and rule", sort=False).mean().round(3)

# %% [markdown]
# The exact fit predicts as well as the truth does. The midpoint fit loses a little, much less than
# its parameters would make one fear: with `rho` near 1 the neighbours decide, and the mean that ran
# away hardly matters. (Coverage is above 0.9 throughout, because intervals of whole numbers cannot
# end between two counts.) So a midpoint fit may do for *predictions*. Do not read its `rho`, its
# mean, its log likelihood or its LOO.
#
# ## Full Bayes: `"augment"`
#
# NUTS and SVI can use any of the rules. With `"exact"` the sampler sees only the few global
# parameters, and each gradient is an estimate with fixed random numbers. With `"augment"` the
# random numbers become a latent site, `scores`, one standard normal per node: the joint law of
# parameters and scores is exact with a single particle, so there is nothing left to trust. The
# model changes by one word.


# %%
SIDE_BAYES = 5 if FAST else 8
board = pc.simulate.grid_graph(SIDE_BAYES, SIDE_BAYES)


def model(y=None, discrete="exact"):
    rho = pyro.sample("rho", dist.Uniform(0.0, 1.0))
    mean = pyro.sample("mean", dist.Gamma(2.0, 2.0))
    law = dist.Poisson(mean.unsqueeze(-1).expand(*mean.shape, board.num_nodes))
    K = pc.CARPrecision(board)(rho=rho, tau=1.0)
    copula = pc.GaussianCopula(law, precision=K, discrete=discrete)
    return pyro.sample("y", copula, obs=y)


pyro.set_rng_seed(4)
truth = {"rho": torch.tensor(0.9), "mean": torch.tensor(0.35)}
observed = pyro.poutine.condition(model, truth)()
print(observed.reshape(SIDE_BAYES, SIDE_BAYES).int().numpy())

# %% [markdown]
# Two parameters can be checked without a sampler: evaluate the posterior on a fine grid of `rho`
# and the mean. The parameters may have a batch shape, so the whole grid is one call.

# %%
size = 8 if FAST else 20
rhos, means = (torch.arange(size) + 0.5) / size, (torch.arange(size) + 0.5) / size * 1.5
mesh = dict(zip(["rho", "mean"], torch.meshgrid(rhos, means, indexing="ij"), strict=True))
mesh = {name: values.reshape(-1) for name, values in mesh.items()}


def grid_posterior(rule):
    """The posterior at every point of the grid, (size, size), adding up to one."""
    with torch.no_grad():
        trace = pyro.poutine.trace(pyro.poutine.condition(model, mesh)).get_trace(observed, rule)
        trace.compute_log_prob()
    total = sum(site["log_prob"] for site in trace.nodes.values() if "log_prob" in site)
    return total.softmax(0).reshape(size, size)


posterior = {rule: grid_posterior(rule) for rule in ("exact", "midpoint")}
for rule, weights in posterior.items():
    print(f"{rule}: rho is above 0.9 with probability {float(weights[rhos > 0.9].sum()):.2f}")

# %% [markdown]
# Now NUTS, with both rules. On its way through the warm-up it may try parameters at which the
# particles of `"exact"` are poor. A `ParticleWarning` then says so; here they are counted.


# %%
def run_nuts(rule, num_samples, warmup_steps):
    """Draws by NUTS."""
    pyro.set_rng_seed(0)
    kernel = NUTS(model, init_strategy=autoguide.init_to_median)
    mcmc = MCMC(kernel, num_samples, warmup_steps, disable_progbar=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", pc.errors.ParticleWarning)
        mcmc.run(observed, rule)
    poor = sum(issubclass(warning.category, pc.errors.ParticleWarning) for warning in caught)
    sites = ", ".join(f"{name} {tuple(v.shape[1:])}" for name, v in mcmc.get_samples().items())
    n_eff = [mcmc.diagnostics()[name]["n_eff"].item() for name in ("rho", "mean")]
    print(f"NUTS, {rule}: sites {sites}; {poor} warnings")
    print(f"  {num_samples} draws are worth {n_eff[0]:.0f} of rho and {n_eff[1]:.0f} of the mean")
    return mcmc.get_samples()


num_samples, warmup_steps = (5, 5) if FAST else (300, 150)
samples = {
    f"NUTS, {rule}": run_nuts(rule, num_samples, warmup_steps) for rule in ("augment", "exact")
}

# %% [markdown]
# SVI takes the same program. The guide has a normal law for each of the 64 scores and for the two
# parameters. A score only says where inside its atom a node lies, given the nodes before it, so
# that a posteriori the scores are still close to independent standard normals, which is what a
# mean-field guide is good at.

# %%
pyro.clear_param_store()
pyro.set_rng_seed(0)
guide = autoguide.AutoNormal(model, init_scale=0.3)
svi = SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.03}), Trace_ELBO())
losses = [svi.step(observed, "augment") for _ in range(10 if FAST else 600)]
with torch.no_grad():
    svi_draws = [guide(observed, "augment") for _ in range(50 if FAST else 1000)]
svi_draws = {name: torch.stack([draw[name] for draw in svi_draws]) for name in ("rho", "mean")}
tenth = len(losses) // 10
print(
    f"ELBO, first and last tenth: {-np.mean(losses[:tenth]):.1f}, {-np.mean(losses[-tenth:]):.1f}"
)

# %%
samples["SVI, augment"] = svi_draws
rows = {}
for rule, weights in posterior.items():
    for name, axis, places in (("rho", 1, rhos), ("mean", 0, means)):
        row = rows.setdefault(f"grid, {rule}", {})
        p = weights.sum(axis)
        row[name] = float((p * places).sum())
        row[f"sd of {name}"] = float((p * (places - row[name]).square()).sum().sqrt())
for label, draws in samples.items():
    rows[label] = {}
    for name in ("rho", "mean"):
        rows[label][name] = float(draws[name].mean())
        rows[label][f"sd of {name}"] = float(draws[name].std())
pd.DataFrame(rows).T.round(3)

# %%
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.4), constrained_layout=True)
for axes, name, axis, places in zip(panels, ("rho", "mean"), (1, 0), (rhos, means), strict=True):
    width = float(places[1] - places[0])
    bins = np.linspace(0, float(places[-1]) + width / 2, size // 2 + 1)
    values = samples["NUTS, augment"][name].numpy()
    axes.hist(values, bins, density=True, color=BLUE, alpha=0.3, label="NUTS, augment")
    axes.hist(
        samples["SVI, augment"][name].numpy(),
        bins,
        density=True,
        histtype="step",
        color=GREEN,
        linewidth=1.8,
        label="SVI, augment",
    )
    for rule, style in (("exact", "-"), ("midpoint", "--")):
        density = posterior[rule].sum(axis) / width
        axes.plot(places, density, style, color=STYLES[rule][0], lw=2.2, label=f"grid, {rule}")
    axes.axvline(float(truth[name]), color="black", linewidth=1, linestyle=":")
    axes.set(xlabel=name, yticks=[])
panels[0].legend(fontsize=9, loc="upper left")
panels[0].set_ylabel("posterior density")
plt.show()

# %% [markdown]
# Dotted: the truth. NUTS agrees with the exact curve, as far as 300 draws (fewer, in independent
# ones) can tell. SVI finds the place and is too narrow, as mean-field guides are. The midpoint rule
# has another posterior of `rho`: it is far too sure that the dependence is strong. That the truth
# behind this one data set is strong too is no excuse: these 64 counts do not say so.
#
# With draws of the parameters in hand, predictions need no scores: put the parameters into a copula
# with `discrete="exact"` and call `condition`.
#
# ## Which rule?
#
# | you want | counts with means above about 3 | small counts, many zeros |
# |---|---|---|
# | predictions at missing nodes | `"midpoint"` | `"midpoint"` may do; `"ep"` or `"exact"` |
# | estimates of the dependence, likelihood values, LOO | `"midpoint"` | `"exact"`, or `"ep"` |
# | a posterior of a few global parameters | `"midpoint"` | `"exact"` |
# | a posterior that rests on no number of particles | `"augment"` | `"augment"` |
#
# `CopulaGNN(discrete="exact")` passes the rule on to every fit; notebook 1 uses it. It has
# `"midpoint"`, `"exact"` and `"ep"`.
#
# ## Exercises
#
# 1. Binary values are the extreme case. Swap the Poisson law for `dist.Bernoulli(0.2)` in the first
#    section. How large does the total mass get?
# 2. Add a feature: let the mean be `exp(level + slope * x)` in `estimate`. Does the slope run away
#    too?
# 3. Compare `exact_report` at `rho` = 0.5 and at `rho` = 0.999. Which is harder, and by how much?
# 4. A negative binomial law with a mean of 3 can have more zeros than a Poisson law of mean 1. Does
#    the warning see it? Does the estimate of `rho` suffer?
# 5. Is the sampler right for *your* model? Notebook 9 shows how to find out.
