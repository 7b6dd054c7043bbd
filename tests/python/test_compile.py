"""Tests torch.compile, gradient checkpointing and mixed precision: the graph is
compiled only once, whichever steps are recorded; training gives the same results, bit
for bit, as without a watch; and the recorded entropies are those of the first pass."""

import formula
import models
import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import entropyscan as es

STEPS = 5


def train(model, given, path=None, every=2, wrap=lambda model: model):
    """Trains a model. Returns logits, losses and gradients of each step."""
    out = []
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    rec = es.watch(model, path, every=every) if path else None
    call = wrap(model)
    for _ in range(STEPS):
        result = call(**given)
        result.loss.backward()
        gradients = [p.grad.clone() for p in model.parameters()]
        out.append((result.logits.detach().clone(), result.loss.detach().clone()))
        out[-1] += tuple(gradients)
        optimizer.step()
        optimizer.zero_grad()
        if rec:
            rec.step(loss=result.loss)
    if rec:
        rec.close()
        assert rec.trouble is None
    return out


def fresh(**changes):
    torch.manual_seed(3)
    model = models.gpt2(**changes).train()
    model.loss_type = "ForCausalLM"
    return model


def same(a, b):
    return all(torch.equal(x, y) for p, q in zip(a, b) for x, y in zip(p, q))


@pytest.fixture(autouse=True)
def no_graphs_of_others():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("reentrant", [None, False, True])
def test_a_training_has_the_same_bits_with_and_without_us(
    reentrant, implementation, run_file
):
    given = models.inputs("gpt2")

    def model():
        made = fresh(attn_implementation=implementation)
        if reentrant is not None:
            made.gradient_checkpointing_enable({"use_reentrant": reentrant})
        return made

    plain = train(model(), given)
    assert same(plain, train(model(), given, run_file))
    assert not same(plain, plain[1:])  # same() detects differences
    assert list(es.open(run_file).steps()) == [0, 2, 4]


