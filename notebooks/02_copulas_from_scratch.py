# %% [markdown]
# # Copulas from scratch
#
# A copula separates two questions that a joint law answers at once:
#
# - What values does each node take by itself? That is its **marginal**.
# - How do the nodes hang together? That is the **copula**.
#
# This notebook builds one by hand, in four steps: scores, Sklar's theorem, other copulas for
# comparison, and why the dependence is put into a *precision* on a graph. At each step the result
# is compared with the library.

# %%
import math
import os

import matplotlib.pyplot as plt
import numpy as np
import pyro
import pyro.distributions as dist
import scipy.integrate
import scipy.optimize
import scipy.stats
import torch

import pyro_copula as pc

FAST = os.environ.get("PYRO_COPULA_FAST") == "1"  # the tests run every notebook in a short version
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#999999"

torch.set_default_dtype(torch.float64)  # so that comparisons by hand agree to many digits
pyro.set_rng_seed(0)

# %% [markdown]
# ## Uniform scores and normal scores
#
# Take a value $y$ from a law with distribution function $F$. Its **uniform score** $u = F(y)$ says
# which share of the law lies below it, and is uniform on (0, 1). Its **normal score**
# $z = \Phi^{-1}(u)$ is standard normal. Both forget the units of $y$. They keep only where the
# value stands within its own law.
#
# Here are two nodes with different marginals (a gamma law, and a lognormal one) that depend on each
# other. The first picture shows the values. The second and third show the same points as scores:
# the marginals are gone, and what is left is the dependence.

# %%
marginals = pc.marginals.Mixed(
    {"gamma": dist.Gamma(2.0, 0.5), "lognormal": dist.LogNormal(1.0, 0.8)},
    kind=["gamma", "lognormal"],
)
R = torch.tensor([[1.0, 0.8], [0.8, 1.0]])
copula = pc.GaussianCopula(marginals, correlation_matrix=R)
y = copula.sample((500 if FAST else 3000,))  # (num_draws, 2)

gamma, lognormal = scipy.stats.gamma(2.0, scale=2.0), scipy.stats.lognorm(0.8, scale=math.e)
u = np.stack([gamma.cdf(y[:, 0]), lognormal.cdf(y[:, 1])], axis=1)
z = scipy.stats.norm.ppf(u)

figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), constrained_layout=True)
for axes, points, title in zip(
    panels,
    [y.numpy(), u, z],
    ["values $y$", "uniform scores $u$", "normal scores $z$"],
    strict=True,
):
    axes.scatter(points[:, 0], points[:, 1], s=4, color=BLUE, alpha=0.35, linewidth=0)
    axes.set_title(title, fontsize=11)
    axes.set(xlabel="node 0 (gamma)", ylabel="node 1 (lognormal)")
panels[0].set(xlim=(0, 15), ylim=(0, 20))
panels[1].set_aspect("equal")
panels[2].set(aspect="equal", xlim=(-3.8, 3.8), ylim=(-3.8, 3.8))
plt.show()

# %% [markdown]
# ## Sklar's theorem
#
# Every joint density of continuous values can be written as a density of the uniform scores, times
# the marginal densities:
#
# $$p(y_1, \dots, y_n) = c(u_1, \dots, u_n) \prod_i f_i(y_i), \qquad u_i = F_i(y_i).$$
#
# So you may choose the marginals and the copula $c$ apart from each other. The **Gaussian copula**
# says: the normal scores are jointly normal with correlation $R$. Its density is the joint normal
# density of the scores over the product of the standard normal ones:
#
# $$\log c(u) = \log N(z;\, 0, R) - \sum_i \log \varphi(z_i).$$
#
# These two lines are all there is to it. By hand and by the library, at the first five draws:

# %%
joint_normal = scipy.stats.multivariate_normal(np.zeros(2), R.numpy())
log_c = joint_normal.logpdf(z) - scipy.stats.norm.logpdf(z).sum(1)
by_hand = log_c + gamma.logpdf(y[:, 0]) + lognormal.logpdf(y[:, 1])
by_library = copula.log_prob(y).numpy()
print("by hand:   ", by_hand[:5].round(6))
print("by library:", by_library[:5].round(6))
print("largest difference over all draws:", f"{np.abs(by_hand - by_library).max():.1e}")

