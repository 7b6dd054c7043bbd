"""Defines GPT-2 as it is usually written in PyTorch, a training step, and the process that runs
training steps for peer_torch.py.
"""

import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

from torch_common import DEVICE, MODEL, attention_kernel, setting, time_rounds, wait


class Block(nn.Module):
    def __init__(self, n_head, width, keeps):
        super().__init__()
        self.n_head, self.keeps, self.entropy = n_head, keeps, None
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def weigh(self, q, k, v):
        """Returns the output of attention, computed with an explicit attention matrix. Stores the
        mean entropy of each head, computed by the papers' formula, in self.entropy."""
        n_ctx = q.shape[2]
        mask = torch.ones(n_ctx, n_ctx, dtype=torch.bool, device=q.device).tril()
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[3])
        att = F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        with torch.no_grad():
            rows = -(att * torch.log(att + 1e-9)).sum(dim=-1)
            self.entropy = rows.mean(dim=(0, 2))
        return att.to(v.dtype) @ v

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = (
            part.view(b, t, self.n_head, d // self.n_head).transpose(1, 2)
            for part in self.qkv(x).split(d, dim=2)
        )
        if self.keeps:
            y = self.weigh(q, k, v)
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    """GPT-2. The model computes the loss itself, so that torch.compile compiles the loss, too."""

    def __init__(self, n_layer, n_head, width, vocab, n_ctx, keeps):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(n_ctx, width)
        self.blocks = nn.ModuleList(Block(n_head, width, keeps) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0, 0.02)
        self.head.weight = self.wte.weight

    def forward(self, tokens, targets):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def make_optimiser(model):
    decays = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW(
        [
            {"params": decays, "weight_decay": 0.1},
            {"params": others, "weight_decay": 0},
        ],
        lr=1e-4,
        fused=True,
    )


def torch_step(mode, vocab, n_ctx, n_batch):
    """Returns a function and the model. The function makes a training step in bf16 with f32
    parameters, and returns the loss without waiting for it."""
    n_layer, n_head, width, _ = MODEL
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Model(n_layer, n_head, width, vocab, n_ctx, mode == "papers").to(DEVICE)
    optimiser = make_optimiser(model)
    forward = model
    if mode not in ("papers", "eager"):
        forward = torch.compile(model, mode=mode)
    tokens = torch.randint(MODEL[3], (n_batch, n_ctx + 1), device=DEVICE)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = forward(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if mode == "papers":  # logs the entropy like the papers
            torch.stack([block.entropy for block in model.blocks]).cpu()
        return loss.detach()

    return step, model


def serve(mode, vocab, n_ctx, n_batch):
    """Runs in a separate process. Prints a line with the number of parameters, the largest amount
    of memory in MiB that PyTorch has reserved, and the attention kernel of a step. Then waits for
    the line "go" on standard input, measures steps, and prints the milliseconds of a step."""
    if DEVICE == "cuda":
        torch.cuda.set_per_process_memory_fraction(float(setting("SHARE", "1")))
    step, model = torch_step(mode, vocab, n_ctx, n_batch)
    first = step().item()
    if not abs(first - math.log(vocab)) < 0.5:
        sys.exit(f"the first loss is {first}, far from ln {vocab}")
    for _ in range(6):
        step()
    wait()
    n = sum(p.numel() for p in model.parameters())
    reserved = torch.cuda.max_memory_reserved() >> 20 if DEVICE == "cuda" else 0
    print(n, reserved, attention_kernel(step), flush=True)
    if sys.stdin.readline().strip() == "go":
        print(f"{time_rounds(step, 60):.4f}", flush=True)
