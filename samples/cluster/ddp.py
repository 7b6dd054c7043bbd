#!/usr/bin/env python3
"""Trains a small decoder on the bytes of a text with DDP. ddp.sbatch or torchrun starts
this script on all ranks. Each rank records the attention of its part of the batch;
without a launcher a single process trains with the whole batch.

    torchrun --nproc-per-node=2 ddp.py code.txt --run runs/big.db"""
import argparse
import os

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import entropyscan as es


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ffn = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.before(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.ffn(self.between(x))


class Decoder(nn.Module):
    def __init__(self, layers, heads, width, ctx):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(ctx, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256))

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.blocks(self.tokens(x) + self.places(places)))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("--run", default=os.environ.get("ENTROPY_RUN", "run.db"))
    for name, value in dict(layers=6, heads=8, width=256, ctx=256, steps=2000, every=10,
                            batch=64).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=3e-4)
    return parser.parse_args()


def main():
    given = parse()
    rank, world, device = 0, 1, torch.device("cpu")
    if torch.cuda.is_available():
        local = int(os.environ.get("LOCAL_RANK", 0))
        # A Slurm task may see only one GPU, even if its local rank is above 0.
        device = torch.device("cuda", local % torch.cuda.device_count())
        torch.cuda.set_device(device)
    torch.manual_seed(1)
    model = Decoder(given.layers, given.heads, given.width, given.ctx).to(device)
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        rank, world = dist.get_rank(), dist.get_world_size()
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), given.lr)
    text = np.fromfile(given.text, np.uint8)
    places = torch.Generator().manual_seed(1)  # all ranks draw the same positions
    with es.watch(model, given.run, every=given.every, steps=given.steps, config=given,
                  all_ranks=True) as rec:
        for _ in range(given.steps):
            starts = torch.randint(len(text) - given.ctx, (given.batch,), generator=places)
            rows = [text[i : i + given.ctx + 1] for i in starts[rank::world].tolist()]
            tokens = torch.from_numpy(np.stack(rows)).long().to(device)
            logits = model(tokens[:, :-1])
            # DDP averages the gradients over the ranks. The sum of the losses
            # is multiplied by world / (batch * ctx), so that the average
            # equals the gradient of the whole batch even if some ranks have
            # one sequence more.
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")
            loss = loss * world / (given.batch * given.ctx)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            rec.step(loss=loss)
            if rec.should_stop:
                break
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
