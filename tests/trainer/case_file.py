"""Writes reference cases for make_*cases.py: one safetensors file per case, which
holds named arrays and the settings as JSON (cases/README.md). Needs torch, numpy
and safetensors.
"""
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.numpy import save_file


class Case:
    """Collects the arrays of one case; `about` is stored as the metadata entry
    "case"."""

    def __init__(self, about):
        self.about = about
        self.arrays = {}

    def add(self, name, array, dtype=np.float32):
        """Adds a copy of a tensor or an array under a name such as "grads/wte"."""
        if isinstance(array, torch.Tensor):
            array = array.detach().numpy()
        self.arrays[name] = np.array(array, dtype=dtype, order="C")

    def add_step(self, tokens, targets, ce, ereg, loss, logits, rows, heads):
        """Adds all arrays of a step except parameters and gradients. `rows`
        maps names of row statistics to a list with one array (B,H,T) per
        layer, or to an empty list; `heads` is (L,H).
        """
        self.add("tokens", tokens, np.int32)
        self.add("targets", targets, np.int32)
        for number, value in (("ce", ce), ("ereg", ereg), ("loss", loss)):
            self.add("out/" + number, value.reshape(1), np.float64)
        self.add("out/logits", logits)
        for statistic, layers in rows.items():
            if layers:
                self.add("out/" + statistic, torch.stack(layers))
        self.add("out/entropy", heads)
        self.add("out/nonfinite", torch.zeros_like(heads), np.int32)

    def save(self, path):
        text = json.dumps(self.about, indent=1) + "\n"
        save_file(self.arrays, path, metadata={"case": text})


def save_all(make, cases):
    """Calls make(name, wanted, seed) for each key `name` and value `wanted` of the dictionary
    `cases`, and writes the results to the folder given on the command line. The seed is the
    position of the case in `cases`.
    """
    if len(sys.argv) != 2:
        sys.exit(f"usage: {pathlib.Path(sys.argv[0]).name} FOLDER")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, wanted) in enumerate(cases.items()):
        make(name, wanted, seed).save(folder / f"{name}.safetensors")
