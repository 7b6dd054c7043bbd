#!/usr/bin/env python3
"""Packs and unpacks the inputs that the fuzzers have found useful, in one file
per target: tests/fuzz/learned/TARGET.

usage: corpora.py pack FUZZERS CORPORA      e.g. build/fuzz build/soak/corpus
       corpora.py unpack TARGET FOLDER

For each target, pack reads the target's folder in CORPORA and the existing
file, and selects inputs, the smallest first, that together reach the same
coverage as all of them, up to 80 KiB. A file is a sequence of inputs, each
preceded by its length in four bytes, little-endian; replay.c reads the same
format. Inputs written by hand are in tests/fuzz/seeds.
"""
import os
import subprocess
import sys
import tempfile

FUZZ = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                    "fuzz")
BYTES_MOST = 80 << 10  # bytes per target


def learned(target):
    path = os.path.join(FUZZ, "learned", target)
    inputs = []
    if os.path.exists(path):
        with open(path, "rb") as file:
            while head := file.read(4):
                inputs.append(file.read(int.from_bytes(head, "little")))
    return inputs


def unpack(target, folder):
    os.makedirs(folder, exist_ok=True)
    for number, data in enumerate(learned(target)):
        with open(os.path.join(folder, "learned-%d" % number), "wb") as out:
            out.write(data)


def read_all(folder):
    inputs = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, name), "rb") as file:
            inputs.append(file.read())
    return inputs


def least(fuzzer, target, corpus):
    """Returns the inputs that libFuzzer selects, without the inputs written by hand."""
    seeds = os.path.join(FUZZ, "seeds", target)
    with tempfile.TemporaryDirectory() as scratch:
        out, before = scratch + "/out", scratch + "/before"
        os.makedirs(out)
        unpack(target, before)
        subprocess.run([fuzzer, "-set_cover_merge=1", out,
                        *(f for f in (seeds, before, corpus)
                          if os.path.isdir(f))],
                       cwd=scratch, check=True, capture_output=True)
        return sorted(set(read_all(out)) - set(read_all(seeds)),
                      key=lambda data: (len(data), data))


def pack(fuzzers, corpora):
    os.makedirs(os.path.join(FUZZ, "learned"), exist_ok=True)
    for target in sorted(os.listdir(corpora)):
        fuzzer = os.path.abspath(os.path.join(fuzzers, "fuzz_" + target))
        size = n = 0
        found = least(fuzzer, target, os.path.abspath(
            os.path.join(corpora, target)))
        with open(os.path.join(FUZZ, "learned", target), "wb") as out:
            for data in found:
                size += 4 + len(data)
                if size > BYTES_MOST:
                    break
                out.write(len(data).to_bytes(4, "little") + data)
                n += 1
        print("%-12s %4d of %d inputs" % (target, n, len(found)))


def main():
    if sys.argv[1:2] == ["pack"] and len(sys.argv) == 4:
        pack(*sys.argv[2:])
    elif sys.argv[1:2] == ["unpack"] and len(sys.argv) == 4:
        unpack(*sys.argv[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
