"""A fake flash-attn package for the CPU. Its functions have the signatures of versions
2 and 3, compute attention as documented and keep the weights of each call."""

import sys
import types

import torch

calls = []  # for each call a list of the weights (H,T,S), double, of its sequences


def _attend(q, k, v, scale, causal, window, softcap, slopes):
    """Computes the attention of one sequence with q (T,H,D), k and v (S,KV,D)."""
    n_groups = q.shape[1] // k.shape[1]
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(n_groups, 0) for x in (k, v))
    t, s = q.shape[1], k.shape[1]
    scores = q @ k.transpose(1, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    place = torch.arange(t)[:, None] + s - t  # the last query is at the last key
    j = torch.arange(s)
    if slopes is not None:
        scores = scores - slopes[:, None, None] * (place - j).abs()
    hidden = torch.zeros(t, s, dtype=torch.bool)
    if causal:
        hidden |= j > place
    if window[0] >= 0:
        hidden |= j < place - window[0]
    if window[1] >= 0 and not causal:
        hidden |= j > place + window[1]
    a = scores.masked_fill(hidden, -float("inf")).softmax(-1).nan_to_num(0)
    return (a @ v).transpose(0, 1), a.detach().double()


def _batch(q, k, v, scale, causal, window, softcap, slopes):
    rows = []
    for b in range(q.shape[0]):
        own = slopes if slopes is None or slopes.dim() == 1 else slopes[b]
        rows.append(_attend(q[b], k[b], v[b], scale, causal, window, softcap, own))
    calls.append([a for _, a in rows])
    return torch.stack([out for out, _ in rows])


def _varlen(q, k, v, starts_q, starts_k, scale, causal, window, softcap, slopes):
    rows = []
    for b in range(len(starts_q) - 1):
        of_q = slice(int(starts_q[b]), int(starts_q[b + 1]))
        of_k = slice(int(starts_k[b]), int(starts_k[b + 1]))
        own = slopes if slopes is None or slopes.dim() == 1 else slopes[b]
        parts = q[of_q], k[of_k], v[of_k]
        rows.append(_attend(*parts, scale, causal, window, softcap, own))
    calls.append([a for _, a in rows])
    return torch.cat([out for out, _ in rows])


# fmt: off
def flash_attn_func(
    q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1),
    softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False,
):
    return _batch(q, k, v, softmax_scale, causal, window_size, softcap, alibi_slopes)


def flash_attn_kvpacked_func(
    q, kv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1),
    softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False,
):
    return _batch(
        q, *kv.unbind(2), softmax_scale, causal, window_size, softcap, alibi_slopes
    )


def flash_attn_qkvpacked_func(
    qkv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1),
    softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False,
):
    return _batch(
        *qkv.unbind(2), softmax_scale, causal, window_size, softcap, alibi_slopes
    )


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
    softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
    alibi_slopes=None, deterministic=False, return_attn_probs=False, block_table=None,
):
    return _varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal, window_size,
        softcap, alibi_slopes,
    )


def flash_attn_varlen_kvpacked_func(
    q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
    softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
    alibi_slopes=None, deterministic=False, return_attn_probs=False,
):
    return _varlen(
        q, *kv.unbind(1), cu_seqlens_q, cu_seqlens_k, softmax_scale, causal,
        window_size, softcap, alibi_slopes,
    )


def flash_attn_varlen_qkvpacked_func(
    qkv, cu_seqlens, max_seqlen, dropout_p=0.0, softmax_scale=None, causal=False,
    window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
    return_attn_probs=False,
):
    return _varlen(
        *qkv.unbind(1), cu_seqlens, cu_seqlens, softmax_scale, causal, window_size,
        softcap, alibi_slopes,
    )


def flash_attn_with_kvcache(q, k_cache, v_cache, **options):
    raise NotImplementedError


def version_3():
    """Returns the functions of version 3, which have different parameters; for example,
    they have no dropout."""

    def flash_attn_func(
        q, k, v, softmax_scale=None, causal=False, qv=None, q_descale=None,
        k_descale=None, v_descale=None, window_size=(-1, -1), attention_chunk=0,
        softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, sm_margin=0,
        return_attn_probs=False,
    ):
        return _batch(q, k, v, softmax_scale, causal, window_size, softcap, None)

    def flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
        seqused_q=None, seqused_k=None, softmax_scale=None, causal=False, qv=None,
        q_descale=None, k_descale=None, v_descale=None, window_size=(-1, -1),
        attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None,
        deterministic=False, sm_margin=0, return_attn_probs=False,
    ):
        return _varlen(
            q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal, window_size,
            softcap, None,
        )

    return flash_attn_func, flash_attn_varlen_func
# fmt: on


def install(monkeypatch):
    """Makes the packages flash_attn and flash_attn_interface importable."""
    package = types.ModuleType("flash_attn")
    for name, value in globals().items():
        if name.startswith("flash_attn_"):
            copy = types.FunctionType(
                value.__code__, globals(), name, value.__defaults__
            )
            copy.__module__ = "flash_attn.flash_attn_interface"
            setattr(package, name, copy)
    package.__path__ = []
    padding = types.ModuleType("flash_attn.bert_padding")
    third = types.ModuleType("flash_attn_interface")
    for function in version_3():
        function.__module__ = "flash_attn_interface"
        setattr(third, function.__name__, function)
    third.flash_attn_with_kvcache = package.flash_attn_with_kvcache
    for module in (package, padding, third):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    calls.clear()
    return package
