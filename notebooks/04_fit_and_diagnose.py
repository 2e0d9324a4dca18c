# %% [markdown]
# # Fit and diagnose
#
# A fit always returns numbers. This notebook is about whether to believe them. It takes one data
# set through the usual steps: a first model that is wrong, what the diagnostics say about it, a
# better model, and three ways to fit that (maximum likelihood, MAP, NUTS), each with its own
# question of *when to stop*. In the end arviz compares the candidates by leave-one-out.

# %%
import os
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyro
import torch

import pyro_copula as pc

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # arviz announces its next version
    import arviz as az

FAST = os.environ.get("PYRO_COPULA_FAST") == "1"  # the tests run every notebook in a short version
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#999999"
plt.rcParams["axes.prop_cycle"] = plt.cycler(color=[BLUE, ORANGE, GREEN, GREY])
SCHEDULE = pc.Schedule(max_epochs=5 if FAST else 2000)
# a diagnosis draws data sets for comparison; fewer of them can only show what is less rare
CHECKS = {"num_simulations": 91, "false_alarm_rate": 0.2} if FAST else {}
RULE = "midpoint" if FAST else "exact"
pyro.set_rng_seed(0)

# %% [markdown]
# ## The data and a model
#
# Sudden infant deaths in the 100 counties of North Carolina, 1974 to 1978, with the number of
# births as exposure (an offset, in the words of a regression) and one feature: the square root of
# the share of births that are non-white, standardised. All counties are observed.

# %%
data = pc.datasets.nc_sids()
print(data)
print(f"counties without a death: {int((data.y == 0).sum())}, with one: {int((data.y == 1).sum())}")
print(f"median count: {float(data.y.median()):.0f}, largest: {float(data.y.max()):.0f}")

# %% [markdown]
# Counts this small are why `discrete="exact"` is used throughout. A count of 0 or 1 stands for a
# whole range of normal scores. The quicker default puts it in the middle of that range, which
# overstates the dependence and spoils likelihoods, residuals and LOO where counts are small.
#
# `last_layer_prior=1.0` gives the regression coefficients a normal prior with standard deviation 1
# (on the log scale, for a feature with standard deviation 1). Maximum likelihood ignores it; MAP
# and NUTS treat the coefficients as parameters like the others.


# %%
def model(marginal, precision):
    """A regression for the log rate, with a family of marginals and a precision to couple them."""
    return pc.CopulaGNN(
        backbone="linear",
        marginal=marginal,
        precision=precision,
        exposure="exposure",
        discrete=RULE,
        last_layer_prior=1.0,
    )


# %% [markdown]
# ## A first model, which is wrong
#
# Start as simply as possible: Poisson counts, the same rate in every county, counties independent
# of each other. Features are left out by `x = None`, and `precision="none"` couples nothing.

# %%
without_feature = data.clone()
without_feature.x = None
first = pc.fit(model("poisson", "none"), without_feature, schedule=SCHEDULE, seed=0)
diagnosis = first.diagnose(**CHECKS)
print(diagnosis)

# %% [markdown]
# How to read this:
#
# - A **residual** is where a count falls in its predictive law, from 0 (below all that was
#   expected) to 1 (above it). This is the probability integral transform (PIT); for counts it is
#   randomised within the atom. If the model is right, residuals are uniform.
# - **marginal** residuals look at each county by itself, **conditional** ones at each county given
#   all others. Here the two are the same, because nothing is coupled.
# - **bias** is how far their mean is from 1/2. **dispersion** is their variance over that of a
#   uniform law: above 1 the residuals pile up at both ends (a U), so the laws are too narrow.
#   **tails** is the share in the outer tenth.
# - **Moran's I** says how alike the residuals of neighbours are.
# - Each has a p-value from data sets that were drawn from the fitted model. `!` marks what is
#   called a problem. The nine tests share one false-alarm rate of 5%, so a single p of 0.02 is not
#   enough; it is worth remembering all the same.
#
# The pictures show the same. Orange is outside of what chance allows.

# %%
diagnosis.plot()
plt.show()

# %% [markdown]
# The problem that is named: neighbours have similar residuals (Moran's I is 0.28, four standard
# deviations above 0), so something that varies over the map is missing. And the laws look too
# narrow: a fifth of the residuals lie in the outer tenth, and intervals of high levels cover too
# little. With p = 0.008 this falls just short of being called a problem. It fits the first one:
# with one rate for all counties, what makes them differ shows up as *overdispersion*.
#
# The advice names two cures, and they are different claims about the world. Either a feature
# explains what neighbours share, or it stays unexplained and a copula carries it. Try both at once,
# and let the fit say how much is left for each: the feature goes in, the counts become negative
# binomial (a Poisson law with a dispersion of its own), and the precision is that of a proper CAR
# model.
#
# ## Maximum likelihood, and when to stop
#
# `refine=True` moves the global parameters (here `rho` and the dispersion) to their maximum once
# training has ended.

