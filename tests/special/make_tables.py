"""Write the high-precision tables of this folder. Run by hand: ``python make_tables.py``.

Every tail is computed with mpmath at 60 digits by one of two methods: (1) a positive power series,
the other tail being one minus it as long as 40 digits remain; (2) where the series would need too
many terms, quadrature of the density. Where both are cheap they are compared, and the script stops
if they differ in 30 digits. Derivatives in the shapes are central differences of the *values* with
a relative step of 1e-16 (so that 28 digits are right), not the conditional means of the kernels.

mpmath's own ``gammainc`` and ``betainc`` serve as spot checks of ordinary arguments only: for large
parameters they are slow and their precision is not under control.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import mpmath
from mpmath import mp, mpf

TABLES = Path(__file__).parent / "tables"
MAX_TERMS = 6000
STEP = mpf(10) ** -16
mp.dps = 60


class TooSlow(Exception):
    """The series needs too many terms."""


def panel_quadrature(h: Callable[[mpf], mpf], slope: Callable[[mpf], mpf], guess: mpf) -> mpf:
    """Integrate exp(h) over s > 0, for h concave, decreasing, h(0) = 0."""
    drop = mpf(150)
    end = guess
    for _ in range(400):
        excess = h(end) + drop
        if abs(excess) < 1:
            break
        end -= excess / slope(end)
    else:
        raise RuntimeError("no end of the integral")
    breaks = [end * mpf(k) / 8 for k in (0, 0.5, 1, 2, 3, 4, 6, 8)]
    value, error = mp.quad(
        lambda s: mp.exp(h(s)), breaks, error=True, method="gauss-legendre", maxdegree=8
    )
    if error > value * mpf(10) ** -45:
        raise RuntimeError(f"quadrature: {mp.nstr(error / value, 3)}")
    return value


def complement(log_tail: mpf) -> mpf:
    """Return log(1 - exp(log_tail)), provided that 40 digits remain."""
    if log_tail < -1:
        return mp.log1p(-mp.exp(log_tail))
    rest = -mp.expm1(log_tail)
    if rest < mpf(10) ** (40 - mp.dps):
        raise TooSlow
    return mp.log(rest)


# --- gamma -----------------------------------------------------------------------------------


def gamma_series(a: mpf, x: mpf) -> tuple[mpf, mpf]:
    """Return log P and log Q from DLMF 8.11.4."""
    total = term = mpf(1)
    n = 0
    while term > total * mpf(10) ** (-mp.dps - 3) or x > a + n:
        n += 1
        term *= x / (a + n)
        total += term
        if n > MAX_TERMS:
            raise TooSlow
    log_p = a * mp.log(x) - x - mp.loggamma(a + 1) + mp.log(total)
    return log_p, complement(log_p)


def gamma_quadrature(a: mpf, x: mpf) -> tuple[mpf, mpf]:
    """Return log P and log Q from the density of log t."""
    sign = 1 if x > a else -1
    root = mp.sqrt((a - x) ** 2 + 300 * x)
    guess = 300 / (abs(a - x) + root)
    if sign > 0:
        guess = min(guess, mp.log1p(150 / x) * (1 + a / x))
    integral = panel_quadrature(
        lambda s: sign * a * s - x * mp.expm1(sign * s),
        lambda s: sign * (a - x * mp.exp(sign * s)),
        guess,
    )
    log_tail = a * mp.log(x) - x - mp.loggamma(a) + mp.log(integral)
    small = mp.exp(log_tail)
    other = mp.log1p(-small)
    return (other, log_tail) if sign > 0 else (log_tail, other)


CHECKED = {"gamma": 0, "beta": 0}


def agree(first: tuple[mpf, mpf], second: tuple[mpf, mpf], what: object) -> None:
    for u, v in zip(first, second, strict=True):
        if abs(u - v) > mpf(10) ** -30 * abs(u):
            raise RuntimeError(f"the two references differ at {what}: {u} {v}")


def gamma_tails(a: mpf, x: mpf, check: bool = False) -> tuple[mpf, mpf]:
    """Return log P and log Q by the series if it is quick, else by quadrature."""
    try:
        result = gamma_series(a, x)
    except TooSlow:
        return gamma_quadrature(a, x)
    if check and a > 2:
        agree(result, gamma_quadrature(a, x), (a, x))
        CHECKED["gamma"] += 1
    return result


def gamma_row(a: float, x: float) -> dict[str, float]:
    a_, x_ = mpf(a), mpf(x)
    log_p, log_q = gamma_tails(a_, x_, check=True)
    h = a_ * STEP
    above, below = gamma_tails(a_ + h, x_), gamma_tails(a_ - h, x_)
    log_density = (a_ - 1) * mp.log(x_) - x_ - mp.loggamma(a_)
    return {
        "a": a,
        "x": x,
        "log_p": float(log_p),
        "log_q": float(log_q),
        "log_p_a": float((above[0] - below[0]) / (2 * h)),
        "log_q_a": float((above[1] - below[1]) / (2 * h)),
        "log_p_x": float(mp.exp(log_density - log_p)),
        "log_q_x": float(-mp.exp(log_density - log_q)),
    }


def gamma_points() -> list[tuple[float, float]]:
    points = []
    for a in (1e-6, 1e-4, 0.01, 0.1, 0.3, 0.499, 0.501, 1.0, 1.7, 3.0):
        points += [(a, x) for x in (1e-300, 1e-30, 1e-8, 1e-3, 0.1, 0.7, 1.0, 1.45)]
        points += [(a, x) for x in (1.55, 2.5, 6.0, 20.0, 80.0, 700.0, 1e4)]
    for a in (7.0, 9.99, 10.01, 14.5, 30.0, 100.0, 1e3, 12345.6, 1e5, 1e6, 1e7, 1e8):
        points += [(a, a * r) for r in (1e-8, 0.01, 0.3, 0.7, 1.0, 1.3, 3.0, 50.0)]
        steps = (-30.0, -8.0, -3.0, -1.0, -0.1, 0.4, 1.5, 5.0, 12.0, 35.0)
        points += [(a, a + z * a**0.5) for z in steps if a + z * a**0.5 > 0.0]
    for count in (0, 1, 10, 1000, 10_000_000):
        points += [(count + 1.0, 10.0**k) for k in range(-8, 9, 2)]
    return points


# --- beta ------------------------------------------------------------------------------------


def beta_series(a: mpf, b: mpf, x: mpf, y: mpf) -> tuple[mpf, mpf]:
    """Return log I and log(1 - I) from the positive series DLMF 8.17.8."""
    total = term = mpf(1)
    n = 0
    small = mpf(10) ** (-mp.dps - 3)
    while True:
        ratio = x * (a + b + n) / (a + 1 + n)
        n += 1
        term *= ratio
        total += term
        if ratio < 1 and term < total * small * (1 - x):
            break
        if n > MAX_TERMS:
            raise TooSlow
    log_beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    log_p = a * mp.log(x) + b * mp.log(y) - log_beta - mp.log(a) + mp.log(total)
    return log_p, complement(log_p)


def beta_quadrature(a: mpf, b: mpf, x: mpf, y: mpf) -> tuple[mpf, mpf]:
    """Return log I and log(1 - I) from the density of the logit, for b x <= a y."""
    first, curvature = a * y - b * x, (a + b) * x * y
    guess = 300 / (first + mp.sqrt(first**2 + 300 * curvature))

    def h(s: mpf) -> mpf:
        return -a * s - (a + b) * mp.log1p(x * mp.expm1(-s))

    def slope(s: mpf) -> mpf:
        moved = x / (x + y * mp.exp(s))
        return -(a - (a + b) * moved)

    integral = panel_quadrature(h, slope, guess)
    log_beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    log_p = a * mp.log(x) + b * mp.log(y) - log_beta + mp.log(integral)
    return log_p, mp.log1p(-mp.exp(log_p))


def beta_tails(a: mpf, b: mpf, t: mpf, check: bool = False) -> tuple[mpf, mpf]:
    """Return log I and log(1 - I) at the logit t."""
    x, y = 1 / (1 + mp.exp(-t)), 1 / (1 + mp.exp(t))
    below = b * x <= a * y
    quadrature = None
    if (a if below else b) > 2:
        lower = beta_quadrature(a, b, x, y) if below else beta_quadrature(b, a, y, x)
        quadrature = lower if below else lower[::-1]
        if not check:
            return quadrature
    for reverse in (x > 0.5, x <= 0.5):
        try:
            series = beta_series(b, a, y, x)[::-1] if reverse else beta_series(a, b, x, y)
        except TooSlow:
            continue
        if quadrature is not None:
            agree(series, quadrature, (a, b, t))
            CHECKED["beta"] += 1
        return series
    if quadrature is None:
        raise TooSlow
    return quadrature


def beta_row(a: float, b: float, t: float) -> dict[str, float]:
    a_, b_, t_ = mpf(a), mpf(b), mpf(t)
    log_p, log_q = beta_tails(a_, b_, t_, check=True)
    h, k = a_ * STEP, b_ * STEP
    above_a, below_a = beta_tails(a_ + h, b_, t_), beta_tails(a_ - h, b_, t_)
    above_b, below_b = beta_tails(a_, b_ + k, t_), beta_tails(a_, b_ - k, t_)
    log_density = -a_ * mp.log1p(mp.exp(-t_)) - b_ * mp.log1p(mp.exp(t_))
    log_density -= mp.loggamma(a_) + mp.loggamma(b_) - mp.loggamma(a_ + b_)
    row = {"a": a, "b": b, "t": t, "log_p": float(log_p), "log_q": float(log_q)}
    for i, tail in enumerate("pq"):
        row[f"log_{tail}_a"] = float((above_a[i] - below_a[i]) / (2 * h))
        row[f"log_{tail}_b"] = float((above_b[i] - below_b[i]) / (2 * k))
    row["log_p_t"] = float(mp.exp(log_density - log_p))
    row["log_q_t"] = float(-mp.exp(log_density - log_q))
    return row


def beta_points() -> list[tuple[float, float, float]]:
    shapes = (1e-4, 0.05, 0.3, 0.5, 1.0, 2.5, 6.0, 9.9, 11.0, 40.0, 1e3, 1e5, 1e8)
    grid = []
    for a in shapes:
        for b in shapes:
            spread = (1.0 / a + 1.0 / b) ** 0.5
            centre = float(mp.log(mpf(a) / b))
            for z in (-30.0, -6.0, -2.0, -0.5, 0.0, 0.5, 2.0, 6.0, 30.0):
                grid.append((a, b, max(-650.0, min(650.0, centre + z * min(spread, 20.0)))))
    points = random.Random(20).sample(grid, 330)
    for total_count in (0.5, 20.0, 1e6, 1e10):  # negative binomial: I_x(k + 1, r) from above
        for count, mean in ((0, 0.01), (3, 1.0), (3, 40.0), (100, 60.0), (1e4, 1.01e4), (1e7, 1e7)):
            points.append((total_count, count + 1.0, float(mp.log(mpf(total_count) / mean))))
    for df in (0.1, 1.0, 3.0, 30.0, 1e3, 2e6):  # Student: I_x(df / 2, 1 / 2)
        for q in (1e-8, 1e-3, 0.2, 1.0, 3.0, 30.0, 1e5):
            points.append((df / 2.0, 0.5, float(mp.log(mpf(df) / mpf(q) ** 2))))
    return points


# --- normal ----------------------------------------------------------------------------------


def log_ndtr(z: mpf) -> mpf:
    if z > 0:
        return mp.log1p(-mp.erfc(z / mp.sqrt(2)) / 2)
    return mp.log(mp.erfc(-z / mp.sqrt(2)) / 2)


def normal_row(z: float) -> dict[str, float]:
    z_ = mpf(z)
    log_p = log_ndtr(z_)
    slope = mp.exp(-(z_**2) / 2 - log_p) / mp.sqrt(2 * mp.pi)
    return {"z": z, "log_p": float(log_p), "log_p_z": float(slope)}


def quantile_row(log_p: float) -> dict[str, float]:
    y = mpf(log_p)
    z = -mp.sqrt(-2 * y) if y < -1 else -mp.sqrt(2 * abs(mp.log(-mp.expm1(y)))) * -1
    for _ in range(200):  # Newton's method on a concave function
        value = log_ndtr(z)
        step = (value - y) * mp.exp(value + z**2 / 2) * mp.sqrt(2 * mp.pi)
        z -= step
        if abs(step) < mpf(10) ** -40 * (abs(z) + mpf(10) ** -10):
            break
    else:
        raise RuntimeError(f"no quantile at {log_p}")
    slope = mp.exp(y + z**2 / 2) * mp.sqrt(2 * mp.pi)
    return {"log_p": log_p, "z": float(z), "z_log_p": float(slope)}


def spot_checks() -> None:
    """Compare with mpmath's own functions where these can be trusted."""
    for a, x in ((0.3, 0.2), (4.0, 9.0), (60.0, 45.0)):
        own = mp.exp(gamma_tails(mpf(a), mpf(x))[0])
        assert mp.almosteq(own, mpmath.gammainc(a, 0, x, regularized=True), 1e-30)
    for a, b, t in ((0.3, 0.2, 0.4), (4.0, 9.0, -1.0), (60.0, 45.0, 0.2)):
        x = 1 / (1 + mp.exp(-mpf(t)))
        own = mp.exp(beta_tails(mpf(a), mpf(b), mpf(t))[0])
        assert mp.almosteq(own, mpmath.betainc(a, b, 0, x, regularized=True), 1e-30)


def write(name: str, rows: list[dict[str, float]]) -> None:
    lines = ",\n".join(json.dumps(row) for row in rows)
    (TABLES / f"{name}.json").write_text(f"[\n{lines}\n]\n")
    print(f"{name}: {len(rows)} rows", file=sys.stderr)


def main() -> None:
    spot_checks()
    steps = [z / 4.0 for z in range(-48, 49)]
    far = [s * 10.0**k for s in (-1.0, 1.0) for k in (-300, -20, -8, 1.5, 2, 3, 4)]
    write("normal", [normal_row(z) for z in steps + far])
    exponents = [-(10.0 ** (k / 4.0)) for k in range(-80, 41)]
    exponents += [-1e-300, -1e-100, -1e12, -1e15]
    exponents += [float(mp.log(mpf(k) / 64)) for k in range(1, 64) if k != 32]
    write("normal_quantile", [quantile_row(y) for y in exponents])
    write("gamma", [gamma_row(a, x) for a, x in gamma_points()])
    print(f"both references agree at {CHECKED['gamma']} rows", file=sys.stderr)
    write("beta", [beta_row(a, b, t) for a, b, t in beta_points()])
    print(f"both references agree at {CHECKED['beta']} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
