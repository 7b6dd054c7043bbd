"""Tests the callback for transformers' Trainer."""

import models
import numpy as np
import torch
import transformers as tf

import entropyscan as es


class Data(torch.utils.data.Dataset):
    def __init__(self, n=24):
        generator = torch.Generator().manual_seed(1)
        shape = (n, 20)
        self.tokens = torch.randint(3, models.VOCAB, shape, generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"input_ids": self.tokens[i], "labels": self.tokens[i]}


def train(tmp_path, callbacks=(), model=None, resume=None, **options):
    torch.manual_seed(4)
    model = model or models.gpt2()
    settings = dict(
        output_dir=str(tmp_path / "out"),
        max_steps=6,
        per_device_train_batch_size=2,
        logging_steps=2,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        dataloader_num_workers=2,
        learning_rate=1e-2,
    )
    trainer = tf.Trainer(
        model,
        tf.TrainingArguments(**{**settings, **options}),
        train_dataset=Data(),
        eval_dataset=Data(4),
        callbacks=list(callbacks),
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def weights(trainer):
    return [p.detach().clone() for p in trainer.model.parameters()]


def test_a_trainer_is_recorded_and_trains_the_same(tmp_path, run_file):
    plain = train(tmp_path)
    callback = es.TrainerCallback(run_file, every=2)
    watched = train(tmp_path, [callback], eval_strategy="steps", eval_steps=4)
    same = [torch.equal(a, b) for a, b in zip(weights(plain), weights(watched))]
    assert all(same)
    assert callback.watch.trouble is None
    run = es.open(run_file)
    assert list(run.steps()) == [2, 4, 6]
    assert run.entropy().shape == (3, 3, 4)
    assert list(run.steps("loss")) == [2, 4, 6]
    assert list(run.steps("lr")) == [2, 4, 6]
    assert list(run.steps("grad_norm")) == [2, 4, 6]
    evaluations = [l for l in watched.state.log_history if "eval_loss" in l]
    assert list(run.steps(phase="eval")) == [l["step"] for l in evaluations]
    assert len(evaluations) > 0
    evaluated = [l["eval_loss"] for l in evaluations]
    assert run.values("loss", "eval").tolist() == np.float32(evaluated).tolist()
    assert run.info["status"] == "finished" and run.info["last_step"] == 6
    assert run.config["per_device_train_batch_size"] == 2
    assert run.config["steps"] == 6


def test_the_loss_of_a_step_is_the_mean_over_its_micro_batches(tmp_path, run_file):
    callback = es.TrainerCallback(run_file)
    trainer = train(
        tmp_path, [callback], gradient_accumulation_steps=3, logging_steps=1
    )
    logged = [l["loss"] for l in trainer.state.log_history if "loss" in l]
    assert np.allclose(es.open(run_file).values("loss"), logged, atol=1e-4)


def test_a_loss_of_nan_is_recorded_although_the_trainer_filters_it_out(
    tmp_path, run_file
):
    model = models.gpt2()
    torch.nn.init.constant_(model.transformer.ln_f.bias, float("nan"))
    trainer = train(tmp_path, [es.TrainerCallback(run_file)], model=model)
    logged = [l["loss"] for l in trainer.state.log_history if "loss" in l]
    assert np.isfinite(logged).all()  # the Trainer's log hides the NaN
    loss = es.open(run_file).values("loss")
    assert np.isnan(loss).all() and not es.is_missing(loss).any()


def test_a_request_to_stop_ends_the_training(tmp_path, run_file):
    class Request(tf.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if state.global_step == 2:
                open(run_file + ".stop", "w").write("enough\n")
            if state.global_step >= 2:
                import time

                time.sleep(0.3)

    callback = es.TrainerCallback(run_file)
    trainer = train(tmp_path, [Request(), callback], max_steps=1000)
    assert 2 <= trainer.state.global_step < 1000
    assert es.open(run_file).info["status"] == "stopped"
