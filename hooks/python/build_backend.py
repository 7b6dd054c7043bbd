"""The build back-end: hatchling, extended so that pip can read the metadata without
building the wheel.

When pip calls hatchling, hatchling does not offer the functions that return only the
metadata, because a build step may add dependencies; pip would then build the complete
wheel only to read the metadata. Our build step, build_native.py, adds no
dependencies."""

import os

os.environ.pop("PIP_BUILD_TRACKER", None)  # hatchling detects pip by this variable

from hatchling.build import *  # noqa: E402, F403
