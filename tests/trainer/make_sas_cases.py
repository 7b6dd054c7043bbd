#!/usr/bin/env python3
"""Makes the reference cases s01 to s07 of tests/trainer/cases, for family sas (He and
Hofmann, Simplifying transformer blocks, 2024): one training step each, computed by
PyTorch in float64 with autograd. The model is implemented from
hooks/trainer/model/README.md, without the program's code.

    make_sas_cases.py FOLDER      (needs torch, numpy and safetensors)

Inputs are rounded to float32 before the computation."""
import math

import torch
from case_file import Case, save_all
from make_cases import activate, has_ffn, read_arch

CASES = {
    # without norms except the norm of the embedding, like the models in AERO's
    # table
    "s01_sas_scffn": {"arch": "SM+ScFFN", "n_layer": 3},
    "s02_sas_scfuffni1": {"arch": "SM+ScFuFFNi1", "n_head": 3, "bias": "none"},
    "s03_sas_rn_r": {"arch": "SM+RN+R", "ctx": 9},
    "s04_sas_ln_g": {"arch": "SM+LN+G", "n_layer": 1, "batch": 1, "n_head": 4},
    "s05_sas_ereg_sm_t": {"arch": "EReg(SM(t)+ScFFN)", "n_head": 1},
    # parts that differ between layers
    "s06_sas_parts": {"arch": "SM+LN[2]+G[2]+ScFuFFN[0]+ScFFN[1]", "n_layer": 3},
    "s07_sas_noffn": {"arch": "SM+LN+R+NoFFN[0]+NoFFN[2]", "n_layer": 3, "n_head": 1},
}
DEFAULTS = {"family": "sas", "n_layer": 2, "n_head": 2, "d_model": 12, "ctx": 6,
            "vocab": 11, "batch": 2, "mlp_mult": 2, "bias": "qk",
            "final_norm": "auto", "gamma": 0.05, "lambda": 1e-3,
            "ereg_reduce": "token"}


