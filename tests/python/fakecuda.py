"""Simulates a CUDA device and detects waits. The tensors report a CUDA device but are
stored on the CPU; an operation on them raises Waited if the host would wait for the
device. The result of a copy to pinned memory is visible only after the host has waited
for an event."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

aten = torch.ops.aten
WAITS = {
    aten._local_scalar_dense,
    aten.equal,
    aten.is_nonzero,
    aten.item,
    aten.masked_select,
    aten.nonzero,
    aten._unique2,
    aten.unique_dim,
}
NOT_YET = -77


class Waited(RuntimeError):
    """Raised by operations for which the host would wait for the device."""


class Far(torch.Tensor):
    """A tensor of the fake device; `inner` is the CPU tensor with its values."""

    def __new__(cls, inner):
        out = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device="cpu",  # with "cuda" PyTorch would call the driver
        )
        out.inner = inner
        return out

    def __repr__(self):
        return f"Far({self.inner!r})"

    device = property(lambda self: torch.device("cuda:0"))
    is_cuda = property(lambda self: True)

    def __getitem__(self, index):
        return Far(self.inner[_index(index)])

    def __setitem__(self, index, value):
        self.inner[_index(index)] = near(value)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _run(None, function, args, kwargs or {})


def _index(index):
    for x in tree_leaves(index):
        if isinstance(x, Far) and x.dtype in (torch.bool, torch.uint8):
            raise Waited("the index is a bool tensor")
    return near(index)


class Device(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.on_the_way = []  # (pinned tensor, values that have not arrived yet)
        self.pinned = []
        self.n_waits = 0  # number of waits for events

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _run(self, function, args, kwargs or {})

    def arrive(self):
        self.n_waits += 1
        while self.on_the_way:
            to, numbers = self.on_the_way.pop(0)
            to.copy_(numbers)


def near(x):
    """Replaces tensors of the fake device by the CPU tensors that contain
    their values."""
    return tree_map(lambda y: y.inner if isinstance(y, Far) else y, x)


def far(x):
    return tree_map(lambda y: Far(y) if isinstance(y, torch.Tensor) else y, x)


def _is_cuda(device):
    return device is not None and torch.device(device).type == "cuda"


def _run(mode, function, args, kwargs):
    kind = function.overloadpacket
    if kind is aten.is_pinned:
        return any(args[0] is one for one in mode.pinned)
    given = tree_leaves((args, kwargs))
    goes = _is_cuda(kwargs.get("device"))
    if not goes and not any(isinstance(x, Far) for x in given):
        return function(*args, **kwargs)
    if function.namespace == "entropyscan":
        with mode:
            return _ours(function)(*args, **kwargs)
    parts = function.decompose(*args, **kwargs)
    if parts is not NotImplemented:
        return parts
    if kind in WAITS:
        raise Waited(str(function))
    if kind is aten.copy_:
        to, what = args[0], args[1]
        if isinstance(to, Far) != isinstance(what, Far):
            if isinstance(to, Far) or not (len(args) > 2 and args[2]):
                raise Waited(f"{function} was called without non_blocking")
            mode.on_the_way.append((to, what.inner.clone()))
            return to.fill_(NOT_YET)
    if kind is aten._to_copy:
        comes = kwargs.get("device") is not None and not goes
        if comes or (goes and not isinstance(args[0], Far)):
            raise Waited(f"{function} to {kwargs['device']}")
    if goes:
        kwargs = {**kwargs, "device": "cpu"}
    return far(function(*near(args), **near(kwargs)))


def _ours(function):
    from entropyscan import _health, _operators

    name = function.name().removeprefix("entropyscan::")
    if name == "observe":
        return _operators._observe._init_fn
    return getattr(_operators, name, getattr(_health, name, None))._init_fn


@contextmanager
def cuda(monkeypatch, kernels):
    """Provides the fake device. The kernels of the fixture `kernels` run on it in
    Triton's interpreter."""
    device = Device()
    event = SimpleNamespace(record=lambda: None, synchronize=device.arrive)
    real, empty = kernels.head_statistics, torch.empty

    def maybe_pinned(*sizes, pin_memory=False, **options):
        out = empty(*sizes, **options)
        if pin_memory:
            device.pinned.append(out)
        return out

    def statistics(query, key, call):
        call = type(call)(**{name: near(value) for name, value in vars(call).items()})
        with torch.utils._python_dispatch._disable_current_modes():
            return Far(real(near(query), near(key), call))

    with monkeypatch.context() as patch, device:
        patch.setattr(torch.cuda, "_lazy_init", lambda: None)
        patch.setattr(torch, "empty", maybe_pinned)
        patch.setattr(torch.cuda, "Event", lambda: event)
        patch.setattr(torch.cuda, "device", lambda _: nullcontext())
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        patch.setattr(kernels, "head_statistics", statistics)
        yield device
