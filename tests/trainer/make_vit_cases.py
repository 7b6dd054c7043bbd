#!/usr/bin/env python3
"""Makes the reference cases of family vit, tests/trainer/cases/v*: each is one
training step of transformers' ViTForImageClassification in float64, with PyTorch's
autograd and the attention of make_roberta_cases.py. Arrays have the names that
transformers uses in its files. The logits of every token are stored, although the
loss uses only those of the class token.

    make_vit_cases.py FOLDER      (needs torch, transformers, numpy and safetensors)

Inputs are rounded to float32 before the computation."""
import torch
import transformers as tf
from case_file import save_all
from make_roberta_cases import ACTIVATIONS, NO_TARGET, Attention, draw, keep

CASES = {
    "v01_vit": {},
    # several channels, patches of one pixel, and micro-batches whose images
    # have more or fewer pixels than the micro-batch has rows (B * T)
    "v02_vit_channels": {"channels": 3, "image_size": 4, "patch_size": 2, "n_layer": 1,
                         "batch": 3},
    "v03_vit_psm4": {"arch": "PSM(4,0.1)+LN+G", "image_size": 3, "patch_size": 1,
                     "n_head": 3, "d_model": 12},
    "v04_vit_ereg_sm_t": {"arch": "EReg(SM(t)+LN+R)", "n_layer": 3, "batch": 1},
}
DEFAULTS = {"arch": "SM+LN+G", "family": "vit", "n_layer": 2, "n_head": 2,
            "d_model": 8, "d_ff": 14, "vocab": 17, "batch": 2, "mlp_mult": 2,
            "bias": "all", "ln_eps": 1e-12, "final_norm": "auto", "image_size": 6,
            "patch_size": 3, "channels": 1, "classes": 5, "gamma": 0.05, "lambda": 1e-3,
            "ereg_reduce": "token"}
# prefixes of parameter names in transformers 5, and the names of google/vit that
# replace them in saved files
NAMES = (("vit.layers.", "vit.encoder.layer."), ("attention.o_proj", "attention.output.dense"),
         ("attention.q_proj", "attention.attention.query"),
         ("attention.k_proj", "attention.attention.key"),
         ("attention.v_proj", "attention.attention.value"),
         ("mlp.fc1", "intermediate.dense"), ("mlp.fc2", "output.dense"))


def saved(name):
    for old, new in NAMES:
        name = name.replace(old, new)
    return name


def make(_, wanted, seed):
    generator = torch.Generator().manual_seed(seed)
    case = DEFAULTS | wanted
    case["ctx"] = (case["image_size"] // case["patch_size"]) ** 2 + 1
    act = case["arch"].rstrip(")").rsplit("+", 1)[1]
    model = tf.ViTForImageClassification(tf.ViTConfig(
        num_hidden_layers=case["n_layer"], hidden_size=case["d_model"],
        intermediate_size=case["d_ff"], num_attention_heads=case["n_head"],
        hidden_act=ACTIVATIONS[act], layer_norm_eps=case["ln_eps"],
        image_size=case["image_size"], patch_size=case["patch_size"],
        num_channels=case["channels"], num_labels=case["classes"])).double().eval()
    draw(model, generator)
    attention = Attention(case, [layer.attention for layer in model.vit.layers],
                          "vit.encoder.layer.{}.attention.attention.", generator)
    tf.AttentionInterface.register("written", attention)
    model.set_attn_implementation("written")
    shape = (case["batch"], case["channels"], case["image_size"], case["image_size"])
    pixels = torch.randint(case["vocab"], shape, generator=generator)
    targets = torch.full((case["batch"], case["ctx"]), NO_TARGET)
    targets[:, 0] = torch.randint(case["classes"], shape[:1], generator=generator)
    attention.seen = torch.ones(targets.shape, dtype=torch.bool)
    states = model.vit(2 * pixels.double() / (case["vocab"] - 1) - 1).last_hidden_state
    logits = model.classifier(states)
    ce = torch.nn.functional.cross_entropy(logits[:, 0], targets[:, 0])
    ereg = attention.penalty()
    loss = ce + case["lambda"] * ereg
    loss.backward()
    to = keep(case, pixels.flatten(1), targets, attention, (ce, ereg, loss), logits)
    for parameter, value in [*model.named_parameters(), *attention.own.items()]:
        to.add("params/" + saved(parameter), value)
        to.add("grads/" + saved(parameter), value.grad)
    return to


if __name__ == "__main__":
    save_all(make, CASES)
