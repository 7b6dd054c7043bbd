"""Compares the gradients of rec.penalty() with those of the papers' formula, computed
in double from the weights that an eager transformers model returns."""

import copy
import os

import formula
import models
import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import entropyscan as es
from entropyscan import _ereg, _operators, _statistics, _wrappers

L, H, T = 2, 4, 12
SHARE = 0.02  # factor of the penalty in the loss
MAKERS = {
    "gpt2": lambda **changes: models.gpt2(n_layer=L, **changes),
    "llama": lambda **changes: models.llama(num_hidden_layers=L, **changes),
}


def make(name="llama", **changes):
    torch.manual_seed(5)
    model = models.spread(MAKERS[name](**changes), 3.0).train()
    model.loss_type = "ForCausalLM"
    return model


def regularization(n_layers=L, n_heads=H, **options):
    reg = es.EntropyRegularization(n_layers, n_heads, T, gamma=0.05, **options)
    with torch.no_grad():
        reg.thresholds.copy_(torch.linspace(0.2, 0.8, n_layers * n_heads).view(n_layers, -1))
    return reg


def gradients(model, reg):
    """Returns a model's gradients by parameter name and clears them."""
    named = [*model.named_parameters(), ("thresholds", reg.thresholds)]
    found = {name: p.grad.double().clone() for name, p in named if p.grad is not None}
    for _, parameter in named:
        parameter.grad = None
    return found


def by_the_formula(model, batches, **options):
    """Returns the penalties computed by the formula, and the gradients of the sum of
    the losses."""
    reference = copy.deepcopy(model).double()
    if getattr(reference, "is_gradient_checkpointing", False):
        reference.gradient_checkpointing_disable()
    reference.set_attn_implementation("eager")
    reg, penalties = regularization(**options).double(), []
    for given in batches:
        out = reference(**given, output_attentions=True)
        penalty = 0
        for a, thresholds in zip(out.attentions, reg.thresholds):
            counted = given.get("attention_mask", torch.ones(a.shape[0], T))[:, None]
            entropy, wanted = formula.row_entropy(a), thresholds[:, None] * reg.e_max
            if reg.reduction == "mean":
                entropy = (entropy * counted).sum((0, 2)) / counted.sum()
                counted, wanted = 1, wanted[:, 0]
            deviation = entropy - wanted
            squares = torch.where(deviation.abs() > reg.tolerance, deviation**2, 0)
            penalty = penalty + (squares * counted).sum() / H / L
        penalties.append(penalty.item())
        (out.loss + SHARE * penalty).backward()
    return penalties, gradients(reference, reg)


def by_the_watch(model, batches, path, call=None, share=SHARE, **options):
    reg = regularization(**options)
    call, penalties = model if call is None else call, []
    with es.watch(model, path, every=2, regularize=reg) as rec:
        rec.number(1)  # not a recorded step
        for given in batches:
            loss = call(**given).loss
            penalty = rec.penalty()
            penalties.append(penalty.item())
            (loss + share * penalty).backward()
        rec.step()
    assert rec.trouble is None
    return penalties, gradients(model, reg)


def compare(found, wanted):
    assert found[0] == pytest.approx(wanted[0], rel=1e-5)
    assert found[1].keys() == wanted[1].keys()
    largest = max(g.abs().max() for g in wanted[1].values())
    for name, gradient in wanted[1].items():
        error = (found[1][name] - gradient).abs().max()
        # Compare the errors of small gradients with the largest gradient, because
        # gradients of key biases are 0 up to rounding.
        assert error <= 1e-5 * max(gradient.abs().max(), 1e-2 * largest), name


CASES = [
    ("gpt2", "sdpa", 0, "token"),
    ("gpt2", "eager", 5, "mean"),
    ("llama", "sdpa", 5, "token"),
    ("llama", "eager", 0, "mean"),
]


