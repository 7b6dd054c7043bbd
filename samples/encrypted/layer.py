"""Computes one PowerSoftmax attention layer of a checkpoint without encryption, both
exactly and with the polynomial that is used under encryption. Needs only NumPy."""
import json
import math
import re
import struct
import sys

import numpy as np


def load(path):
    """Returns the configuration and the float32 arrays of a checkpoint of
    entropy-train."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    about = header.pop("__metadata__", {})
    if "config" not in about:
        sys.exit(f"{path}: not a checkpoint of entropy-train")
    arrays = {}
    for name, entry in header.items():
        if not name.startswith("optimizer.") and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            arrays[name] = np.frombuffer(data[begin:end], "<f4").reshape(
                entry["shape"]).astype(float)
    return json.loads(about["config"]), arrays


def held_out(path, ctx, n):
    """Returns the first n held-out sequences of a token file of bytes, (n,ctx)."""
    with open(path, "rb") as file:
        head = file.read(96)
        width, = struct.unpack("<I", head[16:20])
        train, = struct.unpack("<Q", head[24:32])
        if head[:8] != b"ESTOKENS" or width != 1:
            sys.exit(f"{path}: not a token file of bytes: make it with entropy-corpus")
        file.seek(96 + train)
        tokens = np.frombuffer(file.read(n * ctx), np.uint8)
    if tokens.size < n * ctx:
        sys.exit(f"{path}: has fewer than {n * ctx} held-out tokens")
    return tokens.reshape(n, ctx)


def form(arch, path="checkpoint"):
    """Returns (p, epsilon) of an architecture 'PSM(p,epsilon,plain)+LN+G', where
    epsilon must be above 0."""
    found = re.fullmatch(r"PSM\((\d+),([0-9.e-]+),plain\)\+LN\+G", arch)
    if not found or float(found[2]) <= 0 or int(found[1]) & (int(found[1]) - 1):
        sys.exit(f"{path}: {arch} is not PSM(p,epsilon,plain)+LN+G with p a power of 2: the stable "
                 "form divides by a maximum, which is not a polynomial")
    return int(found[1]), float(found[2])


def norm(x, gain, bias, epsilon):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * gain + bias


def scores(u, w, n_head):
    """Returns causal scores (...,H,T,T), 0 where masked, and values (...,H,T,d/H)."""
    q, k, v = (np.moveaxis(part.reshape(*part.shape[:-1], n_head, -1), -2, -3) for part in
               np.split(u @ w["attn.c_attn.weight"] + w["attn.c_attn.bias"], 3, -1))
    x = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    return x * np.tril(np.ones(x.shape[-2:])), v


def attention(u, w, n_head, p, epsilon, inverse=np.reciprocal):
    """Returns the layer's output (x^p / (epsilon + sum of x^p)) * v * Wo + bo, where x
    are the scores and v the values."""
    x, v = scores(u, w, n_head)
    y = (x**p) @ v * inverse(epsilon + (x**p).sum(-1))[..., None]
    y = np.moveaxis(y, -3, -2)
    return y.reshape(*y.shape[:-2], -1) @ w["attn.c_proj.weight"] + w.get("attn.c_proj.bias", 0)


def goldschmidt(s, factors):
    """Returns the function that approximates 1 / x by Goldschmidt's product s * (1 + e)
    * (1 + e^2) * (1 + e^4) * ..., where e = 1 - s * x. s is a first estimate of 1 / x
    for all x, and `factors` is the number of factors (1 + ...).
    """
    def inverse(x):
        e = 1 - s * x
        y = s * np.ones_like(x)
        for _ in range(factors):
            y, e = y * (1 + e), e * e
        return y
    return inverse


def needed(k, error):
    """Returns the number of Goldschmidt factors that reach a relative error in exact
    arithmetic, if the largest denominator is k times the smallest."""
    return 0 if k <= 1 else max(0, math.ceil(math.log2(math.log(error) /
                                                       math.log((k - 1) / (k + 1)))))


class Layer:
    """A layer of a checkpoint, its inputs, and the range of the denominators of its
    PowerSoftmax."""

    def __init__(self, checkpoint, tokens, layer, n_calibrate):
        config, arrays = load(checkpoint)
        self.p, self.epsilon = form(config["arch"], checkpoint)
        self.arch, self.ctx, self.n_head = config["arch"], config["ctx"], config["n_head"]
        if config["family"] != "gpt2" or not 0 <= layer < config["n_layer"]:
            sys.exit(f"{checkpoint}: contains no layer {layer} of a GPT-2")
        self.d, eps = config["d_model"], config["ln_eps"]
        # The first sequence is the input to encrypt; the other sequences are for
        # calibration.
        x = arrays["wte"][held_out(tokens, self.ctx, 1 + n_calibrate)] + arrays["wpe"]
        for i in range(layer + 1):
            w = {name.split(".", 2)[2]: value for name, value in arrays.items()
                 if name.startswith(f"h.{i}.")}
            u = norm(x, w["ln_1.weight"], w["ln_1.bias"], eps)
            if i == layer:
                break
            x = x + attention(u, w, self.n_head, self.p, self.epsilon)
            f = norm(x, w["ln_2.weight"], w["ln_2.bias"], eps)
            f = f @ w["mlp.c_fc.weight"] + w.get("mlp.c_fc.bias", 0)
            f = f * (1 + np.vectorize(math.erf)(f / math.sqrt(2))) / 2
            x = x + f @ w["mlp.c_proj.weight"] + w.get("mlp.c_proj.bias", 0)
        self.w, self.u = w, u[0]
        x, _ = scores(u[1:], w, self.n_head)
        sums = self.epsilon + (x**self.p).sum(-1)
        self.seen = sums.min(), sums.max()
        self.sums = sums[0]
