"""usage: compile_kernels.py PACKAGE CAPABILITY...

Compiles the Triton kernels of the package in the folder PACKAGE without a GPU, for the
given compute capabilities (80, 90) and for queries and keys of each type: a plain
causal attention and, for 90 in bfloat16, all options. The last line of the output is
JSON with the number of instructions that a warp runs for each score in the hot loop of
`_rows`, on compute capability 9.0 in bfloat16, for the entropy alone and for all
statistics. A compiler error ends the program with the compiler's message.

To test another version of Triton, put its folder on PYTHONPATH."""

import json
import re
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
import torch  # noqa: E402
import triton  # noqa: E402
from entropyscan import _triton  # noqa: E402
from entropyscan import _triton_kernels as kernels  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

NUMBERS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
WIDTH = 64
TYPES = dict.fromkeys(("scale", "softcap", "lowest", "blur", "most_blur"), "fp32")
TYPES |= dict.fromkeys(("key_mask", "query_mask"), "*u8")
TYPES |= dict.fromkeys(
    ("nonfinite", "key_lengths", "offsets", "query_starts", "key_starts"), "*i32"
)
TYPES |= dict.fromkeys(("sinks", "temperature", "extents", "floats"), "*fp32")
TYPES |= dict.fromkeys(("entropy", "lse", "de", "dt", "largest"), "*fp32")
TYPES |= {"first_keys": "*i32", "sums": "*fp64", "out": "*fp32"}
# Kernel flags for a plain causal attention; all other flags are false.
PLAIN = {"CAUSAL": True, "HEADS": True}


def build(kernel, capability, name, given, is_plain=True):
    """Compiles a kernel for queries and keys of the type `name`; `given` contains the
    kernel's constants and the compiler options."""
    flags = [one for one in kernel.arg_names if one.isupper() and len(one) > 2]
    constants = {flag: PLAIN.get(flag, False) if is_plain else True for flag in flags}
    constants |= {"FIRST": 0, "DENSE": 0} if is_plain else {"FIRST": 1, "DENSE": 2}
    constants |= {"WIDTH": WIDTH, **given}
    options = {k: constants.pop(k) for k in list(constants) if k.islower()}
    constants = {k: v for k, v in constants.items() if k in kernel.arg_names}
    types = TYPES | dict.fromkeys(("q", "k", "dense", "dq", "dk"), f"*{name}")
    types |= dict.fromkeys(constants, "constexpr")
    if kernel is kernels._first_keys:
        types["out"] = "*i32"
    signature = {one: types.get(one, "i32") for one in kernel.arg_names}
    attributes = None
    if is_plain and not triton.__version__.startswith("3.2."):
        # Compile for addresses, sizes and strides that are multiples of 16, as in real
        # launches.
        multiples = [
            i for i, one in enumerate(kernel.arg_names)
            if signature[one][0] == "*" or one in ("T", "S", "D")
            or one.endswith(("_batch", "_head", "_row"))
        ]  # fmt: skip
        attributes = {(i,): [["tt.divisibility", 16]] for i in multiples}
    source = ASTSource(kernel, signature, constants, attributes)
    return triton.compile(source, GPUTarget("cuda", capability, 32), options)


def hot_loop(binary):
    """Returns the number of instructions in the shortest loop that multiplies
    matrices."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "-sass", file.name]
        text = subprocess.check_output(command, text=True)
    lines = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?);", text)
    lines = [(int(place, 16), line) for place, line in lines]
    loops = []
    for place, line in lines:
        jump = re.search(r"\bBRA\b.*0x([0-9a-f]+)", line)
        if jump and int(jump[1], 16) < place:
            body = [one for at, one in lines if int(jump[1], 16) <= at <= place]
            if any("MMA" in one for one in body):
                loops.append(len(body))
    return min(loops)


def main():
    found = {}
    for capability in map(int, sys.argv[2:]):
        for name, number in NUMBERS.items():
            first, exact = _triton._passes(WIDTH, number)
            gradients = _triton._gradient_tiles(WIDTH, number)
            work = [(kernels._rows, first), (kernels._rows, exact)]
            work += [(kernels._query_gradients, gradients)]
            work += [(kernels._key_gradients, gradients)]
            for kernel, given in work:
                build(kernel, capability, name, given)
            if capability == 90 and name == "bf16":
                for kernel, given in work:
                    build(kernel, capability, name, given, is_plain=False)
                for kernel, given in (
                    (kernels._extents, {"N_KEYS": 32}),
                    (kernels._first_keys, {"N_KEYS": 256}),
                    (kernels._sequences, {"N_ROWS": 256}),
                    (kernels._heads, {"N_SEQUENCES": 64}),
                ):
                    build(kernel, capability, name, given, is_plain=False)
                if hasattr(triton, "knobs"):
                    scores = first["N_ROWS"] * first["N_KEYS"] / first["num_warps"]
                    for one in (False, True):
                        rows = build(kernels._rows, 90, name, {**first, "HEADS": one})
                        found["heads" if one else "entropy"] = hot_loop(rows) / scores
    print(json.dumps({"triton": triton.__version__, **found}))


main()
