"""Finds the C libraries and the programs. Searches, in this order, $ENTROPYSCAN_HOME (a
build or installation folder), the folder _native of this package, and build/ of the
source tree that contains this package."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path | None:
    """Returns the folder that contains the libraries and programs; None if there is no
    such folder.
    """
    given = os.environ.get("ENTROPYSCAN_HOME")
    if given:
        return Path(given)
    package = Path(__file__).resolve().parent
    # In a source tree this package is hooks/python/entropyscan.
    for place in (package / "_native", package.parents[2] / "build"):
        if any(place.glob("libentropyscan.so*")):
            return place
    return None


def is_source_tree() -> bool:
    """Returns true if this package is inside the source tree of entropy-scan."""
    return (Path(__file__).resolve().parents[3] / "Makefile").exists()


def find(*patterns: str) -> Path | None:
    """Returns the first file in home() that matches a pattern; None if no file
    matches."""
    place = home()
    folders = ("", "lib", "bin")
    for folder in (place / name for name in folders) if place else ():
        for pattern in patterns:
            for found in sorted(folder.glob(pattern)):
                return found
    return None


def program(name: str) -> str | None:
    """Returns the path of a program of entropy-scan; None if the program is not in
    home()."""
    found = find(name)
    return str(found) if found else None
