"""The build backend: hatchling's, whose metadata pip may have before anything is built.

Under pip, hatchling leaves out the functions that give metadata alone, because a
build step may add dependencies; pip then builds the whole wheel for its metadata.
Our build step, build_native.py, adds none."""

import os

os.environ.pop("PIP_BUILD_TRACKER", None)  # by which hatchling knows pip

from hatchling.build import *  # noqa: E402, F403
