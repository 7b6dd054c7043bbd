"""Tests record="standard" and "all": compares activations, routers, gradients and
updates of layers with plain PyTorch in the same training run."""

import copy
import functools
import json
import math
import pickle
import subprocess
import warnings

import fakecuda
import models
import numpy as np
import pytest
import test_waits
import torch
import transformers as tf
from test_statistics import triton_kernels
from torch._dynamo.testing import CompileCounterWithBackend

import entropyscan as es
from entropyscan import _device, _health, _library

ACTIVATIONS = {"act_max", "act_rms", "nan_activations"}
STEPS = {"layer_grad_norm", "update_ratio"}
ROUTERS = {"router_entropy", "load_balancing_loss"}
L = 3


def names(run, phase="train"):
    """Returns the names of the series of layers."""
    return {s["name"] for s in run.series if s["shape"] == "layer" and s["phase"] == phase}


def norm(tensors):
    return math.sqrt(sum(t.double().square().sum().item() for t in tensors))


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def gpt2(**changes):
    torch.manual_seed(3)
    model = models.gpt2(**changes).train()
    model.loss_type = "ForCausalLM"
    return model


def micro_batches(n_steps, n=2):
    return [[models.inputs("gpt2") for _ in range(n)] for _ in range(n_steps)]


def train(model, batches, path=None, act=lambda model, optimizer: None, **options):
    """Trains a model and calls act before each step of the optimizer. Returns the
    losses of all micro-batches."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    rec = es.watch(model, path, **options) if path else None
    for batch in batches:
        for given in batch:
            loss = model(**given).loss
            loss.backward()
            losses.append(loss.detach().clone())
        act(model, optimizer)
        optimizer.step()
        optimizer.zero_grad()
        if rec:
            rec.step(loss=loss)
    if rec:
        rec.close()
        assert rec.trouble is None
    return torch.stack(losses)


class Reference:
    """Reference values of gpt2's blocks: outputs of the first micro-batch of a step,
    and gradients and weights before the optimizer's step."""

    def __init__(self, model):
        self.outputs, self.gradients, self.weights = [], [], []
        for block in model.transformer.h:
            block.register_forward_hook(lambda _, __, out: self.outputs.append(out))

    def before(self, model, _):
        blocks = [list(block.parameters()) for block in model.transformer.h]
        self.gradients.append([norm(p.grad for p in block) for block in blocks])
        self.weights.append([[p.detach().clone() for p in block] for block in blocks])

    def ratios(self, step, after):
        return [
            norm(new - old for new, old in zip(news, olds)) / norm(olds)
            for news, olds in zip(after, self.weights[step])
        ]


def test_series_of_layers_equal_those_of_a_plain_training(run_file):
    batches = micro_batches(4)
    model = gpt2()
    plain = Reference(model)
    wanted = train(model, batches, act=plain.before)
    losses = train(gpt2(), batches, run_file, every=2, record="all")
    assert torch.equal(losses, wanted)
    run = es.open(run_file)
    assert names(run) == ACTIVATIONS | STEPS
    assert list(run.steps("act_max")) == [0, 2]
    for i, step in enumerate((0, 2)):
        outputs = plain.outputs[2 * L * step : 2 * L * step + L]
        close(run.values("act_max")[i], [x.abs().max().item() for x in outputs])
        close(run.values("act_rms")[i], [norm([x]) / math.sqrt(x.numel()) for x in outputs])
        close(run.values("layer_grad_norm")[i], plain.gradients[step])
        close(run.values("update_ratio")[i], plain.ratios(step, plain.weights[step + 1]))
    assert not run.values("nan_activations").any()


def test_gradients_are_measured_before_they_are_clipped(run_file):
    plain, batches = Reference(model := gpt2()), micro_batches(2)

    def clip(model, optimizer):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)

    def keep_and_clip(model, optimizer):
        plain.before(model, optimizer)
        clip(model, optimizer)

    wanted = train(model, batches, act=keep_and_clip)
    losses = train(gpt2(), batches, run_file, clip, record="all")
    assert torch.equal(losses, wanted)
    close(es.open(run_file).values("layer_grad_norm"), plain.gradients)


