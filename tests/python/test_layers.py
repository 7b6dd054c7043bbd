"""Tests that layers in the file are numbered as in the model, and that the file stores
their modules, kinds and ceilings."""

import math

import pytest
import torch
import transformers

import entropyscan as es

V = dict(vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=4,
         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
         pad_token_id=0, bos_token_id=1, eos_token_id=2)  # fmt: skip
SMALL = dict(vocab_size=128, d_model=32, pad_token_id=0, decoder_start_token_id=0)


def jamba():
    return transformers.JambaConfig(
        **V, attn_layer_period=2, attn_layer_offset=1, num_experts=2, num_experts_per_tok=1,
        expert_layer_period=2, expert_layer_offset=1, mamba_d_state=4, mamba_d_conv=2,
        mamba_expand=2, mamba_dt_rank=4, use_mamba_kernels=False,
    )  # fmt: skip


def lfm2():
    kinds = ["full_attention", "conv", "full_attention", "conv"]
    return transformers.Lfm2Config(**V, layer_types=kinds)


def zamba2():  # its modules have no layer_idx
    kinds = ["mamba", "hybrid", "mamba", "hybrid"]
    return transformers.Zamba2Config(
        **V, layer_types=kinds, mamba_d_state=4, mamba_expand=2, n_mamba_heads=8,
        num_mem_blocks=1, hybrid_layer_ids=[1, 3], use_shared_attention_adapter=False,
        adapter_rank=4, chunk_size=8, use_mem_rope=True,
    )  # fmt: skip


def gemma3():
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    return transformers.Gemma3TextConfig(**V, head_dim=16, sliding_window=8, layer_types=kinds)


def mistral():
    return transformers.MistralConfig(**V, sliding_window=8)


def bart():
    parts = {f"{part}_{what}": n for part in ("encoder", "decoder")
             for what, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))}  # fmt: skip
    return transformers.BartConfig(**SMALL, **parts, max_position_embeddings=64)


def t5():
    sizes = dict(d_kv=8, d_ff=64, num_layers=3, num_decoder_layers=2, num_heads=4)
    return transformers.T5Config(**SMALL, **sizes)


FULL, WINDOW = math.lgamma(17) / 16, sum(math.log(min(i + 1, 8)) for i in range(16)) / 16
BOTH = math.log(16)
# Kind and ceiling of each layer; None for a layer without attention.
MODELS = {
    jamba: [None, ("full", FULL), None, ("full", FULL)],
    lfm2: [("full", FULL), None, ("full", FULL), None],
    zamba2: [None, ("full", FULL), None, ("full", FULL)],
    gemma3: [("window", WINDOW)] * 3 + [("full", FULL)],
    mistral: [("window", WINDOW)] * 4,
    bart: [("encoder", BOTH)] * 2 + [("full", FULL)] * 2 + [("cross", BOTH)] * 2,
    t5: [("encoder", BOTH)] * 3 + [("full", FULL)] * 2 + [("cross", BOTH)] * 2,
}


@pytest.mark.parametrize("make", MODELS)
def test_layers_have_the_numbers_of_the_model(make, run_file):
    config = make()
    kind = transformers.AutoModelForCausalLM
    if config.is_encoder_decoder:
        kind = transformers.AutoModelForSeq2SeqLM
    try:
        model = kind.from_config(config, attn_implementation="sdpa")
    except StopIteration:  # zamba2 with older versions of transformers
        pytest.skip(f"transformers {transformers.__version__} cannot make this model")
    ids = torch.randint(3, 128, (2, 16))
    with es.watch(model, run_file) as rec:
        model(input_ids=ids, labels=ids)
        rec.step(loss=1.0)
    assert rec.trouble is None
    wanted = MODELS[make]
    run = es.open(run_file)
    entropy = run.entropy()[0]
    assert entropy.shape == (len(wanted), 4)
    assert es.is_missing(entropy).all(1).tolist() == [one is None for one in wanted]
    layers = run.config["layers"]
    modules = dict(model.named_modules())
    for layer, one in zip(layers, wanted):
        assert (layer is None) == (one is None)
        if one is not None:
            assert layer["name"] in modules
            assert layer["kind"] == one[0]
            assert layer["ceiling"] == pytest.approx(one[1], abs=1e-6)


def test_padded_keys_of_another_sequence_hide_no_queries(run_file):
    """There are as many keys as queries, but the keys are of another sequence. In BART
    only the name of the module identifies this cross-attention; the arguments do
    not."""
    config = bart()
    config.attn_implementation = "eager"
    model = transformers.BartForConditionalGeneration(config)
    ids = torch.randint(3, 128, (2, 16))
    mask = torch.ones_like(ids)
    mask[:, 4:] = 0
    with es.watch(model.train(), run_file) as rec:
        out = model(input_ids=ids, attention_mask=mask, labels=ids, output_attentions=True)
        rec.step(loss=out.loss)
    for layer, weights in enumerate(out.cross_attentions):
        rows = -(weights * (weights + 1e-9).log()).sum(-1)
        mean = rows.detach().mean((0, 2)).numpy()  # all queries, each over four keys
        assert es.open(run_file).entropy()[0, 4 + layer] == pytest.approx(mean, abs=1e-4)
