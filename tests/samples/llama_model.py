"""usage: llama_model.py MODEL.gguf PROMPT TOKENS

Writes a model of llama.cpp's architecture `llama` with random weights, and prints the
attention that NumPy computes for it: step,layer,head,entropy,sink for a prompt and for
the TOKENS most likely tokens after it. Needs numpy and gguf. The vocabulary is bytes;
the key cache is float16, as in llama.cpp."""

import sys

import gguf
import numpy as np

L, H, KV, D, FF, BASE = 3, 4, 2, 8, 40, 10000.0
WIDTH, VOCAB, BOS, FIRST_BYTE = H * D, 259, 1, 3


def weights():
    random = np.random.default_rng(7)

    def matrix(out, inner, scale):
        values = random.standard_normal((out, inner)) * scale / inner**0.5
        return values.astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    found = {
        "token_embd.weight": matrix(VOCAB, WIDTH, 6.0),
        "output_norm.weight": ones,
        "output.weight": matrix(VOCAB, WIDTH, 4.0),
    }
    for i in range(L):
        for name, shape, scale in (
            ("attn_q", (WIDTH, WIDTH), 2.0),
            ("attn_k", (KV * D, WIDTH), 2.0),
            ("attn_v", (KV * D, WIDTH), 1.0),
            ("attn_output", (WIDTH, WIDTH), 1.0),
            ("ffn_gate", (FF, WIDTH), 1.0),
            ("ffn_up", (FF, WIDTH), 1.0),
            ("ffn_down", (WIDTH, FF), 1.0),
        ):
            found[f"blk.{i}.{name}.weight"] = matrix(*shape, scale)
        found[f"blk.{i}.attn_norm.weight"] = found[f"blk.{i}.ffn_norm.weight"] = ones
    return found


def write(path, tensors):
    file = gguf.GGUFWriter(path, "llama")
    file.add_block_count(L)
    file.add_context_length(64)
    file.add_embedding_length(WIDTH)
    file.add_feed_forward_length(FF)
    file.add_head_count(H)
    file.add_head_count_kv(KV)
    file.add_rope_dimension_count(D)
    file.add_rope_freq_base(BASE)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(VOCAB)
    file.add_tokenizer_model("llama")
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    file.add_token_list(names)
    file.add_token_scores([0.0] * VOCAB)
    file.add_token_types([2, 3, 3] + [6] * 256)
    file.add_bos_token_id(BOS)
    file.add_eos_token_id(2)
    file.add_add_bos_token(True)
    file.add_add_space_prefix(False)
    for name, values in tensors.items():
        file.add_tensor(name, values)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def half(x):
    return x.astype(np.float16).astype(np.float64)


def norm(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def turned(x):
    """Applies rotary embeddings to (T,n,D), rotating pairs of neighbouring elements."""
    angle = np.arange(len(x))[:, None] * BASE ** (-np.arange(0, D, 2) / D)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    out = np.empty_like(x)
    out[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
    return out


def forward(tensors, tokens):
    """Returns the logits of the last token, and the attention (L,H,T,T)."""
    n = len(tokens)
    x = tensors["token_embd.weight"][tokens].astype(np.float64)
    seen = []
    for i in range(L):

        def by(name, x):
            return x @ tensors[f"blk.{i}.{name}.weight"].T.astype(np.float64)

        y = norm(x)
        q, k = turned(by("attn_q", y).reshape(n, H, D)), by("attn_k", y)
        k = half(turned(k.reshape(n, KV, D))).repeat(H // KV, 1)
        v = half(by("attn_v", y).reshape(n, KV, D)).repeat(H // KV, 1)
        scores = np.einsum("thd,shd->hts", half(q), k) / D**0.5
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        a = np.exp(scores - scores.max(-1, keepdims=True))
        a /= a.sum(-1, keepdims=True)
        seen.append(a)
        x = x + by("attn_output", np.einsum("hts,shd->thd", half(a), v).reshape(n, -1))
        y = norm(x)
        gate = by("ffn_gate", y)
        x = x + by("ffn_down", gate / (1 + np.exp(-gate)) * by("ffn_up", y))
    return norm(x[-1]) @ tensors["output.weight"].T.astype(np.float64), np.stack(seen)


def main(path, prompt, n_more):
    tensors = weights()
    write(path, tensors)
    # llama.cpp's tokenizer writes a space as this character.
    text = prompt.replace(" ", "\N{LOWER ONE EIGHTH BLOCK}")
    tokens = [BOS] + [FIRST_BYTE + byte for byte in text.encode()]
    before = 0
    print("step,layer,head,entropy,sink")
    for step in range(n_more + 1):
        logits, a = forward(tensors, tokens)
        rows = a[:, :, before:]  # (L,H,queries of this batch,keys)
        entropy = -(rows * np.log(rows + 1e-9)).sum(-1).mean(-1)
        sink = rows[..., 0].mean(-1)
        for layer in range(L):
            for head in range(H):
                values = entropy[layer, head], sink[layer, head]
                print(step, layer, head, *values, sep=",")
        before = len(tokens)
        tokens.append(int(logits.argmax()))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
