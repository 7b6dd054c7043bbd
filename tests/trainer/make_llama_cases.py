#!/usr/bin/env python3
"""Makes the reference cases l*.. of tests/trainer/cases, of family llama: one
training step each, computed by PyTorch in float64 with autograd. The model is
implemented from hooks/trainer/model/README.md, without the program's code. Its
parameters have the names of transformers; the script checks that a model of
transformers with the same weights gives the same logits.

    make_llama_cases.py FOLDER      (needs torch, transformers, numpy and safetensors)

Inputs are rounded to float32 before the computation. transformers computes
norms, positions and softmax in float32, so its logits are compared within
1e-5."""
import math

import torch
import transformers as tf
from case_file import Case, save_all
from make_cases import activate, has_ffn, read_arch

torch.set_default_dtype(torch.float64)

CASES = {
    "l01_llama": {},
    # biases of q, k and v, an output matrix tied to the embedding, and a single key
    # head
    "l02_qwen2": {"n_layer": 3, "n_head": 2, "n_kv_head": 1, "bias": "qkv",
                  "tied": True, "rope_base": 1e6, "ln_eps": 1e-6},
    # norms of queries and keys, and heads whose total width exceeds the width of
    # the model
    "l03_qwen3": {"n_head": 3, "n_kv_head": 1, "d_model": 10, "d_head": 6,
                  "d_ff": 7, "qk_norm": True, "ln_eps": 1e-6, "ctx": 9},
    # all biases, one layer, as many key heads as query heads
    "l04_llama_bias": {"n_layer": 1, "n_kv_head": 4, "bias": "all", "batch": 1},
    # without the parts that the papers remove: without norms, and with only two
    # matrices in the FFN
    "l05_sm_r": {"arch": "SM+R", "n_head": 2, "scale": 0.8},
    "l06_ereg_sm_t": {"arch": "EReg(SM(t)+RN)", "n_layer": 3},
    "l07_psm2": {"arch": "PSM(2,0.2)+RN+SwiGLU", "bias": "qk", "scale": 0.8},
    # --rope-scaling, with a head in which some pairs of dimensions keep their
    # frequency, some get an interpolated and some a reduced frequency
    "l08_llama3": {"n_head": 1, "n_kv_head": 1, "d_model": 12, "ctx": 11,
                   "rope_scaling": "8,1,4,30", "n_layer": 2, "rope_base": 500},
    # norms in only one of three layers
    "l09_parts": {"arch": "SM+RN[1]+SwiGLU", "n_layer": 3, "n_head": 2,
                  "n_kv_head": 1, "scale": 0.8},
    # SwiGLU in two layers, of which the second has no FFN
    "l10_noffn": {"arch": "SM+RN+SwiGLU[0-1]+R[3]+NoFFN[1-2]", "n_layer": 4,
                  "n_head": 2, "n_kv_head": 1, "bias": "all", "scale": 0.8},
}
DEFAULTS = {"arch": "SM+RN+SwiGLU", "family": "llama", "n_layer": 2, "n_head": 4,
            "n_kv_head": 2, "d_model": 16, "d_head": 0, "d_ff": 22, "ctx": 6,
            "vocab": 11, "batch": 2, "mlp_mult": 2, "bias": "none", "qk_norm": False,
            "tied": False, "rope_base": 0, "rope_scaling": "none", "ln_eps": 1e-5, "final_norm": "auto",
            "gamma": 0.05, "lambda": 1e-3, "ereg_reduce": "token"}


