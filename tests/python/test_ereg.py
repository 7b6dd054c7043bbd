"""Compares the entropy regularization with the plain formula and its gradient by
autograd."""

import math

import formula
import pytest
import torch
from test_statistics import triton_kernels

import entropyscan as es
from entropyscan import _device, _ereg, _library, _statistics
from entropyscan._statistics import Attention

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")

L, H, KV, B, T, D = 3, 4, 2, 2, 21, 8
GAMMA = 0.1


def layers(number, kv=H, factor=1.5):
    def random(heads):
        x = torch.randn(B, heads, T, D, dtype=torch.float64) * factor
        return x.to(number).requires_grad_()

    return [(random(H), random(kv)) for _ in range(L)]


def plain(pairs, thresholds, reduction, causal):
    """Computes the penalty in double precision, as in the papers' listing."""
    e_max = math.log(T)
    total = 0
    for (query, key), theta in zip(pairs, thresholds):
        key = key.repeat_interleave(H // key.shape[1], 1)
        scores = query @ key.transpose(-1, -2) / math.sqrt(D)
        if causal:
            hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -float("inf"))
        a = scores.softmax(-1)
        entropy = -torch.special.xlogy(a, a.clamp_min(1e-300)).sum(-1)
        for h in range(H):
            e = entropy[:, h] if reduction == "token" else entropy[:, h].mean()
            deviation = e - theta[h] * e_max
            outside = (deviation.abs() > GAMMA * e_max).double()
            total = total + (outside * deviation**2).sum() / H
    return total / L


@pytest.mark.parametrize("reduction", ["token", "mean"])
@pytest.mark.parametrize("kv", [H, KV])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("number", [torch.float32, torch.float64])
def test_loss_and_gradients_are_those_of_the_plain_formula(
    reduction, kv, causal, number, monkeypatch
):
    monkeypatch.setattr(_statistics, "BLOCK_SCORES", B * H * T * 4)  # four rows
    ereg = es.EntropyRegularization(L, H, T, gamma=GAMMA, reduction=reduction)
    torch.nn.init.uniform_(ereg.thresholds, 0.1, 0.9)
    ereg.to(number)
    pairs = layers(number, kv)
    loss = ereg(pairs, causal=causal)
    loss.backward()
    exact = [
        (q.detach().double().requires_grad_(), k.detach().double().requires_grad_())
        for q, k in pairs
    ]
    thresholds = ereg.thresholds.detach().double().requires_grad_()
    expected = plain(exact, thresholds, reduction, causal)
    expected.backward()
    assert expected > 0.01
    assert abs(loss.double() - expected) <= 1e-5 * expected
    gradients = [ereg.thresholds.grad, *(x.grad for pair in pairs for x in pair)]
    wanted = [thresholds.grad, *(x.grad for pair in exact for x in pair)]
    for got, want in zip(gradients, wanted):
        assert want.abs().max() > 1e-4
        assert (got.double() - want).abs().max() <= 1e-5 * max(1, want.abs().max())


def test_within_the_tolerance_there_is_no_penalty():
    ereg = es.EntropyRegularization(1, H, T, gamma=5.0)
    loss = ereg(layers(torch.float32)[:1])
    assert loss == 0
    ereg.tolerance = 0.0
    assert ereg(layers(torch.float32)[:1]) > 0


def test_autograd_agrees_with_finite_differences():
    q, k = (torch.randn(1, 2, 5, 3, dtype=torch.float64) for _ in range(2))
    q.requires_grad_(), k.requires_grad_()
    assert torch.autograd.gradcheck(_ereg.attention_entropy, (q, k))


def test_the_backward_pass_keeps_no_t_by_t_matrix():
    kept = []

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        ereg = es.EntropyRegularization(L, H, T)
        ereg(layers(torch.float32)).backward()
    assert max(kept) <= B * H * T * max(D, 1)