class Model:
    def __init__(self, case, seed):
        self.case, self.values, arch = case, {}, case["arch"]
        self.generator = torch.Generator().manual_seed(seed)
        self.regularised, self.rms = arch.startswith("EReg("), "RN" in arch
        self.parts = read_arch(arch)
        H, T, d = case["n_head"], case["ctx"], case["d_model"]
        m = case["mlp_mult"] * d
        self.draw("wte", (case["vocab"], d), 1)
        self.draw("wpe", (T, d), 1)
        for l in range(case["n_layer"]):
            at = f"h.{l}."
            if l in self.parts["ln"] or l == 0:
                self.norm(at + "norm", d)
            for x in "qk":
                self.draw(at + f"attn.{x}.weight", (d, d), 1.2 * d ** -0.5)
                if case["bias"] == "qk":
                    self.draw(at + f"attn.{x}.bias", d, 0.3)
            self.near_one(at + "attn.gains", (3, H))
            if "SM(t)" in arch:
                self.draw(at + "attn.log_t", (H, T), 0.4)
            if self.regularised:
                self.keep(at + "attn.theta",
                          0.2 + 0.6 * torch.rand(H, generator=self.generator))
            if not has_ffn(self.parts, l, case["n_layer"]):
                continue
            if self.parts["ffn"].get(l) == "fused":
                self.draw(at + "mlp.w.weight", (d, d), d ** -0.5)
            else:
                self.draw(at + "mlp.up.weight", (m, d), d ** -0.5)
                self.draw(at + "mlp.down.weight", (d, m), m ** -0.5)
            self.near_one(at + "mlp.alpha", 1)
            self.near_one(at + "mlp.beta", 1)
        self.norm("ln_f", d)

    def keep(self, name, x):
        self.values[name] = x.to(torch.float32).to(torch.float64).requires_grad_()

    def draw(self, name, shape, scale):
        self.keep(name, scale * torch.randn(shape, generator=self.generator))

    def near_one(self, name, shape):
        self.keep(name, 1 + 0.3 * torch.randn(shape, generator=self.generator))

    def norm(self, name, d):
        self.near_one(name + ".weight", d)
        if not self.rms:
            self.draw(name + ".bias", d, 0.1)

    # --- forward

    def normed(self, x, name):
        if name + ".weight" not in self.values:
            return x
        centre = 0 if self.rms else x.mean(-1, keepdim=True)
        x = x - centre
        x = x / torch.sqrt((x ** 2).mean(-1, keepdim=True) + 1e-5)
        return x * self.values[name + ".weight"] + self.values.get(name + ".bias", 0)

    def product(self, x, name):
        y = x @ self.values[name + ".weight"].T
        return y + self.values.get(name + ".bias", 0)

    def attend(self, u, l):
        at, T = f"h.{l}.attn.", self.case["ctx"]
        q, k, v = (x.unflatten(-1, (self.case["n_head"], -1)).transpose(1, 2)
                   for x in (self.product(u, at + "q"), self.product(u, at + "k"), u))
        s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if at + "log_t" in self.values:
            s = s / torch.exp(self.values[at + "log_t"])[None, :, :, None]
        seen = torch.ones(T, T, dtype=torch.bool).tril()
        s = s.masked_fill(~seen, -math.inf)
        a = torch.softmax(s, -1)
        self.rows["row_entropy"].append(
            -(a * torch.log(torch.where(a > 0, a, 1.0))).sum(-1))
        self.rows["row_max_logit"].append(s.amax(-1))
        self.rows["row_top"].append(a.amax(-1))
        own, softmax, centre = self.values[at + "gains"][:, :, None, None]
        uniform = seen / torch.arange(1, T + 1)[:, None]
        shaped = own * torch.eye(T) + softmax * a - centre * uniform
        return (shaped @ v).transpose(1, 2).flatten(2)

    def feed(self, u, l):
        at = f"h.{l}.mlp."
        if self.parts["ffn"].get(l) == "fused":
            return self.product(u, at + "w")
        act = self.parts["acts"].get(l, "")
        return self.product(activate(self.product(u, at + "up"), act), at + "down")

    def penalty(self, entropy, l):
        case = self.case
        largest = math.log(case["ctx"])
        off = entropy - (self.values[f"h.{l}.attn.theta"] * largest)[None, :, None]
        return ((off.abs() > case["gamma"] * largest) * off ** 2).sum() / (
            case["n_layer"] * case["n_head"])

    def run(self, tokens, targets):
        self.rows = {name: [] for name in ("row_entropy", "row_max_logit", "row_top")}
        x = self.values["wte"][tokens] + self.values["wpe"][None]
        ereg = torch.zeros(())
        for l in range(self.case["n_layer"]):
            u = self.normed(x, f"h.{l}.norm")
            x = self.attend(u, l)
            if self.regularised:
                ereg = ereg + self.penalty(self.rows["row_entropy"][-1], l)
            if has_ffn(self.parts, l, self.case["n_layer"]):
                x = (self.values[f"h.{l}.mlp.beta"] * x
                     + self.feed(u, l) / self.values[f"h.{l}.mlp.alpha"])
        logits = self.normed(x, "ln_f") @ self.values["wte"].T
        ce = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, ce, ereg


def make(_, wanted, seed):
    case = DEFAULTS | wanted
    model = Model(case, seed)
    shape = (case["batch"], case["ctx"])
    tokens, targets = (torch.randint(case["vocab"], shape, generator=model.generator)
                       for _ in range(2))
    logits, ce, ereg = model.run(tokens, targets)
    loss = ce + case["lambda"] * ereg
    loss.backward()
    about = {key: case[key] for key in ("arch", *DEFAULTS)} | {"note": ""}
    to = Case(about)
    heads = torch.stack(model.rows["row_entropy"]).mean((1, 3))
    to.add_step(tokens, targets, ce, ereg, loss, logits, model.rows, heads)
    for parameter, value in model.values.items():
        # a case stores temperatures instead of their logarithms
        old = parameter.replace("log_t", "t")
        t = torch.exp(value) if old != parameter else 1.0
        to.add("params/" + old, t if old != parameter else value)
        to.add("grads/" + old, value.grad / t)
    return to


if __name__ == "__main__":
    save_all(make, CASES)