class Model:
    """A model with the parameters of transformers, in the same order and with the
    same names.
    """

    def __init__(self, case, seed):
        self.case, self.values, arch = case, {}, case["arch"]
        self.generator = torch.Generator().manual_seed(seed)
        self.regularised = arch.startswith("EReg(")
        self.power = int(arch[4]) if arch.startswith("PSM(") else 0
        self.parts = read_arch(arch)
        self.heads, self.shared = case["n_head"], case["n_kv_head"]
        self.width = case["d_head"] or case["d_model"] // case["n_head"]
        d, f = case["d_model"], case["d_ff"]
        queries, keys = self.heads * self.width, self.shared * self.width
        biases = {"all": "qkvogud", "qkv": "qkv", "qk": "qk", "none": ""}[case["bias"]]
        self.draw("model.embed_tokens.weight", (case["vocab"], d), 1)
        for l in range(case["n_layer"]):
            at = f"model.layers.{l}."
            feeds = has_ffn(self.parts, l, case["n_layer"])
            if l in self.parts["ln"]:
                self.norm(at + "input_layernorm", d)
                if feeds:
                    self.norm(at + "post_attention_layernorm", d)
            for x, n_in, n_out in (("q", d, queries), ("k", d, keys),
                                   ("v", d, keys), ("o", queries, d)):
                self.linear(at + f"self_attn.{x}_proj", n_in, n_out, x in biases)
            if case["qk_norm"]:
                self.norm(at + "self_attn.q_norm", self.width)
                self.norm(at + "self_attn.k_norm", self.width)
            if "SM(t)" in arch:
                self.draw(at + "self_attn.log_t", (self.heads, case["ctx"]), 0.5)
            if self.regularised:
                self.keep(at + "self_attn.theta", 0.2 + 0.6 * torch.rand(
                    self.heads, generator=self.generator))
            for x, n_in, n_out in (("gate", d, f), ("up", d, f), ("down", f, d)):
                if feeds and (x != "gate" or self.act(l) == "SwiGLU"):
                    self.linear(at + f"mlp.{x}_proj", n_in, n_out, x[0] in biases)
        if not case["tied"]:
            self.draw("lm_head.weight", (case["vocab"], d), 1)
        if "RN" in arch:
            self.norm("model.norm", d)

    def keep(self, name, x):
        x = x.to(torch.float32).to(torch.float64)
        self.values[name] = x.requires_grad_()

    def draw(self, name, shape, scale):
        self.keep(name, scale * torch.randn(shape, generator=self.generator))

    def norm(self, name, n):
        self.keep(name + ".weight", 1 + 0.3 * torch.randn(n, generator=self.generator))

    def linear(self, name, n_in, n_out, bias):
        scale = self.case.get("scale", 1.5) * n_in ** -0.5
        self.draw(name + ".weight", (n_out, n_in), scale)
        if bias:
            self.draw(name + ".bias", n_out, 0.3)

    def act(self, l):
        return self.parts["acts"].get(l, "")

    # --- forward

    def normed(self, x, name):
        if name + ".weight" not in self.values:
            return x
        square = (x ** 2).mean(-1, keepdim=True)
        return x / torch.sqrt(square + self.case["ln_eps"]) * self.values[name + ".weight"]

    def product(self, x, name):
        y = x @ self.values[name + ".weight"].T
        return y + self.values.get(name + ".bias", 0)

    def turned(self, x):
        """Rotates x (B,H,T,width) by its positions; each pair (c, c + width / 2) is
        treated as a complex number.
        """
        half = self.width // 2
        base = self.case["rope_base"] or 10000.0
        turns = base ** (-torch.arange(half) / half)
        if self.case["rope_scaling"] != "none":
            factor, low, high, length = map(float, self.case["rope_scaling"].split(","))
            kept = ((turns * length / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
            turns = kept * turns + (1 - kept) * turns / factor
        angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), turns)
        z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(
            torch.ones_like(angles), angles)
        return torch.cat((z.real, z.imag), -1)

    def weigh(self, s, seen):
        """Returns the attention weights for scores (B,H,T,S), and the same weights
        normalised to a sum of 1.
        """
        if not self.power:
            a = torch.softmax(s.masked_fill(~seen, -math.inf), -1)
            return a, a
        s = s * seen
        c = s.abs().amax(-1, keepdim=True).detach() + 1e-6
        x = (s / c) ** self.power
        total = x.sum(-1, keepdim=True)
        return x / (0.2 + total), x / total

    def attend(self, u, l):
        at = f"model.layers.{l}.self_attn."
        B, T = self.case["batch"], self.case["ctx"]
        q, k, v = (self.product(u, at + f"{x}_proj").view(B, T, -1, self.width)
                   for x in "qkv")
        q, k = self.normed(q, at + "q_norm"), self.normed(k, at + "k_norm")
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        k, v = (x.repeat_interleave(self.heads // self.shared, 1)
                for x in (self.turned(k), v))
        s = self.turned(q) @ k.transpose(-1, -2) / math.sqrt(self.width)
        if at + "log_t" in self.values:
            s = s / torch.exp(self.values[at + "log_t"])[None, :, :, None]
        seen = torch.ones(T, T, dtype=torch.bool).tril()
        a, whole = self.weigh(s, seen)
        # replace 0 ln 0 by 0, without a gradient
        entropy = -(whole * torch.log(torch.where(whole > 0, whole, 1.0))).sum(-1)
        size = s.abs() if self.power else s
        self.rows["row_entropy"].append(entropy)
        self.rows["row_max_logit"].append(size.masked_fill(~seen, -math.inf).amax(-1))
        self.rows["row_top"].append(a.amax(-1))
        if self.power:
            self.rows["row_missing"].append(1 - a.sum(-1))
        return self.product((a @ v).transpose(1, 2).flatten(2), at + "o_proj")

    def feed(self, u, l):
        at = f"model.layers.{l}.mlp."
        inner = self.product(u, at + "up_proj")
        if self.act(l) == "SwiGLU":
            gate = self.product(u, at + "gate_proj")
            inner = gate * torch.sigmoid(gate) * inner
        return self.product(activate(inner, self.act(l)), at + "down_proj")

    def penalty(self, entropy, l):
        largest = math.log(self.case["ctx"])
        theta = self.values[f"model.layers.{l}.self_attn.theta"] * largest
        off = entropy - theta[None, :, None]
        return ((off.abs() > self.case["gamma"] * largest) * off ** 2).sum() / (
            self.case["n_layer"] * self.heads)

    def run(self, tokens, targets):
        self.rows = {name: [] for name in
                     ("row_entropy", "row_max_logit", "row_top", "row_missing")}
        x = self.values["model.embed_tokens.weight"][tokens]
        ereg = torch.zeros(())
        for l in range(self.case["n_layer"]):
            at = f"model.layers.{l}."
            x = x + self.attend(self.normed(x, at + "input_layernorm"), l)
            if self.regularised:
                ereg = ereg + self.penalty(self.rows["row_entropy"][-1], l)
            if has_ffn(self.parts, l, self.case["n_layer"]):
                x = x + self.feed(self.normed(x, at + "post_attention_layernorm"), l)
        x = self.normed(x, "model.norm")
        head = "model.embed_tokens.weight" if self.case["tied"] else "lm_head.weight"
        logits = x @ self.values[head].T
        ce = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, ce, ereg


def positions(case):
    base = {"rope_theta": float(case["rope_base"] or 10000)}
    if case["rope_scaling"] == "none":
        return base | {"rope_type": "default"}
    factor, low, high, length = map(float, case["rope_scaling"].split(","))
    return base | {"rope_type": "llama3", "factor": factor, "low_freq_factor": low,
                   "high_freq_factor": high,
                   "original_max_position_embeddings": int(length)}


def theirs(model, tokens):
    """Returns the logits of a model of transformers with the same weights."""
    case = model.case
    kind = "Qwen3" if case["qk_norm"] else "Qwen2" if case["bias"] == "qkv" else "Llama"
    biases = {"attention_bias": case["bias"] == "all", "mlp_bias": case["bias"] == "all"}
    config = getattr(tf, kind + "Config")(
        vocab_size=case["vocab"], hidden_size=case["d_model"],
        intermediate_size=case["d_ff"], num_hidden_layers=case["n_layer"],
        num_attention_heads=case["n_head"], num_key_value_heads=case["n_kv_head"],
        head_dim=model.width, max_position_embeddings=64, rms_norm_eps=case["ln_eps"],
        rope_parameters=positions(case),
        tie_word_embeddings=case["tied"], pad_token_id=None, bos_token_id=None,
        eos_token_id=None, **(biases if kind == "Llama" else {}))
    other = getattr(tf, kind + "ForCausalLM")._from_config(
        config, attn_implementation="eager").double().eval()
    found = other.load_state_dict(model.values, strict=False)
    missing = [name for name in found.missing_keys if name != "lm_head.weight"]
    assert not missing and not found.unexpected_keys, found
    other.tie_weights()
    with torch.no_grad():
        return other(tokens, use_cache=False).logits


def make(name, wanted, seed):
    case = DEFAULTS | wanted
    model = Model(case, seed)
    shape = (case["batch"], case["ctx"])
    tokens, targets = (torch.randint(case["vocab"], shape, generator=model.generator)
                       for _ in range(2))
    logits, ce, ereg = model.run(tokens, targets)
    if case["arch"] == DEFAULTS["arch"]:
        error = (theirs(model, tokens) - logits).abs().max().item()
        print(f"{name}: transformers' logits differ by {error:.1e}")
        assert error <= 1e-5 * logits.abs().max().item()
    loss = ce + case["lambda"] * ereg
    loss.backward()
    about = {key: case[key] for key in DEFAULTS} | {"note": ""}
    if model.power:
        about["renormalised"] = True
    to = Case(about)
    heads = torch.stack(model.rows["row_entropy"]).mean((1, 3))
    to.add_step(tokens, targets, ce, ereg, loss, logits, model.rows, heads)
    for parameter, value in model.values.items():
        to.add("params/" + parameter, value)
        to.add("grads/" + parameter, value.grad)
    return to


if __name__ == "__main__":
    save_all(make, CASES)
