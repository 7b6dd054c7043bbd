"""Tests training on two ranks with gloo: DDP, FSDP2, tensor parallelism, pipeline
stages. The merged recording equals the recording of the same training run in one
process, and the run gives the same bits as without es.watch."""

import os
import subprocess
import sys
import time
from pathlib import Path

import models
import numpy as np
import pytest
import ranks
import torch
import transformers as tf

import entropyscan as es
from entropyscan import _distributed, _library

NEW_DTENSORS = models.needs_torch("2.15", "DTensors cannot do the model's own operations")


def merge(folder, *names, code=0):
    """Merges the files of the ranks into all.db. Returns the output of merge."""
    program = _library.program("entropy-scan")
    command = [program, "merge", *names, "-o", "all.db"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stderr


def close(a, b, tolerance=1e-5):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and bool((np.abs(a - b) <= tolerance).all())


def assert_same_run(got, one, phases=("train", "eval"), tolerance=1e-5):
    assert got.info["n_layer"] != got.info["n_head"]
    for phase in phases:
        assert list(got.steps(phase=phase)) == list(one.steps(phase=phase))
        for name in ("entropy", "entropy_min", "entropy_max", "sink", "top"):
            a, b = got.values(name, phase), one.values(name, phase)
            assert close(a, b, tolerance), name
        for name in ("max_logit", "distance"):
            a, b = got.values(name, phase), one.values(name, phase)
            assert np.allclose(a, b, rtol=tolerance), name
        for name in ("nonfinite_rows", "nonfinite_weights"):
            assert np.array_equal(got.values(name, phase), one.values(name, phase))
    assert got.entropy().std() > 0.05


@pytest.fixture(scope="module")
def gpt2_alone(tmp_path_factory):
    path = tmp_path_factory.mktemp("alone") / "one.db"
    ranks.alone(str(path), models.gpt2)
    return es.open(path)


@pytest.fixture(scope="module")
def llama_alone(tmp_path_factory):
    path = tmp_path_factory.mktemp("alone") / "one.db"
    ranks.alone(str(path), models.llama)
    return es.open(path)


UNTROUBLED = dict(same=True, trouble=None, lost=0)


def test_ranks_of_ddp_are_one_run_of_the_whole_batch(tmp_path, gpt2_alone):
    assert ranks.run("ddp", tmp_path, True) == [UNTROUBLED] * 2
    said = merge(tmp_path, "run.rank1.db", "run.db")
    assert "lacks" not in said and "1 run from 2 files" in said
    run = es.open(tmp_path / "all.db")
    assert_same_run(run, gpt2_alone)
    for phase in ("train", "eval"):
        assert close(run.values("loss", phase), gpt2_alone.values("loss", phase))
    # Because of padding, rank 0 has fewer rows, so the means of the ranks have
    # different weights.
    rows = run.values("finite_rows")
    assert (rows == 4 * ranks.LENGTH - 5).all()
    first = es.open(tmp_path / "run.db")
    assert not close(first.entropy(), run.entropy())
    assert run.info["batch"] == 4 and run.info["status"] == "finished"
    assert run.info["arch"] == "GPT2LMHeadModel"
    assert first.info["uuid"] == run.info["uuid"]
    assert "fragment" in first.config and "fragment" not in run.config


def test_only_the_first_rank_records_by_default(tmp_path):
    assert ranks.run("ddp", tmp_path, False) == [UNTROUBLED] * 2
    assert [path.name for path in tmp_path.glob("*.db")] == ["run.db"]
    run = es.open(tmp_path / "run.db")
    assert run.entropy().shape == (3, 3, 4) and "fragment" not in run.config
    assert "finite_rows" not in [one["name"] for one in run.series]


@models.needs_torch("2.7", "FSDP2 wants a device")
def test_ranks_of_fsdp2_are_one_run_of_the_whole_batch(tmp_path, gpt2_alone):
    assert ranks.run("fsdp", tmp_path) == [UNTROUBLED] * 2
    merge(tmp_path, "run.db", "run.rank1.db")
    assert_same_run(es.open(tmp_path / "all.db"), gpt2_alone)


def test_tensor_parallel_ranks_record_all_heads_in_one_file(tmp_path, llama_alone):
    assert ranks.run("tensor_parallel", tmp_path, True) == [UNTROUBLED] * 2
    assert [path.name for path in tmp_path.glob("*.db")] == ["run.db"]
    run = es.open(tmp_path / "run.db")
    assert run.entropy().shape == (3, 3, 4)
    assert_same_run(run, llama_alone)


def test_heads_of_tensor_parallel_fragments_are_joined(
    tmp_path, llama_alone
):
    assert ranks.run("tensor_parallel", tmp_path, False) == [UNTROUBLED] * 2
    assert es.open(tmp_path / "run.db").entropy().shape == (3, 3, 2)
    merge(tmp_path, "run.db", "run.rank1.db")
    assert_same_run(es.open(tmp_path / "all.db"), llama_alone)


def test_a_tensor_parallel_rank_that_stops_recording_does_not_stop_the_others(tmp_path):
    first, second = ranks.run("tensor_parallel_without_one", tmp_path)
    assert len(first["said"]) == 1 and "heads of other ranks" in first["said"][0]
    assert second["said"] == []
    entropy = es.open(tmp_path / "run.db").entropy()
    missing = es.is_missing(entropy)
    assert entropy.shape == (3, 3, 4)
    assert not missing[0].any() and not missing[:, :, :2].any()
    assert missing[1:, :, 2:].all()


@NEW_DTENSORS
@pytest.mark.parametrize("compiled", [False, True])
def test_dtensors_that_are_divided_by_heads_are_measured(compiled, tmp_path):
    one = str(tmp_path / "one.db")
    ranks.sharded_alone(one)
    found = ranks.run("dtensors", tmp_path, 1, 1, compiled)
    assert found == [dict(said=[], same=True, lost=0)] * 2
    run, one = es.open(tmp_path / "run.db"), es.open(one)
    assert run.entropy().shape == (1, 3, 4)
    assert_same_run(run, one, phases=("train",))


@NEW_DTENSORS
@pytest.mark.parametrize("compiled", [False, True])
def test_dtensors_that_are_divided_otherwise_are_one_warning(compiled, tmp_path):
    for of_keys in (None, 2):
        folder = tmp_path / str(of_keys)
        folder.mkdir()
        for one in ranks.run("dtensors", folder, 2, of_keys, compiled):
            (said,) = one.pop("said")
            assert "DTensors that are not both divided by heads" in said
            assert one == dict(same=True, lost=3)


@NEW_DTENSORS
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("divided", [False, True])
def test_multihead_attention_of_dtensors_is_one_warning(divided, compiled, tmp_path):
    for one in ranks.run("multihead", tmp_path, divided, compiled):
        (said,) = one.pop("said")
        assert "MultiheadAttention with DTensors" in said and "not measured" in said
        assert one == dict(same=True, lost=3)


def test_stages_of_a_pipeline_are_joined_to_one_run(tmp_path):
    one = str(tmp_path / "one.db")
    ranks.stages_alone(one)
    assert ranks.run("stages", tmp_path, False) == [dict(trouble=None)] * 2
    merge(tmp_path, "run.db", "run.rank1.db")
    run, one = es.open(tmp_path / "all.db"), es.open(one)
    assert run.entropy().shape == (3, 5, 3)
    # The inputs of the second stage have a different alignment in memory, which may
    # change the last digit of products, and logits are as large as 160.
    assert_same_run(run, one, phases=("train",), tolerance=1e-4)
    assert close(run.values("loss"), one.values("loss"), 1e-4)


def wait_until_written(path):
    """Waits until the recorder of a killed process has written its data and ended."""
    for _ in range(600):
        run = es.open(path)
        if run.info["status"] != "running":
            return run
        time.sleep(0.1)
    raise AssertionError(f"{path} is still being written")


def test_a_killed_stage_leaves_its_samples_so_far(tmp_path):
    first, _ = ranks.run("stages", tmp_path, True, killed=[1])
    assert first["trouble"] is None
    wait_until_written(tmp_path / "run.rank1.db")
    said = merge(tmp_path, "run.db", "run.rank1.db")
    assert "rank 1: lacks 1 of 3 training steps, from step 2 to step 2" in said
    run = es.open(tmp_path / "all.db")
    missing = es.is_missing(run.entropy())
    assert missing[2, 2:].all() and missing.sum() == 9
    assert run.info["status"] == "failed"


def test_a_killed_rank_of_ddp_costs_no_other_its_data(tmp_path):
    first, _ = ranks.run("ddp_that_loses_one", tmp_path, killed=[1])
    assert first["done"] == 2 and first["error"]
    wait_until_written(tmp_path / "run.rank1.db")
    said = merge(tmp_path, "run.db", "run.rank1.db")
    assert "rank 1: lacks 1 of 2 training steps" in said
    run, mine = es.open(tmp_path / "all.db"), es.open(tmp_path / "run.db")
    assert list(run.steps()) == [0, 1]
    assert np.array_equal(run.entropy()[1], mine.entropy()[1])
    gaps = [event for event in run.events if event["kind"] == "gap"]
    assert [event["step"] for event in gaps] == [1]


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_fragments_of_ranks_that_torchrun_starts_are_one_run(tmp_path, gpt2_alone):
    world = 4  # tests/samples/test_cluster.sh tests two ranks with Slurm
    for kind in ("files", "fragments"):
        (tmp_path / kind).mkdir()
    script = Path(__file__).with_name("torchrun_fragments.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={world}", str(script), str(tmp_path)]
    here = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(command, capture_output=True, text=True, env=here)
    assert done.returncode == 0, done.stderr
    names = ["run"] + [f"run.rank{rank}" for rank in range(1, world)]
    there = {path.name for path in (tmp_path / "fragments").iterdir()}
    assert there == {f"{name}.esf" for name in names}
    merge(tmp_path / "files", *[f"{name}.db" for name in names])
    said = merge(tmp_path / "fragments", *[f"{name}.esf" for name in names])
    assert "lacks" not in said and f"1 run from {world} files" in said
    run = es.open(tmp_path / "fragments" / "all.db")
    files = es.open(tmp_path / "files" / "all.db")
    each = [es.open(tmp_path / "fragments" / f"{name}.esf") for name in names]
    assert run.series == files.series and len(run.series) > 20
    for one in run.series:
        name, phase = one["name"], one["phase"]
        if name == "tokens_per_s":
            continue
        assert list(run.steps(name, phase)) == list(files.steps(name, phase)), name
        assert same_bits(run.values(name, phase), files.values(name, phase)), name
    assert_same_run(run, gpt2_alone)
    for phase in ("train", "eval"):
        rows = np.stack([r.values("finite_rows", phase) for r in each]).astype(float)
        means = np.stack([r.values("entropy", phase) for r in each]).astype(float)
        peaks = np.stack([r.values("max_logit", phase) for r in each])
        assert np.array_equal(run.values("finite_rows", phase), rows.sum(0))
        exact = (rows * means).sum(0) / rows.sum(0)
        assert close(run.values("entropy", phase), exact, 1e-6)
        assert np.array_equal(run.values("max_logit", phase), peaks.max(0))
        assert not np.array_equal(peaks[0], peaks.max(0))


def test_a_killed_rank_leaves_a_fragment_and_a_counted_gap(tmp_path):
    first, _ = ranks.run("fragments_that_lose_one", tmp_path, killed=[1])
    assert first["done"] == 2 and first["error"]
    wait_until_written(tmp_path / "run.rank1.esf")
    assert not list(tmp_path.glob("*.db"))
    said = merge(tmp_path, "run.esf", "run.rank1.esf")
    assert "rank 1: lacks 1 of 2 training steps" in said
    run, mine = es.open(tmp_path / "all.db"), es.open(tmp_path / "run.esf")
    assert list(run.steps()) == [0, 1]
    assert np.array_equal(run.entropy()[1], mine.entropy()[1])
    assert not np.array_equal(run.entropy()[0], mine.entropy()[0])
    gaps = [event for event in run.events if event["kind"] == "gap"]
    assert [event["step"] for event in gaps] == [1]
    assert run.info["status"] == "failed"


def test_a_first_rank_that_does_not_watch_does_not_block_the_others(tmp_path):
    _, second = ranks.run("first_rank_does_not_watch", tmp_path)
    assert "do not record together" in second["trouble"] and second["finite"]


def test_the_loss_of_a_trainer_is_the_mean_over_its_ranks(tmp_path):
    first, second = ranks.run("trainer", tmp_path)
    assert first["world"] == 2
    assert first["trouble"] is None and second["trouble"] is None
    merge(tmp_path, "run.db", "run.rank1.db")
    run = es.open(tmp_path / "all.db")
    assert list(run.steps()) == [1, 2, 3]
    assert len(first["loss"]) == ranks.STEPS
    assert np.allclose(run.values("loss"), first["loss"], rtol=1e-3)
    own = es.open(tmp_path / "run.db").values("loss")
    assert not np.allclose(own, first["loss"], rtol=1e-2)


def test_a_request_to_stop_ends_all_ranks_after_the_same_step(tmp_path):
    first, second = ranks.run("stop_is_requested", tmp_path, 3)
    assert first["trouble"] is None and second["trouble"] is None
    assert first["done"] == second["done"] and 4 <= first["done"] < 1000
    assert first["done"] % 3 == 1  # the last step was a recorded one


def test_a_first_rank_that_does_not_read_should_stop_does_not_block_the_others(tmp_path):
    _, second = ranks.run("first_rank_does_not_look", tmp_path)
    assert second["stops"] is False and second["trouble"]


# --- in one process -----------------------------------------------------------------


def test_files_of_ranks_have_the_rank_in_their_name():
    assert _distributed.fragment_path("a.b/run.db", 0) == "a.b/run.db"
    assert _distributed.fragment_path("a.b/run.db", 12) == "a.b/run.rank12.db"
    assert _distributed.fragment_path("a.b/run", 3) == "a.b/run.rank3"


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({}, (0, 1)),
        (dict(RANK="3", WORLD_SIZE="4"), (3, 4)),
        (dict(RANK="4", WORLD_SIZE="4"), (0, 1)),
        (dict(RANK="x", WORLD_SIZE="4"), (0, 1)),
    ],
)
def test_a_rank_is_known_before_the_process_group(monkeypatch, environment, expected):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert _distributed.rank_and_world() == expected


