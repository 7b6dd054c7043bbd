"""Lists what a watch guarantees and the tests that check each guarantee.
tests/bench/bench_watch_cost.py measures the time and memory of a step."""

import importlib
import subprocess

import models
import numpy as np
import pytest
import torch
from test_tokens import TEXTS, words

import entropyscan as es
from entropyscan import _library

ROWS = {
    "entropies are those of output_attentions, 1e-5 nats, at every step": [
        "test_models.test_every_step_of_a_training_agrees_with_output_attentions",
    ],
    "the same weights and tokens through entropy-train probe, 1e-5 nats": [
        "test_promises.test_entropy_train_probe_has_the_same_entropies",
    ],
    "one graph, no recompilation, while the cadence toggles": [
        "test_compile.test_a_full_graph_stays_one_graph_while_the_cadence_toggles",
        "test_compile.test_layers_that_are_compiled_one_by_one_share_a_graph",
    ],
    "logits, loss and gradients have the same bits with and without": [
        "test_compile.test_a_training_has_the_same_bits_with_and_without_us",
        "test_inductor."
        "test_inductor_and_checkpoints_have_the_same_bits_with_and_without_us",
        "test_trainer.test_a_trainer_is_recorded_and_trains_the_same",
        "test_integrations.test_lightning_is_recorded_and_trains_the_same",
        "test_integrations.test_accelerate_is_recorded_and_trains_the_same",
    ],
    "every snippet of the package's pages runs": [
        "test_package.test_every_snippet_of_a_page_runs",
    ],
}


@pytest.mark.parametrize("row", ROWS)
def test_the_tests_of_a_promise_exist(row):
    for name in ROWS[row]:
        file, test = name.split(".")
        assert callable(getattr(importlib.import_module(file), test))


def test_entropy_train_probe_has_the_same_entropies(tmp_path):
    program = _library.program("entropy-train")
    if program is None:
        pytest.skip("entropy-train is not built")
    said = es.tokens(words(), TEXTS, tmp_path / "x.tok")
    n = said["n_held_out"]
    assert n > 20
    model = models.gpt2(vocab_size=said["vocab"], n_positions=n - 1, eos_token_id=0)
    models.spread(model, 12.0).save_pretrained(tmp_path / "weights")
    ids = np.fromfile(tmp_path / "x.tok", np.uint8, offset=96)
    width = (len(ids)) // (said["n_train"] + n)
    held_out = ids.view(f"<u{width}")[said["n_train"] :].astype(np.int64)
    probe, watched = tmp_path / "probe.db", tmp_path / "watched.db"
    command = [program, "probe", tmp_path / "weights/model.safetensors"]
    command += ["--data", tmp_path / "x.tok", "--out", probe, "--n-head", "4"]
    command += ["--batch", "1", "--batches", "1", "--backend", "cpu", "-q"]
    done = subprocess.run(
        [*map(str, command), "--ctx", str(n - 1)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    tokens = torch.from_numpy(held_out[None, :-1])
    with es.watch(model.eval(), watched) as rec:
        with torch.no_grad():
            model(input_ids=tokens)
        rec.evaluation()
    ours = es.open(watched).entropy("eval")[0]
    theirs = es.open(probe).entropy("eval")[-1]
    assert ours.shape == theirs.shape == (3, 4) and ours.std() > 0.01
    assert np.abs(ours - theirs).max() <= 1e-5
