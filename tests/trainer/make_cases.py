#!/usr/bin/env python3
"""Makes the reference cases of tests/trainer/cases for entropy-train verify:
one training step each, computed by PyTorch in float64 with autograd. The model
is implemented from hooks/trainer/model/README.md, without the program's code.

    make_cases.py FOLDER      (needs torch, numpy and safetensors; reproducible)

Inputs are rounded to float32 before the computation. Cases of PowerSoftmax and
scaled ReLU have "renormalised": true, because their entropies are computed from
weights that are normalised to a sum of one."""
import math

import torch
from case_file import Case, save_all

torch.set_default_dtype(torch.float64)

CASES = {
    # temperatures far below 1, as in the paper, but not so small that a row has a
    # weight of 1
    "t01_sm_t_cold": {"arch": "SM(t)+LN+G", "t": (2e-5, 2e-2), "small_qk": 0.03},
    "t02_ereg_sm_t": {"arch": "EReg(SM(t)+ScFuFFN)", "t": (5e-3, 5e-2),
                      "small_qk": 0.15, "ctx": 7, "n_head": 2},
    # PowerSoftmax, whose weights sum to less than one, without and with the
    # entropy regulariser (EReg)
    "t03_psm4_ln_g": {"arch": "PSM(4,1e-2)+LN+G"},
    "t04_ereg_psm2": {"arch": "EReg(PSM(2,0.2)+R)", "n_head": 2, "ctx": 9},
    # activations that differ between layers
    "n01_sm_ln_g_r": {"arch": "SM+LN+G[0]+R[2]", "n_layer": 3},
    "n02_sm_scfuffne1": {"arch": "SM+ScFuFFNe1", "n_layer": 3, "n_head": 2},
    # a gate on the heads' outputs
    "g01_sm_gate_ln_g": {"arch": "SM(gate)+LN+G"},
    "g02_ereg_sm_t_gate": {"arch": "EReg(SM(t,gate)+ScFFN)", "t": (2e-2, 2e-1),
                           "small_qk": 0.15, "n_layer": 3, "ctx": 7, "n_head": 2},
    # plain PowerSoftmax, epsilons that depend on the length, scaled ReLU
    "p01_psm2_plain": {"arch": "PSM(2,plain)+LN+G", "n_layer": 3},
    "p02_ereg_psm4_plain": {"arch": "EReg(PSM(4,0.2,plain,length)+R)", "ctx": 7},
    "p03_psm4_length": {"arch": "PSM(4,0.1,length)+LN+G", "n_head": 2},
    "p04_psm2_context": {"arch": "PSM(2,0.1,lengthT)+ScFFN", "ctx": 1},
    "r01_ra_ln_g": {"arch": "RA+LN+G", "n_layer": 3},
    "r02_ereg_ra_context": {"arch": "EReg(RA(T)+R)", "n_head": 2, "ctx": 9},
    # range losses, one at a time and all together
    "q01_range_psm4": {"arch": "PSM(4)+LN+G", "range_attn": 0.02},
    "q02_range_gs": {"arch": "EReg(PSM(2,0.2,plain)+LN+GS)", "n_layer": 3,
                     "n_head": 2, "ctx": 7, "range_attn": 0.03,
                     "range_act": 0.05, "range_norm": 0.01},
    "q03_range_length": {"arch": "PSM(6,0.1,length)+LN+G[1]", "n_layer": 3,
                         "range_act": 0.1, "range_norm": 0.02},
    # temperatures that are learnt directly; the smallest are below the allowed minimum
    "t05_sm_t_direct": {"arch": "SM(t,direct)+LN+G", "t": (4e-5, 4e-2),
                        "small_qk": 0.03, "n_layer": 3, "ctx": 7, "n_head": 2},
    # norms, activations, FFNs, WNorm and SNorm differ between layers; n03
    # combines several kinds of FFNs with WNorm and with SNorm
    "n03_ereg_parts": {"arch": "EReg(SM(t)+LN[0-2]+LN[5]+G+ScFFN[2-3]+ScFuFFN[4-5]+"
                               "WNorm(QKV,FFN)[1-2]+WNorm(QKVO)[4]+SNorm(FFN)[0]+"
                               "SNorm(QK,FFN)[3]+SNorm(FFN)[4-5])",
                       "t": (0.7, 2), "n_layer": 6, "ctx": 7, "final_norm": "off"},
    "n04_range_parts": {"arch": "PSM(2,0.2)+LN[1]+GS[0-1]+R[3]+ScFFN[2]", "n_layer": 4,
                        "n_head": 2, "range_attn": 0.02, "range_act": 0.05,
                        "range_norm": 0.01},
    # layers without an FFN
    "n05_noffn": {"arch": "SM(t)+LN+G[0-2]+ScFFN[4]+NoFFN[0]+NoFFN[2-3]", "t": (0.7, 2),
                  "n_layer": 5, "n_head": 2, "ctx": 7},
    "n06_ereg_noffn": {"arch": "EReg(SM+LN[0]+NoFFN+WNorm(QKVO))", "n_head": 1},
}
DEFAULTS = {"family": "gpt2", "n_layer": 2, "n_head": 3, "d_model": 12, "ctx": 6,
            "vocab": 11, "batch": 2, "mlp_mult": 2, "bias": "all",
            "final_norm": "auto", "gamma": 0.05, "lambda": 1e-3,
            "ereg_reduce": "token"}


