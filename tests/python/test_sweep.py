"""Tests that entropy-scan sweep can run a Python training script that has no code for
sweeps."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import entropyscan as es

SCAN = Path(os.environ["BUILD"], "entropy-scan")
PACKAGE = Path(es.__file__).parents[1]

# Trains a model of 2 layers with 3 heads. At learning rate 8 the script raises an exception. From
# learning rate 9 on, the loss becomes NaN and the script runs until it is stopped. At learning
# rate 10 the script ignores requests to stop.
TRAINING = """
    import argparse, math, sys, time
    import torch
    from torch import nn
    import entropyscan as es

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--run")
    given = parser.parse_args()
    n_steps = 20 if given.lr < 9 else 10**9
    torch.manual_seed(given.seed)
    layer = nn.TransformerEncoderLayer(12, 3, 24, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    optimizer = torch.optim.SGD(model.parameters(), min(given.lr, 1e-2))
    with es.watch(model, given.run, steps=n_steps) as rec:
        for step in range(n_steps):
            loss = model(torch.randn(2, 7, 12)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            rec.step(loss=math.nan if given.lr >= 9 and step >= 5 else loss)
            if given.lr == 8 and step == 3:
                raise ValueError("a bad rate")
            if n_steps > 20:
                time.sleep(0.01)
            if given.lr != 10 and rec.should_stop:
                break
"""


SPEC = f"""
    [sweep]
    command = {sys.executable} train.py --lr {{lr}} --seed {{seed}} --run {{run}}
    seed = 3
    [grid]
    lr ="""


def swept(folder, rates, *options):
    """Runs a sweep. Returns the folder, the exit code and the text on standard
    error."""
    (folder / "train.py").write_text(textwrap.dedent(TRAINING))
    (folder / "sweep.ini").write_text(textwrap.dedent(SPEC) + rates)
    ended = subprocess.run(
        [SCAN, "sweep", "sweep.ini", "-o", "out", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    return folder / "out", ended.returncode, ended.stderr


def states(folder):
    """Returns the state of each run, as --status prints it."""
    said = subprocess.run(
        [SCAN, "sweep", folder, "--status"], capture_output=True, text=True
    ).stdout
    lines = [line.split() for line in said.splitlines() if "[" in line]
    return {words[0]: words[1] for words in lines}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return swept(tmp_path_factory.mktemp("sweep"), " 1e-3 8 9")


def test_a_training_gets_its_arguments_and_run_file(sweep):
    folder, _, err = sweep
    run = es.open(folder / "seed3_lr1e-3.db")
    assert run.entropy().shape == (20, 2, 3)
    # The sweep adds its parameters to the configuration, which the script leaves empty.
    assert (run.config["lr"], run.config["seed"]) == (0.001, 3)
    assert run.config["steps"] == 20
    assert "seed3_lr1e-3: finished at step 19 of 20, loss " in err


def test_the_status_tells_how_each_run_ended(sweep):
    folder, code, err = sweep
    assert states(folder) == {
        "seed3_lr1e-3": "finished",
        "seed3_lr8": "broken",
        "seed3_lr9": "stopped",
    }
    assert code == 4
    assert "1 of 3 runs broke" in err


def test_a_doomed_training_is_stopped(sweep):
    folder, _, err = sweep
    assert "seed3_lr9: stop requested: nan (critical)" in err
    assert es.open(folder / "seed3_lr9.db").info["status"] == "stopped"


def test_a_training_that_ignores_a_request_to_stop_is_killed(tmp_path):
    folder, code, err = swept(tmp_path, " 10", "--grace", "3")
    assert "seed3_lr10: stop requested: nan (critical)" in err
    assert "seed3_lr10: did not stop on request: terminated" in err
    assert states(folder) == {"seed3_lr10": "stopped"}
    assert "seed3_lr10: stopped at step " in err
    assert code == 1  # the same as for --check


def test_a_run_that_raises_is_reported_as_broken(sweep):
    folder, _, err = sweep
    assert "seed3_lr8: broken at step 3 of 20, loss " in err
    assert "exit code 1" in err and "ValueError: a bad rate" in err
    assert es.open(folder / "seed3_lr8.db").info["status"] == "failed"
