# %% [markdown]
# # Simulation-based calibration of your own model
#
# You wrote a Pyro model and a sampler gives you a posterior. Is it the posterior of *that* model? A
# wrong sign in a Jacobian, an approximation that is too rough, a chain that never left its corner:
# none of them raises an error. Simulation-based calibration (SBC) finds them. It needs nothing but
# the model itself:
#
# 1. Draw parameters from the prior, and data from the model with these parameters.
# 2. Sample the posterior given the data.
# 3. Note the **rank** of the true parameter among the draws: how many of them lie below it.
# 4. Repeat. If the posterior is right, all ranks are equally likely, whatever the model.
#
# This notebook does it by hand, then with `pc.simulation_based_calibration`; learns to read the
# plot on posteriors that are wrong in known ways; checks a copula model of counts, once right and
# once wrong; and asks how many replications are enough.

# %%
import os
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import scipy.stats
import torch

import pyro_copula as pc

FAST = os.environ.get("PYRO_COPULA_FAST") == "1"  # the tests run every notebook in a short version
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#999999"
pyro.set_rng_seed(0)

# %% [markdown]
# ## By hand
#
# A normal mean with a normal prior, and four values. The posterior is known in closed form, so an
# exact sampler is one line. With 19 draws there are 20 possible ranks, 0 to 19.

# %%
N, DRAWS = (20, 9) if FAST else (200, 19)


def normal_model(y=None):
    mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
    with pyro.plate("values", 4):
        return pyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def exact_posterior(y):
    """Mean and standard deviation of mu given the values."""
    return y.sum() / 5, 0.2**0.5  # precision 1 of the prior plus 4 of the values


ranks = []
for _ in range(N):
    trace = pyro.poutine.trace(normal_model).get_trace()
    truth, y = trace.nodes["mu"]["value"], trace.nodes["y"]["value"]
    mean, sd = exact_posterior(y)
    draws = mean + sd * torch.randn(DRAWS)
    ranks.append(int((draws < truth).sum()))
print("the first twenty ranks:", ranks[:20])
print("ranks in each quarter:", np.histogram(ranks, bins=4, range=(0, DRAWS + 1))[0])

# %% [markdown]
# ## By the library
#
# `pc.simulation_based_calibration(model, sampler=...)` does the same. A *sampler* is any function
# of the model (already conditioned on the data), the data and a seed that returns draws by the name
# of their site. Without one it runs NUTS.
#
# The model must follow one convention: called with `y=None` it draws its data, called with data it
# conditions on them.


# %%
def posterior_sampler(model, y, seed, *, shift=0.0, spread=1.0):
    """Draws of mu. Right as it is; `shift` and `spread` make it wrong, on purpose."""
    mean, sd = exact_posterior(y)
    return {"mu": mean + sd * (shift + spread * torch.randn(DRAWS))}


check = partial(pc.simulation_based_calibration, normal_model, num_simulations=N, num_draws=DRAWS)
right = check(sampler=posterior_sampler)
print(right.summary())

# %% [markdown]
# Two quantities were ranked. `mu` is the parameter. `log_likelihood` is $\log p(y \mid \mu)$, a
# function of parameter *and data*, and it will turn out to be needed.
#
# ## How to read the plot
#
# There are two views of the same ranks. The histogram is the familiar one. The other shows the
# empirical distribution function minus that of uniform ranks, with a grey band that holds the
# *whole curve* with 95% probability. It needs no choice of bars and is more sensitive, so it is the
# default. A curve that leaves its band is drawn in orange.
#
# Learn the shapes from samplers that are wrong in a known way:
#
# - draws too **high** (the posterior mean is half a standard deviation too large),
# - posterior too **narrow** (its standard deviation is 0.7 of the right one),
# - posterior too **wide** (1.4 of it),
# - the **prior**: draws that never looked at the data.


# %%
def prior_sampler(model, y, seed):
    return {"mu": torch.randn(DRAWS)}


samplers = {
    "right": posterior_sampler,
    "too high": partial(posterior_sampler, shift=0.5),
    "too narrow": partial(posterior_sampler, spread=0.7),
    "too wide": partial(posterior_sampler, spread=1.4),
    "prior": prior_sampler,
}
results = {name: check(sampler=sampler) for name, sampler in samplers.items()}

