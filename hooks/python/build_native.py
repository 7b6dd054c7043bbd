"""The build step of the wheel: make, and libraries and programs into it.

The package lies in the source tree of entropy-scan, two folders below its root.
ENTROPYSCAN_BUILD names another tree's build folder that is to be taken as it is,
without make."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("entropy-recorder", "entropy-scan", "entropy-train")
LIBRARIES = ("libentropyscan.so.*", "libentropyrecord.so.*")


class NativeBuildHook(BuildHookInterface):
    PLUGIN_NAME = "native"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # the tree's own build folder is found
            return
        build = self._built()
        native = Path(self.root) / "entropyscan" / "_native"
        shutil.rmtree(native, ignore_errors=True)
        native.mkdir()
        found = [build / name for name in PROGRAMS]
        for pattern in LIBRARIES:
            found += sorted(build.glob(pattern))
        for source in found:
            shutil.copy(source, native / source.name)
            relative = f"entropyscan/_native/{source.name}"
            build_data["force_include"][str(native / source.name)] = relative
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact: str) -> None:
        shutil.rmtree(Path(self.root) / "entropyscan" / "_native", ignore_errors=True)

    def _built(self) -> Path:
        given = os.environ.get("ENTROPYSCAN_BUILD")
        if given:
            return Path(given)
        tree = Path(self.root).parents[1]
        if not (tree / "Makefile").exists():
            raise SystemExit(
                f"{tree}: no Makefile: build from the source tree of entropy-scan, "
                "or set ENTROPYSCAN_BUILD to a build folder"
            )
        command = ["make", "all", "CUDA=0"]
        done = subprocess.run(command, cwd=tree)
        if done.returncode != 0:
            raise SystemExit(
                f"{' '.join(command)}: failed: the packages that it needs are "
                "installed by: make deps"
            )
        return tree / "build"
