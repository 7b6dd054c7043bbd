"""The wheel for machines without a compiler: made by `make wheel`, judged by
auditwheel, installed into a clean venv, used. Objects of an earlier run, in
build/portable and in zig's cache, are used again."""

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch

import entropyscan as es

ROOT = Path(__file__).resolve().parents[2]
TAG = "py3-none-manylinux_2_28_x86_64"


def clean_environment():
    ours = ("ENTROPY", "PYTHONPATH", "MAKE", "BUILD", "SAN", "CC")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


def run(*command, cwd=ROOT):
    return subprocess.run(
        command, env=clean_environment(), cwd=cwd, capture_output=True, text=True
    )


def pip(*arguments):
    done = run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)
    if done.returncode and "No matching distribution found" in done.stderr:
        pytest.skip("PyPI cannot be reached")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    for module in ("ziglang", "auditwheel"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module}: {sys.executable} -m pip install {module}")
    folder = tmp_path_factory.mktemp("wheel")
    done = run(
        "make",
        "-s",
        "wheel",
        f"ZIG={sys.executable} -m ziglang",
        f"WHEEL_PYTHON={sys.executable}",
        f"WHEEL={folder}",
    )
    if done.returncode and "No matching distribution found" in done.stderr:
        pytest.skip("PyPI cannot be reached")
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A clean venv with the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    pip("--python", str(folder / "bin/python"), "install", "-q", str(wheel))
    return folder


def test_auditwheel_says_manylinux_2_28(wheel):
    assert wheel.name == f"entropy_scan-{es.__version__}-{TAG}.whl"
    done = run(sys.executable, "-m", "auditwheel", "show", str(wheel))
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert 'consistent with the following platform tag: "manylinux_2_28_x86_64"' in said
    for library in ("libsqlite3", "libcairo", "libfreetype", "libfontconfig", "libpng"):
        assert library not in said


def test_it_records_three_steps_and_draws_a_heatmap(installed, tmp_path):
    """PyTorch alone is borrowed."""
    script = (
        f"import sys; sys.path[1:1] = {[str(Path(__file__).parent)]!r}\n"
        f"sys.path.append({str(Path(torch.__file__).parents[1])!r})\n"
        "import entropyscan as es, models\n"
        f"assert es.__file__.startswith({str(installed)!r})\n"
        f"assert str(es._library.home()).startswith({str(installed)!r})\n"
        "model = models.gpt2()\n"
        "with es.watch(model, 'run.db') as rec:\n"
        "    for _ in range(3):\n"
        "        model(**models.inputs('gpt2')); rec.step(loss=1.5)\n"
        "assert rec.trouble is None and rec.lost == 0, rec.trouble\n"
        "run = es.open('run.db')\n"
        "print(*run.entropy().shape, *run.values('loss'))\n"
        "print(run.figure('heatmap').data[:5])\n"
    )
    done = run(installed / "bin/python", "-c", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["3 3 4 1.5 1.5 1.5", "b'<?xml'"]
    program = installed / "bin/entropy-scan"
    done = run(program, "run.db", "--heatmap=heatmap.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    picture = (tmp_path / "heatmap.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n" and len(picture) > 2500


def test_it_brings_fonts_and_licenses_and_says_what_it_lacks(installed):
    (native,) = installed.glob("lib/python*/site-packages/entropyscan/_native")
    fonts = sorted(path.name for path in (native / "fonts").iterdir())
    assert fonts == ["DejaVuSans-Bold.ttf", "DejaVuSans.ttf"]
    licenses = {path.name for path in (native / "licenses").iterdir()}
    assert {"entropy-scan", "fonts-dejavu-core", "libcairo2-dev"} <= licenses
    assert not (native / "entropy-train").exists()
    done = run(installed / "bin/entropy-train", "--version")
    assert done.returncode == 3
    assert done.stderr.startswith("entropy-train: not found in ")
    assert "install from the source tree" in done.stderr