figure, panels = plt.subplots(3, 5, figsize=(11, 6.2), sharey="row", constrained_layout=True)
for column, (name, result) in zip(panels.T, results.items(), strict=True):
    result.plot("histogram", quantities=["mu"], axes=column[0])
    result.plot(quantities=["mu"], axes=column[1])
    result.plot(quantities=["log_likelihood"], axes=column[2])
    column[0].set_title(name, fontsize=11)
    for axes, quantity in zip(column[1:], ["mu", "log_likelihood"], strict=True):
        axes.set_title(f"{quantity}: p = {result.p_values[quantity]:.1g}", fontsize=9)
    column[2].set_xlabel("rank / number of draws", fontsize=9)
for axes, label in zip(
    panels[:, 0],
    ["mu: replications", "mu: ECDF minus uniform", "log lik.: ECDF minus uniform"],
    strict=True,
):
    axes.set_ylabel(label, fontsize=9)
plt.show()

# %%
pd.concat({name: result.to_frame() for name, result in results.items()}).drop(
    columns=["replications", "p_holm"]
).round(4)

# %% [markdown]
# Read the second row:
#
# - **too high**: the truth lies low among the draws. Ranks pile up on the left and the curve is a
#   hill. (`mean_rank` in the table is below 0.5. Draws too low give a valley.)
# - **too narrow**: the truth is too often beyond all draws. Ranks pile up at both ends, and the
#   curve goes up first, crosses zero in the middle and comes back from below. (`spread` is above
#   1.)
# - **too wide**: the truth is too often in the midst of the draws, and all is the other way round.
#   (`spread` is below 1.)
# - **prior**: nothing to see! The prior *averaged over all data* is calibrated. Ranks of parameters
#   alone cannot find a sampler that ignores the data, or half of them. The third row can: the data
#   are less likely under draws from the prior than under the truth.
#
# That is why the log likelihood is ranked by default. Add functions of your own with
# `quantities={"name": function of (latent values, data)}`.
#
# ## A copula model
#
# Now a model worth checking: counts on a grid, mostly 0 and 1, with an unknown mean and an unknown
# dependence `rho`. Notebook 8 tells why the rule for discrete marginals matters: `"exact"` computes
# the likelihood, `"midpoint"` approximates it, and poorly so for small counts. The *data* are drawn
# from the same copula under both rules; only the likelihood differs. So SBC should pass the one and
# find out the other.

# %%
SIDE = 6
graph = pc.simulate.grid_graph(SIDE, SIDE)


def counts_model(discrete, y=None):
    rho = pyro.sample("rho", dist.Uniform(0.0, 1.0))
    log_mean = pyro.sample("log_mean", dist.Uniform(-2.0, 0.5))
    rate = log_mean.exp().unsqueeze(-1).expand(*log_mean.shape, graph.num_nodes)
    K = pc.CARPrecision(graph)(rho=rho, tau=1.0)
    copula = pc.GaussianCopula(dist.Poisson(rate), precision=K, discrete=discrete, num_particles=64)
    return pyro.sample("y", copula, obs=y)


# %% [markdown]
# NUTS would do, but it needs seconds per replication, and there will be hundreds of them. Two
# parameters with uniform priors have a cheaper sampler: compute the posterior on a grid of cells,
# choose cells by their probability, and draw uniformly within each. The program can be evaluated at
# all cells at once, because its parameters may have a batch shape.

# %%
CELLS = {"rho": (0.0, 1.0, 6 if FAST else 12), "log_mean": (-2.0, 0.5, 4 if FAST else 10)}
NUM_DRAWS = 9 if FAST else 19


def cell_sampler(model, y, seed):
    """Draws from the posterior of two parameters with uniform priors, by cells."""
    widths = {name: (high - low) / count for name, (low, high, count) in CELLS.items()}
    middles = [
        low + (torch.arange(count) + 0.5) * widths[name]
        for name, (low, high, count) in CELLS.items()
    ]
    mesh = [part.reshape(-1) for part in torch.meshgrid(*middles, indexing="ij")]
    mesh = dict(zip(CELLS, mesh, strict=True))
    with torch.no_grad():
        trace = pyro.poutine.trace(pyro.poutine.condition(model, mesh)).get_trace()
        trace.compute_log_prob()
    logits = trace.nodes["y"]["log_prob"]  # the priors are flat
    chosen = dist.Categorical(logits=logits).sample((NUM_DRAWS,))
    return {
        name: mesh[name][chosen] + widths[name] * (torch.rand(NUM_DRAWS) - 0.5) for name in mesh
    }


