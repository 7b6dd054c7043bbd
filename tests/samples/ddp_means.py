"""usage: ddp_means.py WHOLE JOINED FRAGMENT...

Checks that the joined run contains the exact means over all rows of its fragments, and
agrees with the run of a single process that trained on all the data."""
import sys

import numpy as np

import entropyscan as es


def close(a, b, tolerance):
    return a.shape == b.shape and np.abs(a / b - 1).max() <= tolerance


whole, run, *ranks = map(es.open, sys.argv[1:])


def of_ranks(name):
    return np.stack([rank.values(name) for rank in ranks]).astype(float)


rows = of_ranks("finite_rows")
assert (rows[0] == 48).all() and (rows[1] == 32).all(), rows
assert np.array_equal(run.values("finite_rows"), rows.sum(0))
for name in ("entropy", "sink", "top", "distance"):
    means = of_ranks(name)
    exact = (rows * means).sum(0) / rows.sum(0)
    assert close(run.values(name), exact, 1e-6), name
    assert not close(means.mean(0), exact, 1e-5), name
    # Allow a tolerance, because sums of gradients differ in the last digits.
    assert close(run.values(name), whole.values(name), 1e-4), name
assert np.array_equal(run.values("max_logit"), of_ranks("max_logit").max(0))
assert close(run.values("loss"), whole.values("loss"), 1e-4)