@pytest.fixture
def one_order_of_sums():
    """Makes gradients of embeddings reproducible; torch otherwise sums in a varying
    order."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_full_graph_stays_one_graph_while_the_cadence_toggles(
    backend, one_order_of_sums, run_file
):
    given = models.inputs("gpt2")
    counter = CompileCounterWithBackend(backend)

    def compiled(model):
        return torch.compile(model, fullgraph=True, backend=counter)

    plain = train(fresh(n_layer=2), given, wrap=compiled)
    torch._dynamo.reset()
    counter.frame_count = 0
    watched = train(fresh(n_layer=2), given, run_file, wrap=compiled)
    assert counter.frame_count == 1
    assert same(plain, watched)
    run = es.open(run_file)
    assert list(run.steps()) == [0, 2, 4]
    eager_file = run_file + ".eager.db"
    train(fresh(n_layer=2), given, eager_file)
    difference = np.abs(run.entropy() - es.open(eager_file).entropy()).max()
    assert difference <= 1e-5


def test_a_compiled_checkpoint_has_the_same_bits_with_and_without_us(run_file):
    given = models.inputs("gpt2")

    def model():
        made = fresh(n_layer=2)
        made.gradient_checkpointing_enable({"use_reentrant": False})
        return made

    def compiled(model):
        return torch.compile(model, fullgraph=True, backend="aot_eager")

    plain = train(model(), given, wrap=compiled)
    torch._dynamo.reset()
    assert same(plain, train(model(), given, run_file, wrap=compiled))


def test_layers_that_are_compiled_one_by_one_share_a_graph(run_file):
    counter = CompileCounterWithBackend("aot_eager")

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(24, 72)

        def forward(self, x):
            q, k, v = self.qkv(x).view(*x.shape[:2], 3, 3, 8).permute(2, 0, 3, 1, 4)
            y = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True
            )
            return x + y.transpose(1, 2).flatten(2)

    model = torch.nn.Sequential(*[Block() for _ in range(12)])
    x = torch.randn(2, 10, 24, requires_grad=True)
    with es.watch(model, run_file, every=2) as rec:
        for block in model:
            block.compile(fullgraph=True, backend=counter)
        for _ in range(3):
            model(x).sum().backward()
            rec.step()
    assert counter.frame_count == 1
    assert es.open(run_file).entropy().shape == (2, 12, 3)


def test_an_unwatched_model_of_the_same_code_has_a_separate_graph(run_file):
    """Examples of an unwatched model are DPO's reference model and a teacher. The
    watched and the unwatched model may be compiled in either order."""
    given = models.inputs("gpt2")
    others = [fresh(), fresh()]
    watched = fresh()
    with es.watch(watched, run_file) as rec:
        compiled = [torch.compile(m, backend="eager") for m in (others[0], watched, others[1])]
        for call in (*compiled, *compiled):
            call(**given)
        rec.step()
        assert rec.trouble is None
    assert es.open(run_file).steps().tolist() == [0]


def test_a_second_pass_of_a_checkpoint_changes_nothing(run_file):
    model = fresh().double().float()
    given = models.inputs("gpt2")
    train(model, given, run_file, every=1)
    again = fresh()
    again.gradient_checkpointing_enable({"use_reentrant": False})
    other = run_file + ".checkpointed.db"
    train(again, given, other, every=1)
    assert np.array_equal(es.open(run_file).entropy(), es.open(other).entropy())


def test_the_first_micro_batch_of_a_step_is_what_is_recorded(run_file):
    model = models.spread(fresh())
    first, second = models.inputs("gpt2"), models.inputs("gpt2")
    with es.watch(model, run_file) as rec:
        model(**first).loss.backward()
        model(**second).loss.backward()
        rec.step()
    other = run_file + ".one.db"
    with es.watch(model, other) as rec:
        model(**first).loss.backward()
        rec.step()
    assert np.array_equal(es.open(run_file).entropy(), es.open(other).entropy())


@pytest.mark.parametrize("number", [torch.bfloat16, torch.float16])
def test_mixed_precision_is_measured_exactly(number, run_file):
    """Queries and keys have half precision, but the watch multiplies them in higher
    precision."""
    seen = []

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qk = torch.nn.Linear(24, 96)

        def forward(self, x):
            q, k = self.qk(x).view(*x.shape[:2], 2, 3, 16).permute(2, 0, 3, 1, 4)
            seen.append((q.detach(), k.detach()))
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, k, is_causal=True
            )

    model = torch.nn.Sequential(Attention(), torch.nn.Identity())
    torch.nn.init.normal_(model[0].qk.weight, std=1.0)
    with es.watch(model, run_file) as rec:
        with torch.autocast("cpu", number):
            model(torch.randn(2, 40, 24))
        rec.step()
    q, k = seen[0]
    assert q.dtype == number
    expected = formula.head_entropy(formula.weights(q, k, formula.causal(40)))
    assert expected.min() < 0.5  # peaked rows, for which half precision is too coarse
    assert np.abs(es.open(run_file).entropy()[0, 0] - expected.numpy()).max() <= 1e-5


def test_everything_is_undone_at_the_end(run_file):
    from transformers.modeling_utils import AttentionInterface
    from transformers.models.gpt2 import modeling_gpt2

    def state():
        return (
            dict(AttentionInterface._global_mapping),
            modeling_gpt2.eager_attention_forward,
            torch.nn.functional.scaled_dot_product_attention,
        )

    model, before = fresh(), state()
    keys = [set(vars(module)) for module in model.modules()]
    with es.watch(model, run_file):
        with es.watch(torch.nn.MultiheadAttention(8, 2), run_file + ".2.db"):
            assert state()[0] != before[0]
        assert state()[0] != before[0]
    assert state() == before
    # Open two watches of the same kind of model, and close the earlier watch first.
    other = fresh()
    first, second = es.watch(model, run_file), es.watch(other, run_file + ".3.db")
    first.close()
    assert state()[1] != before[1]
    second.close()
    assert state() == before
    assert [set(vars(module)) for module in model.modules()] == keys
    assert all(not module._forward_hooks for module in model.modules())
    assert all(not module._forward_pre_hooks for module in model.modules())


def test_a_copy_and_other_models_are_left_alone(run_file):
    import copy

    model = models.spread(fresh())
    with es.watch(model, run_file) as rec:
        copy.deepcopy(model)(**models.inputs("gpt2"))
        models.llama()(**models.inputs("llama"))
        assert rec._tap.seen["train"].heads == {}
        assert set(model.state_dict()) == set(fresh().state_dict())


def test_evaluations_are_recorded_as_a_separate_phase(run_file):
    model = models.spread(fresh())
    with es.watch(model, run_file, every=2) as rec:
        for step in range(3):
            model(**models.inputs("gpt2")).loss.backward()
            rec.step(loss=float(step))
            if step == 2:
                break
        # Evaluations are also recorded after steps whose training is not recorded, such
        # as step 3.
        model.eval()
        with torch.no_grad():
            out = model(**models.inputs("gpt2", batch=1))
        rec.evaluation(loss=out.loss)
        model.train()
    run = es.open(run_file)
    assert list(run.steps()) == [0, 2]
    assert list(run.steps(phase="eval")) == [2]
    assert run.values("loss", "eval") == np.float32(out.loss)
