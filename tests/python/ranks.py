"""Trains on two ranks with gloo, for test_distributed.py. Every rank runs the
function whose name the test passes to run(), which returns the results of all ranks."""

import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from pathlib import Path

import models
import torch
import torch._dynamo  # imported here once, because optimizers import it
import torch.distributed as dist
import torch.nn.functional as F
import transformers as tf
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed import tensor
from torch.distributed.tensor import parallel

import entropyscan as es
from entropyscan import _distributed, _watch  # noqa: F401

STEPS = 3
LENGTH = 16


# --- two processes ---------------------------------------------------------------


def _start(name, rank, world, port, folder, args):
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo")
        result = globals()[name](rank, folder, *args)
        torch.save(result, f"{folder}/{name}.{rank}.pt")
        dist.destroy_process_group()
    except BaseException:
        Path(f"{folder}/{name}.{rank}.error").write_text(traceback.format_exc())
        raise


def run(name, folder, *args, world=2, killed=()):
    """Runs the function `name` on all ranks. Returns the result of each rank; None for
    ranks that are expected to be killed."""
    # Set PYTHONPATH, because the fork server imports all modules once and does not inherit
    # sys.path.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        return _run(name, folder, args, world, killed)
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _run(name, folder, args, world, killed):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ranks"])
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    processes = [
        context.Process(target=_start, args=(name, r, world, port, str(folder), args))
        for r in range(world)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    hanging = [r for r, process in enumerate(processes) if process.is_alive()]
    for process in processes:
        process.kill()
    errors = [path.read_text() for path in Path(folder).glob(f"{name}.*.error")]
    assert not hanging, f"ranks {hanging} hang; {errors}"
    assert not errors, "\n".join(errors)
    results = []
    for rank, process in enumerate(processes):
        if rank in killed:
            assert process.exitcode == -signal.SIGKILL
            results.append(None)
        else:
            assert process.exitcode == 0
            results.append(torch.load(f"{folder}/{name}.{rank}.pt"))
    return results


# --- data ------------------------------------------------------------------------


def batch(step, rank=None):
    """Returns a batch of four sequences, one of which has padding, or the two of these
    sequences that a rank trains on."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(3, models.VOCAB, (4, LENGTH), generator=generator)
    mask = torch.ones_like(tokens)
    mask[1, LENGTH - 5 :] = 0
    rows = slice(None) if rank is None else slice(2 * rank, 2 * rank + 2)
    given = dict(input_ids=tokens, labels=tokens, attention_mask=mask)
    return {name: value[rows] for name, value in given.items()}


def model_of(maker):
    torch.manual_seed(5)
    return models.spread(maker(), 10.0)


def train(model, batches, path=None, evaluate=None, **options):
    """Trains a model. Returns the losses, the final parameters, and the object that
    es.watch returned."""
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    rec = es.watch(model, path, **options) if path else None
    numbers = []
    for step, given in enumerate(batches):
        loss = model(**given).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        numbers.append(loss.detach().clone())
        if rec:
            rec.step(loss=loss)
        if evaluate is not None and step == 1:
            model.eval()
            with torch.no_grad():
                loss = model(**evaluate).loss
            model.train()
            if rec:
                rec.evaluation(loss=loss)
    if rec:
        rec.close()
    for parameter in model.parameters():
        local = getattr(parameter, "to_local", lambda p=parameter: p)()
        numbers.append(local.detach().clone())
    return numbers, rec


def alone(path, maker, **options):
    """Trains in a single process with the data of all ranks."""
    batches = [batch(step) for step in range(STEPS)]
    return train(model_of(maker), batches, path, batch(99), **options)


def both(rank, path, make, per_rank=True, **options):
    """Trains without and with es.watch. Returns true if losses and parameters are equal bit
    for bit."""
    mine = rank if per_rank else None
    batches = [batch(step, mine) for step in range(STEPS)]
    evaluation = batch(99, mine)
    plain, _ = train(make(), batches, None, evaluation)
    watched, rec = train(make(), batches, path, evaluation, **options)
    same = len(plain) == len(watched)
    same = same and all(torch.equal(a, b) for a, b in zip(plain, watched))
    return dict(same=same, trouble=rec.trouble, lost=rec.lost)


# --- trainings --------------------------------------------------------------------


def ddp(rank, folder, all_ranks):
    def make():
        return nn.parallel.DistributedDataParallel(model_of(models.gpt2))

    return both(rank, f"{folder}/run.db", make, all_ranks=all_ranks)


def fsdp(rank, folder):
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))

    def make():
        model = model_of(models.gpt2)
        for block in model.transformer.h:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    return both(rank, f"{folder}/run.db", make, all_ranks=True)


def sharded_llama(mesh):
    model = model_of(models.llama)
    plan = {f"self_attn.{name}_proj": parallel.ColwiseParallel() for name in "qkv"}
    plan["self_attn.o_proj"] = parallel.RowwiseParallel()
    for layer in model.model.layers:
        parallel.parallelize_module(layer, mesh, plan)
    return model


def tensor_parallel(rank, folder, gathered):
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    options = dict(tensor_parallel=mesh)
    if not gathered:
        options = dict(all_ranks=True, first_head=2 * rank)
    return both(
        rank, f"{folder}/run.db", lambda: sharded_llama(mesh), False, **options
    )


def tensor_parallel_without_one(rank, folder):
    """On rank 1, the recording (es.watch) ends after one step and the training
    continues."""
    _distributed.WAIT_SECONDS = 10.0
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    model = sharded_llama(mesh)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rec = es.watch(model, f"{folder}/run.db", tensor_parallel=mesh)
        for step in range(STEPS):
            loss = model(**batch(step)).loss
            loss.backward()
            rec.step(loss=loss)
            if rank == 1 and step == 0:
                rec.close()
        rec.close()
    said = [str(w.message) for w in seen if "entropyscan" in str(w.message)]
    return dict(said=said, trouble=rec.trouble)


class Sharded(nn.Module):
    """Attention whose queries and keys are DTensors. `divided` contains the placements
    of the DTensors."""

    def __init__(self, mesh, divided):
        super().__init__()
        self.mesh, self.divided = mesh, divided
        self.qkv = nn.Linear(24, 72)

    def forward(self, x):
        parts = (3 * self.qkv(x)).view(*x.shape[:2], 3, 4, 6).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        if self.mesh is not None:
            q, k, v = (
                tensor.DTensor.from_local(
                    y, self.mesh, [tensor.Replicate()]
                ).redistribute(placements=[divided])
                for y, divided in zip(parts, (*self.divided, self.divided[1]))
            )
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            y = F.scaled_dot_product_attention(q, k, v)
        y = y.full_tensor() if self.mesh is not None else y
        return x + y.transpose(1, 2).flatten(2)


def sharded_model(mesh, divided=None):
    torch.manual_seed(9)
    return nn.Sequential(*[Sharded(mesh, divided) for _ in range(3)])


def sharded_alone(path):
    model = sharded_model(None)
    with es.watch(model, path) as rec:
        model(activations(0)).sum().backward()
        rec.step()


def dtensors(rank, folder, dimension, of_keys, compiled):
    """Makes DTensors of queries, sharded along `dimension`, and of keys, sharded along
    `of_keys`; None means not sharded."""
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    divided = [
        tensor.Replicate() if one is None else tensor.Shard(one)
        for one in (dimension, of_keys)
    ]
    model = sharded_model(mesh, divided)
    return beside_plain(model, f"{folder}/run.db", mesh, compiled)


def beside_plain(model, path, mesh, compiled):
    """Runs a step with es.watch, and compares the model's output with its output without
    es.watch."""
    plain = model(activations(0)).detach()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with es.watch(model, path, tensor_parallel=mesh) as rec:
            call = torch.compile(model, backend="aot_eager") if compiled else model
            out = call(activations(0))
            out.sum().backward()
            rec.step()
    said = [str(w.message) for w in seen if "entropyscan" in str(w.message)]
    return dict(said=said, same=torch.equal(plain, out), lost=rec.lost)


class ShardedMultihead(nn.Module):
    """torch.nn.MultiheadAttention with DTensors, replicated or sharded by samples.
    need_weights stays true, because torch cannot shard SDPA."""

    def __init__(self, mesh, divided):
        super().__init__()
        self.mesh, self.divided = mesh, divided
        inner = nn.MultiheadAttention(24, 4, batch_first=True)
        self.inner = tensor.distribute_module(inner, mesh)

    def forward(self, x):
        x = tensor.DTensor.from_local(x, self.mesh, [tensor.Replicate()])
        x = x.redistribute(placements=[self.divided])
        return self.inner(x, x, x)[0].full_tensor()


def multihead(rank, folder, divided, compiled):
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    divided = tensor.Shard(0) if divided else tensor.Replicate()
    torch.manual_seed(9)
    model = nn.Sequential(*[ShardedMultihead(mesh, divided) for _ in range(3)])
    return beside_plain(model, f"{folder}/run.db", mesh, compiled)


class Layer(nn.Module):
    """An attention module without a layer number, which calls torch's
    scaled_dot_product_attention."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (3 * self.qkv(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


def layers():
    torch.manual_seed(6)
    return [Layer() for _ in range(5)]


def activations(step):
    return torch.randn(2, 11, 24, generator=torch.Generator().manual_seed(step))


def stages_alone(path):
    model = nn.Sequential(*layers())
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    with es.watch(model, path) as rec:
        for step in range(STEPS):
            loss = model(activations(step)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            rec.step(loss=loss)


def stages(rank, folder, dies):
    """Trains a model with pipeline parallelism: rank 0 has layers 0 and 1, rank 1 has
    layers 2 to 4. If `dies` is true, rank 1 is killed at the last step."""
    model = nn.Sequential(*(layers()[2:] if rank else layers()[:2]))
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    options = dict(all_ranks=True, first_layer=2 if rank else 0)
    with es.watch(model, f"{folder}/run.db", **options) as rec:
        for step in range(STEPS):
            x, values = activations(step), {}
            if rank == 0:
                y = model(x)
                dist.send(y.detach(), 1)
                gradient = torch.empty_like(y)
                dist.recv(gradient, 1)
                y.backward(gradient)
            else:
                dist.recv(x, 0)
                loss = model(x.requires_grad_()).square().mean()
                loss.backward()
                dist.send(x.grad, 0)
                values["loss"] = loss
            optimizer.step()
            optimizer.zero_grad()
            if dies and rank == 1 and step == STEPS - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            rec.step(**values)
    return dict(trouble=rec.trouble)


def ddp_that_loses_one(rank, folder):
    """Rank 1 is killed after it has computed its second step."""
    model = nn.parallel.DistributedDataParallel(model_of(models.gpt2))
    done = 0
    try:
        with es.watch(model, f"{folder}/run.db", all_ranks=True) as rec:
            for step in range(STEPS):
                loss = model(**batch(step, rank)).loss
                loss.backward()
                if rank == 1 and step == 1:
                    dist.barrier()
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == 1:
                    dist.barrier()
                rec.step(loss=loss)
                done += 1
    except RuntimeError as error:
        return dict(done=done, error=str(error))
    return dict(done=done, error=None)


def fragments_that_lose_one(rank, folder):
    """Same as ddp_that_loses_one, but on a simulated nfs file system."""
    mounts = Path(folder, f"mounts{rank}")
    mounts.write_text("22 1 0:1 / / rw - nfs4 filer:/ rw\n")
    os.environ["ENTROPY_MOUNTINFO"] = str(mounts)
    return ddp_that_loses_one(rank, folder)


def first_rank_does_not_watch(rank, folder):
    _distributed.WAIT_SECONDS = 1.0
    if rank == 0:
        dist.barrier()
        return {}
    model = model_of(models.gpt2)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        rec = es.watch(model, f"{folder}/run.db", all_ranks=True)
    numbers, _ = train(model, [batch(0)])
    rec.close()
    dist.barrier()
    return dict(trouble=rec.trouble, finite=bool(numbers[0].isfinite()))


def stop_is_requested(rank, folder, every):
    """After four steps, rank 0 creates the file RUN.db.stop, which requests that all ranks
    stop. Returns the number of steps that this rank has made."""
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers()[:2]))
    path, done = f"{folder}/run.db", 0
    with es.watch(model, path, every=every) as rec:
        while done < 1000 and not rec.should_stop:
            model(activations(done)).mean().backward()
            rec.step()
            done += 1
            if rank == 0 and done == 4:
                Path(path + ".stop").write_text("enough\n")
            if rank == 0 and done >= 4:
                time.sleep(0.1)
    return dict(done=done, trouble=rec.trouble)