def test_arguments_that_do_not_match_are_refused():
    ereg = es.EntropyRegularization(L, H, T)
    with pytest.raises(ValueError, match="2 layers given, but thresholds are for 3"):
        ereg(layers(torch.float32)[:2])
    with pytest.raises(ValueError, match="expected 'token' or 'mean'"):
        es.EntropyRegularization(L, H, T, reduction="sum")
    q = torch.randn(1, 3, 4, 2)
    with pytest.raises(ValueError, match="divide"):
        _ereg.attention_entropy(q, q[:, :2])


def test_a_head_learns_its_threshold():
    """Training moves entropy and threshold together until the penalty vanishes."""
    ereg = es.EntropyRegularization(1, H, T, gamma=0.2, reduction="mean")
    pairs = layers(torch.float32, factor=4.0)[:1]
    optimizer = torch.optim.Adam([*ereg.parameters(), *pairs[0]], 0.05)
    first = float(ereg(pairs).detach())
    for _ in range(100):
        optimizer.zero_grad()
        loss = ereg(pairs)
        loss.backward()
        optimizer.step()
    assert first > 0.1 and float(loss.detach()) < 0.1 * first


# --- rows and their gradients, by blocks and by the kernels -----------------------


def packed(*starts):
    return torch.tensor(starts, dtype=torch.int32)


def hidden_keys(n, *hidden):
    seen = torch.ones(2, n, dtype=torch.bool)
    seen[1, list(hidden)] = False
    return seen


def visible(options, t, s):
    """Returns the mask (B|1,1,T,S) of visible keys for the options of an Attention.
    Rows that are not counted see no key."""
    place = torch.arange(t)[:, None] + options.get("offset", 0)
    j = torch.arange(s)
    seen = torch.ones(t, s, dtype=torch.bool)
    if options.get("causal"):
        seen &= j <= place
    if "window" in options:
        seen &= (place - j).abs() < options["window"]
    if "query_starts" in options:
        number = torch.bucketize(torch.arange(t), options["query_starts"][1:], right=True)
        seen &= number[:, None] == number
    seen = seen[None, None]
    mask = options.get("mask")
    if mask is not None and mask.dim() == 2:
        seen = seen & mask[:, None, None, :]
        if t == s:
            seen = seen & mask[:, None, :, None]
    elif mask is not None:
        rows = mask.diagonal(dim1=-2, dim2=-1).any(1)
        seen = seen & mask & rows[:, None, :, None]
    return seen


LONG = 70  # longer than one tile of rows and of keys
ROWS = {
    "causal": dict(causal=True),
    "both ways, long": dict(t=LONG, s=LONG),
    "causal, long, grouped": dict(t=LONG, s=LONG, kv=2, causal=True),
    "a window, long": dict(t=LONG, s=LONG, causal=True, window=9),
    "a window both ways": dict(window=5, kv=1),
    "a small scale": dict(scale=0.1, causal=True),
    "the last queries": dict(t=5, s=40, causal=True, offset=35),
    "hidden keys": dict(mask=hidden_keys(T, 0, 1, 2, 17), causal=True),
    "a mask of pairs": dict(mask=(torch.arange(T)[:, None] * 7 % 5 != torch.arange(T) % 5)
                            .expand(2, 1, T, T)),  # fmt: skip
    "softcap": dict(softcap=2.0, causal=True, size=2.0),
    "a bias and softcap": dict(bias=True, softcap=3.0, causal=True),
    "packed, long": dict(b=1, t=LONG, s=LONG, causal=True, query_starts=packed(0, 9, 9, 40, LONG)),
    "temperatures": dict(temperature=True, causal=True, kv=2),
    "bfloat16": dict(number=torch.bfloat16, causal=True),
    "float16, small gradients": dict(number=torch.float16, causal=True, de=1e-7),
}  # fmt: skip


