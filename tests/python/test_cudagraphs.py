"""Tests mode="reduce-overhead": our operators stay out of CUDA graphs, and the rest of
the model still runs in CUDA graphs. Inductor lowers a graph of fake CUDA tensors, and
the tests check where Inductor cuts the graph; no device is needed, because nothing is
run."""

import contextlib
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses import FakeTensorMode

import entropyscan as es
from entropyscan import _operators

pytest.importorskip("torch._inductor.cudagraph_utils")
if not hasattr(torch._C.Tag, "cudagraph_unsafe"):
    pytest.skip(f"torch {torch.__version__} does not cut graphs", allow_module_level=True)
from torch._inductor import config, scheduler  # noqa: E402
from torch._inductor.cudagraph_utils import check_lowering_disable_cudagraph  # noqa: E402
from torch._inductor.debug import DebugContext  # noqa: E402
from torch._inductor.graph import GraphLowering  # noqa: E402
from torch._inductor.virtualized import V  # noqa: E402

CARD = SimpleNamespace(major=9, minor=0, name="no card", multi_processor_count=100)


class Attention(torch.nn.Module):
    def forward(self, x):
        x = x * 2
        slot = _operators.slot_of(self)
        _operators.observe(slot, x[None], x[None] + 1, phase="train")
        return x.sin() + 1


@pytest.fixture
def lowered(monkeypatch, run_file):
    """Lowers a graph with two layers. Returns three results: the reasons why Inductor makes
    no CUDA graph if it may not cut the graph; the same reasons if it may cut the graph;
    and, for each node, the reason why Inductor cuts the graph there."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: CARD)
    monkeypatch.setattr(scheduler, "has_triton", lambda *_: True)
    torch._dynamo.reset()
    mode, said = FakeTensorMode(allow_non_fake_inputs=True), []

    def lower(graph_module, inputs):
        graph = GraphLowering(graph_module)
        with contextlib.ExitStack() as stack:
            stack.enter_context(V.set_graph_handler(graph))
            stack.enter_context(V.set_fake_mode(mode))
            stack.enter_context(V.set_debug_handler(DebugContext()))
            graph.run(*inputs)
            for cuts in (False, True):
                with config.patch({"graph_partition": cuts, "triton.cudagraphs": True}):
                    devices = dict(graph.device_node_mapping)
                    said.append(check_lowering_disable_cudagraph(devices))
            graph.init_wrapper_code()
            with config.patch({"triton.cudagraphs": True}):
                plan = scheduler.Scheduler(graph.operations)
                said.append([plan.should_partition(node) for node in plan.nodes])
        return graph_module.forward

    with mode:
        x = torch.empty(3, 4, 5, device="cuda")
    model = torch.nn.Sequential(Attention(), Attention())
    compiled = torch.compile(
        model, fullgraph=True, backend=aot_autograd(fw_compiler=lower)
    )
    unlifted = torch._functorch.config.patch(unlift_effect_tokens=True)  # inductor's
    with es.watch(model, run_file), mode, unlifted:
        compiled(x)
    return said


def test_a_graph_is_cut_at_our_operators_and_nowhere_else(lowered):
    _, reason, cuts = lowered
    assert reason is None
    cuts = [cut for cut in cuts if cut is not None]
    assert len(cuts) == 2 and all("entropyscan::observe" in cut for cut in cuts)


def test_without_cuts_there_is_no_cuda_graph(lowered):
    """If the graph is not cut, replays of a CUDA graph would not measure the attention.
    Inductor must therefore make no CUDA graph."""
    assert "cpu device" in lowered[0]


def test_operators_have_the_tag_that_other_versions_know():
    names = ("observe", "observe_projected", "observe_weights", "refuse")
    for name in names:
        operator = getattr(torch.ops.entropyscan, name).default
        assert torch.Tag.cudagraph_unsafe in operator.tags