def test_a_stage_of_transformers_knows_its_layers():
    model = models.llama()
    numbers = _distributed.layer_numbers(
        model, [f"model.layers.{i}.self_attn" for i in (1, 2)]
    )
    assert numbers == [1, 2]
    layer = torch.nn.Sequential(ranks.Layer())
    assert _distributed.layer_numbers(layer, ["0"]) == [None]


def test_a_configuration_that_raises_does_not_disturb_the_training(run_file):
    class Config:
        def get_text_config(self):
            raise ValueError("planted")

    model = torch.nn.Sequential(*ranks.layers())
    model.config = Config()
    with es.watch(model, run_file) as rec:
        model(ranks.activations(0)).sum().backward()
        rec.step(loss=1.0)
    assert rec.trouble is None
    assert es.open(run_file).entropy().shape == (1, 5, 3)


def test_a_loss_of_nan_is_recorded_at_its_step_alone(tmp_path, run_file):
    """The Trainer's own log replaces a NaN loss by a number."""
    if "train_sampling_strategy" not in tf.TrainingArguments.__dataclass_fields__:
        pytest.skip(f"transformers {tf.__version__} has no train_sampling_strategy")

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            tokens = torch.full((8,), 3 + i)
            labels = torch.full((8,), -100) if i == 2 else tokens
            return {"input_ids": tokens, "labels": labels}

    callback = es.TrainerCallback(run_file)
    trainer = tf.Trainer(
        models.gpt2(),
        tf.TrainingArguments(
            output_dir=str(tmp_path / "out"),
            max_steps=4,
            per_device_train_batch_size=1,
            train_sampling_strategy="sequential",
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
            max_grad_norm=0.0,
            learning_rate=0.0,
        ),
        train_dataset=Data(),
        callbacks=[callback],
    )
    trainer.train()
    logged = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert len(logged) == 4 and np.isfinite(logged).all()
    loss = es.open(run_file).values("loss")
    assert np.isnan(loss).tolist() == [False, False, True, False]
    assert not es.is_missing(loss).any()
