"""Waiting for a state, never for a time."""

import time


def until_true(condition, what):
    """Until condition() is true, which it returns; two minutes are a failure."""
    limit = time.monotonic() + 120
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < limit, what
        time.sleep(0.01)