@pytest.mark.parametrize("is_named", [False, True])
def test_gradients_that_a_closure_computes_belong_to_its_step(is_named, run_file):
    """The closure clears and computes the gradients within the optimizer's step, as in
    Lightning, so the previous gradients still exist when the step begins."""
    plain = Reference(model := gpt2())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with es.watch(model, run_file, record="all") as rec:
        for (given,) in micro_batches(3, 1):

            def closure():
                loss = model(**given).loss
                optimizer.zero_grad()
                loss.backward()
                plain.before(model, optimizer)
                return loss

            optimizer.step(closure=closure) if is_named else optimizer.step(closure)
            rec.step()
    assert rec.trouble is None
    run = es.open(run_file)
    close(run.values("layer_grad_norm"), plain.gradients)
    close(run.values("update_ratio")[0], plain.ratios(0, plain.weights[1]))


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("is_unscaled", [False, True])
def test_a_scale_of_the_loss_is_removed_from_the_norms(is_fused, is_unscaled, run_file):
    model, given = gpt2(n_layer=2), models.inputs("gpt2")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, fused=is_fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    blocks = [list(block.parameters()) for block in model.transformer.h]
    with es.watch(model, run_file, record="all") as rec:
        for _ in range(2):
            scaler.scale(model(**given).loss).backward()
            wanted = [norm(p.grad / 512 for p in block) for block in blocks]
            if is_unscaled:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            rec.step()
    assert rec.trouble is None
    close(es.open(run_file).values("layer_grad_norm")[1], wanted)


def test_several_optimizers_and_frozen_parameters_are_supported(run_file):
    """An example of several optimizers is Muon together with AdamW. The file has no
    sample of a frozen layer."""
    model, given = gpt2(), models.inputs("gpt2")
    for parameter in model.transformer.h[1].parameters():
        parameter.requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    parts = [p for p in trained if p.dim() == 2], [p for p in trained if p.dim() != 2]
    optimizers = [torch.optim.SGD(part, 0.5) for part in parts]
    blocks = [list(model.transformer.h[i].parameters()) for i in (0, 2)]
    with es.watch(model, run_file, record="all") as rec:
        model(**given).loss.backward()
        gradients = [norm(p.grad for p in block) for block in blocks]
        ratios = [0.5 * g / norm(block) for g, block in zip(gradients, blocks)]
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        rec.step()
    assert rec.trouble is None
    run = es.open(run_file)
    for name, wanted in (("layer_grad_norm", gradients), ("update_ratio", ratios)):
        found = run.values(name)[0]
        assert es.is_missing(found).tolist() == [False, True, False]
        np.testing.assert_allclose(found[[0, 2]], wanted, rtol=1e-4 if "u" in name[:1] else 1e-6)


# --- routers ---------------------------------------------------------------------

SIZES = dict(moe_intermediate_size=16, num_experts_per_tok=2)
DEEPSEEK = dict(
    n_routed_experts=8, n_group=2, topk_group=1, n_shared_experts=1, first_k_dense_replace=1,
    q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8,
    head_dim=4, num_key_value_heads=4,
)  # fmt: skip
EXPERTS = {
    "mixtral": lambda **changes: models.decoder(
        tf.MixtralConfig,
        tf.MixtralForCausalLM,
        **{"num_local_experts": 6, "num_experts_per_tok": 2, **changes},
    ),
    "qwen3": lambda: models.decoder(
        tf.Qwen3MoeConfig, tf.Qwen3MoeForCausalLM, num_experts=2, **SIZES  # all of them
    ),
    "gpt_oss": lambda: models.gpt_oss(num_local_experts=6, num_experts_per_tok=2),
    "deepseek": lambda: models.decoder(
        tf.DeepseekV3Config, tf.DeepseekV3ForCausalLM, **SIZES, **DEEPSEEK
    ),
}


def routed(logits, chosen, is_sigmoid=False):
    """Returns a router's entropy and load balancing loss, computed token by token by
    their formulas."""
    n = logits.shape[-1]
    total, load, shares = 0.0, np.zeros(n), np.zeros(n)
    for row, experts in zip(logits.double().tolist(), chosen.tolist()):
        low = max(row)
        p = np.array([1 / (1 + math.exp(-x)) if is_sigmoid else math.exp(x - low) for x in row])
        p /= p.sum()
        total -= sum(x * math.log(x) for x in p)
        shares += p
        load[experts] += 1
    n_tokens = len(logits)
    return total / n_tokens, n * (load / load.sum() * shares / n_tokens).sum()