def read_arch(text):
    """Parses the notation of architectures; supports only the parts that occur in CASES."""
    arch = {"ereg": text.startswith("EReg("), "acts": {}, "ffn": {}, "ln": set(),
            "WNorm": {}, "SNorm": {}, "first": 0, "last": 0, "none": set(), "power": 0}
    body = text[5:-1] if arch["ereg"] else text
    attention, *parts = body.split("+")
    options = attention[3:-1].split(",") if attention.startswith("SM(") else []
    arch["t"], arch["gate"] = "t" in options, "gate" in options
    arch["direct"] = "direct" in options
    arch["relu"] = attention.startswith("RA")
    arch["length"] = ("T" if attention == "RA(T)" else "keys") if arch["relu"] else ""
    if attention.startswith("PSM("):
        power, *words = attention[4:-1].split(",")
        arch["power"], arch["plain"] = int(power), "plain" in words
        arch["eps"] = 0 if arch["plain"] else 1e-3
        for word in words:
            if word.startswith("length"):
                arch["length"] = word[6:] or "keys"
            elif word != "plain":
                arch["eps"] = float(word)
    for part in parts:
        name, _, layers = part.rstrip("]").partition("[")
        first, _, last = layers.partition("-")
        span = range(int(first), int(last or first) + 1) if layers else range(99)
        if name in ("LN", "RN"):
            arch["ln"].update(span)
        elif name == "NoFFN":
            arch["none"].update(span)
        elif name == "ScFFN":
            arch["ffn"].update(dict.fromkeys(span, "scaled"))
        elif name.startswith("ScFuFFN"):
            arch["ffn"].update(dict.fromkeys(span, "fused"))
            if name[7:8] in ("e", "i"):
                arch["first" if name[7] == "e" else "last"] = int(name[8:])
        elif name[1:].startswith("Norm("):
            where = name[6:-1].replace("FFN", "F").replace(",", "")
            arch[name[:5]].update(dict.fromkeys(span, where))
        else:
            arch["acts"].update(dict.fromkeys(span, name))
    return arch


def has_ffn(arch, l, n_layer):
    return arch["first"] <= l < n_layer - arch["last"] and l not in arch["none"]


def activate(x, name):
    if name == "GS":
        return x * torch.sigmoid(1.702 * x)
    if name == "G":
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    return torch.relu(x) if name == "R" else x


