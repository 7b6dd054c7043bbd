"""Tests that an interrupted training run that continues is recorded as one run, and that training
that begins again in the same process, as in a notebook, is recorded as a new run."""

import gc
import os
import warnings

import models
import numpy as np
import pytest
import torch
import transformers as tf
from test_integrations import train_by_lightning
from test_trainer import train

import entropyscan as es


def watched(model, path, steps, **options):
    """Records the steps of a range; the loss of each step is the step number."""
    with es.watch(model, path, first_step=steps[0], **options) as rec:
        for step in steps:
            model(**models.inputs("gpt2"))
            rec.step(loss=float(step))
    return rec


def runs(path):
    """Returns the steps and losses of each run in a file."""
    out = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while True:
            try:
                run = es.open(path, len(out))
            except es.Error:
                return out
            out.append((list(run.steps()), run.values("loss").tolist()))


def continued(path, first, second, **options):
    """Records the steps `first` and then, with a second watch, the steps `second`.
    Returns the runs in the file and the second watch's rec.trouble."""
    torch.manual_seed(1)
    model = models.gpt2()
    every = options.get("every", 1)
    watched(model, path, first, every=every)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trouble = watched(model, path, second, **options).trouble
    return runs(path), trouble


def test_a_resumed_training_is_one_run(run_file):
    torch.manual_seed(1)
    model = models.gpt2()
    watched(model, run_file, range(0, 8))
    before = es.open(run_file).info
    with es.watch(model, run_file, first_step=6) as rec:
        for step in (6, 7, 8, 9):
            model(**models.inputs("gpt2"))
            rec.step(loss=-float(step))
    assert rec.trouble is None
    ((steps, losses),) = runs(run_file)
    assert steps == list(range(10))
    assert losses == [0, 1, 2, 3, 4, 5, -6, -7, -8, -9]
    run = es.open(run_file)
    assert run.info["uuid"] == before["uuid"] and run.info["status"] == "finished"
    resumed = [event["step"] for event in run.events if event["kind"] == "resumed"]
    assert resumed == [6]


@pytest.mark.parametrize(
    "first, second, options, n_runs, said",
    [
        (range(0, 5), range(5, 7), {}, 1, None),  # no step is recorded twice
        (range(0, 5), range(6, 8), {}, 2, "ends at step 4, but this training begins at step 6"),
        (range(0, 10), range(8, 13), {"every": 5}, 1, None),
        (range(0, 10), range(11, 17), {"every": 5}, 2, "ends at step 5"),
        (range(1, 5), range(1, 5), {}, 2, None),  # a training from the beginning
        (range(1, 5), range(1, 5), {"resume": True}, 1, None),
        (range(0, 5), range(0, 5), {"resume": True}, 2, "first_step= is needed"),
        (range(0, 5), range(3, 5), {"resume": False}, 2, None),
        (range(0, 5), range(3, 5), {"name": "another"}, 2, "has name run, this model has another"),
    ],
)  # fmt: skip
def test_steps_and_options_decide_whether_a_run_continues(
    first, second, options, n_runs, said, run_file
):
    found, trouble = continued(run_file, first, second, **options)
    assert len(found) == n_runs
    assert (said in trouble) if said else trouble is None
    every = options.get("every", 1)
    assert found[-1][0][-1] == [step for step in second if step % every == 0][-1]


def test_another_model_begins_a_new_run(run_file):
    watched(models.gpt2(), run_file, range(0, 5))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        watched(models.gpt2(n_layer=2), run_file, range(3, 5))
    assert "has n_layer 3, this model has 2" in str(seen[0].message)
    assert [steps for steps, _ in runs(run_file)] == [[0, 1, 2, 3, 4], [3, 4]]


def test_a_run_that_cannot_continue_is_one_warning_and_a_new_run(tmp_path):
    """On a local disk a fragment is converted to a run file, which a new fragment
    cannot continue."""
    path = str(tmp_path / "run.db")
    model = models.gpt2()
    watched(model, path, range(0, 4), store="fragment")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        watched(model, path, range(2, 6), store="fragment")
    assert len(seen) == 1 and "a new run begins: " in str(seen[0].message)
    assert [steps for steps, _ in runs(path)] == [[0, 1, 2, 3], [2, 3, 4, 5]]


class Kill(tf.TrainerCallback):
    def __init__(self, step, error):
        self.step, self.error = step, error

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.step:
            raise self.error


def test_the_trainers_checkpoint_continues_its_run(tmp_path, run_file):
    saved = dict(max_steps=6, save_strategy="steps", save_steps=2, dataloader_num_workers=0)
    whole = train(tmp_path / "whole", [es.TrainerCallback(str(tmp_path / "whole.db"))], **saved)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, [es.TrainerCallback(run_file), Kill(5, KeyboardInterrupt())], **saved)
    assert es.open(run_file).info["status"] == "stopped"
    callback = es.TrainerCallback(run_file)
    trainer = train(tmp_path, [callback], resume=True, **saved)
    assert callback.watch.trouble is None
    ((steps, losses),) = runs(run_file)
    assert steps == [1, 2, 3, 4, 5, 6]
    assert losses == es.open(tmp_path / "whole.db").values("loss").tolist()
    for one, other in zip(trainer.model.parameters(), whole.model.parameters()):
        assert torch.equal(one, other)


def test_lightning_continues_its_run(tmp_path, run_file):
    checkpoint = str(tmp_path / "last.ckpt")

    def fit(n_epochs, **options):
        callbacks = [es.LightningCallback(run_file)]
        trainer, _ = train_by_lightning(
            tmp_path, callbacks, n=3, max_epochs=n_epochs, **options
        )
        trainer.save_checkpoint(checkpoint)
        return es.open(run_file).config["steps"]

    assert fit(1) == 3
    assert fit(2, fit=dict(ckpt_path=checkpoint, weights_only=False)) == 6
    ((steps, _),) = runs(run_file)
    assert steps == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "error, status", [(KeyboardInterrupt(), "stopped"), (IndexError("mine"), "failed")]
)
def test_a_notebook_cell_that_is_run_again_is_recorded(error, status, tmp_path, run_file):
    model = models.gpt2()
    first = es.TrainerCallback(run_file)
    with pytest.raises(type(error)):
        train(tmp_path, [first, Kill(4, error)], model)
    assert es.open(run_file).info["status"] == status
    second = es.TrainerCallback(run_file)
    train(tmp_path, [second], model)
    assert second.watch.trouble is None and second.watch.lost == 0
    assert [steps for steps, _ in runs(run_file)] == [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6]]


def test_a_later_watch_of_a_file_ends_the_earlier_one(run_file):
    model, given = models.gpt2(), models.inputs("gpt2")
    first = es.watch(model, run_file)
    model(**given)
    first.step(loss=1.0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with es.watch(model, os.path.relpath(run_file)) as second:
            model(**given)
            second.step(loss=2.0)
        assert not seen
        first.step(loss=3.0)
    assert len(seen) == 1 and "a later watch in this process" in str(seen[0].message)
    assert runs(run_file) == [([0], [1.0]), ([0], [2.0])]
    assert es.open(run_file, 0).info["status"] == "stopped"


def test_a_watch_that_is_deleted_ends(run_file):
    model = models.gpt2()
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    rec = es.watch(model, run_file)
    model(**models.inputs("gpt2"))
    rec.step(loss=1.0)
    del rec
    gc.collect()
    run = es.open(run_file)
    assert run.info["status"] == "stopped" and run.values("loss").tolist() == [1.0]
    for name, module in model.named_modules():
        assert vars(module).keys() == before[name].keys()
    assert np.isfinite(run.entropy()).all()
