"""Tests several threads that run watched models at once. The recorded entropies are the
same as in one thread, both in eager mode and in compiled graphs, which threads
share."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from test_batches import E, L, Attention, stack
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

import entropyscan as es
from entropyscan import _attention, _functions, _operators, _wrappers

STEPS = 4


class Meeting(Attention):
    """A module that calls meet() in its forward pass, so that tests can synchronise
    threads."""

    meet = staticmethod(lambda layer: None)

    def forward(self, x):
        self.meet(self)
        return super().forward(x)


class Checkpointed(nn.Sequential):
    def forward(self, x):
        for layer in self:
            x = checkpoint(layer, x, use_reentrant=False)
        return x


def train(model, batches, path):
    with es.watch(model, path) as rec:
        for x in batches:
            model(x).sum().backward()
            rec.step()
    return rec.trouble


def batches(number):
    generator = torch.Generator().manual_seed(number)
    return [torch.randn(2, 7, E, generator=generator) for _ in range(STEPS)]


def entropy_alone(model, batches, path):
    assert train(model, batches, path) is None
    entropy = es.open(path).entropy()
    assert entropy.shape == (STEPS, L, 3) and len(np.unique(entropy)) == entropy.size
    return entropy


def close(path, entropy):
    found = es.open(path).entropy()
    return found.shape == entropy.shape and np.abs(found - entropy).max() <= 1e-6


def at_once(*works):
    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(*work) for work in works]
    return [future.result() for future in futures]


def test_two_models_in_two_threads_are_recorded(tmp_path, monkeypatch):
    one = [str(tmp_path / f"one{i}.db") for i in range(2)]
    two = [str(tmp_path / f"two{i}.db") for i in range(2)]
    models = [stack(Meeting) for _ in range(2)]
    alone = [entropy_alone(models[i], batches(i), one[i]) for i in range(2)]
    barrier = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(Meeting, "meet", lambda self, layer: barrier.wait())
    works = [(train, models[i], batches(i), two[i]) for i in range(2)]
    assert at_once(*works) == [None, None]
    assert all(close(two[i], alone[i]) for i in range(2))


def test_one_model_in_two_threads_is_recorded(tmp_path, monkeypatch):
    """The second thread runs the same batches, one layer behind the first thread."""
    model, path = stack(Meeting), str(tmp_path / "two.db")
    alone = entropy_alone(model, batches(0), str(tmp_path / "one.db"))
    barrier = threading.Barrier(2, timeout=60)
    stepped = threading.Barrier(2, timeout=60)

    ahead = threading.get_ident()

    def meet(self, layer):
        is_ahead = threading.get_ident() == ahead
        if layer is not model[0 if is_ahead else L - 1]:
            barrier.wait()

    def follow():
        for x in batches(0):
            model(x).sum().backward()
            stepped.wait()
            stepped.wait()

    monkeypatch.setattr(Meeting, "meet", meet)
    with ThreadPoolExecutor(1) as pool, es.watch(model, path) as rec:
        follower = pool.submit(follow)
        for x in batches(0):
            model(x).sum().backward()
            stepped.wait()
            rec.step()
            stepped.wait()
        follower.result()
    assert rec.trouble is None
    assert close(path, alone)


def test_threads_share_a_graph(tmp_path, monkeypatch):
    """A thread can use the compiled graph that it shares with another thread while the other
    thread is inside a watched model."""
    torch._dynamo.reset()
    model, other, path = stack(Attention), stack(Meeting), str(tmp_path / "two.db")
    alone = entropy_alone(model, batches(0), str(tmp_path / "one.db"))
    counter = CompileCounterWithBackend("aot_eager")

    def meet(self, layer):
        step = len(seen)
        if layer is other[0]:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(compute, step).result()

    def compute(step):
        out = call(batches(0)[step])
        out.sum().backward()
        seen.append(out)
        rec.step()

    monkeypatch.setattr(Meeting, "meet", meet)
    seen = []
    with es.watch(other, str(tmp_path / "other.db")), es.watch(model, path) as rec:
        call = torch.compile(model, fullgraph=True, backend=counter)
        compute(0)
        while len(seen) < STEPS:
            other(batches(1)[0])
    assert rec.trouble is None and counter.frame_count == 1
    assert close(path, alone)


def test_checkpoints_may_be_recomputed_in_a_thread_of_autograd(tmp_path):
    """On CUDA devices a thread of autograd recomputes checkpointed layers. As soon as PyTorch has
    recomputed all tensors that it needs, it raises an exception in the middle of the layer."""
    model, path = stack(Attention), str(tmp_path / "two.db")
    alone = entropy_alone(model, batches(0), str(tmp_path / "one.db"))
    model = Checkpointed(*model)
    with ThreadPoolExecutor(1) as pool, es.watch(model, path) as rec:
        for x in batches(0):
            pool.submit(model(x).sum().backward).result()
            rec.step()
        left = pool.submit(lambda: len(_functions._running.stack)).result()
    assert rec.trouble is None
    assert close(path, alone)
    assert 0 < left <= L


def test_watches_in_several_threads_begin_one_after_the_other(monkeypatch):
    plain = nn.functional.scaled_dot_product_attention
    inside, together = [], []

    def wrap(model):
        inside.append(model)
        time.sleep(0.1)
        together.append(len(inside))
        inside.pop()

    monkeypatch.setattr(_wrappers, "wrap_eager", wrap)
    works = [(_attention.Hook, stack(Attention), _operators.Tap(print)) for _ in "abcd"]
    hooks = at_once(*works)
    assert together == [1] * 4
    assert len({number for hook in hooks for number in hook._slots}) == 4 * (L + 1)
    at_once(*((hook.close,) for hook in hooks))
    assert nn.functional.scaled_dot_product_attention is plain
