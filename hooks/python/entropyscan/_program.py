"""The commands entropy-scan and entropy-train that pip puts on the path. They run the
programs that the package contains."""

from __future__ import annotations

import os
import sys

from . import _library


def main() -> None:
    name = os.path.basename(sys.argv[0])
    path = _library.program(name)
    if path is None and _library.IS_PYTHON:
        print(f"{name}: {_library.NO_PROGRAM}", file=sys.stderr)
        raise SystemExit(3)
    if path is None:
        remedy = "build it with make, or set ENTROPYSCAN_HOME"
        if name == "entropy-train":  # not part of a default installation from source
            install = "ENTROPYSCAN_TRAINER=1 pip install ./hooks/python"
            remedy = f"install it with {install} in the source tree, {remedy}"
        print(
            f"{name}: not found in {_library.home() or 'this installation'}: {remedy}",
            file=sys.stderr,
        )
        raise SystemExit(3)
    os.execv(path, [path, *sys.argv[1:]])
