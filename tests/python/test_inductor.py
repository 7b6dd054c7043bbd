"""Tests that checkpointed models compiled by inductor compute the same bits with and
without a watch. The tests are in a separate file because compiling takes long and test
files run in parallel."""

import pytest
import torch
from test_compile import no_graphs_of_others, one_order_of_sums, same  # noqa: F401

import entropyscan as es


class Checkpointed(torch.nn.Module):
    """Attention blocks, each under torch.utils.checkpoint. The first block uses
    bfloat16, whose rounding would reveal loops that are fused differently with a
    watch."""

    def __init__(self, reentrant):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Attending() for _ in range(2))
        self.out = torch.nn.Linear(24, 17)
        self.reentrant = reentrant

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            with torch.autocast("cpu", torch.bfloat16, enabled=i == 0):
                if self.reentrant is None:
                    x = block(x)
                else:
                    x = torch.utils.checkpoint.checkpoint(
                        block, x, use_reentrant=self.reentrant
                    )
        return self.out(x)


class Attending(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(24)
        self.qkv = torch.nn.Linear(24, 72)
        self.up, self.down = torch.nn.Linear(24, 40), torch.nn.Linear(40, 24)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 3, 8).unbind(2)
        q, k = (torch.nn.functional.rms_norm(y, (8,)) * 3 for y in (q, k))
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(1, 2).flatten(2)
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def train_checkpointed(reentrant, path=None):
    """Trains a model compiled by inductor for three steps. Returns logits, losses and
    gradients."""
    torch._dynamo.reset()
    torch.manual_seed(11)
    model = Checkpointed(reentrant).train()
    x, target = torch.randn(2, 21, 24, requires_grad=True), torch.arange(42) % 17
    rec = es.watch(model, path, every=2) if path else None
    call = torch.compile(model, fullgraph=reentrant is not True, backend="inductor")
    out = []
    for step in range(3):
        logits = call(x)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target)
        loss.backward()
        out.append([logits.detach(), loss.detach(), x.grad])
        out[-1] += [p.grad for p in model.parameters()]
        x.grad = None
        model.zero_grad()
        if rec:
            rec.step(loss=loss)
    if rec:
        rec.close()
        assert rec.trouble is None
    return out


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_inductor_and_checkpoints_have_the_same_bits_with_and_without_us(
    reentrant, one_order_of_sums, run_file
):
    plain = train_checkpointed(reentrant)
    assert same(plain, train_checkpointed(reentrant))
    assert same(plain, train_checkpointed(reentrant, run_file))
    assert list(es.open(run_file).steps()) == [0, 2]
