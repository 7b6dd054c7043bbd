#!/usr/bin/env python3
"""Writes scikit-learn's digits (1,797 images of 8 by 8 pixels in 17 grey levels, of ten
classes) as token ids for `entropy-train --family vit`. Each image is written as its
pixels, followed by its class. The images are in a fixed random order. Only 1,760 images
are written, so that the held-out fifth, 352 images, is 11 complete micro-batches of 32.

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
