"""Helper for tests that wait for a condition instead of a fixed time."""

import time


def until_true(condition, what):
    """Waits until condition() is true and returns its value. Fails after two
    minutes."""
    limit = time.monotonic() + 120
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < limit, what
        time.sleep(0.01)
