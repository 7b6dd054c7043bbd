"""Lists the series that are computed from attention rows, for all modules. The list
corresponds to analyzer/heads/heads.h."""

from __future__ import annotations

# For each series: its name and unit in the run file, and the corresponding
# member of es_heads.
SERIES = (
    ("entropy", "nats", "entropy"),
    ("entropy_min", "nats", "entropy_min"),
    ("entropy_max", "nats", "entropy_max"),
    ("nonfinite_rows", "rows", "nonfinite_rows"),
    ("nonfinite_weights", "weights", "nonfinite_weights"),
    ("max_logit", "", "max_logit"),
    ("sink", "", "sink"),
    ("missing_mass", "", "missing"),
    ("distance", "tokens", "distance"),
    ("top", "", "top"),
    ("finite_rows", "rows", "finite_rows"),  # recorded only in fragments of ranks
)
NAMES = tuple(name for name, _, _ in SERIES)

# The series that are means over the finite rows.
MEANS = ("entropy", "sink", "missing_mass", "distance", "top")

# The members of es_heads in the order of the struct: HEAD_FLOATS are float32,
# HEAD_COUNTS are int64.
HEAD_COUNTS = ("finite_rows", "nonfinite_rows", "nonfinite_weights")
HEAD_FLOATS = tuple(member for _, _, member in SERIES if member not in HEAD_COUNTS)
