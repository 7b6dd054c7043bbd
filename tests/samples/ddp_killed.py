"""usage: ddp_killed.py SAMPLES

Trains on two ranks. Rank 1 is killed in step 2, after rank 0 has recorded that step;
rank 0 then waits for rank 1."""
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

import entropyscan as es

sys.path.append(sys.argv[1])
from ddp import Block  # noqa: E402


def has_steps(path, n):
    try:
        return len(es.open(path).steps()) == n
    except es.Error:  # the file does not exist yet
        return False


dist.init_process_group("gloo")
block, path = Block(24, 3), os.environ["ENTROPY_RUN"]
with es.watch(block, path, all_ranks=True) as rec:
    for step in range(3):
        if dist.get_rank() == 1 and step == 2:
            while not (has_steps(path, 3) and has_steps(rec.path, 2)):
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGKILL)
        block(torch.ones(2, 16, 24))
        rec.step()
    dist.barrier()
