"""The entropy regularization against autograd of the plain formula."""

import math

import pytest
import torch

import entropyscan as es
from entropyscan import _ereg

L, H, KV, B, T, D = 3, 4, 2, 2, 21, 8
GAMMA = 0.1


def layers(number, kv=H, factor=1.5):
    def random(heads):
        x = torch.randn(B, heads, T, D, dtype=torch.float64) * factor
        return x.to(number).requires_grad_()

    return [(random(H), random(kv)) for _ in range(L)]


def plain(pairs, thresholds, reduction, causal):
    """As the papers' listing writes it, in double."""
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
    monkeypatch.setattr(_ereg, "BLOCK_SCORES", B * H * T * 4)  # four rows
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


def test_no_matrix_of_t_by_t_is_kept():
    kept = []

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        ereg = es.EntropyRegularization(L, H, T)
        ereg(layers(torch.float32)).backward()
    assert max(kept) <= B * H * T * max(D, 1)


def test_what_does_not_go_together_is_refused():
    ereg = es.EntropyRegularization(L, H, T)
    with pytest.raises(ValueError, match="2 layers, made for 3"):
        ereg(layers(torch.float32)[:2])
    with pytest.raises(ValueError, match="token or mean"):
        es.EntropyRegularization(L, H, T, reduction="sum")
    q = torch.randn(1, 3, 4, 2)
    with pytest.raises(ValueError, match="divide"):
        _ereg.attention_entropy(q, q[:, :2])


def test_a_head_learns_its_threshold():
    """The entropy comes within the tolerance of the threshold, or the threshold
    within that of the entropy: the penalty vanishes."""
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
