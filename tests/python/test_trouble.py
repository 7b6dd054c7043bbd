"""Tests that the training continues with the same bits whatever happens to the
recording."""

import copy
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
import warnings

import models
import numpy as np
import pytest
import ranks
import torch

import entropyscan as es
from entropyscan import _c_library

STEPS = 6


def train(path=None, before_step=lambda rec, step: None, **options):
    """Trains a model. Returns the losses, the last gradients and the watch."""
    torch.manual_seed(5)
    model = models.gpt2().train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    given = models.inputs("gpt2")
    rec = es.watch(model, path, **options) if path else None
    losses = []
    for step in range(STEPS):
        before_step(rec, step)
        loss = model(**given).loss
        loss.backward()
        losses.append(loss.detach().clone())
        gradients = [p.grad.clone() for p in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
        if rec:
            rec.step(loss=loss)
    if rec:
        rec.close()
    return losses + gradients, rec


@pytest.fixture(scope="module")
def plain():
    return train()[0]


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))


def trained_with_one_warning(plain, *args, **options):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        numbers, rec = train(*args, **options)
    assert same(plain, numbers)
    ours = [str(w.message) for w in seen if "entropyscan" in str(w.message)]
    assert len(ours) == 1, ours
    return ours[0], rec


def recorders_of_this_process():
    listed = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
    ).stdout
    return [int(l.split()[0]) for l in listed.splitlines() if "entropy-rec" in l]


def kill_child(pid):
    """Kills a child and waits until it has ended, without reaping it: the code under
    test reads its exit status."""
    os.kill(pid, signal.SIGKILL)
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        pass  # the code under test has already reaped the child


def test_a_missing_recorder_program_is_one_warning(plain, run_file, monkeypatch):
    monkeypatch.setenv("ENTROPY_RECORDER", "/nowhere/entropy-recorder")
    said, rec = trained_with_one_warning(plain, run_file)
    assert "/nowhere/entropy-recorder" in said and "the training continues" in said
    assert rec.trouble and not os.path.exists(run_file)


def test_a_missing_library_is_one_warning(plain, run_file, monkeypatch, tmp_path):
    monkeypatch.setenv("ENTROPYSCAN_HOME", str(tmp_path))
    for function in (_c_library.recording, _c_library.reading):
        function.cache_clear()
    try:
        said, rec = trained_with_one_warning(plain, run_file)
    finally:
        for function in (_c_library.recording, _c_library.reading):
            function.cache_clear()
    assert "libentropyscan.so" in said and "ENTROPYSCAN_HOME" in said


def test_warnings_that_are_errors_do_not_end_the_training(plain, run_file, monkeypatch):
    monkeypatch.setenv("ENTROPY_RECORDER", "/nowhere/entropy-recorder")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        numbers, rec = train(run_file)
    assert same(plain, numbers)
    assert rec.trouble


def test_a_missing_folder_is_one_warning(plain, tmp_path):
    said, _ = trained_with_one_warning(plain, str(tmp_path / "none" / "run.db"))
    assert "none" in said


def test_a_killed_recorder_costs_a_counted_gap(plain, run_file):
    def kill(rec, step):
        if step == 3:
            (pid,) = recorders_of_this_process()
            kill_child(pid)

    _, rec = trained_with_one_warning(plain, run_file, kill)
    run = es.open(run_file)
    gap = [event for event in run.events if event["kind"] == "gap"]
    assert len(gap) == 1 and gap[0]["step"] == 3
    assert f"{rec.lost} samples" in gap[0]["message"]
    assert list(run.steps())[-3:] == [3, 4, 5]
    # Every sample (one per step and series) is either in the file or counted as lost.
    n_series = len(run.series)
    kept = sum(len(run.steps(s["name"])) for s in run.series)
    assert kept + rec.lost == n_series * STEPS
    assert run.info["status"] == "finished"