calibrate = partial(
    pc.simulation_based_calibration,
    counts_model,
    sampler=cell_sampler,
    num_simulations=4 if FAST else 150,
    num_draws=NUM_DRAWS,
    jobs=1,  # as many as you have cores
)
warnings.simplefilter("ignore", pc.errors.MidpointWarning)  # the rough rule is meant
start = time.perf_counter()
exact = calibrate(args=["exact"])
print(exact)
print(f"{time.perf_counter() - start:.0f} s on this machine")

# %%
start = time.perf_counter()
midpoint = calibrate(args=["midpoint"])
print(midpoint)
print(f"{time.perf_counter() - start:.0f} s on this machine")

# %%
figure, panels = plt.subplots(2, 3, figsize=(9.5, 4.8), sharex=True, sharey="row")
for row, (rule, result) in zip(panels, {"exact": exact, "midpoint": midpoint}.items(), strict=True):
    result.plot(quantities=["rho", "log_mean", "log_likelihood"], axes=row)
    row[0].set_ylabel(f"{rule}\nECDF minus uniform", fontsize=10)
for axes in panels[1]:
    axes.set_xlabel("rank / number of draws", fontsize=9)
figure.tight_layout()
plt.show()
pd.concat({"exact": exact.to_frame(), "midpoint": midpoint.to_frame()}).drop(
    columns="replications"
).round(4)

# %% [markdown]
# The exact rule passes, in all three quantities. The midpoint rule does not. The truth of `rho`
# lies low among its draws, so the draws are too high: it sees more dependence than there is, as in
# notebook 8. The ranks of the log likelihood are not uniform either. `log_mean` by itself would not
# have told, with this many replications. So look at more than the parameter you care about.
#
# ## Where does it go wrong?
#
# The result keeps the true values, in the order of the ranks. A plot of one against the other shows
# *where* in the space of the parameters the posterior is wrong. If all is well, the points fill the
# panel evenly from bottom to top, wherever you look along the other axis.

# %%
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.3), sharey=True, constrained_layout=True)
for axes, rule, result in zip(panels, ("exact", "midpoint"), (exact, midpoint), strict=True):
    mean, rank = np.exp(result.truths["log_mean"]), result.ranks["rho"] / NUM_DRAWS
    axes.plot(mean, rank, "o", color=BLUE if rule == "exact" else ORANGE, ms=4, alpha=0.7)
    axes.set(xscale="log", xlabel="true mean of the counts")
    axes.set_xticks([0.2, 0.5, 1, 1.5], ["0.2", "0.5", "1", "1.5"])
    axes.minorticks_off()
    axes.set_title(rule, fontsize=11)
panels[0].set_ylabel("rank of rho / number of draws")
plt.show()

# %% [markdown]
# On the right the ranks of `rho` stick to the bottom where the counts are small. Towards larger
# means they spread out. That points to the cause (wide atoms), which a p-value does not.
#
# ## How many replications?
#
# That depends on how small an error you want to see. If a posterior is off by a known amount, the
# law of the ranks is known, and one can simulate how often the test at the 1% level finds it: how
# often the distribution of the ranks leaves the 99% band somewhere. (19 draws a replication.)


