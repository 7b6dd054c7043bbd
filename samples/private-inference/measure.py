#!/usr/bin/env python3
"""Measures the cost of each operation of a checkpoint's layer in two-party computation.

    measure.py CHECKPOINT --n-head H --ctx T [--layer N] [--activation G|R]
               [--protocol SEMI2K|CHEETAH] [--without-seconds] -o cost.csv

The parties are two processes that communicate over loopback TCP, under SecretFlow SPU
(pip install spu, in a separate venv); both parties hold secret shares of weights and
activations. Each operation of the layer runs twice, and only the second run is counted,
because the first one includes the setup. The output is text for `entropy-scan import`:
for each operation three series cost.OPERATION.bytes (sum over both parties),
cost.OPERATION.rounds (number of messages that the first party sends) and
cost.OPERATION.seconds, each with one sample at step T, for a model with only this
layer. `entropy-scan cost` shows the measured costs next to the modelled costs.
"""
import argparse
import json
import os
import pickle
import re
import socket
import struct
import subprocess
import sys
import tempfile

# Patterns of the lines in the profile that SPU prints at the end of a run.
LINK = re.compile(r"Link details: total send bytes (\d+), recv bytes (\d+), send actions (\d+)")
TIME = re.compile(r"execution took ([0-9.e-]+)s")


def read_tensors(path):
    """Reads the header of a safetensors file. Returns {name: description of the tensor}
    and the offset of the data."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        found = json.loads(file.read(size))
    return {name.removeprefix("transformer."): tensor for name, tensor in found.items()}, 8 + size


def read_vocab(path):
    """Returns the size of the vocabulary; None if there is no embedding."""
    tensors, _ = read_tensors(path)
    table = tensors.get("wte.weight", tensors.get("wte"))
    return table and table["shape"][0]


def read_weights(path, layer):
    """Returns the arrays of a layer by GPT-2's names, without the prefix h.N."""
    import numpy as np
    tensors, start = read_tensors(path)
    found = {}
    with open(path, "rb") as file:
        for name, tensor in tensors.items():
            parts = name.split(".", 2)
            if parts[:2] != ["h", str(layer)] or tensor.get("dtype") != "F32":
                continue
            begin, end = tensor["data_offsets"]
            file.seek(start + begin)
            found[parts[2]] = np.frombuffer(file.read(end - begin), "<f4").reshape(
                tensor["shape"])
    if "attn.c_attn.weight" not in found:
        sys.exit(f"{path}: contains no layer {layer} of a GPT-2 in float32")
    return found