@pytest.mark.parametrize("name, implementation, padding, reduction", CASES)
def test_gradients_equal_those_of_the_formula(
    name, implementation, padding, reduction, run_file
):
    model = make(name, attn_implementation=implementation)
    batches = [models.inputs(name, length=T, padding=padding)]
    wanted = by_the_formula(model, batches, reduction=reduction)
    compare(by_the_watch(model, batches, run_file, reduction=reduction), wanted)
    without = by_the_watch(model, batches, run_file + ".2.db", share=0, reduction=reduction)
    with pytest.raises(AssertionError):
        compare(without, wanted)


def test_each_micro_batch_has_its_penalty(run_file):
    model = make()
    batches = [models.inputs("llama", length=T) for _ in range(2)]
    wanted = by_the_formula(model, batches)
    assert wanted[0][0] != wanted[0][1]
    compare(by_the_watch(model, batches, run_file), wanted)


def test_a_checkpoint_has_the_same_gradients(run_file):
    model = make("gpt2")
    model.gradient_checkpointing_enable({"use_reentrant": False})
    batches = [models.inputs("gpt2", length=T, padding=3) for _ in range(2)]
    found = by_the_watch(model, batches, run_file)
    compare(found, by_the_formula(model, batches))


@models.needs_torch("2.7", "a graph may not set attributes within a checkpoint")
@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_graph_has_the_same_gradients(checkpoints, run_file):
    torch._dynamo.reset()
    model = make("gpt2")
    if checkpoints:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    batches = [models.inputs("gpt2", length=T) for _ in range(2)]
    counter = CompileCounterWithBackend("aot_eager")
    call = torch.compile(model, fullgraph=True, backend=counter)
    found = by_the_watch(model, batches, run_file, call)
    assert counter.frame_count == 1
    compare(found, by_the_formula(model, batches))


def test_reentrant_checkpoints_are_refused(run_file):
    model = make("gpt2")
    model.gradient_checkpointing_enable({"use_reentrant": True})
    with es.watch(model, run_file, regularize=regularization()) as rec:
        loss = model(**models.inputs("gpt2", length=T)).loss
        with pytest.raises(RuntimeError, match="0 layers.*use_reentrant=False"):
            rec.penalty()
        loss.backward()
        # After backward(), in which gradient checkpointing repeats the forward pass,
        # penalty() still has no entropies.
        with pytest.raises(RuntimeError, match="0 layers"):
            rec.penalty()


def test_gradients_have_the_strides_that_graphs_expect():
    """Inductor relies on the strides that the fake implementations return; queries are
    often transposed."""
    query, key = (torch.randn(2, T, n, 6).transpose(1, 2) for n in (H, 2))
    what = _statistics.settled(_statistics.Attention(causal=True), T, 6, T)
    given = [getattr(what, name) for name in _ereg._MEMBERS]
    rows = _ereg._row_entropy(query, key, *given)
    torch.library.opcheck(_ereg._row_entropy, (query, key, *given), test_utils="test_faketensor")
    torch.library.opcheck(
        _ereg._row_entropy_gradients,
        (torch.ones(2, H, T), *rows, query, key, *given),
        test_utils="test_faketensor",
    )


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(24, 72)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, H, 6).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).flatten(2)


def test_layers_that_call_torch_share_a_graph(run_file):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    model = torch.nn.Sequential(*[Block() for _ in range(6)]).train()
    x, reg = torch.randn(2, T, 24, requires_grad=True), regularization(6)
    queries = []
    for block in model:
        block.qkv.register_forward_hook(lambda _, __, out: queries.append(out))
    model(x)
    pairs = [q.view(2, T, 3, H, 6).permute(2, 0, 3, 1, 4)[:2] for q in queries]
    wanted = reg(pairs)
    wanted.backward()
    wanted = wanted.item(), gradients(model, reg)
    for block in model:
        block.qkv._forward_hooks.clear()
    with es.watch(model, run_file, regularize=reg) as rec:
        for block in model:
            block.compile(fullgraph=True, backend=counter)
        for _ in range(2):
            model(x)
            penalty = rec.penalty()
            penalty.backward()
            rec.step()
            compare(([penalty.item()], gradients(model, reg)), ([wanted[0]], wanted[1]))
    assert counter.frame_count == 1