# %%
fit = pc.fit(model("negative_binomial", "car"), data, refine=True, schedule=SCHEDULE, seed=0)
print(fit)

# %% [markdown]
# "Converged" here means that the validation score has not improved for a while. Look at the curves
# before you believe it.

# %%
fit.plot_history()
plt.show()

# %% [markdown]
# The loss falls until about step 70, but the best score was seen next to the start, and that state
# was kept. By default a fifth of the observed nodes is held out to decide when to stop: here 20
# counties, whose mean log density moves up and down by a few hundredths. Stopping early protects a
# network with thousands of weights from learning noise. A regression with two coefficients needs no
# such protection, and here it kept the coefficients almost where they were initialised. `rho` and
# the dispersion were then refined around them, and had to make up for it. What does the diagnosis
# say?

# %%
diagnosis = fit.diagnose(**CHECKS)
print(diagnosis)

# %% [markdown]
# Given the other counties, all looks well, because the neighbours correct what the mean gets wrong.
# The marginal line shows the damage: the residuals' mean is 0.16 below 1/2, for the rates are too
# high. Under so strong a dependence (`rho` is 0.97) even that could be chance, so no alarm is
# raised. Do not only look for `!`: a fit that stopped early *and* a lopsided marginal line are
# reason enough to fit again.
#
# ## MAP
#
# With `method="map"` the priors join in, and with `last_layer_prior` the coefficients are among the
# parameters that `refine=True` takes to the maximum given all counties. So it does not matter when
# training stopped. `refit` starts where the last fit ended.

# %%
best = fit.refit(method="map", refine=True, schedule=SCHEDULE)
print(best)
rows = {}
for name, one in {"mle, stopped early": fit, "map, refined": best}.items():
    values = one.model.site_values()
    slope, level = values.pop("last_layer").tolist()
    # the slope is that of the feature; the level is relative to the rate of the state
    rows[name] = {"slope": slope, "level": level} | {k: float(v) for k, v in values.items()}
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# The feature now does the work: one standard deviation more of it goes with a rate that is
# `exp(slope)` times as high, about one and a half. The dispersion and `rho` shrink, as there is
# less left for them. The level is close to 0, which is the rate of the state.
#
# So "when to stop" has two answers. A network with many weights stops by its validation score; look
# at both curves. A model with few parameters goes to its mode, and the question disappears.

# %% [markdown]
# ## NUTS, and when to stop
#
# One best value says nothing about how well the data determine it. NUTS draws from the posterior of
# all four parameters, starting around the MAP estimate. Four chains, so that they can disagree.

# %%
chains, warmup, draws = (2, 10, 15) if FAST else (4, 50, 60)
posterior = best.refit(method="nuts", num_chains=chains, num_warmup=warmup, num_draws=draws)
print(posterior)
print(f"gradients: {posterior.diagnostics['gradients']}")

# %% [markdown]
# Three things to look at, in this order:
#
# | look at | want | if not |
# |---|---|---|
# | divergences | 0 | a corner that the sampler cannot enter: tighter priors, or a simpler model |
# | R-hat | below 1.01 to 1.05 | the chains disagree: more warm-up, then more draws |
# | effective sample size | some hundreds | 100 do for a mean, not for tails: more draws |
#
# The draws are tensors of shape `(chains, draws, ...)` in `posterior.posterior`, which arviz takes.
# See how R-hat and the effective sample size settle as draws come in.

# %%
drawn = {name: value.numpy() for name, value in posterior.posterior.items()}
slope_and_level = drawn.pop("last_layer")
drawn["slope"], drawn["level"] = slope_and_level[..., 0], slope_and_level[..., 1]
trace = az.from_dict(posterior=drawn)
rows = {}
for count in [5, 10, 15] if FAST else [5, 15, 30, 60]:
    some = trace.posterior.isel(draw=slice(count))
    rows[f"first {count} draws of each chain"] = {
        "largest R-hat": float(az.rhat(some).to_array().max()),
        "smallest effective size": float(az.ess(some).to_array().min()),
        "posterior mean of rho": float(some["rho"].mean()),
    }
pd.DataFrame(rows).T.round(3)

# %%
az.summary(trace)

