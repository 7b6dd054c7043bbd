"""Makes small transformers models with random weights, by name. The number of layers
differs from the number of heads, so that a test notices if they are swapped."""

import pytest
import torch
import transformers as tf

VOCAB = 61
TOKENS = dict(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2, pad_token_id=0)
NO_DROPOUT = dict(attention_dropout=0.0)


def needs_torch(version, why):
    """Skips a test if PyTorch is older than `version` and lacks a feature that the test
    needs."""
    is_older = torch.__version__ < version
    return pytest.mark.skipif(is_older, reason=f"torch {torch.__version__}: {why}")


def gpt2(**changes):
    config = tf.GPT2Config(
        **{
            **TOKENS,
            **dict(n_layer=3, n_head=4, n_embd=48, n_positions=64),
            **dict(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, use_cache=False),
            **changes,
        }
    )
    return tf.GPT2LMHeadModel(config)


def decoder(config_class, model_class, **changes):
    sizes = dict(
        num_hidden_layers=3,
        hidden_size=48,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        max_position_embeddings=64,
        use_cache=False,
    )
    return model_class(config_class(**{**TOKENS, **NO_DROPOUT, **sizes, **changes}))


def gpt_neox(**changes):
    sizes = dict(
        num_hidden_layers=3,
        hidden_size=48,
        intermediate_size=64,
        num_attention_heads=4,
        max_position_embeddings=64,
        hidden_dropout=0.0,
        use_cache=False,
    )
    config = tf.GPTNeoXConfig(**{**TOKENS, **NO_DROPOUT, **sizes, **changes})
    return tf.GPTNeoXForCausalLM(config)


def llama(**changes):
    return decoder(tf.LlamaConfig, tf.LlamaForCausalLM, **changes)


def qwen(**changes):
    return decoder(tf.Qwen3Config, tf.Qwen3ForCausalLM, **changes)


def gemma(**changes):
    changes = {"sliding_window": 8, "attn_logit_softcapping": 2.0, **changes}
    return decoder(tf.Gemma2Config, tf.Gemma2ForCausalLM, **changes)


def gpt_oss(**changes):
    changes = {
        "sliding_window": 8,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        **changes,
    }
    model = decoder(tf.GptOssConfig, tf.GptOssForCausalLM, **changes)
    if hasattr(model, "set_experts_implementation"):  # transformers 5 and later
        model.set_experts_implementation("eager")  # the only one that supports double
    for layer in model.model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks)
    return model


def bert(**changes):
    sizes = dict(
        num_hidden_layers=3,
        hidden_size=48,
        intermediate_size=64,
        num_attention_heads=4,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    config = tf.BertConfig(vocab_size=VOCAB, pad_token_id=0, **{**sizes, **changes})
    return tf.BertForMaskedLM(config)


def vit(**changes):
    sizes = dict(
        num_hidden_layers=3,
        hidden_size=48,
        intermediate_size=64,
        num_attention_heads=4,
        image_size=16,
        patch_size=4,
        num_labels=5,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return tf.ViTForImageClassification(tf.ViTConfig(**{**sizes, **changes}))


def spread(model, factor=6.0):
    """Scales the weights up, so that attention is far from uniform."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "emb" not in name and "wte" not in name:
                parameter.mul_(factor)
    return model


def inputs(name, batch=2, length=24, padding=0):
    """Returns a batch for a model; the last row ends with `padding` padding tokens."""
    if name == "vit":
        images = torch.randn(batch, 3, 16, 16)
        return dict(pixel_values=images, labels=torch.arange(batch) % 5)
    tokens = torch.randint(3, VOCAB, (batch, length))
    given = dict(input_ids=tokens, labels=tokens)
    if padding:
        mask = torch.ones(batch, length, dtype=torch.long)
        mask[-1, length - padding :] = 0
        given["attention_mask"] = mask
    return given


MAKERS = dict(
    gpt2=gpt2,
    gpt_neox=gpt_neox,
    llama=llama,
    qwen=qwen,
    gemma=gemma,
    gpt_oss=gpt_oss,
    bert=bert,
    vit=vit,
)
