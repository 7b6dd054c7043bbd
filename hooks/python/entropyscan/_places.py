"""Where the C libraries and the programs are, found in this order: $ENTROPYSCAN_HOME
(a folder that was built or installed), the folder _native of this package, build/ of
the source tree that this package lies in."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path | None:
    """The folder with the libraries and programs; None if there is none."""
    given = os.environ.get("ENTROPYSCAN_HOME")
    if given:
        return Path(given)
    package = Path(__file__).resolve().parent
    # hooks/python/entropyscan of a source tree.
    for place in (package / "_native", package.parents[2] / "build"):
        if any(place.glob("libentropyscan.so*")):
            return place
    return None


def is_source_tree() -> bool:
    """Whether this package lies in the source tree of entropy-scan."""
    return (Path(__file__).resolve().parents[3] / "Makefile").exists()


def find(*patterns: str) -> Path | None:
    """The first file of these names in home()."""
    place = home()
    folders = ("", "lib", "bin")
    for folder in (place / name for name in folders) if place else ():
        for pattern in patterns:
            for found in sorted(folder.glob(pattern)):
                return found
    return None


def program(name: str) -> str | None:
    """The path of one of our programs; None where only $PATH can know it."""
    found = find(name)
    return str(found) if found else None