@pytest.mark.parametrize("name", EXPERTS)
def test_routers_of_transformers_are_measured(name, run_file):
    model = EXPERTS[name]().train()
    seen = {}

    def keep(i, module, args, out):
        seen.setdefault(i, (out[0], out[2]))

    for i, layer in enumerate(model.model.layers):
        for module_name, module in layer.named_modules():
            if module_name.endswith(("gate", "router")):
                torch.nn.init.normal_(module.weight, std=1.0)
                module.register_forward_hook(functools.partial(keep, i))
    with es.watch(model, run_file, record="standard") as rec:
        given = models.inputs("llama")
        model(**given).loss.backward()
        model(**models.inputs("llama"))  # a second micro-batch, which does not count
        rec.step()
        model.eval()
        with torch.no_grad():
            model(**given)
        rec.evaluation()
    assert rec.trouble is None and len(seen) == (2 if name == "deepseek" else L)
    run = es.open(run_file)
    assert names(run) == ACTIVATIONS | ROUTERS and names(run, "eval") == names(run)
    for i in range(L):
        found = [run.values(series)[0, i] for series in ("router_entropy", "load_balancing_loss")]
        if i in seen:
            close(found, routed(*seen[i], is_sigmoid=name == "deepseek"))
        else:
            assert es.is_missing(np.array(found)).all()
    for series in ROUTERS:
        close(run.values(series, "eval"), run.values(series))


def test_dropped_tokens_are_counted_where_a_router_has_a_capacity(run_file):
    config = tf.SwitchTransformersConfig(
        vocab_size=61, d_model=24, d_kv=6, d_ff=32, num_layers=2, num_decoder_layers=2,
        num_heads=4, num_experts=3, expert_capacity=5, num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1, dropout_rate=0.0, router_jitter_noise=0.0,
        pad_token_id=0, decoder_start_token_id=0,
    )  # fmt: skip
    model = tf.SwitchTransformersForConditionalGeneration(config).train()
    seen = []
    for module in model.modules():
        if type(module).__name__.endswith("Router"):
            module.register_forward_hook(lambda _, __, out: seen.append(out))
    with es.watch(model, run_file, record="standard") as rec:
        model(**models.inputs("t5")).loss.backward()
        rec.step()
    assert rec.trouble is None
    run = es.open(run_file)
    assert names(run) == ACTIVATIONS | ROUTERS | {"dropped_tokens"}
    dropped = run.values("dropped_tokens")[0]
    layers = np.flatnonzero(~es.is_missing(dropped))
    assert len(layers) == len(seen) > 0
    for layer, (mask, _, logits) in zip(layers, seen):
        tokens = logits.reshape(-1, 3)
        close(dropped[layer], 1 - mask.sum().item() / len(tokens))
        found = [run.values(s)[0, layer] for s in ("router_entropy", "load_balancing_loss")]
        close(found, routed(tokens, tokens.argmax(-1, keepdim=True)))
    assert dropped[layers].max() > 0


# --- layers ----------------------------------------------------------------------


def test_layers_without_attention_keep_their_numbers(run_file):
    config = tf.JambaConfig(
        vocab_size=61, hidden_size=32, intermediate_size=64, num_hidden_layers=4,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
        attn_layer_period=2, attn_layer_offset=1, num_experts=3, num_experts_per_tok=1,
        expert_layer_period=2, expert_layer_offset=1, mamba_d_state=4, mamba_d_conv=2,
        mamba_expand=2, mamba_dt_rank=4, use_mamba_kernels=False, pad_token_id=0,
    )  # fmt: skip
    model = tf.JambaForCausalLM(config).train()
    outputs = []
    for layer in model.model.layers:
        layer.register_forward_hook(lambda _, __, out: outputs.append(out))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with es.watch(model, run_file, record="all") as rec:
        model(**models.inputs("llama")).loss.backward()
        gradients = [norm(p.grad for p in layer.parameters()) for layer in model.model.layers]
        optimizer.step()
        rec.step()
    assert rec.trouble is None
    run = es.open(run_file)
    assert es.is_missing(run.entropy()[0]).all(1).tolist() == [True, False, True, False]
    close(run.values("layer_grad_norm")[0], gradients)
    close(run.values("act_max")[0], [x.abs().max().item() for x in outputs])
    router = run.values("router_entropy")[0]
    assert es.is_missing(router).tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    "attention, blocks",
    [
        ([f"h.{i}.attn" for i in range(2)], ["h.0", "h.1"]),
        # In Swin each stage contains several blocks.
        ([f"layers.{i}.blocks.{j}.attn" for i in (0, 1) for j in (0, 1)],
         ["layers.0.blocks.0", "layers.0.blocks.1", "layers.1.blocks.0", "layers.1.blocks.1"]),
        # In T5 both attentions of a decoder layer are in a list inside the block.
        (["block.0.layer.0.SelfAttention", "block.0.layer.1.EncDecAttention"], ["block.0"] * 2),
        (["", "h.0", "h.0.attn", "h.1", "h.1.attn"], ["", "h.0", "h.0", "h.1", "h.1"]),
        (["first.attn", "second.attn"], ["first", "second"]),
        (["0"], ["0"]),
    ],
)  # fmt: skip
def test_each_attention_module_belongs_to_its_block(attention, blocks):
    assert _health.blocks_of(attention) == blocks