# %% [markdown]
# ## Five copulas
#
# The Gaussian copula is one of many. Below, the marginals are standard normal in every panel, and
# Kendall's tau (the share of pairs of draws that agree in order, minus the share that disagree) is
# 1/2 in every panel. Only the copula differs. The parameter of each follows from tau in closed
# form, except for Frank's, which needs one integral.

# %%
TAU = 0.5


def gaussian(u, v, rho):
    a, b = scipy.stats.norm.ppf(u), scipy.stats.norm.ppf(v)
    square = (rho**2 * (a**2 + b**2) - 2 * rho * a * b) / (1 - rho**2)
    return np.exp(-square / 2) / np.sqrt(1 - rho**2)


def student(u, v, rho, df):
    law = scipy.stats.t(df)
    scores = np.stack([law.ppf(u), law.ppf(v)], axis=-1)
    joint = scipy.stats.multivariate_t(shape=[[1, rho], [rho, 1]], df=df)
    return joint.pdf(scores) / law.pdf(scores).prod(-1)


def clayton(u, v, theta):
    inner = u**-theta + v**-theta - 1
    return (1 + theta) * (u * v) ** (-1 - theta) * inner ** (-2 - 1 / theta)


def gumbel(u, v, theta):
    s, t = -np.log(u), -np.log(v)
    r = (s**theta + t**theta) ** (1 / theta)
    return np.exp(-r) * (s * t) ** (theta - 1) / (u * v) * r ** (1 - 2 * theta) * (r + theta - 1)


def frank(u, v, theta):
    top = theta * -np.expm1(-theta) * np.exp(-theta * (u + v))
    return top / (-np.expm1(-theta) - np.expm1(-theta * u) * np.expm1(-theta * v)) ** 2


def frank_tau(theta):
    debye = scipy.integrate.quad(lambda t: t / np.expm1(t), 0, theta)[0] / theta
    return 1 - 4 / theta * (1 - debye)


rho = math.sin(math.pi * TAU / 2)
theta_frank = scipy.optimize.brentq(lambda theta: frank_tau(theta) - TAU, 1, 20)
copulas = {
    "Gaussian": lambda u, v: gaussian(u, v, rho),
    "Student-t, df 3": lambda u, v: student(u, v, rho, 3),
    "Clayton": lambda u, v: clayton(u, v, 2 * TAU / (1 - TAU)),
    "Gumbel": lambda u, v: gumbel(u, v, 1 / (1 - TAU)),
    "Frank": lambda u, v: frank(u, v, theta_frank),
}

# %% [markdown]
# A density that is mistyped does not integrate to one, so check that first. The sum runs over
# normal scores from -6 to 6.

# %%
line = np.linspace(-6, 6, 241)
a, b = np.meshgrid(line, line)
product = scipy.stats.norm.pdf(a) * scipy.stats.norm.pdf(b)
densities = {
    name: density(scipy.stats.norm.cdf(a), scipy.stats.norm.cdf(b)) * product
    for name, density in copulas.items()
}
for name, density in densities.items():
    print(f"{name:16s} integrates to {density.sum() * (line[1] - line[0]) ** 2:.4f}")

figure, panels = plt.subplots(1, 5, figsize=(11, 2.7), sharey=True, constrained_layout=True)
for axes, (name, density) in zip(panels, densities.items(), strict=True):
    axes.contourf(a, b, density, levels=np.linspace(0, 0.26, 14), cmap="Blues", extend="max")
    axes.contour(a, b, density, levels=[0.003, 0.01, 0.03, 0.1], colors="black", linewidths=0.7)
    axes.set(aspect="equal", xlim=(-3, 3), ylim=(-3, 3), xticks=(-2, 0, 2), yticks=(-2, 0, 2))
    axes.set_title(name, fontsize=11)
panels[0].set_ylabel("$z_1$")
panels[2].set_xlabel("$z_0$")
plt.show()