# %% [markdown]
# With few draws R-hat is large, and goes on moving when it has become small. At the end it is about
# 1.02, with more than 100 effective draws of the parameter that mixes worst, `rho`. That is enough
# for the means and standard deviations here. For the ends of a 95% interval, or in a paper, draw
# five times as many: only time is at stake.
#
# The trace as ranks: if the chains agree, every chain has its share of every rank, and the bars are
# about level. With 60 draws a chain some unevenness is chance; a chain that keeps to one side would
# not be.

# %%
az.plot_trace(
    trace,
    kind="rank_bars",
    figsize=(9, 7.5),
    chain_prop={"color": [BLUE, ORANGE, GREEN, GREY][:chains]},
)
for panel in plt.gcf().axes:
    panel.xaxis.label.set_size(9)
    panel.yaxis.label.set_size(9)
plt.tight_layout()
plt.show()

# %% [markdown]
# Is there any dependence left, beside the feature? Compare the posterior of `rho` with its prior.

# %%
rho = posterior.posterior["rho"].flatten()
grid = torch.linspace(-0.999, 0.999, 400)
prior = posterior.model.priors["rho"].log_prob(grid).exp()
figure, axes = plt.subplots(figsize=(8, 3), constrained_layout=True)
axes.hist(rho.numpy(), bins=np.linspace(-1, 1, 41), density=True, color=BLUE, label="posterior")
axes.plot(grid, prior, color=ORANGE, linewidth=2, label="prior")
axes.axvline(0, color="black", linewidth=0.8, linestyle=":")
axes.set(xlabel="rho", ylabel="density", xlim=(-1, 1))
axes.legend(fontsize=9, loc="upper left")
plt.show()
print(f"posterior probability of rho > 0: {float((rho > 0).float().mean()):.2f}")
print(f"90% of the posterior: {rho.quantile(0.05):.2f} to {rho.quantile(0.95):.2f}")

# %% [markdown]
# The data have moved `rho` away from the values near 1 that the prior likes best, and leave it open
# between next to nothing and a lot. That it is positive is hardly news: the prior says so with
# probability 0.94. This is the honest answer for 100 counties and a feature that explains most of
# what neighbours share. On the scale of correlations it is less than it looks: on this graph
# `rho` = 0.5 makes neighbours correlated by 0.13 (notebook 3).
#
# ## Diagnose again
#
# The same checks as for the first model. Under a posterior the residuals are those of the mixture
# over its draws.

# %%
diagnosis = posterior.diagnose(**CHECKS)
print(diagnosis)

# %%
diagnosis.plot()
plt.show()

# %% [markdown]
# Nothing wrong is found. The line without `!` is a remark: before the copula, the residuals of
# neighbours are not alike, so independent counties may do as well. LOO will agree below.
#
# ## Residuals, county by county
#
# A summary can look right while a few counties do not fit at all, so list the largest residuals. On
# the normal scale one in a hundred should be beyond 2.6.
#
# Beside them stands LOO. `pc.to_inference_data` makes a full object of arviz, in which
# `log_likelihood` has the terms `log p(y_i | all other counties)` for each draw. For dependent
# values these are the ones that leave-one-out needs. Under the exact rule they cost a hundred joint
# densities a draw, so take some of the draws.

# %%
idata = pc.to_inference_data(posterior, num_samples=25 if FAST else 60)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # arviz warns of a large Pareto k: it is in the table
    leave_one_out = az.loo(idata, pointwise=True)
table = pd.DataFrame(
    {
        "deaths": data.y,
        "births": data.exposure,
        "rate per 1,000": 1000 * data.y / data.exposure,
        "residual (u)": diagnosis.conditional.u,
        "residual (z)": diagnosis.conditional.z,
        "log p given others": leave_one_out.loo_i,
        "Pareto k": leave_one_out.pareto_k,
    },
    index=data.names,
)
print(f"LOO {leave_one_out.elpd_loo:.1f} ± {leave_one_out.se:.1f}, p_loo {leave_one_out.p_loo:.1f}")
print("Pareto k above 0.7:", ", ".join(table.index[table["Pareto k"] > 0.7]))
table.reindex(table["residual (z)"].abs().sort_values(ascending=False).index).head(6).round(2)