# --- numbers that are not finite -----------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_non_finite_values_are_recorded_as_such(value, run_file):
    model = gpt2()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torch.no_grad():
        model.transformer.h[1].mlp.c_proj.bias[5] = value
    with es.watch(model, run_file, record="all") as rec:
        model(**models.inputs("gpt2")).loss.backward()
        optimizer.step()
        rec.step()
    assert rec.trouble is None
    run = es.open(run_file)
    for name in ("act_max", "act_rms", "layer_grad_norm", "update_ratio"):
        found = run.values(name)[0]
        assert not np.isfinite(found[1]) and not es.is_missing(found).any()
    assert np.isnan(run.values("act_max")[0, 1:]).all()  # as entropy-train records it
    found = run.values("nan_activations")[0]
    assert found[0] == 0 and found[1] >= 48 and found[2] == 2 * 24 * 48
    assert np.isfinite(run.values("act_max")[0, 0])


# --- without harm ----------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_counts_once(reentrant, run_file):
    batches = micro_batches(2)

    def checkpointed():
        model = gpt2()
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        return model

    wanted = train(checkpointed(), batches)
    assert torch.equal(train(checkpointed(), batches, run_file, record="all"), wanted)
    train(gpt2(), batches, run_file + ".plain.db", record="all")
    run, plain = es.open(run_file), es.open(run_file + ".plain.db")
    assert names(run) == names(plain)
    for name in names(run):
        np.testing.assert_allclose(run.values(name), plain.values(name), rtol=1e-5)


@pytest.fixture
def no_graphs_of_others():
    torch._dynamo.reset()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch._dynamo.reset()


def test_there_is_one_graph_whatever_the_cadence(no_graphs_of_others, run_file):
    counter = CompileCounterWithBackend("aot_eager")

    def model(is_compiled):
        torch.manual_seed(3)
        made = EXPERTS["mixtral"](num_hidden_layers=1).train()
        made.loss_type = "ForCausalLM"
        if is_compiled:
            made.forward = torch.compile(made.forward, fullgraph=True, backend=counter)
        return made

    batches = micro_batches(3, 1)
    losses = train(model(True), batches, run_file, every=2, record="all")
    assert counter.frame_count == 1
    wanted = train(model(False), batches, run_file + ".eager.db", every=2, record="all")
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    run, eager = es.open(run_file), es.open(run_file + ".eager.db")
    assert names(run) == names(eager) == ACTIVATIONS | ROUTERS | STEPS
    assert list(run.steps("act_max")) == [0, 2]
    for one in names(run):
        np.testing.assert_allclose(run.values(one), eager.values(one), rtol=2e-4, err_msg=one)


def test_the_compiled_step_of_an_optimizer_is_left_alone(no_graphs_of_others, run_file):
    model = gpt2(n_layer=2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = torch.compile(optimizer.step, backend="eager")
    with pytest.warns(RuntimeWarning, match="layer_grad_norm and update_ratio"):
        with es.watch(model, run_file, record="all") as rec:
            model(**models.inputs("gpt2")).loss.backward()
            step()
            rec.step()
    assert "torch.compile" in rec.trouble
    assert names(es.open(run_file)) == ACTIVATIONS


class Layer(torch.nn.Module):
    """A layer with the attention of test_waits.py, one weight matrix and a router."""

    def __init__(self, place):
        super().__init__()
        self.attention = test_waits.Attention()
        self.weight = torch.nn.Parameter(place(torch.linspace(-1, 1, 12).view(3, 4)))
        self.weight.grad = place(torch.linspace(0, 3, 12).view(3, 4))
        self.router = TopKRouter()

    def forward(self, x, routed, *given):
        self.attention(*given)
        self.router(*routed)
        return x * 2


class TopKRouter(torch.nn.Module):
    def forward(self, logits, chosen):
        return logits, logits.softmax(-1), chosen


class Layers(torch.nn.Module):
    def __init__(self, place):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(place) for _ in range(L))

    def forward(self, x, *given):
        for layer in self.layers:
            x = layer(x, *given)


