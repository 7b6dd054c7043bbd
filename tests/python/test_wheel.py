"""Tests the wheel for machines without a compiler: `make wheel` builds the wheel,
auditwheel checks it, and the tests install it into a clean venv and use it. Object
files of an earlier test run, in build/portable and in zig's cache, are reused."""

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
    # Run the zig program directly: `python -m ziglang` would start Python 270 times.
    (zig,) = importlib.util.find_spec("ziglang").submodule_search_locations
    folder = tmp_path_factory.mktemp("wheel")
    done = run(
        "make",
        "-s",
        "wheel",
        f"ZIG={zig}/zig",
        f"WHEEL_PYTHON={sys.executable}",
        f"WHEEL={folder}",
        "OPTIMISE=-O1",  # halves the compilation time
    )
    if done.returncode and "No matching distribution found" in done.stderr:
        pytest.skip("PyPI cannot be reached")
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Makes a clean venv with the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    pip("--python", str(folder / "bin/python"), "install", "-q", str(wheel))
    return folder


def test_auditwheel_accepts_the_wheel_as_manylinux_2_28(wheel):
    assert wheel.name == f"entropy_scan-{es.__version__}-{TAG}.whl"
    done = run(sys.executable, "-m", "auditwheel", "show", str(wheel))
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert 'consistent with the following platform tag: "manylinux_2_28_x86_64"' in said
    for library in ("libsqlite3", "libcairo", "libfreetype", "libfontconfig", "libpng"):
        assert library not in said


RECORD = """
import math, sys
sys.path.append({torch!r})
import numpy, torch
import entropyscan as es
from torch.nn.functional import scaled_dot_product_attention

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(20, 60)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 9, 3, 4, 5).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).flatten(2)

torch.manual_seed(1)
model = torch.nn.Sequential(*[Attention() for _ in range(3)])
with es.watch(model, "run.db") as rec:
    for _ in range(3):
        loss = model(torch.randn(2, 9, 20)).square().mean()
        rec.step(loss=1.5)
assert rec.trouble is None and rec.lost == 0, rec.trouble
run = es.open("run.db")
entropy = run.entropy()
assert ((entropy > 0) & (entropy < math.lgamma(10) / 9)).all(), entropy
assert len(numpy.unique(entropy)) == 36, entropy
print(*entropy.shape, *run.values("loss"))
print(run.figure("heatmap").data[:5])
print(es.__file__)
print(es._library.home())
"""


def test_the_wheel_records_three_steps_and_draws_a_heatmap(installed, tmp_path):
    """The wheel is used from the new venv; only PyTorch is from the venv of the
    tests."""
    script = RECORD.format(torch=str(Path(torch.__file__).parents[1]))
    done = run(installed / "bin/python", "-c", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shape, picture, package, home = done.stdout.splitlines()
    assert (shape, picture) == ("3 3 4 1.5 1.5 1.5", "b'<?xml'")
    assert package.startswith(str(installed)) and home.startswith(str(installed))
    program = installed / "bin/entropy-scan"
    done = run(program, "run.db", "--heatmap=heatmap.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    png = (tmp_path / "heatmap.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and len(png) > 2500


def test_the_wheel_contains_fonts_and_licenses(installed):
    (native,) = installed.glob("lib/python*/site-packages/entropyscan/_native")
    fonts = sorted(path.name for path in (native / "fonts").iterdir())
    assert fonts == ["DejaVuSans-Bold.ttf", "DejaVuSans.ttf"]
    licenses = {path.name: path.read_text() for path in (native / "licenses").iterdir()}
    assert {"entropy-scan", "fonts-dejavu-core", "libcairo2-dev"} <= licenses.keys()
    (openblas,) = (text for name, text in licenses.items() if "openblas" in name)
    assert "OpenBLAS" in openblas and "Redistribution" in openblas


TRAINED = """
import entropyscan as es

class Letters:
    def get_vocab_size(self):
        return 26

    def encode(self, text, add_special_tokens):
        return [ord(c) - 97 for c in text]

es.tokens(Letters(), ["entropy" * n for n in range(1, 60)], "letters.tok")
"""

READ = """
import entropyscan as es, numpy
run = es.open("trained.db")
assert len(numpy.unique(run.entropy())) > 12  # of 18: two may be equal
print(*run.entropy().shape, run.info["status"], *(run.values("loss") < 3.5))
"""


def test_the_entropy_train_of_the_wheel_trains(installed, tmp_path):
    """entropy-train is on the path and uses the processor's kernels; es.open reads the
    run that it writes."""
    python, program = installed / "bin/python", installed / "bin/entropy-train"
    versions = [
        run(path, "--version").stdout
        for path in (program, Path(os.environ["ENTROPYSCAN_HOME"], "entropy-train"))
    ]
    assert versions[0].startswith(f"entropy-train {es.__version__}\nproducts: OpenBLAS")
    assert versions[0].splitlines()[2] == versions[1].splitlines()[2]
    done = run(python, "-c", TRAINED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sizes = "--n-layer 2 --n-head 3 --d-model 24 --ctx 8 --steps 3 --record-every 1"
    files = ("--data", "letters.tok", "--out", "trained.db")
    done = run(program, "--arch", "SM+LN+R", *sizes.split(), *files, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(python, "-c", READ, cwd=tmp_path)
    assert done.stdout == "3 2 3 finished True True True\n", done.stderr