# %%
def power(num_replications, shift, spread, trials=200 if FAST else 2000, num_draws=19):
    """How often ranks from a wrong normal posterior leave the band."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((trials, num_replications))
    below = scipy.stats.norm.cdf((truth - shift) / spread)  # the chance that a draw is below it
    ranks = rng.binomial(num_draws, below)
    band = pc.calibration.uniformity_band(num_replications, num_draws + 1, 0.99)
    places = (band.position * (num_draws + 1)).round()
    share = np.stack([(ranks < place).mean(1) for place in places], 1)  # (trials, places)
    outside = (share < band.lower - 1e-9) | (share > band.upper + 1e-9)
    return outside.any(1).mean()


numbers = [25, 50, 100] if FAST else [25, 50, 100, 200, 400, 800]
errors = {
    "mean off by 0.5 sd": (0.5, 1.0),
    "mean off by 0.2 sd": (0.2, 1.0),
    "sd too small by 30%": (0.0, 0.7),
    "sd too small by 15%": (0.0, 0.85),
    "no error": (0.0, 1.0),
}
found = pd.DataFrame(
    {name: [power(n, *error) for n in numbers] for name, error in errors.items()}, index=numbers
)
found.index.name = "replications"
figure, axes = plt.subplots(figsize=(8, 3.4), constrained_layout=True)
looks = zip(errors, [BLUE, BLUE, ORANGE, ORANGE, GREY], ["-", "--", "-", "--", ":"], "oosDx")
for name, colour, line, marker in looks:
    axes.plot(numbers, found[name], line, marker=marker, color=colour, label=name)
axes.set(
    xscale="log", xlabel="replications", ylabel="share of runs that find it", ylim=(-0.03, 1.05)
)
axes.set_xticks(numbers, [str(n) for n in numbers])
axes.minorticks_off()
axes.legend(fontsize=9)
plt.show()
found.round(2)

# %% [markdown]
# A posterior mean that is off by half a standard deviation mostly shows with 100 replications, a
# standard deviation that is 30% too small with 200. Errors of half that size or less need 800. The
# dotted line is the false alarms: about 1%, as it should be. So:
#
# - 50 replications while you write a model: they find blunders.
# - 200 before you trust it.
# - "Uniform" never means right. It means: no error that so many replications could have shown.
#
# Draws matter much less: 19 of them already give 20 ranks. Spend the time on replications.
#
# And for the midpoint rule above: the p-value of `rho` from the first so many replications.

# %%
for n in (2, 4) if FAST else (25, 50, 100, 150):
    p_values = {
        rule: pc.calibration.uniformity_p_value(result.ranks["rho"][:n], NUM_DRAWS + 1)
        for rule, result in {"exact": exact, "midpoint": midpoint}.items()
    }
    print(f"{n:3d} replications: " + ", ".join(f"{rule} {p:.1e}" for rule, p in p_values.items()))

# %% [markdown]
# That of the midpoint rule falls and falls; that of the exact rule does not.
#
# ## Long runs: parallel, resumable
#
# A replication depends on `seed` and its number only. So `jobs=` may be anything: the ranks are the
# same. And with `records=` each finished replication is written to a file at once. If the machine
# goes down, or you press Ctrl-C, the same call goes on where it ended. Ask for more replications,
# and only the new ones are run.
#
# Here with NUTS, the default sampler, in a short version. It also reports its health: ranks of a
# chain that did not mix mean nothing.

# %%
nuts = pc.calibration.NUTSSampler(num_draws=2 * DRAWS, num_warmup=10 if FAST else 60)
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "calibration.jsonl"
    go_on = partial(check, sampler=nuts, thin=2, records=file)
    for number, jobs in ((3, 1), (5, 1)) if FAST else ((20, 1), (60, 2)):
        start = time.perf_counter()
        result = go_on(num_simulations=number, jobs=jobs)
        seconds = time.perf_counter() - start
        lines = len(file.read_text().splitlines())
        print(f"{number} asked for, {jobs} jobs: {seconds:.0f} s, {lines} lines in the file")
    first = check(sampler=nuts, thin=2, num_simulations=3)
print("the same ranks without the file:", all(first.ranks["mu"] == result.ranks["mu"][:3]))
print(result)

# %% [markdown]
# The file had 20 replications when the second call began, and it ran the other 40. Read the lines
# about the sampler too: chains of 38 draws after a short warm-up are on the short side, R-hat (from
# so few draws) often says so, and half of the chains hold fewer independent draws than were ranked.
# The advice is `thin`: correlated draws make ranks that are not uniform although the sampler is
# right. Here the test does not see it yet. The defaults are longer.
#
# A replication that fails does not end the run. It is counted, with its seed, in
# `result.failures`. A file that belongs to another model or other settings is refused. (The sampler
# is not checked: give another sampler another file.)
#
# ## Exercises
#
# 1. Hide a third of the nodes of the counts model with `observed=`, a boolean mask: NaN marks them.
#    The exact rule should still pass. Does the midpoint rule get better or worse?
# 2. Replace `"exact"` by `"ep"`, which is an approximation too. Do you see a difference with 150
#    replications? How many would you need?
# 3. Give `quantities={"zeros": lambda latent, y: latent["rho"] * (y == 0).sum()}`, a quantity of
#    parameters and data. Why is a quantity of the data alone of no use?
# 4. Write an error into `counts_model` on purpose: say, `log_mean + 0.2` if `y` is given. Which
#    quantity finds it first?
# 5. Check your own model with NUTS: leave out `sampler=`, and set `jobs=` and `records=`, for it
#    will take a while.