@pytest.mark.parametrize("by", ["blocks", "kernels"])
@pytest.mark.parametrize("name", ROWS)
def test_entropy_and_gradients_of_rows_are_those_of_autograd(name, by, monkeypatch):
    options = dict(ROWS[name])
    b, h, kv = options.pop("b", 2), 4, options.pop("kv", 4)
    t, s, d = options.pop("t", T), options.pop("s", T), 12
    size, number = options.pop("size", 1.0), options.pop("number", torch.float32)
    de = torch.randn(b, h, t) * options.pop("de", 1.0)
    query, key = torch.randn(b, h, t, d) * 2 * size, torch.randn(b, kv, s, d) * size
    query, key = (x.to(number).requires_grad_() for x in (query, key))
    exact = [x.detach().double().requires_grad_() for x in (query, key)]
    inputs = [query, key]
    divided = exact[0]
    if options.get("temperature"):
        options["temperature"] = (0.7 + 0.6 * torch.rand(h, t)).requires_grad_()
        inputs.append(options["temperature"])
        exact.append(options["temperature"].detach().double().requires_grad_())
        divided = exact[0] / exact[2][None, :, :, None]
    if options.get("bias"):
        options["bias"] = torch.randn(1, h, t, s)
    seen = visible(options, t, s)
    given = {name: options.get(name) for name in ("scale", "softcap", "bias")}
    a = formula.weights(divided, exact[1], seen | ~seen.any(-1, keepdim=True), **given)
    wanted = -torch.special.xlogy(a, a.clamp_min(1e-300)).sum(-1)
    counts = seen.any(-1).expand(b, h, t)
    (wanted * torch.where(counts, de, 0).double()).sum().backward()

    if by == "kernels":
        triton_kernels()
        monkeypatch.setattr(_device, "serves", lambda device: True)
        monkeypatch.setattr(_ereg, "_by_blocks", None)
        monkeypatch.setattr(_ereg, "_gradients_by_blocks", None)
    monkeypatch.setattr(_statistics, "BLOCK_SCORES", b * h * s * 8)  # eight rows
    got, counted = _ereg.row_entropy(query, key, Attention(**options))
    assert (counted == counts).all()
    assert (got.double() - wanted)[counted].abs().max() <= 1e-5
    assert (got[~counted].view(torch.int32) == _library.MISSING_BITS).all()
    (torch.where(counted, got, 0) * de).sum().backward()
    # Allow one unit in the last place of 16-bit types: Triton's interpreter truncates,
    # whereas devices round.
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2**-7, torch.float16: 2**-10}
    for one, other in zip(inputs, exact):
        largest = other.grad.abs().max()
        least = 2**-24 if number == torch.float16 else 0  # spacing of subnormal numbers
        assert largest > 1e-8
        error = (one.grad.double() - other.grad).abs().max()
        assert error <= tolerance[number] * largest + least


@pytest.mark.parametrize("by", ["blocks", "kernels"])
def test_a_row_that_is_not_finite_spoils_its_gradients_and_no_other_head(by, monkeypatch):
    if by == "kernels":
        triton_kernels()
        monkeypatch.setattr(_device, "serves", lambda device: True)
    query, key = torch.randn(1, 2, 9, 8), torch.randn(1, 2, 9, 8)
    query[0, 1, 4] = float("nan")
    query.requires_grad_(), key.requires_grad_()
    entropy, counted = _ereg.row_entropy(query, key, Attention(causal=True))
    assert counted.all()
    assert entropy.isnan().nonzero().tolist() == [[0, 1, 4]]
    entropy.sum().backward()
    bad = query.grad.isnan().any(-1)
    assert bad.nonzero().tolist() == [[0, 1, 4]]
    assert key.grad[0, 1, :5].isnan().all()
    assert key.grad[0, 0].isfinite().all()


def test_a_trained_bias_is_refused():
    q = torch.randn(1, 2, 4, 8)
    bias = torch.zeros(1, 2, 4, 4, requires_grad=True)
    with pytest.raises(ValueError, match="whose bias is trained"):
        _ereg.row_entropy(q, q, Attention(bias=bias))


@pytest.mark.parametrize("reduction", ["token", "mean"])
def test_a_row_that_is_not_finite_makes_the_penalty_nan(reduction):
    ereg = es.EntropyRegularization(1, H, T, reduction=reduction)
    ((query, key),) = layers(torch.float32)[:1]
    with torch.no_grad():
        query[0, 1, 4, 0] = float("nan")
    assert ereg([(query, key)]).isnan()
