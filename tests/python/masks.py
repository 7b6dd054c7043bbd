"""Masks the same tokens as entropy-train does in an evaluation
(hooks/trainer/masking.h)."""

import numpy as np
import torch


def philox(counter):
    """Returns the random 32-bit words (n,4) of the generator Philox-4x32-10 (Salmon et
    al. 2011) with key 0."""
    c = np.array(counter, np.uint64)
    low = np.uint64(0xFFFFFFFF)
    key = np.zeros(2, np.uint64)
    for _ in range(10):
        a, b = c[:, 0] * np.uint64(0xD2511F53), c[:, 2] * np.uint64(0xCD9E8D57)
        c = np.stack([(b >> np.uint64(32)) ^ c[:, 1] ^ key[0], b & low,
                      (a >> np.uint64(32)) ^ c[:, 3] ^ key[1], a & low], 1)
        key = (key + np.array([0x9E3779B9, 0xBB67AE85], np.uint64)) & low
    return c


def hide(tokens, index, padding, mask, vocab):
    """Masks the tokens of micro-batch `index` with seed 0 and stream 2. `vocab` is the
    number of tokens of the data. Returns the inputs and the targets."""
    flat = tokens.flatten().numpy().copy()
    words = philox([(i, index, 0, 2) for i in range(len(flat))])
    hidden = (words[:, 0] < int(0.15 * 2**32)) & (flat != padding)
    targets = np.where(hidden, flat, -100)
    other = (words[:, 2] * np.uint64(vocab)) >> np.uint64(32)
    other = np.where(other == padding, flat, other)
    new = np.where(words[:, 1] < int(0.8 * 2**32), mask,
                   np.where(words[:, 1] < int(0.9 * 2**32), other, flat))
    as_tokens = torch.from_numpy(np.where(hidden, new, flat).astype(np.int64))
    return (as_tokens.view(tokens.shape),
            torch.from_numpy(targets.astype(np.int64)).view(tokens.shape))