# %% [markdown]
# The corners differ. Clayton's copula pulls low values together, Gumbel's high ones, Student's
# both. The Gaussian copula has no such **tail dependence**: a truly extreme value next door says
# little about how extreme yours is. `pyro_copula` has Gaussian copulas only. In exchange they scale
# to large graphs, condition in closed form, and need at most one number per edge. If joint
# extremes are what you are after, this is the wrong tool.
#
# ## Why a precision on the graph
#
# A copula of $n$ nodes needs a correlation for each of $n (n - 1) / 2$ pairs. A graph says much
# less: who is a neighbour of whom. How does one become the other?
#
# Put the graph into the **precision** $K$, the inverse of the covariance. An entry $K_{ij} = 0$
# means that $i$ and $j$ are independent *given all other nodes*. So let $K$ be zero wherever there
# is no edge. Then a node depends on the rest through its neighbours only, which is what people mean
# when they draw a graph. The correlations are not zero at all: they follow.
#
# Three nodes in a row show it. Nodes 0 and 2 have no edge and a zero in $K$, yet they are
# correlated, because both are correlated with node 1.

# %%
path = pc.Graph.from_edges([(0, 1), (1, 2)])
K = pc.CARPrecision(path)(rho=0.9, tau=1.0)  # the proper CAR model: tau (D - rho A)
covariance = torch.linalg.inv(K.to_dense())
scale = covariance.diagonal().sqrt()
print("precision K\n", K.to_dense().numpy().round(3))
print("correlation R\n", (covariance / torch.outer(scale, scale)).numpy().round(3))

# %% [markdown]
# The copula uses $R$ only, so the overall size `tau` of the precision does not matter here: the
# marginals have their own spread. What matters is `rho`.
#
# On a grid the correlation of two nodes falls off with their distance. `rho` sets how fast. It is
# *not* the correlation of neighbours: even `rho` = 0.9 gives neighbours a modest correlation, and
# most of the range of strong dependence lies between 0.99 and 1. Notebook 3 comes back to this.

