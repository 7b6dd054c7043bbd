"""Chooses, at import, the back-end that records, reads and computes: the C libraries
(`_c_library`) or Python (`_python_recorder`, `_python_reader`, PyTorch in blocks).

Python is used if ENTROPYSCAN_PURE=1 is set or if no library exists, as on systems other
than Linux and in an installation that was made without the libraries. A library that
exists but cannot be loaded is an error, and so is a source tree on Linux that has not
been built."""

from __future__ import annotations

import os
import sys
from typing import Any

from ._places import home, is_source_tree, program
from ._run_file import EBROKEN, MISSING_BITS, SEVERITIES, STATUS_NAMES, Error

NO_PROGRAM = (
    "this installation does not include the programs: copy the run file to a Linux "
    "machine and read it there with entropy-scan"
)


def _is_python() -> bool:
    if os.environ.get("ENTROPYSCAN_PURE", "0") not in ("", "0"):
        return True
    if home() is not None:
        return False
    return sys.platform != "linux" or not is_source_tree()


IS_PYTHON = _is_python()

if IS_PYTHON:
    from ._python_recorder import Recorder

    def Reader(path: str) -> Any:
        """Opens a run file. sqlite3 is imported only here, so that a training
        process does not load it."""
        from . import _python_reader

        return _python_reader.Reader(path)

else:
    from ._c_library import Reader, Recorder, check

    check()

__all__ = [
    "EBROKEN",
    "IS_PYTHON",
    "MISSING_BITS",
    "NO_PROGRAM",
    "SEVERITIES",
    "STATUS_NAMES",
    "Error",
    "Reader",
    "Recorder",
    "home",
    "program",
]
