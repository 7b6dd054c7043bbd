"""The build step of the wheel: runs make and adds the libraries and programs.

The package lies in the source tree of entropy-scan, two folders below its root.
ENTROPYSCAN_TRAINER=1 also builds and includes entropy-train. `make wheel` sets it
together with these variables, which describe binaries linked for other machines:
    ENTROPYSCAN_BUILD     a finished build folder, used as it is, without make
    ENTROPYSCAN_PLATFORM  the wheel's platform, such as manylinux_2_28_x86_64
    ENTROPYSCAN_PACKAGES  a folder with fonts/, which figures use, and licenses/ of
                          the libraries that are linked in (tests/tools/packages.sh)

On systems other than Linux, or with ENTROPYSCAN_PURE=1, nothing is built: the wheel
runs on every machine and records and reads in Python."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("entropy-recorder", "entropy-scan")
TRAINER = "entropy-train"
LIBRARIES = ("libentropyrecord.so", "libentropyscan.so")
FOLDERS = ("fonts", "licenses")


def _is_set(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


def _is_pure() -> bool:
    return _is_set("ENTROPYSCAN_PURE") or sys.platform != "linux"


class NativeBuildHook(BuildHookInterface):
    PLUGIN_NAME = "native"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # the package finds build/ of the source tree
            return
        if _is_pure():
            return
        for source in self._files():
            inside = source.name
            if source.parent.name in FOLDERS:
                inside = f"{source.parent.name}/{source.name}"
            build_data["force_include"][str(source)] = f"entropyscan/_native/{inside}"
        build_data["pure_python"] = False
        platform = os.environ.get("ENTROPYSCAN_PLATFORM") or sysconfig.get_platform()
        build_data["tag"] = f"py3-none-{platform.replace('-', '_').replace('.', '_')}"

    def _files(self) -> list[Path]:
        build = self._built()
        found = [build / name for name in (*PROGRAMS, *self._trainer())]
        for name in LIBRARIES:  # resolve() follows the link to the versioned file
            found.append((build / name).resolve())
        for path in found:
            if not path.exists():
                raise SystemExit(f"{path}: missing: build it with make, or make wheel")
        packages = os.environ.get("ENTROPYSCAN_PACKAGES")
        for folder in FOLDERS if packages else ():
            found += sorted(Path(packages, folder).iterdir())
        return found

    def _trainer(self) -> list[str]:
        return [TRAINER] if _is_set("ENTROPYSCAN_TRAINER") else []

    def _built(self) -> Path:
        given = os.environ.get("ENTROPYSCAN_BUILD")
        if given:
            return Path(given).resolve()
        tree = Path(self.root).parents[1]
        if not (tree / "Makefile").exists():
            raise SystemExit(
                f"{tree}: no Makefile; build from the source tree of entropy-scan, "
                "or set ENTROPYSCAN_BUILD to a build folder"
            )
        command = ["make", "CUDA=0", "package"]
        command += [f"build/{name}" for name in self._trainer()]
        try:
            failed = subprocess.run(command, cwd=tree).returncode != 0
        except FileNotFoundError:
            raise SystemExit(
                f"make is not installed: run apt install make, then make deps in {tree}"
            ) from None
        if failed:
            raise SystemExit(
                f"{' '.join(command)}: failed (see above); install the Debian packages "
                f"that the build needs with make deps in {tree}, or set ENTROPYSCAN_PURE=1 "
                "to install the recorder in Python, which needs no build"
            )
        return tree / "build"
