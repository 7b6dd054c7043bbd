#!/usr/bin/env python3
"""Makes the reference cases of family roberta, tests/trainer/cases/r*: each is one
training step of transformers' RobertaForMaskedLM in float64, with PyTorch's autograd.
Other kinds of attention than softmax replace the attention of transformers; they are
implemented from hooks/trainer/model/README.md.

    make_roberta_cases.py FOLDER      (needs torch, transformers, numpy and safetensors)

Inputs are rounded to float32 before the computation."""
import math

import torch
import transformers as tf
from case_file import Case, save_all

torch.set_default_dtype(torch.float64)
NO_TARGET = -1

CASES = {
    "r01_roberta": {},
    # a sequence that ends with padding
    "r02_roberta_padding": {"padding": 1, "lengths": [9, 4], "n_layer": 3},
    "r03_roberta_psm6": {"arch": "PSM(6,0.1)+LN+R", "n_head": 3, "d_model": 12,
                         "padding": 0, "lengths": [7, 9]},
    # one layer, one head, and one sequence that is longer than two blocks of
    # queries
    "r04_roberta_long": {"n_layer": 1, "batch": 1, "n_head": 1, "ctx": 37,
                         "arch": "SM+LN+GT", "d_ff": 7},
    "r05_roberta_ereg_sm_t": {"arch": "EReg(SM(t)+LN)", "padding": 1,
                              "lengths": [5, 9]},
    "r06_roberta_ra": {"arch": "RA+LN+G", "ctx": 18, "d_model": 9, "n_head": 3},
    "r07_roberta_psm2_length": {"arch": "PSM(2,0.3,length)+LN+G", "padding": 1,
                                "lengths": [3, 8]},
}
DEFAULTS = {"arch": "SM+LN+G", "family": "roberta", "n_layer": 2, "n_head": 2,
            "d_model": 8, "d_ff": 14, "ctx": 9, "vocab": 13, "batch": 2, "mlp_mult": 2,
            "bias": "all", "padding": -1, "ln_eps": 1e-5, "final_norm": "auto",
            "gamma": 0.05, "lambda": 1e-3, "ereg_reduce": "token"}
ACTIVATIONS = {"G": "gelu", "GT": "gelu_new", "R": "relu", "": "linear"}


class Attention:
    """Replaces the attention of transformers in `layers`, and stores the row
    statistics of each layer. `place` is the prefix of the names of additional
    parameters.
    """

    def __init__(self, case, layers, place, generator):
        arch = case["arch"]
        self.case, self.place, self.rows = case, place, {}
        self.power = int(arch[4]) if arch.startswith("PSM(") else 0
        self.relu = arch.startswith("RA")
        self.epsilon = float(arch[6:].split(")")[0].split(",")[0]) if self.power else 0
        self.own = {}
        for l in range(case["n_layer"]):
            at = place.format(l)
            if "SM(t)" in arch:
                self.keep(at + "log_t", 0.4 * torch.randn(
                    (case["n_head"], case["ctx"]), generator=generator))
            if arch.startswith("EReg("):
                self.keep(at + "theta", 0.2 + 0.6 * torch.rand(
                    case["n_head"], generator=generator))
        for l, layer in enumerate(layers):
            layer.layer_number = l

    def keep(self, name, x):
        self.own[name] = x.float().double().requires_grad_()

    def weigh(self, s, seen):
        """Returns the attention weights, and the entropies of the rows."""
        if self.power:
            size = torch.where(seen, s, 0).abs().amax(-1, keepdim=True) + 1e-6
            u = torch.where(seen, s / size.detach(), 0) ** self.power
            n = seen.sum(-1, keepdim=True)
            rest = self.epsilon * (n if "length" in self.case["arch"] else 1)
            a = u / (rest + u.sum(-1, keepdim=True))
        elif self.relu:
            a = torch.where(seen, s, 0).relu() / seen.sum(-1, keepdim=True)
        else:
            a = torch.softmax(torch.where(seen, s, -math.inf), -1)
        total = a.sum(-1, keepdim=True)
        b = a / torch.where(total > 0, total, 1)
        return a, -(b * torch.log(torch.where(b > 0, b, 1.0))).sum(-1)

    def __call__(self, module, query, key, value, attention_mask, scaling=None, **_):
        name = self.place.format(module.layer_number)
        s = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        if name + "log_t" in self.own:
            s = s / torch.exp(self.own[name + "log_t"])[None, :, :, None]
        seen = self.seen[:, None, None, :].expand(s.shape)
        a, entropy = self.weigh(s, seen)
        away = (torch.arange(s.shape[-1])[:, None] - torch.arange(s.shape[-1])).abs()
        self.add("entropy", entropy)
        self.add("distance", (a * away).sum(-1))
        self.add("sink", a[..., 0])
        self.add("top", a.amax(-1))
        x = torch.where(seen, s, -math.inf)
        if self.power:
            x = x.masked_fill(~seen, 0).abs()
        self.add("max_logit", x.amax(-1))
        if self.power or self.relu:
            self.add("missing_mass", 1 - a.sum(-1))
        # set the attention of padding queries to 0; no other result depends on it
        a = a * self.seen[:, None, :, None]
        return (a @ value).transpose(1, 2).contiguous(), a

    def add(self, name, rows):
        there = self.seen[:, None, :].expand(rows.shape)
        self.rows.setdefault(name, []).append(torch.where(there, rows, math.nan))

    def penalty(self):
        case, largest = self.case, math.log(self.case["ctx"])
        total = torch.zeros(())
        for l, entropy in enumerate(self.rows["entropy"]):
            theta = self.own.get(self.place.format(l) + "theta")
            if theta is None:
                continue
            off = (entropy - (theta * largest)[None, :, None])
            off = torch.where(torch.isnan(entropy), 0, off)
            total = total + ((off.abs() > case["gamma"] * largest) * off ** 2).sum()
        return total / (case["n_layer"] * case["n_head"])