def test_a_recorded_step_does_not_wait_for_the_device(monkeypatch, run_file):
    monkeypatch.setattr(_device, "_failed", [])
    monkeypatch.setattr(_health, "_has_memory", lambda *_: True)
    routed = torch.randn(5, 4), torch.randint(4, (5, 2))
    given = torch.randn(2, 3), routed, *test_waits.CASES["causal"]()

    def record(path, place):
        model = Layers(place)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
        with es.watch(model, path, record="all") as rec:
            model(*torch.utils._pytree.tree_map(place, given))
            optimizer.step()
            rec.step()
        assert rec.trouble is None
        run = es.open(path)
        return {one["name"]: run.values(one["name"]) for one in run.series}

    kernels = triton_kernels()
    wanted = record(run_file + ".cpu.db", lambda x: x)
    with fakecuda.cuda(monkeypatch, kernels) as device:
        found = record(run_file, fakecuda.far)
    assert device.n_waits == 1
    assert found.keys() == wanted.keys() >= ACTIVATIONS | ROUTERS | STEPS
    for name, values in found.items():
        np.testing.assert_allclose(values, wanted[name], atol=1e-4, err_msg=name)


def test_sharded_parameters_are_left_out_with_one_warning(run_file):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        model = gpt2(n_layer=2)
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with es.watch(model, run_file, record="all") as rec:
                for _ in range(2):
                    model(**models.inputs("gpt2")).loss.backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
                    rec.step()
        said = [str(one.message) for one in said if "entropyscan" in str(one.message)]
        assert len(said) == 1 and "divided among ranks" in said[0]
        run = es.open(run_file)
        assert names(run) == ACTIVATIONS and len(run.steps("act_max")) == 2
    finally:
        torch.distributed.destroy_process_group()


def test_weights_are_not_copied_on_a_device_with_too_little_memory(monkeypatch, run_file):
    monkeypatch.setattr(_health, "_has_memory", lambda *_: False)
    with pytest.warns(RuntimeWarning, match="too little memory for a copy of the weights"):
        with pytest.raises(AssertionError):  # train() asserts that there is no trouble
            train(gpt2(n_layer=2), micro_batches(2), run_file, record="all")
    assert names(es.open(run_file)) == ACTIVATIONS | {"layer_grad_norm"}


def test_core_records_attention_alone_and_all_hooks_are_removed(run_file):
    from torch.optim import optimizer as optimizers

    def state():
        return (
            torch.nn.utils.clip_grad._clip_grads_with_norm_,
            list(optimizers._global_optimizer_pre_hooks),
            list(optimizers._global_optimizer_post_hooks),
        )

    model, before = gpt2(), state()
    keys = [set(vars(module)) for module in model.modules()]
    train(model, micro_batches(1), run_file)
    assert names(es.open(run_file)) == set()
    with es.watch(model, run_file + ".2.db", record="all"):
        with es.watch(gpt2(), run_file + ".3.db", record="all"):
            pass
        assert state() != before
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert not any(module._forward_hooks for module in other.modules())
    assert state() == before
    assert [set(vars(module)) for module in model.modules()] == keys
    assert not any(module._forward_hooks for module in model.modules())


def test_the_callback_of_the_trainer_passes_record_on(run_file, tmp_path):
    with pytest.raises(ValueError, match="record='most': expected 'core', 'standard' or 'all'"):
        es.TrainerCallback(run_file, record="most")
    data = [{key: value[0] for key, value in models.inputs("gpt2").items()} for _ in range(8)]
    arguments = tf.TrainingArguments(
        str(tmp_path), max_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True,
        gradient_accumulation_steps=2, logging_steps=1, max_grad_norm=1e-3, save_strategy="no",
        disable_tqdm=True,
    )  # fmt: skip
    callback = es.TrainerCallback(run_file, record="all")
    tf.Trainer(gpt2(), arguments, train_dataset=data, callbacks=[callback]).train()
    assert callback.watch.trouble is None
    run = es.open(run_file)
    assert names(run) == ACTIVATIONS | STEPS
    layers = np.sqrt((run.values("layer_grad_norm") ** 2).sum(1))
    assert (layers > 0.1 * run.values("grad_norm")).all()
    assert (layers < run.values("grad_norm")).all()


def test_entropy_scan_draws_and_judges_series_of_layers(run_file, tmp_path):
    train(gpt2(), micro_batches(3, 1), run_file, record="all")
    rules = tmp_path / "rules"
    rules.write_text("[rule steep]\nseries = update_ratio\naggregate = layer_max\nabove = 0\n")

    def scan(*arguments):
        command = [_library.program("entropy-scan"), run_file, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    for name in sorted(ACTIVATIONS | STEPS):
        assert scan("--curves", f"--series={name}").returncode == 0
    found = json.loads(scan("--json", f"--rules={rules}").stdout)
    assert "steep" in [flag["kind"] for flag in found["runs"][0]["flags"]]
