"""The build backend: hatchling, but pip can read the metadata before a build.

Under pip, hatchling omits the functions that return the metadata alone, because a
build step may add dependencies; pip then builds the whole wheel to read its
metadata. Our build step, build_native.py, adds no dependencies."""

import os

os.environ.pop("PIP_BUILD_TRACKER", None)  # hatchling detects pip by this variable

from hatchling.build import *  # noqa: E402, F403
