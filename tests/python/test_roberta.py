"""Tests that transformers' RobertaForMaskedLM reads a checkpoint of family roberta and
computes the same loss and entropies, with and without padding."""

import subprocess

import masks
import models
import numpy as np
import pytest
import torch
import transformers as tf
from safetensors.torch import load_file

import entropyscan as es
from entropyscan import _library

LENGTH = 24  # tokens of a sequence
VOCAB = models.VOCAB
MASK = VOCAB  # the mask token follows the tokens of the data
PROGRAM = _library.program("entropy-train")
CORPUS = _library.program("entropy-corpus")
pytestmark = pytest.mark.skipif(
    PROGRAM is None or CORPUS is None, reason="entropy-train is not built"
)


def run(program, *arguments):
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def make_tokens(path, padding, lengths):
    tokens = torch.randint(3, VOCAB, (16, LENGTH + 1))
    for row, length in zip(tokens, lengths * 8):
        row[length:] = padding
    ids = path.with_suffix(".ids")
    ids.write_text(" ".join(map(str, tokens.flatten().tolist())))
    run(CORPUS, "--ids", ids, "--vocab", VOCAB, "-o", path, "--held-out=50")
    return tokens[8:, :-1]


def load(path, padding, n_layer):
    config = tf.RobertaConfig(
        vocab_size=VOCAB + 1, hidden_size=24, num_hidden_layers=n_layer,
        num_attention_heads=3, intermediate_size=20, layer_norm_eps=1e-5,
        max_position_embeddings=LENGTH + max(padding, 0) + (padding >= 0),
        pad_token_id=max(padding, 0), type_vocab_size=1)
    model = tf.RobertaForMaskedLM(config)
    arrays = {name: x for name, x in load_file(path).items()
              if not name.startswith("optimizer.")}
    said = model.load_state_dict(arrays, strict=False)
    assert said.unexpected_keys == []
    assert set(said.missing_keys) <= {"lm_head.decoder.weight", "lm_head.decoder.bias"}
    model.tie_weights()
    model.set_attn_implementation("eager")
    return model.double().eval()


@pytest.mark.parametrize("padding, lengths", [(-1, [LENGTH + 1] * 2),
                                              (1, [LENGTH + 1, 7])])
def test_transformers_reads_a_checkpoint_of_entropy_train(tmp_path, padding, lengths):
    tokens = make_tokens(tmp_path / "x.tok", padding, lengths)
    data = ["--data", tmp_path / "x.tok"]
    run(PROGRAM, *"--family roberta --n-layer 3 --n-head 3 --d-model 24".split(),
        *f"--d-ff 20 --ctx {LENGTH} --batch 2 --steps 40 --lr 0.02".split(), *data,
        "--padding", padding, "--no-record", "-q", "--eval-every", 0, "--checkpoint",
        tmp_path / "kept")
    (checkpoint,) = (tmp_path / "kept").glob("*.safetensors")
    run(PROGRAM, "probe", checkpoint, *data, "--batch", 2, "--batches", 2, "-q",
        "--out", tmp_path / "probe.db")
    seen = es.open(str(tmp_path / "probe.db"))
    model = load(checkpoint, padding, 3)
    losses, entropies, n_seen = [], [], []
    for index in range(2):
        inputs, targets = masks.hide(tokens[2 * index:2 * index + 2], index, padding,
                                     MASK, VOCAB)
        there = inputs != padding
        positions = torch.arange(LENGTH) + padding + 1
        with torch.no_grad():
            out = model(inputs, attention_mask=there.long(), output_attentions=True,
                        position_ids=positions.expand(inputs.shape))
        losses.append(torch.nn.functional.cross_entropy(
            out.logits.flatten(0, 1), targets.flatten()))
        rows = [-(a * torch.log(a.clamp(min=1e-300))).sum(-1) for a in out.attentions]
        entropies.append(torch.stack([r.transpose(1, 2)[there].sum(0) for r in rows]))
        n_seen.append(there.sum())
    loss, n_rows = float(sum(losses) / 2), sum(n_seen)
    assert abs(seen.values("ce", "eval")[-1] - loss) <= 1e-4 * loss
    theirs = (sum(entropies) / n_rows).numpy()
    assert np.abs(seen.entropy("eval")[-1] - theirs).max() <= 1e-4
    assert theirs.std() > 0.01
    assert seen.info["family"] == "roberta" and seen.info["vocab"] == VOCAB + 1
    counts = (tokens[:4] != padding).sum(-1).double()
    ceiling = float((counts * counts.log()).sum() / counts.sum())
    assert abs(seen.config["ceiling"] - ceiling) <= 1e-6
    assert seen.config["mask_token"] == MASK