# %%
SIDE = 21 if FAST else 41
grid = pc.simulate.grid_graph(SIDE, SIDE)
middle = (SIDE // 2) * SIDE + SIDE // 2
rhos = [0.5, 0.9, 0.99, 0.999]


def correlation_with(node, K):
    """The correlation of one node with every node: a column of the inverse, scaled."""
    unit = torch.zeros(K.num_nodes).index_fill(0, torch.tensor([node]), 1.0)
    scale = K.scale()
    return K.solve(unit) / (scale * scale[node])


columns = {r: correlation_with(middle, pc.CARPrecision(grid)(rho=r, tau=1.0)) for r in rhos}

figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), constrained_layout=True)
styles = zip(rhos, [GREY, GREEN, ORANGE, BLUE], ["o", "s", "^", "D"], strict=True)
for r, colour, marker in styles:
    along_row = columns[r].reshape(SIDE, SIDE)[SIDE // 2, SIDE // 2 :]
    panels[0].plot(along_row[:11], color=colour, marker=marker, ms=4, label=f"rho = {r}")
panels[0].set(xlabel="steps along a row", ylabel="correlation", ylim=(-0.02, 1.03))
panels[0].legend(fontsize=9)
for axes, r in zip(panels[1:], [0.9, 0.999], strict=True):
    picture = axes.imshow(columns[r].reshape(SIDE, SIDE), cmap="viridis", vmin=0, vmax=1)
    axes.set_title(f"with the middle node, rho = {r}", fontsize=10)
    axes.set(xticks=[], yticks=[])
figure.colorbar(picture, ax=panels[1:], label="correlation", shrink=0.85)
plt.show()
for r in rhos:
    print(f"rho {r}: correlation of neighbours in the middle {float(columns[r][middle + 1]):.3f}")

# %% [markdown]
# There is a second reason for a precision: speed. $K$ has as many numbers as the graph has edges,
# and its Cholesky factor stays sparse on graphs such as maps and grids. The library works with that
# factor and never forms $R$.

# %%
print(f"{grid.num_nodes} nodes: {grid.num_nodes + grid.num_edges} numbers in K,", end=" ")
print(f"{grid.num_nodes * (grid.num_nodes - 1) // 2} in R")

# %% [markdown]
# ## Conditioning by hand
#
# Back to the three nodes in a row, with gamma marginals. Nodes 0 and 2 are observed, node 1 is
# missing. What is its law?
#
# 1. Turn the observed values into normal scores.
# 2. Condition the normal law of the scores: the missing score is normal with mean
#    $R_{mo} R_{oo}^{-1} z_o$ and variance $1 - R_{mo} R_{oo}^{-1} R_{om}$.
# 3. Turn the quantiles of that law back: $y = F^{-1}(\Phi(z))$. A quantile stays a quantile under
#    an increasing function, so nothing is lost on the way.

# %%
R = (covariance / torch.outer(scale, scale)).numpy()
law = scipy.stats.gamma(3.0, scale=2.0)
values = np.array([13.0, 9.0])  # of nodes 0 and 2

z_o = scipy.stats.norm.ppf(law.cdf(values))
weights = np.linalg.solve(R[[0, 2]][:, [0, 2]], R[[0, 2], 1])
mean, sd = weights @ z_o, math.sqrt(1 - weights @ R[[0, 2], 1])
by_hand = law.ppf(scipy.stats.norm.cdf(mean + sd * scipy.stats.norm.ppf([0.05, 0.5, 0.95])))

copula = pc.GaussianCopula(dist.Gamma(torch.full((3,), 3.0), 0.5), precision=K)
conditional = copula.condition(torch.tensor([13.0, math.nan, 9.0]))  # NaN marks a missing node
levels = torch.tensor([0.05, 0.5, 0.95])
print("by hand:   ", by_hand.round(6))
print("by library:", conditional.quantile(levels).squeeze(-1).numpy().round(6))
print("interval:  ", *(end.item() for end in conditional.interval(0.9)))

# %%
t = np.linspace(0.01, 22, 300)
score = scipy.stats.norm.ppf(law.cdf(t))
change = scipy.stats.norm.pdf(score, mean, sd) / scipy.stats.norm.pdf(score)
figure, axes = plt.subplots(figsize=(8, 3), constrained_layout=True)
axes.plot(t, law.pdf(t), color=ORANGE, linewidth=2, linestyle="--", label="marginal law of node 1")
axes.plot(t, law.pdf(t) * change, color=BLUE, linewidth=2, label="given 13 and 9 at its neighbours")
axes.hist(
    conditional.sample((2000 if FAST else 20000,)).squeeze(-1).numpy(),
    bins=60,
    density=True,
    color=BLUE,
    alpha=0.25,
    label="draws of condition(y)",
)
axes.plot(values, [0, 0], "D", color="black", clip_on=False, label="observed neighbours")
axes.set(xlabel="value", ylabel="density", xlim=(0, 22), ylim=(0, None))
axes.legend(fontsize=9)
plt.show()

# %% [markdown]
# The conditional law is narrower than the marginal one and has moved towards the neighbours. It is
# still a law of positive values: there was no need to pretend that the data are normal.
#
# ## Counts
#
# For counts $F$ is a staircase, and a count is a whole *interval* of normal scores. The likelihood
# is then the probability of a box. `GaussianCopula(..., discrete=...)` names the rule: `"midpoint"`
# (the default, an approximation, good for large counts), `"exact"`, `"ep"` or `"augment"`.

# %%
poisson = scipy.stats.poisson(0.7)
for count in range(4):
    ends = scipy.stats.norm.ppf(poisson.cdf([count - 1, count]))
    print(f"count {count}: normal score between {ends[0]:6.2f} and {ends[1]:5.2f}")

# %% [markdown]
# ## Exercises
#
# 1. Swap the gamma marginal of the last example for `dist.StudentT(4.0, 8.0, 3.0)`. Which of the
#    three steps by hand change?
# 2. Make the three nodes a triangle (add the edge 0-2). Does node 1 depend on node 0 more or less
#    than before, given node 2?
# 3. Draw from Clayton's copula: take $u$ and $w$ uniform, and
#    $v = (u^{-\theta} (w^{-\theta / (1 + \theta)} - 1) + 1)^{-1 / \theta}$. Fit a correlation to
#    the normal scores. Where does the Gaussian copula miss?
# 4. Compare `pc.LaplacianPrecision(grid)(tau=1.0, gamma=0.1)` with the CAR precision in the figure
#    of correlations by distance. Which `gamma` gives about the same curve as `rho` = 0.99?