def first_rank_does_not_look(rank, folder):
    _distributed.WAIT_SECONDS = 1.0
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        with es.watch(nn.Sequential(*layers()[:2]), f"{folder}/run.db") as rec:
            for step in range(STEPS):
                rec.step()
                stops = rank == 1 and rec.should_stop
    dist.barrier()
    return dict(stops=stops, trouble=rec.trouble)


class Documents(torch.utils.data.Dataset):
    """A data set of documents whose lengths, and therefore weights in the loss,
    differ."""

    def __len__(self):
        return 12

    def __getitem__(self, i):
        tokens = batch(i)["input_ids"][0]
        labels = tokens.clone()
        labels[4 + i :] = -100
        return {"input_ids": tokens, "labels": labels}


def trainer(rank, folder):
    callback = es.TrainerCallback(f"{folder}/run.db", all_ranks=True)
    settings = tf.TrainingArguments(
        output_dir=f"{folder}/out",
        max_steps=STEPS,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=2,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    trained = tf.Trainer(
        model_of(models.gpt2), settings, train_dataset=Documents(), callbacks=[callback]
    )
    trained.train()
    log = trained.state.log_history
    return dict(
        loss=[line["loss"] for line in log if "loss" in line],
        trouble=callback.watch.trouble,
        world=trained.accelerator.num_processes,
    )