def test_a_recorder_that_dies_again_and_again_is_given_up(plain, run_file):
    def kill(rec, step):
        for pid in recorders_of_this_process():
            kill_child(pid)

    _, rec = trained_with_one_warning(plain, run_file, kill)
    # The recorder is killed before each of the steps 1 to 5 and restarted three times.
    # The fourth kill is noticed at step 4, so the file contains neither step 4 nor a later
    # one. It contains an earlier step only if the recorder wrote the step before it was
    # killed.
    series = es.open(run_file).series
    assert all(s["last_step"] is None or s["last_step"] < 4 for s in series)
    assert rec.lost >= 2


def test_a_full_disk_is_one_warning_and_counted(plain, tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)],
        capture_output=True,
    ).returncode:
        pytest.skip("no permission to mount a small disk")
    try:
        _, rec = trained_with_one_warning(plain, str(place / "run.db"))
        assert rec.trouble
    finally:
        subprocess.run(["umount", "-l", str(place)])


def test_a_file_that_another_recorder_writes_is_left_alone(plain, run_file):
    run = {"uuid": str(uuid.uuid4()), "n_layer": 1, "n_head": 2}
    other = _c_library.Recorder(run_file, run)
    said, _ = trained_with_one_warning(plain, run_file)
    (recorder,) = recorders_of_this_process()
    assert f"process {recorder} is writing it" in said
    number = other.series("entropy", "head", "train", "nats")
    other.push(number, 0, np.float32([0.5, 1.5]))
    assert other.close("finished")[0] == 0
    run = es.open(run_file)
    assert run.values("entropy").tolist() == [[[0.5, 1.5]]]


def test_an_exception_of_the_model_passes_and_the_run_has_failed(run_file):
    model = models.gpt2()
    with pytest.raises(IndexError, match="mine"):
        with es.watch(model, run_file) as rec:
            model(**models.inputs("gpt2"))
            rec.step()
            raise IndexError("mine")
    run = es.open(run_file)
    assert run.info["status"] == "failed"
    assert "IndexError: mine" in [event["message"] for event in run.events]


def test_an_interrupt_passes_and_the_run_is_stopped(run_file):
    model = models.gpt2()
    with pytest.raises(KeyboardInterrupt):
        with es.watch(model, run_file) as rec:
            model(**models.inputs("gpt2"))
            rec.step()
            raise KeyboardInterrupt
    assert es.open(run_file).info["status"] == "stopped"


def test_an_error_in_this_package_does_not_reach_the_training(plain, run_file, monkeypatch):
    from entropyscan import _operators

    def broken(*_):
        raise RuntimeError("planted\nfault")

    monkeypatch.setattr(_operators, "measure", broken)
    said, rec = trained_with_one_warning(plain, run_file)
    assert "planted fault" in said
    assert rec.lost > 0


def test_a_value_that_is_not_a_number_does_not_reach_the_training(run_file):
    torch.manual_seed(5)
    model = models.gpt2()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        with es.watch(model, run_file) as rec:
            model(**models.inputs("gpt2"))
            rec.step(loss="high", lr=0.5)
    assert "loss: not a number" in rec.trouble and rec.lost == 1
    run = es.open(run_file)
    assert run.entropy().shape == (1, 3, 4) and run.values("lr").tolist() == [0.5]


