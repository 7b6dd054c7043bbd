#!/usr/bin/env python3
"""Prints the expected values of test_trend.c for which scipy has no function. Computes them
from the formulas with numpy. Also prints the robust line that statsmodels computes, which
should be close to the robust line from the formulas.

    python3 -m venv v && v/bin/pip install numpy scipy statsmodels
    v/bin/python tests/analyzer/make_trend_references.py
"""

import numpy as np
import statsmodels.api as sm
from scipy import stats

X = np.array([0, 10, 20, 40, 50, 60, 70, 90, 100, 130.0])
LINES = [
    [3.5, 3.25, 3.5, 2.75, 3.0, 2.5, 2.5, 2.75, 2.0, 1.5],
    [3.5, 3.25, 3.5, 2.75, 9.0, 2.5, 2.5, 2.75, 2.0, 1.5],
    [1, 2, 1, 2, 1.5, 1, 2, 1.75, 1.25, 1.5],
]


def robust(x, y, tune=4.685):
    """Fits a line by the method of Street, Carroll and Ruppert (1988). Returns the slope,
    the ends of the slope's confidence interval, and the fitted value at the mean of x."""
    n, p = len(x), 2
    a = np.column_stack([np.ones(n), (x - x.mean()) / x.std(ddof=1)])
    q, _ = np.linalg.qr(a)
    leverage = np.minimum((q * q).sum(1), 0.9999)
    adjust = 1 / np.sqrt(1 - leverage)
    least = 1e-6 * y.std(ddof=1)
    scale_of = lambda r: np.median(np.sort(np.abs(r))[p - 1:]) / 0.6745
    line = np.linalg.lstsq(a, y, rcond=None)[0]
    for _ in range(1000):
        r = (y - a @ line) * adjust
        u = r / (max(scale_of(r), least) * tune)
        w = np.where(np.abs(u) < 1, (1 - u * u) ** 2, 0)
        before, line = line, np.linalg.lstsq(
            a * np.sqrt(w)[:, None], y * np.sqrt(w), rcond=None)[0]
        if np.all(np.abs(line - before) <= 1e-14 * np.abs(line)):
            break
    # Computes the standard error of the slope from psi (the weight function
    # times its argument) and from psi's derivative, both at the residuals.
    r = y - a @ line
    scale = max(scale_of(r), least)
    u = r * adjust / (scale * tune)
    inside = np.abs(u) < 1
    psi = np.where(inside, u * (1 - u * u) ** 2, 0)
    slope_of_psi = np.where(inside, (1 - u * u) * (1 - 5 * u * u), 0)
    m1 = slope_of_psi.mean()
    m2 = ((1 - leverage) * psi**2).sum() / (n - p)
    k = 1 + p / n * (1 - m1) / m1
    robust_scale = k * np.sqrt(m2) * scale * tune / m1
    ols = y - a @ np.linalg.lstsq(a, y, rcond=None)[0]
    ols_scale = np.sqrt((ols**2).sum() / (n - p))
    sigma = max(robust_scale, np.sqrt(
        (ols_scale**2 * p**2 + robust_scale**2 * n) / (p**2 + n)))
    error = sigma * np.sqrt(np.linalg.inv(a.T @ a)[1, 1])
    half = stats.t.ppf(0.975, n - p) * error
    unit = x.std(ddof=1)
    return line[1] / unit, (line[1] - half) / unit, (line[1] + half) / unit, line[0]


for y in map(np.array, LINES):
    print("robust", *map(repr, map(float, robust(X, y))))
    fit = sm.RLM(y, sm.add_constant(X), sm.robust.norms.TukeyBiweight()).fit()
    print("   statsmodels", fit.params[1], fit.conf_int()[1])