class Model:
    """A model with the parameters of entropy-train, in the same order and with the
    same names.
    """

    def __init__(self, case, seed):
        self.case, self.arch = case, read_arch(case["arch"])
        self.generator = torch.Generator().manual_seed(seed)
        self.values, self.state = {}, {}
        L, H, T = case["n_layer"], case["n_head"], case["ctx"]
        d, m = case["d_model"], case["mlp_mult"] * case["d_model"]
        self.draw("wte", (case["vocab"], d))
        self.draw("wpe", (T, d))
        for l in range(L):
            at = f"h.{l}."
            feeds = has_ffn(self.arch, l, L)
            if l in self.arch["ln"]:
                self.norm(at + "ln_1", d)
                if feeds:
                    self.norm(at + "ln_2", d)
            self.linear(at + "attn.c_attn", d, 3 * d)
            self.linear(at + "attn.c_proj", d, d)
            if self.arch["gate"]:
                self.draw(at + "attn.c_gate.weight", (d, d), 2 * d ** -0.5)
            if self.arch["t"]:
                low, high = case["t"]
                u = torch.rand((H, T), generator=self.generator)
                self.keep(at + "attn.t", low * (high / low) ** u)
            if self.arch["ereg"]:
                self.keep(at + "attn.theta",
                          0.2 + 0.6 * torch.rand(H, generator=self.generator))
            ffn = self.arch["ffn"].get(l, "two")
            modules = {"attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d)}
            if feeds and ffn == "fused":
                modules["mlp.w"] = d, d
                self.draw(at + "mlp.w.weight", (d, d), d ** -0.5)
            elif feeds:
                modules |= {"mlp.c_fc": (d, m), "mlp.c_proj": (m, d)}
                self.linear(at + "mlp.c_fc", d, m)
                self.linear(at + "mlp.c_proj", m, d)
            for module, shape in modules.items():
                self.draw_norms(l, module, *shape)
            if feeds and ffn != "two":
                for name in ("alpha", "beta"):
                    self.keep(at + "mlp." + name,
                              1 + 0.3 * torch.randn(1, generator=self.generator))
        if self.arch["ln"] and case["final_norm"] == "auto":
            self.norm("ln_f", d)

    def keep(self, name, x):
        x = x.to(torch.float32).to(torch.float64)
        self.values[name] = x.requires_grad_()

    def draw(self, name, shape, scale=1.0):
        self.keep(name, scale * torch.randn(shape, generator=self.generator))

    def norm(self, name, d):
        self.keep(name + ".weight", 1 + 0.3 * torch.randn(d, generator=self.generator))
        self.draw(name + ".bias", d, 0.1)

    def linear(self, name, n_in, n_out):
        scale = n_in ** -0.5
        if name.endswith("c_attn"):
            scale *= self.case.get("small_qk", 1)
        self.draw(name + ".weight", (n_in, n_out), scale)
        self.draw(name + ".bias", n_out, 0.1 * self.case.get("small_qk", 1))

    def norm_of_block(self, l, module, i):
        """Returns "WNorm", "SNorm" or "" for a matrix, or for its block i of q, k
        and v.
        """
        block = {"attn.c_attn": "QKV"[i], "attn.c_proj": "O"}.get(module, "F")
        return "".join(norm for norm in ("WNorm", "SNorm")
                       if block in self.arch[norm].get(l, ""))

    def draw_norms(self, l, module, n_in, n_out):
        """Draws random values for the arrays that WNorm or SNorm adds to a matrix."""
        n = 3 if module == "attn.c_attn" else 1
        norms = {self.norm_of_block(l, module, i) for i in range(n)}
        at = f"h.{l}.{module}."
        if "WNorm" in norms:
            self.keep(at + "g", 1 + 0.3 * torch.randn(
                n_out, generator=self.generator))
        if "SNorm" in norms:
            for name, size in (("u", n_out // n), ("v", n_in)):
                x = torch.randn((n, size), generator=self.generator)
                x = (x / x.norm(dim=1, keepdim=True)).to(torch.float32).to(torch.float64)
                self.state[at + name] = x if n > 1 else x[0]

    # --- forward

    def weight(self, l, module):
        """Returns the weight matrix that products use, after WNorm or SNorm. SNorm's
        vectors u and v advance by one power iteration."""
        at = f"h.{l}.{module}."
        n = 3 if module == "attn.c_attn" else 1
        blocks = list(self.values[at + "weight"].chunk(n, 1))
        for i in range(n):
            norm = self.norm_of_block(l, module, i)
            if norm == "WNorm":
                blocks[i] = (self.values[at + "g"].chunk(n)[i] * blocks[i]
                             / blocks[i].norm(dim=0))
            elif norm == "SNorm":
                u, v = (self.state[at + x].view(n, -1)[i] for x in "uv")
                W = blocks[i].detach()
                v.copy_(W @ u / (W @ u).norm())
                u.copy_(W.T @ v / (W.T @ v).norm())
                blocks[i] = blocks[i] / (v.clone() @ blocks[i] @ u.clone())
        return torch.cat(blocks, 1)

    def note(self, kind, l, x):
        """Stores the largest |input| of a layer's norm, activation or
        PowerSoftmax.
        """
        self.ranges.append((kind, l, x.abs().max()))

    def normed(self, x, name):
        if name + ".weight" not in self.values:
            return x
        at = name.split(".")
        self.note("norm", int(at[1]) if at[0] == "h"
                  else self.case["n_layer"] - 1, x)
        mean = x.mean(-1, keepdim=True)
        var = ((x - mean) ** 2).mean(-1, keepdim=True)
        return ((x - mean) / torch.sqrt(var + 1e-5) * self.values[name + ".weight"]
                + self.values[name + ".bias"])

    def product(self, x, l, module):
        bias = self.values.get(f"h.{l}.{module}.bias", 0)
        return x @ self.weight(l, module) + bias

    def weigh(self, s, seen):
        """Returns the attention weights for scores (B,H,T,S), and the same weights
        normalised to a sum of 1.
        """
        n = {"": 1, "keys": seen.sum(-1, keepdim=True), "T": len(seen)}[
            self.arch["length"]]
        if self.arch["relu"]:
            x = torch.relu(s * seen)
            total = x.sum(-1, keepdim=True)
            return x / n, x / torch.where(total > 0, total, 1.0)
        if not self.arch["power"]:
            a = torch.softmax(s.masked_fill(~seen, -math.inf), -1)
            return a, a
        s = s * seen
        c = 1 if self.arch["plain"] else (
            s.abs().amax(-1, keepdim=True).detach() + 1e-6)
        x = (s / c) ** self.arch["power"]
        total = x.sum(-1, keepdim=True)
        return x / (self.arch["eps"] * n + total), x / total

    def attend(self, u, l):
        case = self.case
        B, T, H, d = case["batch"], case["ctx"], case["n_head"], case["d_model"]
        qkv = self.product(u, l, "attn.c_attn").view(B, T, 3, H, d // H)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(d // H)
        if self.arch["t"]:
            t = self.values[f"h.{l}.attn.t"]
            if self.arch["direct"]:  # a minimum that does not stop the gradient
                t = t + (t.clamp(min=1e-4) - t).detach()
            s = s / t[None, :, :, None]
        seen = torch.ones(T, T, dtype=torch.bool).tril()
        if self.arch["power"]:
            self.note("attn", l, s * seen)
        a, whole = self.weigh(s, seen)
        # replace 0 * ln(0) by 0, without a gradient
        entropy = -(whole * torch.log(torch.where(whole > 0, whole, 1.0))).sum(-1)
        size = s.abs() if self.arch["power"] else s
        self.rows["row_entropy"].append(entropy)
        self.rows["row_max_logit"].append(size.masked_fill(~seen, -math.inf).amax(-1))
        self.rows["row_top"].append(a.amax(-1))
        if self.arch["power"] or self.arch["relu"]:
            self.rows["row_missing"].append(1 - a.sum(-1))
        heads = (a @ v).transpose(1, 2).reshape(B, T, d)
        if self.arch["gate"]:
            heads = heads * torch.sigmoid(
                u @ self.values[f"h.{l}.attn.c_gate.weight"])
        return self.product(heads, l, "attn.c_proj")

    def feed(self, u, l):
        ffn = self.arch["ffn"].get(l, "two")
        if ffn == "fused":
            return self.product(u, l, "mlp.w")
        act = self.arch["acts"].get(l, "") if ffn == "two" else ""
        inner = self.product(u, l, "mlp.c_fc")
        if act:
            self.note("act", l, inner)
        return self.product(activate(inner, act), l, "mlp.c_proj")

    def penalty(self, entropy, l):
        case = self.case
        largest = math.log(case["ctx"])
        theta = self.values[f"h.{l}.attn.theta"] * largest
        if case["ereg_reduce"] == "mean":
            off = entropy.mean((0, 2)) - theta
        else:
            off = entropy - theta[None, :, None]
        return ((off.abs() > case["gamma"] * largest) * off ** 2).sum() / (
            case["n_layer"] * case["n_head"])

    def run(self, tokens, targets):
        self.rows = {name: [] for name in
                     ("row_entropy", "row_max_logit", "row_top", "row_missing")}
        self.ranges = []
        x = self.values["wte"][tokens] + self.values["wpe"][None]
        ereg = torch.zeros(())
        for l in range(self.case["n_layer"]):
            x = x + self.attend(self.normed(x, f"h.{l}.ln_1"), l)
            if self.arch["ereg"]:
                ereg = ereg + self.penalty(self.rows["row_entropy"][-1], l)
            if not has_ffn(self.arch, l, self.case["n_layer"]):
                continue
            f = self.feed(self.normed(x, f"h.{l}.ln_2"), l)
            if self.arch["ffn"].get(l, "two") == "two":
                x = x + f
            else:
                x = (self.values[f"h.{l}.mlp.beta"] * x
                     + f / self.values[f"h.{l}.mlp.alpha"])
        logits = self.normed(x, "ln_f") @ self.values["wte"].T
        ce = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten())
        return logits, ce, ereg


RANGES = ("range_attn", "range_act", "range_norm")


def add_ranges(to, model):
    """Adds the range of each layer to the case: the largest |input| of its norms, of
    its activation or of PowerSoftmax; NaN if the layer has no such input."""
    for name in RANGES:
        values = torch.full((model.case["n_layer"],), math.nan)
        for kind, l, largest in model.ranges:
            if "range_" + kind == name:
                values[l] = torch.fmax(values[l], largest.detach())
        if not values.isnan().all():
            to.add("out/" + name, values)


def make(_, wanted, seed):
    case = DEFAULTS | wanted
    model = Model(case, seed)
    shape = (case["batch"], case["ctx"])
    tokens, targets = (torch.randint(case["vocab"], shape, generator=model.generator)
                       for _ in range(2))
    before = {name: value.clone() for name, value in model.state.items()}
    logits, ce, ereg = model.run(tokens, targets)
    loss = ce + case["lambda"] * ereg + sum(
        case.get("range_" + kind, 0) * largest
        for kind, _, largest in model.ranges)
    loss.backward()
    about = {key: case[key] for key in ("arch", *DEFAULTS)} | {"note": ""}
    about |= {name: case[name] for name in RANGES if name in case}
    if model.arch["power"] or model.arch["relu"]:
        about["renormalised"] = True
    to = Case(about)
    heads = torch.stack(model.rows["row_entropy"]).mean((1, 3))
    to.add_step(tokens, targets, ce, ereg, loss, logits, model.rows, heads)
    for parameter, value in model.values.items():
        to.add("params/" + parameter, value)
        to.add("grads/" + parameter, value.grad)
    for name, value in before.items():
        to.add("state/" + name, value)
        to.add("state_after/" + name, model.state[name])
    if any(name in case for name in RANGES):
        add_ranges(to, model)
    return to


if __name__ == "__main__":
    save_all(make, CASES)
