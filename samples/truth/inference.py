"""Provides the statistics for replicate.py: Student's t test, the sign test,
equivalence by two one-sided tests, and Holm's correction.

Each test returns the evidence for a hypothesis and for the contrary as one-sided p
values, so that a claim can be replicated, refuted or undecided. Uses only Python's
standard library; the tests compare with published tables and with scipy's values.
"""
import math
from dataclasses import dataclass


def incomplete_beta(x, a, b):
    """Returns the regularised incomplete beta function I_x(a, b), by Lentz's continued
    fraction (Abramowitz and Stegun, 26.5.8)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) +
                     a * math.log(x) + b * math.log1p(-x)) / a
    tiny, c, d = 1e-300, 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d or tiny)
    result = d
    for m in range(1, 500):
        for term in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                     -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 / ((1 + term * d) or tiny)
            c = (1 + term / c) or tiny
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * result


def t_below(t, freedom):
    """Returns P(T <= t) of Student's distribution."""
    tail = incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2
    return tail if t < 0 else 1 - tail


def t_above(t, freedom):
    """Returns P(T >= t) of Student's distribution; accurate also for tiny
    probabilities."""
    return t_below(-t, freedom)


def t_quantile(p, freedom):
    """Returns the quantile of Student's distribution for 0 < p < 1."""
    if p < 0.5:
        return -t_quantile(1 - p, freedom)
    low, high = 0.0, 1.0
    while t_above(high, freedom) > 1 - p:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if t_above(middle, freedom) > 1 - p else (low, middle)
    return (low + high) / 2


def at_least(k, n):
    """Returns the probability of at least k heads in n throws of a fair coin."""
    return sum(math.comb(n, i) for i in range(k, n + 1)) / 2 ** n


@dataclass
class Evidence:
    """The evidence from n values: their mean, the interval of the mean (or None), and
    one-sided p values."""
    n: int
    mean: float
    interval: tuple | None
    p_for: float
    p_against: float
    method: str

    @property
    def p(self):
        """The two-sided p value."""
        return min(1.0, 2 * min(self.p_for, self.p_against))


def moments(values):
    """Returns the mean and its standard error; a standard error that is 0 up to
    rounding is returned as 0."""
    n = len(values)
    mean = math.fsum(values) / n
    error = math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (n - 1) / n)
    scale = max(abs(x) for x in values)
    return mean, (0.0 if error <= 1e-12 * scale else error)


def interval_of(values, confidence=0.95):
    """Returns the confidence interval of the mean of the values; None for fewer than
    two values or if a value is not finite."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    mean, error = moments(values)
    half = t_quantile((1 + confidence) / 2, len(values) - 1) * error
    return mean - half, mean + half


def by_signs(values, n_for, n_against):
    """Returns the Evidence (mean and p values) of a sign test, for values to
    which a t test does not apply; ties are ignored."""
    n = n_for + n_against
    finite = all(map(math.isfinite, values))
    signed = {x for x in values if not math.isfinite(x)}
    mean = (math.fsum(values) / len(values) if finite
            else signed.pop() if len(signed) == 1 else math.nan)
    return Evidence(len(values), mean, None, at_least(n_for, n) if n else 1.0,
                    at_least(n_against, n) if n else 1.0, "signs")


def no_evidence(values):
    return Evidence(len(values), math.fsum(values) / len(values) if values else math.nan,
                    None, 1.0, 1.0, "too few")


def test_below(values, limit=0.0, confidence=0.95, yes_or_no=False):
    """Tests whether the mean is below the limit.

    Uses the t test, or the sign test if a value is infinite, all values are equal, or
    each value is a yes or no. A NaN, which is the difference of two infinities, is
    treated as a tie.
    """
    if len(values) < 2:
        return no_evidence(values)
    by_t = not yes_or_no and all(map(math.isfinite, values))
    if by_t:
        mean, error = moments(values)
    if not by_t or error == 0:
        return by_signs(values, sum(x < limit for x in values),
                        sum(x > limit for x in values))
    t, freedom = (mean - limit) / error, len(values) - 1
    return Evidence(len(values), mean, interval_of(values, confidence),
                    t_below(t, freedom), t_above(t, freedom), "t")


def test_within(values, centre, margin, confidence=0.95):
    """Tests, with two one-sided tests, whether the mean is within the margin around the
    centre.

    Evidence against equivalence is a mean beyond the margin, on either side. Uses the
    sign test in the same cases as test_below.
    """
    if len(values) < 2:
        return no_evidence(values)
    finite = all(map(math.isfinite, values))
    if finite:
        mean, error = moments(values)
    if not finite or error == 0:
        return by_signs(values, sum(abs(x - centre) <= margin for x in values),
                        sum(abs(x - centre) > margin for x in values))
    freedom = len(values) - 1
    lower, upper = centre - margin, centre + margin
    return Evidence(len(values), mean, interval_of(values, confidence),
                    max(t_above((mean - lower) / error, freedom),
                        t_below((mean - upper) / error, freedom)),
                    min(t_above((mean - upper) / error, freedom),
                        t_below((mean - lower) / error, freedom)), "two t")


def holm(p_values):
    """Returns p values adjusted by Holm's step-down method (1979), in the same order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def verdict(evidence, adjusted, alpha=0.05):
    """Returns the verdict on a claim, given its p value adjusted for multiple tests."""
    if adjusted > alpha:
        return "undecided"
    return "replicated" if evidence.p_for < evidence.p_against else "refuted"


def slope(pairs):
    """Returns the change of y from the smallest to the largest x, by a least-squares
    line."""
    n = len(pairs)
    x_mean, y_mean = (math.fsum(column) / n for column in zip(*pairs))
    square = math.fsum((x - x_mean) ** 2 for x, _ in pairs)
    span = max(x for x, _ in pairs) - min(x for x, _ in pairs)
    return math.fsum((x - x_mean) * (y - y_mean) for x, y in pairs) / square * span
