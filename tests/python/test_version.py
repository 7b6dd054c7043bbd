"""Tests that a package and a library of different versions raise an error of one line
at import, before any struct is used."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import entropyscan as es

ROOT = Path(__file__).resolve().parents[2]
USE = "import entropyscan as es; print(es.__version__); \
from entropyscan import _c_library; _c_library.reading()"


@pytest.fixture
def package(tmp_path):
    """Copies the package, so that tests can change the version of the copy."""
    folder = tmp_path / "site/entropyscan"
    ignored = shutil.ignore_patterns("__pycache__", "_native")
    shutil.copytree(Path(es.__file__).parent, folder, ignore=ignored)
    return folder


def imports(package, home):
    """Imports the package in a new process. Returns exit code and output."""
    env = {**os.environ, "PYTHONPATH": str(package.parent), "ENTROPYSCAN_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", USE], env=env, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def library(folder, version):
    """Compiles fake libraries that only return a version; with None they have no
    version function."""
    folder.mkdir()
    source = folder / "library.c"
    message = 'const char *es_message(void) { return ""; }\n'
    function = f'const char *es_version(void) {{ return "{version}"; }}\n'
    source.write_text(message + (function if version else ""))
    for name in ("libentropyrecord.so", "libentropyscan.so"):
        out = folder / name
        subprocess.run(["cc", "-shared", "-fPIC", "-o", out, source], check=True)
    return folder


def test_a_package_imports_with_a_library_of_its_version(package):
    home = es._library.home()
    assert imports(package, home) == (0, f"{es.__version__}\n")


@pytest.mark.parametrize("version", ["0.0.9", "0.1.0rc1", "10.0.0"])
def test_a_package_of_another_version_is_refused_at_import(package, version):
    (package / "_version.py").write_text(f'__version__ = "{version}"\n')
    code, printed = imports(package, es._library.home())
    assert code == 1
    *_, last = printed.splitlines()
    assert last.startswith("ImportError: ")
    assert "libentropyrecord.so: its version is" in last
    assert f"is {es.__version__}, but this package is {version}: install both" in last


@pytest.mark.parametrize("version", ["0.0.9", "0.1.1", None])
def test_a_library_of_another_version_is_refused_at_import(package, tmp_path, version):
    home = library(tmp_path / "home", version)
    code, printed = imports(package, home)
    assert code == 1
    said = f"its version is {version or 'from before 0.1.0'}, but this package"
    assert said in printed.splitlines()[-1]
    assert str(home) in printed.splitlines()[-1]


def test_a_file_that_is_not_a_library_is_refused_at_import(package, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "libentropyrecord.so").write_text("nothing that can be loaded")
    code, printed = imports(package, home)
    assert code == 1
    assert printed.splitlines()[-1].startswith(f"ImportError: {home}/libentropyrecord.so")


def test_a_missing_library_is_an_error_where_it_is_used(package, tmp_path):
    code, printed = imports(package, tmp_path)
    assert code == 1
    assert printed.splitlines()[0] == es.__version__
    assert "libentropyscan.so: not found in" in printed.splitlines()[-1]


def test_the_version_equals_that_of_the_makefile():
    assert f"VERSION = {es.__version__}" in (ROOT / "Makefile").read_text().splitlines()
