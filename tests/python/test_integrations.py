"""Tests the callbacks and trackers for other libraries: they record a training run
correctly and never disturb it, except that a trial may be pruned."""

import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

import models
import numpy as np
import pytest
import torch

import entropyscan as es
from entropyscan import _library

N_STEPS = 5


def batches(n=N_STEPS):
    torch.manual_seed(8)
    return [models.inputs("gpt2") for _ in range(n)]


def model_of_seed():
    torch.manual_seed(3)
    return models.gpt2().train()


def record(path, step=lambda rec, i: None, scale=None, n=N_STEPS):
    """Records a run whose heads collapse if `scale` is large."""
    model = model_of_seed()
    if scale is not None:
        with torch.no_grad():
            for block in model.transformer.h:
                block.attn.c_attn.weight.mul_(scale)
    with es.watch(model, path) as rec:
        for i, batch in enumerate(batches(n)):
            loss = model(**batch).loss
            rec.step(loss=loss)
            step(rec, i)
    return rec


def written(path, n):
    """Waits until the file has n samples; returns false if this takes more than a
    minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if len(es.open(path).steps()) >= n:
                return True
        except es.Error:
            pass  # the file does not exist yet
        time.sleep(0.02)
    return False


# --- flags ----------------------------------------------------------------------


def test_flags_are_those_of_the_program(run_file):
    record(run_file, scale=1e3)
    run = es.open(run_file)
    flags = run.flags
    done = subprocess.run([_library.program("entropy-scan"), run_file, "--check", "-q"])
    assert done.returncode == 1
    assert any(f["stands"] and f["severity"] in ("error", "critical") for f in flags)
    for flag in flags:
        assert flag.advice is flag["advice"] and flag.kind == flag["kind"]
        assert flag.advice.remedies and set(flag.advice) == {"causes", "remedies", "sources"}
        assert pickle.loads(pickle.dumps(flag)) == flag and not hasattr(flag, "cause")
    quiet = run_file + ".quiet.db"
    record(quiet)
    kinds = {flag["kind"] for flag in es.open(quiet).flags if flag["stands"]}
    assert "collapse" not in kinds


# --- Optuna ---------------------------------------------------------------------


def study():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna, optuna.create_study()


def test_a_trial_whose_heads_collapse_is_pruned(tmp_path):
    optuna, trials = study()

    def objective(trial):
        scale = trial.suggest_categorical("scale", [1.0, 1e3])
        path = str(tmp_path / f"trial{trial.number}.db")
        pruning = []

        def step(rec, i):
            if not pruning:
                pruning.append(es.OptunaPruning(trial, rec, every=2))
            assert written(path, i + 1)
            pruning[0]()

        record(path, step, scale)
        return scale

    trials.enqueue_trial({"scale": 1.0})
    trials.enqueue_trial({"scale": 1e3})
    trials.optimize(objective, n_trials=2)
    quiet, collapsed = trials.trials
    assert quiet.state == optuna.trial.TrialState.COMPLETE
    assert collapsed.state == optuna.trial.TrialState.PRUNED
    assert "trial1.db: " in collapsed.user_attrs["entropy_scan"]
    run = es.open(tmp_path / "trial1.db")
    assert run.info["status"] == "stopped"
    assert "pruned" in [event["kind"] for event in run.events]
    assert 2 <= len(run.steps()) < N_STEPS
    assert es.open(tmp_path / "trial0.db").info["status"] == "finished"


def test_severity_and_kinds_select_what_prunes(run_file):
    optuna, trials = study()
    record(run_file, scale=1e3)
    kinds = {f["kind"] for f in es.open(run_file).flags if f["stands"]}
    assert kinds
    trial = trials.ask()
    es.OptunaPruning(trial, run_file, kinds=["no such kind"])()
    with pytest.raises(optuna.TrialPruned):
        es.OptunaPruning(trial, run_file, "warning", kinds)()
    with pytest.raises(es.Error, match="unknown severity 'bad': expected one of info, warning"):
        es.OptunaPruning(trial, run_file, "bad")


def test_flags_that_cannot_be_read_prune_nothing(tmp_path):
    study()
    es.OptunaPruning(None, tmp_path / "not there.db")()
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no run file" * 100)
    prune = es.OptunaPruning(None, broken)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        prune()
        prune()
    assert len(seen) == 1 and "cannot read its flags" in str(seen[0].message)


# --- Ray Tune -------------------------------------------------------------------


def train_trial(config):
    """The function of a Ray trial, which runs in a separate process and reports every
    step."""
    from ray import tune

    def step(rec, i):
        assert written("run.db", i + 1)
        tune.report({"i": i})

    record("run.db", step, config["scale"], n=4)


def test_ray_tune_stops_a_trial_whose_heads_collapse(tmp_path, monkeypatch):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed: pip install 'ray[tune]'")
    paths = [path for path in sys.path if path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray import tune

    options = dict(include_dashboard=False, log_to_driver=False)
    ray.init(num_cpus=1, **options, _temp_dir=tempfile.mkdtemp(prefix="es-ray"))
    try:
        prune = es.RayTunePruning("run.db")
        elsewhere = es.RayTunePruning("other.db")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            results = tune.Tuner(
                train_trial,
                param_space={"scale": tune.grid_search([1.0, 1e3])},
                run_config=tune.RunConfig(
                    callbacks=[prune, elsewhere],
                    stop=prune,
                    storage_path=str(tmp_path),
                    verbose=0,
                ),
            ).fit()
    finally:
        place = ray._private.worker._global_node.get_temp_dir_path()
        ray.shutdown()
        shutil.rmtree(place, ignore_errors=True)
    assert not results.errors
    steps = {one.config["scale"]: one.metrics["i"] for one in results}
    assert steps[1.0] == 3 and steps[1e3] < 3
    (reason,) = prune.reasons.values()
    assert "run.db: " in reason and not prune.stop_all()
    said = [str(w.message) for w in seen if "entropyscan" in str(w.message)]
    assert len(said) == 1 and "other.db: not found in " in said[0]


# --- Lightning ------------------------------------------------------------------


def lightning_module(fails_at=None):
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model_of_seed()

        def training_step(self, batch, i):
            if i == fails_at:
                raise IndexError("mine")
            return self.model(**batch).loss

        def validation_step(self, batch, i):
            self.log("val_loss", self.model(**batch).loss)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.5)

    return Module()


def train_by_lightning(tmp_path, callbacks=(), n=8, fails_at=None, fit={}, **options):
    module = lightning_module(fails_at)
    from lightning import pytorch as lightning

    trainer = lightning.Trainer(
        **{
            **dict(
                accelerator="cpu",
                max_epochs=1,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                callbacks=list(callbacks),
                default_root_dir=tmp_path,
            ),
            **options,
        }
    )
    data = torch.utils.data.DataLoader(batches(n), batch_size=None)
    validation = torch.utils.data.DataLoader(batches(1), batch_size=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, data, validation, **fit)
    return trainer, [p.detach().clone() for p in module.parameters()]


def test_lightning_is_recorded_and_trains_the_same(tmp_path, run_file):
    _, plain = train_by_lightning(tmp_path, accumulate_grad_batches=2)
    callback = es.LightningCallback(run_file, every=2)
    trainer, watched = train_by_lightning(
        tmp_path, [callback], accumulate_grad_batches=2
    )
    assert all(torch.equal(a, b) for a, b in zip(plain, watched))
    assert callback.watch.trouble is None
    run = es.open(run_file)
    assert list(run.steps()) == [2, 4]
    assert run.entropy().shape == (2, 3, 4)
    assert run.values("lr").tolist() == [0.5, 0.5]
    assert list(run.steps(phase="eval")) == [4]
    expected = trainer.callback_metrics["val_loss"]
    assert run.values("loss", "eval").tolist() == [float(expected)]
    assert run.info["status"] == "finished"


def test_the_loss_of_lightning_is_the_mean_over_its_batches(tmp_path, run_file):
    pytest.importorskip("lightning.pytorch")
    callback = es.LightningCallback(run_file)
    train_by_lightning(tmp_path, [callback], n=2, accumulate_grad_batches=2)
    model = model_of_seed()
    losses = [float(model(**batch).loss) for batch in batches(2)]
    assert es.open(run_file).values("loss") == pytest.approx(np.mean(losses), abs=1e-6)


def test_an_exception_under_lightning_passes_and_the_run_has_failed(tmp_path, run_file):
    pytest.importorskip("lightning.pytorch")
    with pytest.raises(IndexError, match="mine"):
        train_by_lightning(tmp_path, [es.LightningCallback(run_file)], fails_at=2)
    run = es.open(run_file)
    assert run.info["status"] == "failed" and list(run.steps()) == [1, 2]


def test_an_error_of_the_callback_does_not_end_the_training(
    tmp_path, run_file, monkeypatch
):
    _, plain = train_by_lightning(tmp_path, n=3)
    callback = es.LightningCallback(run_file)

    def broken(*_, **__):
        raise RuntimeError("planted fault")

    monkeypatch.setattr(sys.modules["entropyscan._lightning"], "watch", broken)
    said = []
    monkeypatch.setattr(sys.modules["entropyscan._recording"], "warn", said.append)
    _, watched = train_by_lightning(tmp_path, [callback], n=3)
    assert all(torch.equal(a, b) for a, b in zip(plain, watched))
    assert len(said) == 1 and "on_train_start: planted fault" in said[0]


# --- Accelerate -----------------------------------------------------------------


def train_by_accelerate(path=None):
    accelerate = pytest.importorskip("accelerate")
    model = model_of_seed()
    tracker = es.AccelerateTracker(path, model, every=2) if path else None
    accelerator = accelerate.Accelerator(cpu=True, log_with=tracker)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    model, optimizer = accelerator.prepare(model, optimizer)
    if tracker:
        accelerator.init_trackers("a run", {"lr": 0.5})
    losses = []
    for step, batch in enumerate(batches()):
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if tracker:
            values = {"loss": loss.item(), "lr": 0.5, "phase": "warmup"}
            accelerator.log(values, step=step)
    accelerator.end_training()
    return tracker, losses, [p.detach().clone() for p in model.parameters()]


def test_accelerate_is_recorded_and_trains_the_same(run_file):
    _, plain_losses, plain = train_by_accelerate()
    tracker, losses, watched = train_by_accelerate(run_file)
    assert plain_losses == losses
    assert all(torch.equal(a, b) for a, b in zip(plain, watched))
    assert tracker.tracker.trouble is None
    run = es.open(run_file)
    assert list(run.steps()) == [0, 2, 4]
    assert run.entropy().shape == (3, 3, 4)
    assert run.values("loss").tolist() == np.float32(losses[::2]).tolist()
    assert run.config["lr"] == 0.5 and run.info["status"] == "finished"


# --- missing libraries ----------------------------------------------------------


@pytest.mark.parametrize(
    "name, module, package",
    [
        ("TrainerCallback", "transformers", "transformers"),
        ("LightningCallback", "pytorch_lightning", "lightning"),
        ("AccelerateTracker", "accelerate", "accelerate"),
        ("OptunaPruning", "optuna", "optuna"),
        ("RayTunePruning", "ray", "'ray[tune]'"),
    ],
)
def test_the_error_for_a_missing_library_names_the_pip_command(name, module, package, monkeypatch):
    place = es._PLACES[name]
    monkeypatch.delitem(sys.modules, f"entropyscan.{place}", raising=False)
    monkeypatch.delitem(vars(es), name, raising=False)

    class Absent:
        def find_spec(self, wanted, *_):
            if wanted.split(".")[0] in (module, "lightning"):
                raise ModuleNotFoundError(f"No module named {wanted!r}", name=module)

    for loaded in list(sys.modules):
        if loaded.split(".")[0] in (module, "lightning"):
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    with pytest.raises(
        ModuleNotFoundError, match=f"{name} needs {module}: pip install"
    ):
        getattr(es, name)