class Flash(torch.nn.Module):
    is_causal = True

    def forward(self, query, key, **options):
        entry = _wrappers._observed(lambda *_, **__: None, "flash_attention_2")
        entry(self, query, key, key, None, **options)


def test_sequences_that_flash_attention_packs_are_separate(run_file):
    query, key = torch.randn(1, H, T, 8), torch.randn(1, 2, T, 8)
    reg, penalties = regularization(1), []
    positions = torch.cat([torch.arange(5), torch.arange(7)])[None]
    starts = torch.tensor([0, 5, T], dtype=torch.int32)
    packed = dict(cu_seq_lens_q=starts, cu_seq_lens_k=starts)
    for options in (dict(position_ids=positions), packed):
        model = torch.nn.ModuleList([Flash()]).train()
        kinds = [("0", model[0], "interface")]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(es._attention, "_kinds", lambda _: kinds)
            rec = es.watch(model, run_file, regularize=reg)
        model[0](query, key, **options)
        penalties.append(rec.penalty().item())
        rec.close()
    parts = [(query[:, :, rows], key[:, :, rows]) for rows in (slice(0, 5), slice(5, T))]
    wanted = sum(reg([part]) for part in parts).item()
    assert penalties == pytest.approx([wanted, wanted], rel=1e-5)


def test_the_penalty_is_recorded_at_recorded_steps(run_file):
    model, reg = make(), regularization()
    first = []
    with es.watch(model, run_file, every=2, regularize=reg) as rec:
        for _ in range(3):
            for i in range(2):
                model(**models.inputs("llama", length=T)).loss.backward()
                penalty = rec.penalty()
                if i == 0:
                    first.append(penalty.item())
            rec.step(lr=0.5)
    run = es.open(run_file)
    assert list(run.steps("ereg")) == [0, 2]
    assert list(run.values("ereg")) == [np.float32(first[0]), np.float32(first[2])]
    assert {one["name"]: one["unit"] for one in run.series}["ereg"] == "nats^2"


def test_ranks_that_do_not_record_also_have_a_penalty(monkeypatch, run_file):
    model, given, reg = make(), models.inputs("llama", length=T), regularization()
    penalties = []
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
        path = f"{run_file}.{rank}"
        with es.watch(model, path, regularize=reg) as rec:
            assert (rec._tap in _operators.enabled) == (rank == "0")
            model(**given)
            penalties.append(rec.penalty())
            rec.step()
            rec.evaluation()
        assert os.path.exists(path) == (rank == "0") and rec.lost == 0
    assert penalties[0] == penalties[1]


def test_a_penalty_without_a_layer_is_an_error(run_file):
    model, given = make(), models.inputs("llama", length=T)
    with es.watch(model, run_file) as rec, pytest.raises(RuntimeError, match="regularize="):
        rec.penalty()
    with es.watch(model, run_file, regularize=regularization()) as rec:
        with pytest.raises(RuntimeError, match="0 layers of attention"):
            rec.penalty()
        model(**given)
        rec.penalty()
        with pytest.raises(RuntimeError, match="0 layers of attention"):
            rec.penalty()
        with torch.no_grad():
            model(**given)
            model.generate(given["input_ids"], max_new_tokens=2)
        model.eval()(**given)
        model.train()
        with pytest.raises(RuntimeError, match="0 layers of attention"):
            rec.penalty()
    for reg, words in (
        (regularization(3), "2 layers of attention.*thresholds for 3"),
        (regularization(2, 3), "layer 0 has 4 heads.*thresholds for 3"),
    ):
        with es.watch(model, run_file, regularize=reg) as rec:
            model(**given)
            with pytest.raises(RuntimeError, match=words):
                rec.penalty()
    with pytest.raises(TypeError, match="regularize=0.5"):
        es.watch(model, run_file, regularize=0.5)


def test_nothing_is_left_in_the_model(run_file):
    model, given = make(), models.inputs("llama", length=T)
    before = [set(vars(module)) for module in model.modules()]
    with es.watch(model, run_file, regularize=regularization()):
        model(**given)
        copied = copy.deepcopy(model)
    for one in (model, copied):
        assert [set(vars(module)) for module in one.modules()] == before
    assert not _operators.penalized
