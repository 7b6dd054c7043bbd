#!/usr/bin/env python3
"""Writes scikit-learn's digits (1,797 images of 8 by 8 in 17 greys, of ten classes) as
what `entropy-train --family vit` reads: ids of a token file, an image's pixels and then
its class. Images are shuffled, the same every time; 1,760 of them, so that a fifth, 352,
are held out whole, and 11 micro-batches of 32 are each of them once.

    digits.py | entropy-corpus --ids - --vocab 17 --tokenizer-name digits \\
        --held-out 20 -o digits.tok      (needs scikit-learn)"""
import numpy as np
from sklearn.datasets import load_digits


def main():
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.data))[:1760]
    for i in order:
        print(*digits.data[i].astype(int), digits.target[i])


if __name__ == "__main__":
    main()
