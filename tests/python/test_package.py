"""Tests the package as users install it, in a clean venv. Also runs all snippets in the
package's documentation and in the README of the project."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import venv
import warnings
import zipfile
from pathlib import Path

import accelerate
import pytest
import torch

import entropyscan as es

ROOT = Path(__file__).resolve().parents[2]


def snippets(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


PACKAGE = ROOT / "hooks/python"
PAGES = ["README.md", *sorted(str(p.relative_to(PACKAGE)) for p in PACKAGE.glob("docs/*.md"))]

# For each documentation page: the number of its snippets, and the files that the
# snippets create.
MADE = {
    "README.md": (3, ["run.db", "trainer.db", "tracked.db"]),
    "docs/libraries.md": (6, ["lightning.db", "accelerate.db", "tensorboard.db", "corpus.tok"]),
    "docs/maps.md": (1, ["maps.db", "maps.svg"]),
    "docs/regularization.md": (2, ["ereg.db"]),
    "docs/training.md": (5, ["stopped.db", "resumed.db", "curves.svg", "heatmap.svg", "health.db"]),
}


def names(folder):
    """Returns the names that the snippets use without defining them."""
    import models
    from test_tokens import words
    from test_trainer import Data
    from transformers import Trainer, TrainingArguments

    model = models.gpt2()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(batch):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        return loss

    def random():
        return torch.randn(2, 3, 16, 8, requires_grad=True)

    given = {}
    for name, value in dict(
        lightning="lightning.pytorch", optuna="optuna", tune="ray.tune"
    ).items():
        try:
            given[name] = importlib.import_module(value)
        except ModuleNotFoundError:
            pass
    if "lightning" in given:
        from test_integrations import lightning_module

        given["module"] = lightning_module()
        given["loader"] = torch.utils.data.DataLoader(
            [models.inputs("gpt2") for _ in range(4)], batch_size=None
        )
    return dict(
        **given,
        es=es,
        model=model,
        Accelerator=accelerate.Accelerator,
        data=[models.inputs("gpt2") for _ in range(3)],
        step=step,
        Trainer=Trainer,
        args=TrainingArguments(
            output_dir=str(folder / "out"),
            max_steps=10,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        ),
        dataset=Data(),
        layers=[(random(), random()) for _ in range(2)],
        tokenizer=words(unknown="five"),
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_snippet_of_a_page_runs(page, tmp_path, monkeypatch):
    for name in ("lightning", "optuna", "tensorboard"):  # of requirements.txt
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    found = snippets(f"hooks/python/{page}")
    n, files = MADE.get(page, (0, []))
    assert len(found) == n
    given = names(tmp_path) if found else {}
    for snippet in found:
        if "tune." in snippet and "tune" not in given:
            continue  # ray takes 200 MB and is not required by the tests
        exec(compile(snippet, page, "exec"), given)
    for file in files:
        path = tmp_path / file
        assert path.stat().st_size > 90
        if path.suffix == ".db":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = es.open(path)
            assert run.info["status"] == "finished"
            assert not [event for event in run.events if event["kind"] == "gap"]


def test_the_reference_page_matches_the_docstrings():
    tool = ROOT / "tests/tools/python_reference.py"
    made = subprocess.run([sys.executable, tool], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    page = (PACKAGE / "docs/reference.md").read_text()
    assert page == made.stdout, f"run {tool.name} >hooks/python/docs/reference.md"


def test_the_snippet_of_the_first_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (snippet,) = snippets("README.md")
    given = names(tmp_path)
    exec(compile(snippet, "README.md", "exec"), given)
    assert given["rec"].trouble is None
    run = es.open("run.db")
    assert run.entropy().shape == (1, 3, 4) and run.config["max_steps"] == 10


def package_source(place):
    """Copies the package to a folder two levels below `place`, as in the source
    tree."""
    ignored = shutil.ignore_patterns("__pycache__", "_native")
    return shutil.copytree(ROOT / "hooks/python", place / "hooks/python", ignore=ignored)


def without_ours(**settings):
    """Returns the environment of this process, changed by `settings`. Other variables
    that the package's build step reads are removed."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ENTROPYSCAN")}
    return {**clean, **settings}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Makes a venv with the package and its dependencies, without the source tree."""
    place = tmp_path_factory.mktemp("clean")
    venv.create(place / "venv")
    source = package_source(place / "tree")
    python = place / "venv/bin/python"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", source],
        env=without_ours(ENTROPYSCAN_BUILD=os.environ["ENTROPYSCAN_HOME"]),
        capture_output=True,
        text=True,
    )
    if done.returncode and "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("PyPI cannot be reached")
    assert done.returncode == 0, done.stderr
    return place


def test_an_installed_package_reads_and_draws(installed, tmp_path):
    """In this test neither PyTorch nor the source tree is available."""
    clean = without_ours()
    clean.pop("PYTHONPATH", None)
    run = ROOT / "samples/runs/sm.db"
    script = (
        "import entropyscan as es, sys\n"
        f"run = es.open({str(run)!r})\n"
        "print(*run.entropy().shape[1:], 'torch' in sys.modules)\n"
        "print(run.figure('heatmap').data[:5])\n"
        "print(es._library.home())\n"
    )
    done = subprocess.run(
        [installed / "venv/bin/python", "-c", script],
        env=clean,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    shape, data, home = done.stdout.splitlines()
    assert shape == "12 12 False"
    assert data == "b'<?xml'"
    assert home.startswith(str(installed / "venv"))


def test_the_programs_are_on_the_path(installed, tmp_path):
    run = ROOT / "samples/runs/sm.db"
    program = installed / "venv/bin/entropy-scan"
    done = subprocess.run([program, run], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "SM" in done.stdout
    done = subprocess.run([program, "--nope"], capture_output=True, text=True)
    assert done.returncode == 2


def test_without_the_trainer_its_program_names_the_remedy(installed):
    program = installed / "venv/bin/entropy-train"
    done = subprocess.run(
        [program, "--version"], env=without_ours(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("entropy-train: not found in ")
    assert "install it with ENTROPYSCAN_TRAINER=1 pip install ./hooks/python" in line


def test_an_installed_package_records(installed, run_file):
    """Uses the installed libraries and recorder; only PyTorch comes from the venv of
    the tests."""
    site = next((installed / "venv/lib").glob("python*/site-packages"))
    tests = str(Path(__file__).parent)
    script = (
        f"import sys; sys.path[:0] = [{str(site)!r}, {tests!r}]\n"
        "import models, entropyscan as es\n"
        f"assert es.__file__.startswith({str(site)!r})\n"
        "model = models.gpt2()\n"
        f"with es.watch(model, {run_file!r}) as rec:\n"
        "    model(**models.inputs('gpt2')); rec.step(loss=1.0)\n"
        "assert rec.trouble is None, rec.trouble\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=without_ours(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert es.open(run_file).entropy().shape == (1, 3, 4)


def test_the_wheel_contains_libraries_and_programs(installed):
    site = next((installed / "venv/lib").glob("python*/site-packages"))
    native = {path.name for path in (site / "entropyscan/_native").iterdir()}
    libraries = {"libentropyrecord.so.0", "libentropyscan.so.0"}
    assert native == {"entropy-recorder", "entropy-scan"} | libraries
    assert (site / "entropyscan/py.typed").exists()
    (wheel,) = site.glob("entropy_scan-*.dist-info/WHEEL")
    assert "Tag: py3-none-linux" in wheel.read_text()


@pytest.fixture
def tree(tmp_path):
    """Makes a source tree without C sources. `make` fails in it unless a test puts a
    fake make on the path."""
    source = package_source(tmp_path / "tree")
    (tmp_path / "tree/Makefile").touch()
    write_make(tmp_path, "exit 1")
    return source


BUILT = "entropy-scan entropy-recorder entropy-train libentropyrecord.so libentropyscan.so"


def write_make(place, commands):
    """Writes a fake make that logs its arguments; build() puts the fake on PATH."""
    make = place / "bin/make"
    make.parent.mkdir(exist_ok=True)
    make.write_text(f'#!/bin/sh\necho "$@" >>"{place}/made"\n{commands}\n')
    make.chmod(0o755)


def build(tree, function, place, **settings):
    """Calls `function` of the build back-end, as pip does. The function writes its result into the
    folder `place`."""
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "import build_backend\n"
        f"print(build_backend.{function}(sys.argv[1]))\n"
    )
    path = f"{tree.parents[2]}/bin:{os.environ['PATH']}"
    place.mkdir()
    return subprocess.run(
        [sys.executable, "-c", script, place],
        env=without_ours(PATH=path, PIP_BUILD_TRACKER=str(place), **settings),
        cwd=tree,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_metadata_needs_no_build(tree, tmp_path, kind):
    done = build(tree, f"prepare_metadata_for_build_{kind}", tmp_path / "metadata")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "metadata").iterdir()
    assert folder.name == f"entropy_scan-{es.__version__}.dist-info"
    metadata = (folder / "METADATA").read_text().splitlines()
    assert {"Name: entropy-scan", f"Version: {es.__version__}"} <= set(metadata)
    cffi = "Requires-Dist: cffi>=1.15; sys_platform == 'linux'"
    assert {cffi, "Requires-Dist: numpy>=1.22"} <= set(metadata)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "settings, trainer",
    [({}, False), ({"ENTROPYSCAN_TRAINER": "0"}, False), ({"ENTROPYSCAN_TRAINER": "1"}, True)],
)
def test_the_trainer_is_built_on_request(tree, tmp_path, settings, trainer):
    write_make(tmp_path, f"mkdir build && cd build && touch {BUILT}")
    done = build(tree, "build_wheel", tmp_path / "wheels", **settings)
    assert done.returncode == 0, done.stderr
    targets = "CUDA=0 package" + " build/entropy-train" * trainer
    assert (tmp_path / "made").read_text() == f"{targets}\n"
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert wheel.name.startswith(f"entropy_scan-{es.__version__}-py3-none-linux_")
    with zipfile.ZipFile(wheel) as files:
        found = {Path(name).name for name in files.namelist() if "/_native/" in name}
        (scripts,) = (name for name in files.namelist() if "entry_points" in name)
        assert b"entropy-train = " in files.read(scripts)
    assert found == set(BUILT.split()) - (set() if trainer else {"entropy-train"})


def test_a_build_that_fails_ends_with_the_remedy(tree, tmp_path):
    write_make(tmp_path, "echo sqlite3.h: No such file >&2; exit 2")
    done = build(tree, "build_wheel", tmp_path / "wheels")
    assert done.returncode == 1
    *_, why, last = done.stderr.splitlines()
    assert why == "sqlite3.h: No such file"
    assert last.startswith("make CUDA=0 package: failed")
    assert f"make deps in {tmp_path / 'tree'}" in last and "ENTROPYSCAN_PURE=1" in last


def test_a_package_is_built_without_the_trainer(tmp_path):
    """make compiles only the folders that the package needs."""
    done = subprocess.run(
        ["make", "-n", "-j1", "CUDA=0", f"BUILD={tmp_path}", "package"],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    compiled = set(re.findall(r" -c -o \S+ (\S+)/[^/]+\.c\n", done.stdout))
    tops = {"/".join(folder.split("/")[:2]) for folder in compiled if "hooks" in folder}
    assert tops == {"hooks/recorder"}
    assert {folder.split("/")[0] for folder in compiled} == {
        *("analyzer", "cli", "hooks", "render", "store")
    }
