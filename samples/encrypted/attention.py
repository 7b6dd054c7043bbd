#!/usr/bin/env python3
"""Computes one PowerSoftmax attention layer of a checkpoint under encryption (CKKS).

    attention.py CHECKPOINT --data TOKENS [--layer N] [--log-n 15] [--bits B]
                 [--factors D] [--inverse] [--reencrypt] -o profile.json

The checkpoint must be made by entropy-train --arch 'PSM(p,epsilon,plain)+LN+...'. The
input is the first held-out sequence of TOKENS, a file made by entropy-corpus. README.md
describes what is encrypted and what is not. The profile contains the errors and the
seconds of processor time of each operation; draw.py draws the profile. With --inverse
only the denominators are encrypted, and they are inverted with as many factors as the
levels allow.
"""
import argparse
import json
import math
import sys

import numpy as np

import layer as plain


def errors(got, want):
    return {"max": float(np.abs(got - want).max()),
            "rms": float(np.sqrt(np.mean((got - want)**2)))}


def shapes(layer):
    """Returns three values: the shape of the slots (c,h,j,i), that is channel,
    head, key, query; the number of baby steps of the baby-step giant-step
    method; and the rotation steps that need keys."""
    d, n_head, ctx = layer.d, layer.n_head, layer.ctx
    if any(n & (n - 1) for n in (d, n_head, ctx)):
        sys.exit("width, heads and context must be powers of 2: slots are summed by halves")
    baby = 1 << math.ceil(math.log2(d) / 2)
    steps = [r * ctx * ctx for r in [*range(1, baby), *range(baby, d, baby)]]
    steps += [m * n_head * ctx * ctx for m in powers(d // n_head)] + [m * ctx for m in powers(ctx)]
    return (d // n_head, n_head, ctx, ctx), baby, steps


def powers(n):
    return [1 << m for m in range(n.bit_length() - 1)]


def feature_order(layer):
    """Returns the checkpoint's feature indices, which have the order (h,c), in the
    order of the slots, (c,h)."""
    return np.arange(layer.d).reshape(layer.n_head, -1).T.ravel()


def diagonals(matrix, mask):
    """Returns the diagonals of a matrix (d inputs,d outputs), each (d,T,T),
    multiplied by mask (T,T)."""
    d = len(matrix)
    f = np.arange(d)
    return [matrix[(f + r) % d, f][:, None, None] * mask for r in range(d)]


def encrypted(layer, he, s, factors, reencrypt):
    """Computes the layer under encryption. Returns the output (T,d), and the normalised
    heads after each factor of the inverse."""
    shape, baby, _ = shapes(layer)
    d, ctx, order = layer.d, layer.ctx, feature_order(layer)
    unit, ones = ctx * ctx, np.ones((ctx, ctx))
    causal = np.tril(ones).T  # (j,i)
    names = "q", "k", "v"
    weights = dict(zip(names, np.split(layer.w["attn.c_attn.weight"], 3, 1)))
    # Models that were trained without --bias have no bias for the values.
    bias = dict(zip(names, np.split(np.broadcast_to(layer.w["attn.c_attn.bias"], 3 * d), 3)))
    # Compute x^p * s as (x / c)^p with a constant c, so that the factor s does
    # not need another multiplication under encryption (a level).
    factor = {"q": s**(1 / layer.p) / math.sqrt(d // layer.n_head), "k": 1, "v": 1}

    u = layer.u.T[order]  # (d,T)
    of_query = he.encrypt(np.broadcast_to(u[:, None, :], (d, ctx, ctx)))
    of_key = he.encrypt(np.broadcast_to(u[:, :, None], (d, ctx, ctx)))

    def project(rotated, name, mask):
        w = weights[name][np.ix_(order, order)] * factor[name]
        b = bias[name][order][:, None, None] * factor[name] * mask
        return he.plus_plain(he.matrix(rotated, diagonals(w, mask), unit), b)

    he.stage = "projections"
    of_query, of_key = (he.rotations(x, unit, baby) for x in (of_query, of_key))
    q, k, v = project(of_query, "q", ones), project(of_key, "k", causal), project(of_key, "v", ones)
    he.stage = "scores"
    z = he.sum_over(he.times(q, k), layer.n_head * unit, d // layer.n_head)
    he.stage = "power"
    for _ in range(layer.p.bit_length() - 1):
        z = he.square(z)
    he.stage = "row sums"
    # The sums are correct at key 0. At other keys the sums mix rows, so the mask sets
    # e, from which the factors are computed, to 0 at these keys.
    first = np.zeros((ctx, ctx))
    first[0] = 1
    e = he.plus_plain(he.negate(he.sum_over(z, ctx, ctx)), 1 - s * layer.epsilon)
    e = he.rescale(he.times_plain(e, np.broadcast_to(first, shape)))
    he.stage = "values"
    y = he.sum_over(he.times(z, v), ctx, ctx)
    he.stage, heads = "inverse", []
    for i in range(factors):
        if reencrypt and he.level(y) == 0:
            y, e = he.refresh(y), he.refresh(e)
        y, e = he.times(y, he.plus_plain(e, 1.0)), he.square(e) if i + 1 < factors else e
        heads.append(he.decrypt(y, shape)[:, :, 0, :])
    if reencrypt and he.level(y) == 0:
        y = he.refresh(y)
    he.stage = "output"
    w = layer.w["attn.c_proj.weight"][np.ix_(order, np.arange(d))]
    out = he.matrix(he.rotations(y, unit, baby), diagonals(w, first), unit)
    if "attn.c_proj.bias" in layer.w:
        out = he.plus_plain(out, layer.w["attn.c_proj.bias"][:, None, None] * first)
    return he.decrypt(out, (d, ctx, ctx))[:, 0, :].T, heads


def normalised(layer, inverse):
    """Computes the normalised heads in plain arithmetic, (c,h,T)."""
    x, v = plain.scores(layer.u, layer.w, layer.n_head)
    z = x**layer.p
    return np.transpose(z @ v * inverse(layer.epsilon + z.sum(-1))[..., None], (2, 0, 1))


def run_layer(layer, he, s, factors, reencrypt):
    out, heads = encrypted(layer, he, s, factors, reencrypt)
    arguments = layer.u, layer.w, layer.n_head, layer.p, layer.epsilon
    polynomial = plain.attention(*arguments, plain.goldschmidt(s, factors))
    exact = plain.attention(*arguments)
    want = normalised(layer, np.reciprocal)
    return {"output": {"largest": float(np.abs(exact).max()),
                       "encrypted and polynomial": errors(out, polynomial),
                       "polynomial and exact": errors(polynomial, exact),
                       "encrypted and exact": errors(out, exact)},
            "by_factors": [{"factors": i + 1,
                            "encrypted": errors(got, want),
                            "polynomial": errors(normalised(layer, plain.goldschmidt(s, i + 1)),
                                                 want),
                            "noise": errors(got, normalised(layer, plain.goldschmidt(s, i + 1)))}
                           for i, got in enumerate(heads)]}


def run_inverse(layer, he, s, factors, _):
    """Inverts the layer's denominators under encryption. Returns the relative error for
    each number of factors."""
    x = layer.sums.ravel()
    he.stage = "inverse"
    e = he.encrypt(1 - s * x)
    y, rows = None, []
    for i in range(factors):
        e = he.square(e) if i else e
        term = he.plus_plain(e, 1.0)
        y = term if y is None else he.times(y, term)
        got = he.decrypt(y, x.shape) * s * x
        exact = plain.goldschmidt(s, i + 1)(x) * x
        rows.append({"factors": i + 1, "encrypted": errors(got, 1), "polynomial": errors(exact, 1),
                     "noise": errors(got, exact)})
    return {"by_factors": rows}


def levels_of(layer, factors, inverse):
    """Returns the number of multiplicative levels that the layer needs for
    projections, scores, power, mask, factors with values, and output."""
    return max(1, factors) if inverse else factors + layer.p.bit_length() + 3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--data", required=True)
    parser.add_argument("--layer", type=int, default=0)
    parser.add_argument("--log-n", type=int, default=15, choices=(13, 14, 15))
    parser.add_argument("--bits", type=int, default=0,
                        help="bits of the scale and of a level, at most 50; 0 for as many as fit")
    parser.add_argument("--factors", type=int, default=0,
                        help="factors of the inverse; 0 for an error of 1e-6 in exact arithmetic")
    parser.add_argument("--calibrate", type=int, default=512, help="number of sequences")
    parser.add_argument("--margin", type=float, default=1.5,
                        help="factor on the largest denominator of the calibration")
    parser.add_argument("--inverse", action="store_true")
    parser.add_argument("--reencrypt", action="store_true",
                        help="decrypt and encrypt again when the inverse has no level left")
    parser.add_argument("-o", dest="output", metavar="FILE", required=True)
    given = parser.parse_args()
    if given.bits and not 24 <= given.bits <= 50:
        parser.error("--bits: expected 24 to 50, or 0")
    if given.factors < 0 or given.calibrate < 1 or not given.margin >= 1:
        parser.error("--factors: expected at least 0; --calibrate, --margin: expected at least 1")
    if given.reencrypt and (given.inverse or not given.bits):
        parser.error("--reencrypt needs --bits and cannot be combined with --inverse")
    try:
        layer = plain.Layer(given.checkpoint, given.data, given.layer, given.calibrate)
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    try:
        import ckks
    except ImportError:
        sys.exit("SEAL is not installed: pip install seal-python, in a venv")
    low, high = layer.epsilon, layer.seen[1] * given.margin
    s = 2 / (low + high)
    shape, _, steps = shapes(layer)
    if math.prod(shape) > 1 << (given.log_n - 1):
        sys.exit(f"{math.prod(shape)} slots are needed (d T T), but N = 2^{given.log_n} has "
                 f"{1 << (given.log_n - 1)}")
    factors = given.factors or plain.needed(high / low, 1e-6)
    levels = levels_of(layer, factors, given.inverse)
    bits = given.bits or ckks.largest_bits(given.log_n, levels)
    if given.reencrypt:
        levels = max(levels_of(layer, 1, False),
                     min(levels, ckks.capacity(given.log_n, bits)))
    he = ckks.Ckks(given.log_n, bits, levels, () if given.inverse else steps)
    run = run_inverse if given.inverse else run_layer
    found = run(layer, he, s, factors, given.reencrypt)
    about = {"arch": layer.arch, "d": layer.d, "n_head": layer.n_head, "ctx": layer.ctx,
             "layer": given.layer, "log_n": given.log_n, "bits": bits, "levels": he.levels,
             "modulus_bits": he.modulus_bits, "security": 128, "threads": 1, "factors": factors,
             "reencrypted": he.reencrypted,
             "denominators": {"low": low, "high": high, "seen": list(layer.seen),
                              "input": [layer.sums.min(), layer.sums.max()]},
             "constant": s**(-1 / layer.p), "k": high / low,
             "needed": {str(e): plain.needed(high / low, e) for e in (1e-2, 1e-3, 1e-4, 1e-6)}}
    profile = [{"stage": stage, "operation": operation, "count": n, "seconds": seconds}
               for (stage, operation), (n, seconds) in he.profile.items()]
    with open(given.output, "w") as file:
        json.dump({**about, **found, "profile": profile}, file, indent=1)
        file.write("\n")
    total = sum(entry["seconds"] for entry in profile)
    print(f"{layer.arch}: N = 2^{given.log_n}, {he.modulus_bits} bits, {he.levels} levels of {bits}, "
          f"{factors} factors, {total:.1f} s")
    for name, value in found.get("output", {}).items():
        if isinstance(value, dict):
            print(f"{name}: max {value['max']:.3g}, rms {value['rms']:.3g}")


if __name__ == "__main__":
    main()