def test_a_model_without_attention_is_one_warning(run_file):
    model = torch.nn.Linear(3, 2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with es.watch(model, run_file) as rec:
            model(torch.randn(4, 3)).sum().backward()
            rec.step(loss=1.0)
    assert len(seen) == 1 and "attention" in str(seen[0].message)
    assert es.open(run_file).values("loss").tolist() == [1.0]


def test_losses_are_recorded_even_if_no_attention_is_seen(run_file):
    model = models.gpt2()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        with es.watch(model, run_file) as rec:
            for step in range(3):
                rec.step(loss=step + 0.5)
    assert "no attention was seen" in rec.trouble
    run = es.open(run_file)
    assert run.values("loss").tolist() == [0.5, 1.5, 2.5]
    assert (run.info["n_layer"], run.info["n_head"]) == (3, 4)


def test_a_layer_that_is_added_later_is_a_counted_gap(run_file):
    model = models.gpt2()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with es.watch(model, run_file) as rec:
            for step in range(4):
                model(**models.inputs("gpt2"))
                rec.step(loss=1.0)
                if step == 1:
                    model.transformer.h.append(copy.deepcopy(model.transformer.h[0]))
    assert len(seen) == 1 and "transformer.h.3.attn" in str(seen[0].message)
    assert rec.lost == 2
    run = es.open(run_file)
    assert list(run.steps()) == [0, 1, 2, 3] and run.info["n_layer"] == 3


class Layers(torch.nn.Module):
    """A model with two attention layers; a forward pass calls only the first `n`."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(ranks.layers()[:2])

    def forward(self, x, n):
        for layer in self.layers[:n]:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    "calls, steps, said",
    [
        ([2, 0, 2, 0], [0, 2], "no attention was seen"),
        ([1, 2, 1, 2], [0, 1, 2, 3], "a layer or head that the first step did not have"),
    ],
)
def test_unrecorded_layers_are_one_warning_and_counted(calls, steps, said, run_file):
    model = Layers()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with es.watch(model, run_file) as rec:
            for n in calls:
                model(ranks.activations(0), n)
                rec.step(loss=1.0)
    assert len(seen) == 1 and said in str(seen[0].message)
    assert rec.lost == 2 and f"step 1: {said}" in rec.trouble
    run = es.open(run_file)
    assert list(run.steps()) == steps and len(run.steps("loss")) == 4
    gaps = [event for event in run.events if event["kind"] == "gap"]
    assert [event["step"] for event in gaps] == [None, 1]
    assert "2 samples" in gaps[0]["message"] and said in gaps[1]["message"]


def train_with_workers(rec, model):
    """Trains with data that forked processes load. Returns losses and gradients."""
    data = torch.arange(12 * 24).view(12, 24) * 7919 % (models.VOCAB - 3) + 3
    numbers = []
    for _ in range(2):  # the second loader forks while the recorder runs
        loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2)
        for tokens in loader:
            loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            numbers.append(loss.detach().clone())
            if rec:
                rec.step(loss=loss)
    return numbers + [p.grad.clone() for p in model.parameters()]


def test_workers_of_a_data_loader_do_not_disturb_it(run_file):
    torch.manual_seed(5)
    plain = train_with_workers(None, models.gpt2())
    torch.manual_seed(5)
    model = models.gpt2()
    with es.watch(model, run_file) as rec:
        watched = train_with_workers(rec, model)
    assert same(plain, watched)
    assert rec.trouble is None and rec.lost == 0
    run = es.open(run_file)
    assert list(run.steps()) == list(range(12))
    assert run.info["status"] == "finished"


def run_script(script, run_file):
    script = textwrap.dedent(script)
    head = f"import sys; sys.path[:0] = {sys.path!r}; path = {run_file!r}\n"
    return subprocess.run(
        [sys.executable, "-c", head + script], capture_output=True, text=True
    )


def test_a_forked_child_records_nothing(run_file):
    done = run_script(
        """
        import os, torch, models, entropyscan as es
        model = models.gpt2()
        rec = es.watch(model, path)
        model(**models.inputs("gpt2")); rec.step(loss=1.0)
        child = os.fork()
        if child == 0:
            rec.step(loss=7.0); rec.step(loss=8.0); rec.close(); os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        model(**models.inputs("gpt2")); rec.step(loss=2.0)
        rec.close()
        """,
        run_file,
    )
    assert done.returncode == 0, done.stderr
    assert es.open(run_file).values("loss").tolist() == [1.0, 2.0]


def test_an_interpreter_that_ends_without_close_loses_nothing(run_file):
    done = run_script(
        """
        import models, entropyscan as es
        model = models.gpt2()
        rec = es.watch(model, path)
        for loss in (3.0, 2.0, 1.0):
            model(**models.inputs("gpt2")); rec.step(loss=loss)
        """,
        run_file,
    )
    assert done.returncode == 0, done.stderr
    run = es.open(run_file)
    assert run.values("loss").tolist() == [3.0, 2.0, 1.0]
    assert run.entropy().shape == (3, 3, 4)
    assert run.info["status"] == "stopped"


def test_a_training_that_is_killed_leaves_its_samples(run_file):
    done = run_script(
        """
        import os, signal, models, entropyscan as es
        model = models.gpt2()
        rec = es.watch(model, path)
        for loss in (3.0, 2.0):
            model(**models.inputs("gpt2")); rec.step(loss=loss)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        run_file,
    )
    assert done.returncode == -signal.SIGKILL
    for _ in range(600):  # wait until the recorder has written its samples and ended
        run = es.open(run_file)
        if run.info["status"] != "running":
            break
        time.sleep(0.1)
    assert run.values("loss").tolist() == [3.0, 2.0]
    assert run.info["status"] == "failed"


