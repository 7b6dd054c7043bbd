"""The package as others get it: installed into a clean venv, and every snippet of
its page and of the first one."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import accelerate
import pytest
import torch

import entropyscan as es

ROOT = Path(__file__).resolve().parents[2]


def snippets(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


SNIPPETS = snippets("hooks/python/README.md")


def names(folder):
    """What the snippets take as given."""
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


def test_every_snippet_of_the_page_runs(tmp_path, monkeypatch):
    for name in ("lightning", "optuna"):  # of tests/python/requirements.txt
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    assert len(SNIPPETS) == 9
    given = names(tmp_path)
    for snippet in SNIPPETS:
        if "tune." in snippet and "tune" not in given:
            continue  # ray is 200 MB: not among the tests' requirements
        exec(compile(snippet, "README.md", "exec"), given)
    assert given["rec"].trouble is None
    assert given["entropy"].shape == (1, 3, 4)
    assert list(es.open("trainer.db").steps()) == [10]
    assert list(es.open("lightning.db").steps()) == [2, 4]
    assert list(es.open("accelerate.db").steps()) == [0, 2]
    assert es.open("trial0.db").info["status"] == "finished"
    assert (tmp_path / "heatmap.svg").stat().st_size > 1000
    assert (tmp_path / "corpus.tok").stat().st_size > 96
    assert given["layers"][1][0].grad.abs().sum() > 0


def test_the_snippet_of_the_first_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (snippet,) = snippets("README.md")
    given = names(tmp_path)
    exec(compile(snippet, "README.md", "exec"), given)
    assert given["rec"].trouble is None
    run = es.open("run.db")
    assert run.entropy().shape == (1, 3, 4) and run.config["max_steps"] == 10


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A venv with the package and what it needs, and nothing of ours."""
    place = tmp_path_factory.mktemp("clean")
    venv.create(place / "venv")
    source = place / "tree/hooks/python"
    source.parent.mkdir(parents=True)
    shutil.copytree(
        ROOT / "hooks/python",
        source,
        ignore=shutil.ignore_patterns("__pycache__", "_native"),
    )
    python = place / "venv/bin/python"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", source],
        env={**os.environ, "ENTROPYSCAN_BUILD": os.environ["ENTROPYSCAN_HOME"]},
        capture_output=True,
        text=True,
    )
    if done.returncode and "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("PyPI cannot be reached")
    assert done.returncode == 0, done.stderr
    return place


def test_an_installed_package_reads_and_draws(installed, tmp_path):
    """Without PyTorch, and without the source tree."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ENTROPYSCAN")}
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


def test_an_installed_package_records(installed, run_file):
    """The library, the recorder and the recording half, as they were installed;
    PyTorch is borrowed."""
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
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ENTROPYSCAN")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert es.open(run_file).entropy().shape == (1, 3, 4)


def test_the_wheel_carries_what_it_needs(installed):
    site = next((installed / "venv/lib").glob("python*/site-packages"))
    native = {path.name for path in (site / "entropyscan/_native").iterdir()}
    assert {"entropy-recorder", "entropy-scan", "entropy-train"} <= native
    assert "libentropyscan.so.0" in native
    assert (site / "entropyscan/py.typed").exists()
    (wheel,) = site.glob("entropy_scan-*.dist-info/WHEEL")
    assert "Tag: py3-none-linux" in wheel.read_text()
