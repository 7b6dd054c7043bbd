#!/usr/bin/env python3
"""Searches for a learning rate with Ray Tune; each trial is a training run.

    entropy-corpus -o python.tok
    samples/schedulers/ray_study.py trials --data python.tok

For each trial, `entropy-scan watch --stop` reads the run file and requests that the
training stop once heads collapse or become NaN. The run files are kept in the folder of the
study, here `trials`: `entropy-scan trials` shows them.

If the training is a Python program that records with the package entropyscan,
`entropy-scan watch` is not needed: use entropyscan.RayTunePruning, which is a callback
and a stopper."""
import argparse
import json
import os
import subprocess

from ray import tune


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="folder of the trials")
    parser.add_argument("--data", required=True, help="made by entropy-corpus")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--arch", default="SM+LN+G")
    parser.add_argument("--lr", type=float, nargs="+", default=[1e-3, 0.3],
                        help="rates to try")
    return parser.parse_args()


def trial(config):
    place = os.path.join(config["folder"], tune.get_context().get_trial_id())
    run = os.path.join(place, "run.db")
    os.makedirs(place)
    watch = subprocess.Popen(
        ["entropy-scan", "watch", place, "--stop", "--state", run + ".watched"],
        stdout=subprocess.DEVNULL)
    try:
        done = subprocess.run([
            "entropy-train", "--quiet", "--arch", config["arch"],
            "--data", config["data"], "--out", run, "--lr", str(config["lr"]),
            "--steps", str(config["steps"]), "--n-layer", "4", "--n-head", "4",
            "--d-model", "32", "--ctx", "32", "--record-every", "5",
            "--threads", "1"], capture_output=True, text=True)
    finally:
        watch.terminate()
        watch.wait()
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    tune.report(shown(run))


def shown(run):
    """Returns the loss, status and active flags of a run, as reported by
    entropy-scan."""
    said = json.loads(subprocess.run(
        ["entropy-scan", run, "--json"], check=True, capture_output=True,
        text=True).stdout)["runs"][0]
    flags = [f"{flag['kind']} since step {flag['onset']}"
             for flag in said["flags"] if flag["stands"]]
    loss = said["eval_loss"]
    return {"eval_loss": float("nan") if loss is None else loss,
            "status": said["status"], "step": said["step"],
            "flags": ", ".join(flags) or "ok"}


def main():
    given = options()
    folder = os.path.abspath(given.folder)
    results = tune.Tuner(
        tune.with_resources(trial, {"cpu": 1}),
        param_space={"lr": tune.grid_search(given.lr), "arch": given.arch,
                     "data": os.path.abspath(given.data), "steps": given.steps,
                     "folder": folder},
        run_config=tune.RunConfig(name="ray", storage_path=folder,
                                  verbose=0)).fit()
    for one in results:
        rate = f"lr {one.config['lr']:.2e}"
        print(f"{rate}  broken: {one.error}" if one.error else
              "{0}  {status:8}  step {step:5}  eval loss {eval_loss:.6g}  "
              "{flags}".format(rate, **one.metrics))


if __name__ == "__main__":
    main()
