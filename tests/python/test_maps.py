"""Compares the attention maps that es.watch records with weights computed by the plain
formula."""

import sqlite3

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import entropyscan as es
from entropyscan import _library, _maps
from entropyscan._statistics import Attention

B, H, T, D = 3, 2, 10, 4


def cells(weights, seen, n):
    """Reduces weights (B,H,T,S) to maps (H,n,n), one cell at a time."""
    h, t, s = weights.shape[1:]
    out = np.full((h, n, n), np.nan)
    for head in range(h):
        for q in range(n):
            for k in range(n):
                rows = [i for i in range(t) if i * n // t == q]
                keys = [j for j in range(s) if j * n // s == k]
                block = np.ix_(range(len(weights)), [head], rows, keys)
                visible = seen[block]
                if visible.any():
                    out[head, q, k] = weights[block][visible].mean()
    return out


def expect(found, want):
    missing = found.numpy().view(np.uint32) == _library.MISSING_BITS
    assert np.array_equal(missing, np.isnan(want))
    assert np.abs(found.numpy() - want)[~missing].max() <= 1e-6


def drawn(t=T, s=T, heads=H, groups=H, seed=1):
    torch.manual_seed(seed)
    query = torch.randn(B, heads, t, D) * 2
    key = torch.randn(B, groups, s, D) * 2
    return query, key


def weights_of(query, key, seen, scale=D**-0.5):
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = (query.double() @ key.double().transpose(-1, -2)) * scale
    scores = scores.masked_fill(~seen, -torch.inf)
    return scores.softmax(-1).nan_to_num(0).numpy()


@pytest.mark.parametrize("size", [1, 3, 4, 10, 64])
def test_a_cell_is_the_mean_weight_of_its_pairs(size):
    query, key = drawn()
    seen = torch.ones(T, T, dtype=torch.bool).tril().expand(B, H, T, T)
    found = _maps.maps(query, key, Attention(causal=True), size)
    n = min(size, T)
    assert found.shape == (H, n, n)
    expect(found, cells(weights_of(query, key, seen), seen.numpy(), n))


def test_masks_groups_and_different_lengths_are_supported():
    query, key = drawn(t=7, s=9, heads=4, groups=2, seed=2)
    mask = torch.rand(B, 1, 7, 9) > 0.4
    mask[..., 0] = True
    seen = mask.expand(B, 4, 7, 9)
    found = _maps.maps(query, key, Attention(mask=mask, is_self=False), 3)
    expect(found, cells(weights_of(query, key, seen), seen.numpy(), 3))


def test_blocks_of_queries_change_nothing(monkeypatch):
    query, key = drawn(seed=3)
    whole = _maps.maps(query, key, Attention(causal=True), 4)
    monkeypatch.setattr(_maps._statistics, "BLOCK_SCORES", 3 * B * H * T)
    parts = _maps.maps(query, key, Attention(causal=True), 4)
    there = whole == whole
    assert torch.equal(there, parts == parts)
    assert (whole - parts)[there].abs().max() <= 1e-6


def test_only_the_first_sixteen_sequences_count():
    torch.manual_seed(4)
    query, key = torch.randn(20, H, T, D), torch.randn(20, H, T, D)
    found = _maps.maps(query, key, Attention(causal=True), 3)
    first = _maps.maps(query[:16], key[:16], Attention(causal=True), 3)
    assert torch.equal(found.view(torch.int32), first.view(torch.int32))


def test_a_row_that_is_not_finite_is_nan_in_its_cells():
    query, key = drawn(seed=5)
    query[0, 1, 7] = torch.nan
    found = _maps.maps(query, key, Attention(causal=True), T).numpy()
    missing = found.view(np.uint32) == _library.MISSING_BITS
    assert np.array_equal(missing, np.triu(np.ones((T, T), bool), 1)[None].repeat(H, 0))
    bad = np.isnan(found) & ~missing
    assert bad[1, 7, :8].all() and bad.sum() == 8


def test_packed_sequences_have_no_maps():
    query, key = torch.randn(1, H, T, D), torch.randn(1, H, T, D)
    starts = torch.tensor([0, 4, T], dtype=torch.int32)
    assert _maps.maps(query, key, Attention(causal=True, query_starts=starts), 4) is None


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(8, 24)
        self.seen = None

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (2, 4)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        self.seen = q.detach(), k.detach()
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).flatten(2)


def rows_of(path):
    return sqlite3.connect(path).execute(
        "SELECT phase, step, layer, head, size, ctx, value FROM attention_map"
        " ORDER BY phase, step, layer, head"
    ).fetchall()


def test_a_watched_training_records_maps(tmp_path):
    torch.manual_seed(6)
    model = torch.nn.Sequential(Layer(), Layer(), Layer())
    path = tmp_path / "run.db"
    with es.watch(model, path, maps=4, maps_every=4, every=2, map_heads=True) as rec:
        for step in range(10):
            model(torch.randn(2, 12, 8)).sum().backward()
            if step == 4:
                seen = [layer.seen for layer in model]
            rec.step(loss=float(step))
        model.eval()
        with torch.no_grad():
            model(torch.randn(2, 12, 8))
        rec.evaluation(loss=1.0)
    assert rec.trouble is None
    rows = rows_of(path)
    steps = sorted({row[:2] for row in rows})
    assert steps == [("eval", 9), ("train", 0), ("train", 4), ("train", 8)]
    assert len(rows) == 4 * 3 * 3
    assert {row[4:6] for row in rows} == {(4, 12)}
    for layer, (query, key) in enumerate(seen):
        want = _maps.maps(query, key, Attention(causal=True), 4).numpy()
        own = {row[3]: np.frombuffer(row[6], np.float32).reshape(4, 4)
               for row in rows if row[:3] == ("train", 4, layer)}
        assert sorted(own) == [-1, 0, 1]
        there = ~np.isnan(want[0])
        for head in (0, 1):
            assert np.array_equal(own[head][there], want[head][there])
        assert np.abs(own[-1] - want.mean(0))[there].max() <= 1e-6
        assert (own[-1].view(np.uint32)[~there] == _library.MISSING_BITS).all()


def test_maps_are_off_by_default(tmp_path):
    torch.manual_seed(7)
    model = torch.nn.Sequential(Layer())
    with es.watch(model, tmp_path / "run.db") as rec:
        model(torch.randn(2, 12, 8)).sum().backward()
        rec.step()
    found = sqlite3.connect(tmp_path / "run.db").execute(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'attention_map'"
    )
    assert found.fetchone() == (0,)


@pytest.mark.parametrize(
    "given",
    [{"maps": 65}, {"maps": -1}, {"maps": "x"}, {"maps": 4, "maps_every": 0},
     {"maps": 4, "map_heads": "yes"}, {"maps": 4, "all_ranks": True}],
)
def test_wrong_arguments_are_refused(tmp_path, given):
    with pytest.raises((TypeError, ValueError), match="maps|map_heads"):
        es.watch(torch.nn.Sequential(Layer()), tmp_path / "run.db", **given)
    assert not (tmp_path / "run.db").exists()