def operations(weights, n_head, ctx, activation):
    """Returns the operations as [(name, function, arguments, n)]. The cost of an operation is
    divided by its number n of elements; it is not divided if n is 0."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    random = np.random.default_rng(1)
    qkv = weights["attn.c_attn.weight"]
    d = qkv.shape[0]
    width = d // n_head

    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)

    def norm(x, gain, bias):
        x = x - jnp.mean(x, -1, keepdims=True)
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * gain + bias

    def softmax(s):
        return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((ctx, ctx), bool)), s, -10.0), -1)

    x = normal(ctx, d)
    rows = [("scores", lambda q, k: q @ k.transpose(0, 2, 1),
             (normal(n_head, ctx, width), normal(n_head, ctx, width)), 0),
            ("softmax", softmax, (normal(n_head, ctx, ctx),), n_head * ctx * ctx),
            ("values", lambda a, v: a @ v,
             (abs(normal(n_head, ctx, ctx)) / ctx, normal(n_head, ctx, width)), 0),
            ("projections", lambda x, w, o: (x @ w, x @ o),
             (x, qkv, weights["attn.c_proj.weight"]), 4 * 2 * ctx * d)]
    if "ln_1.weight" in weights:
        rows.append(("LayerNorm", norm, (x, weights["ln_1.weight"], weights["ln_1.bias"]), ctx * d))
    if "mlp.c_fc.weight" in weights:
        up, down = weights["mlp.c_fc.weight"], weights["mlp.c_proj.weight"]
        rows.append(("FFN", lambda x, h, u, v: (x @ u, h @ v),
                     (x, normal(ctx, up.shape[1]), up, down), 2 * ctx * (d + up.shape[1])))
        if activation:
            function = jax.nn.relu if activation == "R" else \
                lambda h: jax.nn.gelu(h, approximate=True)
            rows.append(("ReLU" if activation == "R" else "GELU", function,
                         (normal(ctx, up.shape[1]),), ctx * up.shape[1]))
    return rows


def config_of(protocol):
    from spu import libspu
    config = libspu.RuntimeConfig(protocol=getattr(libspu.ProtocolKind, protocol),
                                  field=libspu.FieldType.FM64)
    config.enable_pphlo_profile = True
    return config


# --- a party ----------------------------------------------------------------

def be_party(rank, ports, protocol, path):
    """Runs each operation twice, as one of the two parties. SPU prints its profile to
    standard output."""
    from spu import api, libspu
    with open(path, "rb") as file:
        jobs = pickle.load(file)
    about = libspu.link.Desc()
    for i, port in enumerate(ports):
        about.add_party(f"party{i}", f"127.0.0.1:{port}")
    about.recv_timeout_ms = 20 * 60 * 1000
    runtime = api.Runtime(libspu.link.create_brpc(about, rank), config_of(protocol))
    for name, inputs, outputs, code, shares in jobs:
        executable = libspu.Executable(name=name, input_names=inputs, output_names=outputs,
                                       code=code)
        for run in (0, 1):
            for key, (meta, chunks) in zip(inputs, shares[rank]):
                share = libspu.Share()
                share.meta, share.share_chunks = meta, chunks
                runtime.set_var(key, share)
            print(f"operation {name} {run}", flush=True)
            runtime.run(executable)
        result = runtime.get_var(outputs[0])
        with open(f"{path}.{name}.{rank}", "wb") as file:
            pickle.dump((result.meta, list(result.share_chunks)), file)


# --- both parties -----------------------------------------------------------

def free_ports():
    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def prepare(rows, protocol):
    """Returns the input of the parties: the compiled operations, and secret shares of
    their arguments."""
    from spu import api, libspu
    from spu.utils import frontend
    io = api.Io(2, config_of(protocol))
    jobs = []
    for name, function, arguments, _ in rows:
        inputs = [f"{name}.in{i}" for i in range(len(arguments))]
        executable, _ = frontend.compile(
            frontend.Kind.JAX, function, arguments, {}, inputs,
            [libspu.Visibility.VIS_SECRET] * len(arguments),
            lambda out, name=name: [f"{name}.out{i}" for i in range(len(out))])
        shares = [io.make_shares(a, libspu.Visibility.VIS_SECRET) for a in arguments]
        jobs.append((name, inputs, list(executable.output_names), executable.code,
                     [[(s[rank].meta, list(s[rank].share_chunks)) for s in shares]
                      for rank in (0, 1)]))
    return jobs


def check(rows, protocol, path):
    """Returns the largest error of the first result of each operation."""
    import jax
    import numpy as np
    from spu import api, libspu
    io, found = api.Io(2, config_of(protocol)), {}
    for name, function, arguments, _ in rows:
        parts = []
        for rank in (0, 1):
            with open(f"{path}.{name}.{rank}", "rb") as file:
                share = libspu.Share()
                share.meta, share.share_chunks = pickle.load(file)
                parts.append(share)
        wanted = np.asarray(jax.tree_util.tree_leaves(function(*arguments))[0])
        found[name] = float(np.abs(io.reconstruct(parts) - wanted).max())
    return found


def profile(text):
    """Returns {operation: (bytes of both parties, rounds, seconds)} for the second run
    of each operation."""
    found, name, seconds = {}, None, None
    for line in text.splitlines():
        if line.startswith("operation "):
            _, name, run = line.split()
            name = name if run == "1" else None
        elif TIME.search(line):
            seconds = float(TIME.search(line)[1])
        elif LINK.search(line) and name:
            sent, received, actions = map(int, LINK.search(line).groups())
            found[name] = sent + received, actions, seconds
    return found


def measure(rows, protocol):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "jobs")
        with open(path, "wb") as file:
            pickle.dump(prepare(rows, protocol), file)
        ports = free_ports()
        texts, parties = [], []
        try:
            for rank in (0, 1):
                with open(f"{path}.log{rank}", "w") as log:
                    parties.append(subprocess.Popen(
                        [sys.executable, __file__, "--party", str(rank), path, protocol,
                         *map(str, ports)], stdout=log, stderr=subprocess.STDOUT))
            for party in parties:
                party.wait()
        finally:
            for party in parties:
                party.kill()
        for rank in (0, 1):
            with open(f"{path}.log{rank}") as log:
                texts.append(log.read())
        if any(party.returncode for party in parties):
            sys.exit("a party failed:\n" + "\n".join(t[-2000:] for t in texts))
        return profile(texts[0]), check(rows, protocol, path)


def about(weights, vocab, given):
    """Returns the lines of the output that describe the run as a model with a single
    layer."""
    d = weights["attn.c_attn.weight"].shape[0]
    config = {"protocol": given.protocol}
    arch = "SM+LN" if "ln_1.weight" in weights else "SM"
    if "mlp.c_fc.weight" in weights:
        config["mlp_mult"] = weights["mlp.c_fc.weight"].shape[1] // d
        arch += f"+{given.activation}" if given.activation else ""
    return [f"name: {given.protocol} d={d} H={given.n_head} T={given.ctx}", f"arch: {arch}",
            "n_layer: 1", f"n_head: {given.n_head}", f"d_model: {d}", f"ctx: {given.ctx}",
            *([f"vocab: {vocab}"] if vocab else []), f"config: {json.dumps(config)}", "program: SecretFlow SPU"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--layer", type=int, default=0)
    parser.add_argument("--n-head", type=int, required=True)
    parser.add_argument("--ctx", type=int, required=True)
    parser.add_argument("--activation", choices=("G", "R"))
    parser.add_argument("--protocol", choices=("SEMI2K", "CHEETAH"), default="CHEETAH")
    parser.add_argument("--without-seconds", action="store_true",
                        help="do not write times, because the machine is busy")
    parser.add_argument("-o", dest="output", metavar="FILE", required=True)
    given = parser.parse_args()
    weights = read_weights(given.checkpoint, given.layer)
    rows = operations(weights, given.n_head, given.ctx, given.activation)
    costs, differences = measure(rows, given.protocol)
    units = ("bytes", "rounds") if given.without_seconds else ("bytes", "rounds", "seconds")
    names, values = [], []
    with open(given.output, "w") as file:
        for line in about(weights, read_vocab(given.checkpoint), given):
            print(f"# {line}", file=file)
        for name, _, _, charged in rows:
            for unit, value in zip(units, costs[name]):
                names.append(f"cost.{name}.{unit}")
                values.append(value)
                print(f"# series: run {unit} {names[-1]}", file=file)
            each = f", {costs[name][0] / charged:.0f} a number" if charged else ""
            print(f"{name}: {costs[name][0]} bytes{each}, {costs[name][1]} rounds, "
                  f"error {differences[name]:.2g}", file=sys.stderr)
        print("step,layer,head," + ",".join(names), file=file)
        print(f"{given.ctx},,," + ",".join(map(str, values)), file=file)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--party"]:
        be_party(int(sys.argv[2]), list(map(int, sys.argv[5:])), sys.argv[4], sys.argv[3])
    else:
        main()