def build(case, generator):
    act = case["arch"].rstrip(")").rsplit("+", 1)[1]
    config = tf.RobertaConfig(
        vocab_size=case["vocab"], num_hidden_layers=case["n_layer"],
        hidden_size=case["d_model"], intermediate_size=case["d_ff"],
        num_attention_heads=case["n_head"], type_vocab_size=1,
        # add the positions before the first token's position
        max_position_embeddings=case["ctx"] + case["padding"] + 1,
        hidden_act=ACTIVATIONS[act if act in ACTIVATIONS else ""],
        layer_norm_eps=case["ln_eps"], pad_token_id=max(case["padding"], 0),
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = tf.RobertaForMaskedLM(config).double().eval()
    if case["padding"] < 0:  # no token is excluded from the gradient
        model.roberta.embeddings.word_embeddings.padding_idx = None
        model.roberta.embeddings.position_embeddings.padding_idx = None
    draw(model, generator)
    return model


def draw(model, generator):
    """Draws parameters that float32 represents exactly: the weights of norms are
    near 1, and the embedding of token types is 0.
    """
    with torch.no_grad():
        for name, x in model.named_parameters():
            scale = 0.2 if x.dim() == 1 else 1.2 * x[0].numel() ** -0.5
            is_norm = "norm" in name.lower() and name.endswith("weight")
            x.copy_(is_norm + scale * torch.randn(x.shape, generator=generator))
            x.copy_(torch.zeros(()) if "token_type" in name else x.float())


def make(_, wanted, seed):
    generator = torch.Generator().manual_seed(seed)
    case = DEFAULTS | wanted
    lengths = case.pop("lengths", [case["ctx"]] * case["batch"])
    model = build(case, generator)
    attention = Attention(
        case, [layer.attention.self for layer in model.roberta.encoder.layer],
        "roberta.encoder.layer.{}.attention.self.", generator)
    tf.AttentionInterface.register("written", attention)
    model.set_attn_implementation("written")
    shape = (case["batch"], case["ctx"])
    tokens, targets = (torch.randint(2, case["vocab"], shape, generator=generator)
                       for _ in range(2))
    hidden = torch.rand(shape, generator=generator) < 0.4
    hidden[:, 1] = True
    for i, length in enumerate(lengths):
        tokens[i, length:] = case["padding"]
        hidden[i, length:] = False
    targets[~hidden] = NO_TARGET
    attention.seen = tokens != case["padding"]
    positions = torch.arange(case["ctx"]) + case["padding"] + 1
    out = model(tokens, attention_mask=attention.seen.long(),
                position_ids=positions[None].expand(shape))
    ce = torch.nn.functional.cross_entropy(
        out.logits.flatten(0, 1), targets.flatten(), ignore_index=NO_TARGET)
    ereg = attention.penalty()
    loss = ce + case["lambda"] * ereg
    loss.backward()
    to = keep(case, tokens, targets, attention, (ce, ereg, loss), out.logits)
    for parameter, value in [*model.named_parameters(), *attention.own.items()]:
        if "token_type" in parameter:  # stays 0: the positions are trained instead
            to.add("state/" + parameter, value)
            to.add("state_after/" + parameter, value)
            continue
        to.add("params/" + parameter, value)
        to.add("grads/" + parameter, value.grad)
    return to


def keep(case, tokens, targets, attention, losses, logits):
    """Returns a case with all arrays except the parameters and gradients."""
    to = Case(case | {"renormalised": True, "note": ""})
    rows = {"row_" + name: layers for name, layers in attention.rows.items()}
    heads = torch.stack(attention.rows["entropy"]).nanmean((1, 3))
    to.add_step(tokens, targets, *losses, logits, rows, heads)
    return to


if __name__ == "__main__":
    save_all(make, CASES)
