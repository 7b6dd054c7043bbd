"""Tests that entropy-train probe and transformers compute the same head entropies from the
same weights of encoders (BERT and RoBERTa), also if sequences are padded; rows of
padding do not count."""

import json
import subprocess

import models
import numpy as np
import pytest
import torch
import transformers as tf

import entropyscan as es
from entropyscan import _library

LENGTH = 24  # tokens of a sequence
VOCAB = models.VOCAB
PROGRAM = _library.program("entropy-train")
CORPUS = _library.program("entropy-corpus")
pytestmark = pytest.mark.skipif(
    PROGRAM is None or CORPUS is None, reason="entropy-train is not built"
)


def roberta():
    config = tf.RobertaConfig(
        vocab_size=VOCAB, num_hidden_layers=2, hidden_size=48, intermediate_size=52,
        num_attention_heads=3, max_position_embeddings=32, hidden_act="gelu_new",
        layer_norm_eps=1e-5, type_vocab_size=1, pad_token_id=1, bos_token_id=0,
        eos_token_id=2)
    return tf.RobertaForMaskedLM(config)


# For each name: a function that makes the model, and the model's padding token.
MODELS = {
    "bert": (models.bert, 0),
    "bert without a head": (lambda: tf.BertModel(models.bert().config), 0),
    "roberta": (roberta, 1),
}


def run(program, *arguments):
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def make_tokens(path, padding, lengths):
    """Writes a token file with two sequences that end with padding, and returns the
    sequences, (2,LENGTH)."""
    tokens = torch.randint(3, VOCAB, (2, LENGTH + 1))
    for row, length in zip(tokens, lengths):
        row[length:] = padding
    # In the token file the sequences follow each other, and each is followed by one
    # more token.
    ids = path.with_suffix(".ids")
    ids.write_text(" ".join(map(str, tokens.flatten().tolist())))
    code, said = run(CORPUS, "--ids", ids, "--vocab", VOCAB, "-o", path,
                     "--held-out=100")
    assert code == 0, said
    return tokens[:, :-1]


def probe(tmp_path, weights, tokens, *options):
    out = tmp_path / "probe.db"
    code, said = run(PROGRAM, "probe", weights, "--data", tokens, "--out", out,
                     "--ctx", LENGTH, "--batch", 1, "--batches", 2, *options)
    assert code == 0, said
    return es.open(str(out)), said


def theirs(model, tokens, padding):
    """Returns the head entropies (L,H) that transformers computes, and the ceiling: the
    mean logarithm of the number of visible keys."""
    seen = tokens != padding
    model = model.double().eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(tokens, attention_mask=seen.long(), output_attentions=True)
    rows = [-(a * torch.log(a.clamp(min=1e-300))).sum(-1) for a in out.attentions]
    mean = [r.transpose(1, 2)[seen].mean(0) for r in rows]
    counts = seen.sum(-1, keepdim=True).expand(seen.shape)[seen]
    return torch.stack(mean).numpy(), float(counts.double().log().mean())


@pytest.mark.parametrize("lengths", [(LENGTH, LENGTH), (LENGTH, 7)])
@pytest.mark.parametrize("name", MODELS)
def test_entropies_of_encoders_equal_those_of_transformers(tmp_path, name, lengths):
    make, padding = MODELS[name]
    model = models.spread(make(), 9.0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path / "weights")
    tokens = make_tokens(tmp_path / "x.tok", padding, lengths)
    seen, said = probe(tmp_path, tmp_path / "weights/model.safetensors",
                       tmp_path / "x.tok")
    entropies, ceiling = theirs(model, tokens, padding)
    ours = seen.entropy("eval")[-1]
    assert ours.shape == entropies.shape and entropies.std() > 0.01
    assert np.abs(ours - entropies).max() <= 1e-4
    assert abs(seen.config["ceiling"] - ceiling) <= 1e-6
    assert f"is {ceiling:.4f}" in said and "loss" not in said
    assert (seen.values("nonfinite_rows", "eval") == 0).all()
    names = [series["name"] for series in seen.series]
    assert seen.info["family"] == "bert" and "entropy" in names and "loss" not in names


def test_padding_between_tokens_of_roberta_is_refused(tmp_path):
    roberta().save_pretrained(tmp_path)
    make_tokens(tmp_path / "x.tok", 1, (LENGTH, LENGTH))
    ids = torch.randint(3, VOCAB, (2 * (LENGTH + 1),))
    ids[4] = 1
    (tmp_path / "x.ids").write_text(" ".join(map(str, ids.tolist())))
    run(CORPUS, "--ids", tmp_path / "x.ids", "--vocab", VOCAB, "-o",
        tmp_path / "x.tok", "--held-out=100")
    code, said = run(PROGRAM, "probe", tmp_path / "model.safetensors", "--data",
                     tmp_path / "x.tok", "--no-record", "--ctx", LENGTH, "--batch", 1,
                     "--batches", 1)
    assert code == 3 and "token 5 of a sequence follows padding" in said, said


REFUSED = dict(
    model_type=("electra", "model_type is electra"),
    position_embedding_type=("relative_key", "position_embedding_type is relative_key"),
    is_decoder=(True, "is_decoder is not false"),
    pad_token_id=(VOCAB, "pad_token_id is not a token"),
    hidden_act=("silu", "hidden_act is silu"),
    max_position_embeddings=(65, "max_position_embeddings is 65"),
)


@pytest.mark.parametrize("key", REFUSED)
def test_an_unsupported_setting_is_refused_by_name(tmp_path, key):
    value, named = REFUSED[key]
    models.bert().save_pretrained(tmp_path)
    make_tokens(tmp_path / "x.tok", 0, (LENGTH, LENGTH))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
    code, said = run(PROGRAM, "probe", tmp_path / "model.safetensors", "--data",
                     tmp_path / "x.tok", "--no-record", "--ctx", LENGTH)
    assert code in (2, 3) and named in said, said


def test_training_an_encoder_is_refused(tmp_path):
    models.bert().save_pretrained(tmp_path)
    make_tokens(tmp_path / "x.tok", 0, (LENGTH, LENGTH))
    code, said = run(PROGRAM, "--init", tmp_path / "model.safetensors", "--data",
                     tmp_path / "x.tok", "--no-record", "--ctx", LENGTH)
    assert code == 2 and "--family bert cannot be trained" in said, said
