"""usage: torchrun torchrun_fragments.py FOLDER

Trains with DDP on four sequences per step: once with run files as recordings, and once
with fragments, for which an nfs file system is simulated."""

import os
import sys
from pathlib import Path

import models
import ranks
import torch
import torch.distributed as dist
from torch import nn


def main(folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    each = 4 // world
    mine = slice(each * rank, each * (rank + 1))

    def given(step):
        return {name: values[mine] for name, values in ranks.batch(step).items()}

    def train(path):
        model = nn.parallel.DistributedDataParallel(ranks.model_of(models.gpt2))
        batches = [given(step) for step in range(ranks.STEPS)]
        _, rec = ranks.train(model, batches, path, given(99), all_ranks=True)
        assert rec.trouble is None and rec.lost == 0, rec.trouble

    train(f"{folder}/files/run.db")
    mounts = Path(folder, f"mounts{rank}")
    mounts.write_text("22 1 0:1 / / rw - nfs4 filer:/ rw\n")
    os.environ["ENTROPY_MOUNTINFO"] = str(mounts)
    train(f"{folder}/fragments/run.db")
    dist.destroy_process_group()


main(sys.argv[1])