# %% [markdown]
# One county stands out, Anson: its rate is the highest of all, far above what its feature and its
# neighbours suggest. (Cressie and Chan, 1989, set it apart too.) One residual of 3 among a hundred
# is no reason to change the model, but it is a reason to look at that county, and to see whether
# conclusions hold without it (an exercise below).
#
# `Pareto k` tells whether LOO can be trusted about a county. It reweights the draws as if the
# county had not been seen, which fails if k is above about 0.7: then the county moves the posterior
# too much, or there are too few draws. Here it names two counties: Anson, which does pull at the
# posterior, and Dare, one of those without a death. With 60 draws k is itself rough; to be sure
# about a county, hide it and fit again.
#
# ## Which model? LOO
#
# Compare the models on the way from the first to the last, all by MAP: the parameters are held at
# their best values, so LOO flatters each by about one unit per parameter (there are one to four).
# `az.compare` takes the objects as they are.

# %%
candidates = {
    "Poisson": ("poisson", "none", without_feature),
    "negative binomial": ("negative_binomial", "none", without_feature),
    "negative binomial, CAR": ("negative_binomial", "car", without_feature),
    "Poisson, feature": ("poisson", "none", data),
    "negative binomial, feature": ("negative_binomial", "none", data),
}
fits = {
    name: pc.fit(
        model(family, precision), given, method="map", refine=True, schedule=SCHEDULE, seed=0
    )
    for name, (family, precision, given) in candidates.items()
}
fits["negative binomial, feature, CAR"] = best
comparison = az.compare(
    {name: pc.to_inference_data(one, num_samples=100) for name, one in fits.items()}, ic="loo"
)
comparison[["rank", "elpd_loo", "elpd_diff", "dse"]].round(2)

# %%
order = list(fits)
loss, error = comparison.loc[order, "elpd_diff"], comparison.loc[order, "dse"]
figure, axes = plt.subplots(figsize=(9, 3), constrained_layout=True)
axes.errorbar(-loss, range(len(order)), xerr=2 * error, fmt="o", color=BLUE, capsize=3)
axes.axvline(0, color=GREY, linewidth=1)
axes.set_yticks(range(len(order)), order)
axes.invert_yaxis()
axes.set(xlabel="LOO against the best model (± 2 standard errors of the difference)")
plt.show()

# %% [markdown]
# `elpd_diff` is the loss against the best model and `dse` its standard error. Read it from below:
#
# - A dispersion is needed without the feature: it gains 18 units over the Poisson law.
# - Then the copula gains 12 more. Neighbours stand in for the feature that is missing.
# - The feature alone does better than that, and with it the copula gains nothing (0.3, where 1 is
#   the price of a parameter). Neighbours had stood in for it, and it is there now.
# - With the feature, the Poisson law loses 6 ± 5. These data do not decide about the dispersion. It
#   costs little to keep, and it guards against intervals that are too narrow.
#
# Under the posterior, LOO of the last model was lower by about 4 than with the parameters held at
# their best values: the four parameters had been fitted to the same counties.
#
# ## What to do about each finding
#
# | `finding.code` | what it means | first thing to try |
# |---|---|---|
# | `not_converged` | training or sampling ended too early | a longer `Schedule`, more draws |
# | `not_trained` | the best score was that of the start | a smaller `lr`, another `seed` |
# | `midpoint` | small counts under the approximate rule | `discrete="exact"` |
# | `graph_left` | neighbours' residuals are still alike | a feature, or a `precision` |
# | `graph_overdone` | more dependence than there is | `refine=True`, `nugget=True` |
# | `too_narrow` | residuals pile up at both ends | a law with a dispersion |
# | `too_wide` | residuals pile up in the middle | train longer, a narrower law |
# | `too_low`, `too_high` | the mean is off | features, another backbone |
# | `heavy_tails`, `light_tails` | too many or too few far out | another family |
# | `shape` | none of these, and not uniform | extra zeros? look at `.plot()` |
# | `no_dependence` | no problem: nothing to couple | compare with `precision="none"` |
#
# Treat the first one in this order first: a mean that is off makes laws look too narrow, and
# a missing feature looks like dependence.
#
# ## Exercises
#
# 1. Fit the first model again with the CAR precision and without the feature. Which findings go,
#    and what is `rho` now?
# 2. Leave out the exposure (`exposure=None`). The diagnosis advises a law with more dispersion. Is
#    that the cause? Advice follows symptoms.
# 3. Hide Anson by `observed` and fit again. How do the dispersion and `rho` change, and what
#    is predicted for Anson?
# 4. Change `seed` in the maximum likelihood fit. Where does training stop? What happens with
#    `validation=0.5`, or with `schedule=pc.Schedule(patience=200)`?
# 5. Replace the prior on `rho` by `dist.Uniform(-1.0, 1.0)` (`priors=` of `CopulaGNN`). How much of
#    the posterior was the prior?
# 6. `az.plot_loo_pit(idata, y="y")` draws the conditional residuals of the posterior another way.
