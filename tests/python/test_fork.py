"""Tests that a forward pass in a forked child records nothing, and that the parent
continues to record. The child uses a single thread, because a fork does not copy
torch's worker threads, and a pass with several threads would wait for these threads
forever, with or without a watch. (Torch recommends torch.set_num_threads(1) in the
child, as in DataLoader.)"""

import subprocess
import sys

import pytest

import entropyscan as es

SCRIPT = """
import os, sys, torch, models, entropyscan as es
torch.set_num_threads(1)
model = models.gpt2()
rec = es.watch(model, path)

def step():
    loss = model(**models.inputs("gpt2")).loss
    loss.backward()
    rec.step(loss=loss)

step()
child = os.fork()
if child == 0:
    if act == "train":
        step(); step()
    else:
        with torch.no_grad():
            model.eval()(**models.inputs("gpt2"))
        rec.evaluation(loss=1.0)
    rec.close()
    os._exit(0 if rec.trouble is None else 3)
assert os.waitpid(child, 0)[1] == 0
step()
rec.close()
assert rec.trouble is None and rec.lost == 0, rec.trouble
"""


@pytest.mark.parametrize("act", ["train", "evaluate"])
def test_a_forward_pass_of_a_forked_child_ends_and_records_nothing(act, run_file):
    head = f"import sys; sys.path[:0] = {sys.path!r}; path, act = {(run_file, act)!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", head + SCRIPT],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    run = es.open(run_file)
    assert list(run.steps()) == [0, 1] and run.entropy().shape == (2, 3, 4)
    assert run.info["status"] == "finished"
    assert [one for one in run.series if one["phase"] == "eval"] == []
