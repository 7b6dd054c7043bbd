#!/usr/bin/env python3
"""usage: bench_output_attentions.py [ROUNDS [N_LAYERS]]

Compares the cost of es.watch with that of output_attentions for recording the
entropy of every head at every step. The model is transformers' GPT-2 small with
T = 512, B = 1, on one thread of the CPU; the measure is CPU time. A round
consists of three training steps in random order, without updates and with the same
weights: plain (sdpa), watched (sdpa, every=1), and with output_attentions (eager;
computes the mean of -sum a ln a, as a user would write it). Prints the time of each of
the other two steps relative to the plain step of the same round (medians over the
rounds), and the largest difference between the entropies.
"""

import os
import random
import statistics
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
N_LAYERS = int(sys.argv[2]) if len(sys.argv) > 2 else 12

import torch  # noqa: E402
import transformers  # noqa: E402

import entropyscan as es  # noqa: E402

torch.set_num_threads(1)
T = 512


def made(kind):
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        n_layer=N_LAYERS, use_cache=False, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0
    )
    config._attn_implementation = kind
    return transformers.GPT2LMHeadModel(config).train()


def step(model, ids, **options):
    out = model(input_ids=ids, labels=ids, **options)
    out.loss.backward()
    model.zero_grad()
    return out


def main():
    torch.manual_seed(2)
    ids = torch.randint(0, 50257, (1, T))
    plain, watched, eager = made("sdpa"), made("sdpa"), made("eager")
    seconds = {"plain": [], "watched": [], "output_attentions": []}
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        rec = es.watch(watched, os.path.join(folder, "run.db"), quiet=True)

        def by_watch():
            rec.step(loss=step(watched, ids).loss)

        def by_weights():
            out = step(eager, ids, output_attentions=True)
            found = []
            for weights in out.attentions:
                weights = weights.detach()
                rows = -(weights * (weights + 1e-9).log()).sum(-1)
                found.append(rows.mean((0, 2)))
            return torch.stack(found)

        ways = {
            "plain": lambda: step(plain, ids),
            "watched": by_watch,
            "output_attentions": by_weights,
        }
        for number in range(ROUNDS + 1):  # the first round warms up
            entropy = None
            for name in random.sample(list(ways), 3):
                before = time.process_time()
                found = ways[name]()
                if number:
                    seconds[name].append(time.process_time() - before)
                if name == "output_attentions":
                    entropy = found
            apart = abs(torch.from_numpy(rec.last("entropy")) - entropy).max()
            worst = max(worst, float(apart))
        rec.close()
    base = seconds["plain"]
    print(f"a plain step: {statistics.median(base):.2f} s, {ROUNDS} rounds")
    for name in ("watched", "output_attentions"):
        ratios = sorted(a / b for a, b in zip(seconds[name], base))
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        print(f"{name}: {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}) of it")
    print(f"largest difference of entropies: {worst:.1e} nats")
    attentions = N_LAYERS * 12 * T * T * 4 / 2**20
    print(f"T x T weights kept only by output_attentions: {attentions:.0f} MiB")


if __name__ == "__main__":
    main()