def test_nan_missing_and_zero_are_kept_apart(run_file):
    """The model has a NaN head, a layer that is not called, and a head with entropy
    zero."""

    class Attention(torch.nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        def forward(self, x):
            q = x.clone()
            q[:, 1] = q[:, 1] * self.scale
            return torch.nn.functional.scaled_dot_product_attention(q, x, x)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Attention(float("nan")), Attention(1e12)])

        def forward(self, x, n):
            for layer in self.layers[:n]:
                layer(x)

    model, x = Model(), torch.randn(2, 3, 11, 8)
    with es.watch(model, run_file) as rec:
        for n in (2, 1):
            model(x, n)
            rec.step()
    entropy = es.open(run_file).entropy()
    assert entropy.shape == (2, 2, 3)
    missing = es.is_missing(entropy)
    assert missing[1, 1].all() and missing.sum() == 3
    assert np.isnan(entropy[:, 0, 1]).all()
    assert 0 <= entropy[0, 1, 1] < 1e-30  # tiny weights need not be 0
    assert np.isfinite(entropy[0, :, [0, 2]]).all()
    rows = es.open(run_file).values("nonfinite_rows")
    assert rows[0].tolist() == [[0, 22, 0], [0, 0, 0]]


def test_the_later_of_two_watches_takes_over_the_model(run_file):
    """The earlier of the two watches warns once, whichever watch is closed first."""
    model, other = models.gpt2(), run_file + ".2.db"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        first = es.watch(model, run_file)
        model(**models.inputs("gpt2"))
        first.step()
        second = es.watch(model, other)
        for _ in range(2):
            model(**models.inputs("gpt2"))
            first.step()
            second.step()
        first.close()
        model(**models.inputs("gpt2"))
        second.step()
        second.close()
    assert len(seen) == 1 and "a later watch of the same model" in str(seen[0].message)
    assert first.lost == 3 and second.trouble is None
    assert list(es.open(run_file).steps()) == [0]
    assert list(es.open(other).steps()) == [0, 1, 2]
    assert es.open(other).entropy().shape == (3, 3, 4)


def test_an_unknown_severity_or_status_loses_no_sample(run_file):
    model = models.gpt2()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rec = es.watch(model, os.fsencode(run_file))
        model(**models.inputs("gpt2"))
        rec.event("note", "before there is a file", severity="loud")
        rec.step(loss=1.0)
        rec.close("great")
    assert len(seen) == 1 and "unknown severity 'loud': expected" in str(seen[0].message)
    run = es.open(run_file)
    assert run.values("loss").tolist() == [1.0] and run.entropy().shape == (1, 3, 4)
    assert run.info["status"] == "finished"
