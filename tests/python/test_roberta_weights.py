"""Tests that entropy-train starts from weights of RoBERTa as transformers saves them:
the masked loss and the heads equal those of RobertaForMaskedLM, training continues with
softmax and with PowerSoftmax, and transformers reads the result."""

import json
import shutil
import subprocess

import masks
import numpy as np
import pytest
import torch
import transformers as tf
from safetensors.torch import load_file, save_file

import entropyscan as es
from entropyscan import _library

VOCAB, MASK = 61, 57
SEQUENCES = 8  # in the held-out part, in micro-batches of 2
PROGRAM = _library.program("entropy-train")
CORPUS = _library.program("entropy-corpus")
pytestmark = pytest.mark.skipif(
    PROGRAM is None or CORPUS is None, reason="entropy-train is not built"
)

# Sizes of models that differ in the numbers of layers, heads and token types, and in
# the padding.
SIZES = {
    "published": dict(num_hidden_layers=2, num_attention_heads=3, hidden_size=24,
                      intermediate_size=20, type_vocab_size=1, pad_token_id=1,
                      max_position_embeddings=26, layer_norm_eps=1e-5),
    "one head": dict(num_hidden_layers=3, num_attention_heads=1, hidden_size=9,
                     intermediate_size=7, type_vocab_size=2, pad_token_id=0,
                     max_position_embeddings=12, layer_norm_eps=1e-12,
                     hidden_act="relu"),
    "one layer": dict(num_hidden_layers=1, num_attention_heads=5, hidden_size=35,
                      intermediate_size=140, type_vocab_size=1, pad_token_id=3,
                      max_position_embeddings=41, layer_norm_eps=1e-5,
                      hidden_act="gelu_new"),
}


def build(size):
    """Makes a model with large weights, so that heads, biases, the embedding of the
    token type and the last layers all have an effect."""
    torch.manual_seed(3)
    model = tf.RobertaForMaskedLM(tf.RobertaConfig(vocab_size=VOCAB, **SIZES[size]))
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.3 if parameter.dim() == 1 else 1.5 * parameter[0].numel() ** -0.5
            parameter.add_(scale * torch.randn_like(parameter))
    return model


def run(program, *arguments):
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def make_tokens(path, config, n=SEQUENCES):
    """Writes a token file with n sequences for training and n held-out ones. Each token
    is its predecessor plus 1, and every other sequence ends with padding. Returns the
    held-out sequences, (n,T)."""
    length = config.max_position_embeddings - config.pad_token_id - 1
    first = torch.randint(4, MASK, (2 * n, 1))
    tokens = 4 + (first + torch.arange(length + 1)) % (MASK - 4)
    tokens[1::2, length // 3:] = config.pad_token_id
    ids = path.with_suffix(".ids")
    ids.write_text(" ".join(map(str, tokens.flatten().tolist())))
    code, said = run(CORPUS, "--ids", ids, "--vocab", VOCAB, "-o", path,
                     "--held-out=50")
    assert code == 0, said
    return tokens[n:, :-1]


def probe(tmp_path, weights, *options):
    out = tmp_path / f"{weights.parent.name}.db"
    code, said = run(PROGRAM, "probe", weights, "--data", tmp_path / "x.tok", "--out",
                     out, "--batch", 2, "--batches", SEQUENCES // 2, "-q", *options)
    assert code == 0, said
    return es.open(str(out))


def theirs(model, tokens):
    """Returns what transformers computes in float64: the masked loss and the accuracy of
    each micro-batch, and for each head the means over its rows of entropy, largest weight
    and first weight."""
    model = model.double().eval()
    model.set_attn_implementation("eager")
    losses, right, rows = [], [], []
    padding = model.config.pad_token_id
    for index in range(SEQUENCES // 2):
        inputs, targets = masks.hide(tokens[2 * index:2 * index + 2], index, padding,
                                     MASK, VOCAB)
        there = inputs != padding
        with torch.no_grad():
            out = model(inputs, attention_mask=there.long(), output_attentions=True,
                        labels=targets)
        losses.append(float(out.loss))
        masked = targets >= 0
        right.append(float((out.logits.argmax(-1) == targets)[masked].double().mean()))
        a = torch.stack(out.attentions)  # (L,B,H,T,S)
        b = a / a.sum(-1, keepdim=True)
        kinds = torch.stack([-(b * torch.log(b.clamp(min=1e-300))).sum(-1),
                             a.amax(-1), a[..., 0]])
        rows.append(kinds.transpose(3, 4)[:, :, there])
    entropy, top, sink = torch.cat(rows, 2).mean(2).numpy()
    return losses, right, dict(entropy=entropy, top=top, sink=sink)


def same(seen, wanted):
    losses, right, heads = wanted
    loss, spread = np.mean(losses), np.std(losses, ddof=1)
    assert abs(seen.values("ce", "eval")[-1] - loss) <= 1e-5 * loss
    assert abs(seen.values("ce_std", "eval")[-1] - spread) <= 1e-5 * loss
    assert abs(seen.values("accuracy", "eval")[-1] - np.mean(right)) <= 1e-6
    for name, values in heads.items():
        ours = seen.values(name, "eval")[-1]
        assert ours.shape == values.shape
        assert np.abs(ours / values - 1).max() <= 1e-5, name
    assert heads["entropy"].std() > 0.01 or heads["entropy"].size == 1
    assert seen.info["family"] == "roberta" and seen.config["mask_token"] == MASK


# Each of the following functions converts the tensors of a saved model to another form
# in which files with RoBERTa weights occur.
def without_prefix(tensors):
    return {name.removeprefix("roberta."): x for name, x in tensors.items()}


def with_others(tensors):
    width = tensors["lm_head.dense.bias"].numel()
    embedding = tensors["roberta.embeddings.word_embeddings.weight"]
    return tensors | {
        "roberta.pooler.dense.weight": torch.randn(width, width),
        "roberta.pooler.dense.bias": torch.randn(width),
        "roberta.embeddings.position_ids": torch.arange(9)[None],
        "lm_head.decoder.weight": embedding.clone(),
        "lm_head.decoder.bias": tensors["lm_head.bias"].clone(),
    }


def in_a_wrapper(tensors):
    return {"module." + name: x for name, x in with_others(tensors).items()}


FORMS = {"as saved": dict, "without a prefix": without_prefix,
         "with other tensors": with_others, "in a wrapper": in_a_wrapper}


def save(folder, model, form=dict, **options):
    model.save_pretrained(folder, **options)
    path = folder / "model.safetensors"
    if form is not dict:
        save_file(form(load_file(path)), path, {"format": "pt"})
    return path


@pytest.mark.parametrize("size, form", [
    *((size, "as saved") for size in SIZES),
    *((size, form) for size in ("published", "one head")
      for form in FORMS if form != "as saved")])
def test_loss_and_heads_equal_those_of_transformers(tmp_path, size, form):
    model = build(size)
    path = save(tmp_path / "hf", model, FORMS[form])
    tokens = make_tokens(tmp_path / "x.tok", model.config)
    seen = probe(tmp_path, path, "--mask-token", MASK)
    same(seen, theirs(model, tokens))


def test_files_in_half_precision_and_in_parts_are_read(tmp_path):
    model = build("published").half().float()
    tokens = make_tokens(tmp_path / "x.tok", model.config)
    wanted = theirs(build("published").half().float(), tokens)
    options = "--mask-token", MASK
    path = save(tmp_path / "half", model.half())
    assert load_file(path)["lm_head.bias"].dtype == torch.float16
    same(probe(tmp_path, path, *options), wanted)
    model.float().save_pretrained(tmp_path / "parts", max_shard_size="8KB")
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 2
    same(probe(tmp_path, tmp_path / "parts/model.safetensors.index.json", *options),
         wanted)


def power_softmax(scores, dim, **_):
    """Computes PowerSoftmax with power 4 and epsilon 1e-4 in place of softmax. The scores
    of padding are below -1e30."""
    s = torch.where(scores > -1e30, scores, 0)
    z = (s / (s.abs().amax(dim, keepdim=True) + 1e-6)) ** 4
    return z / (1e-4 + z.sum(dim, keepdim=True))


@pytest.mark.parametrize("arch", ["SM+LN+G", "PSM(4,1e-4)+LN+G"])
def test_training_continues_and_transformers_reads_the_result(
        tmp_path, monkeypatch, arch):
    is_power = arch.startswith("PSM")
    model = build("published")
    path = save(tmp_path / "hf", model, with_others)
    tokens = make_tokens(tmp_path / "x.tok", model.config)
    code, said = run(
        PROGRAM, "--init", path, "--mask-token", MASK, "--arch", arch, "--data",
        tmp_path / "x.tok", "--out", tmp_path / "train.db", "-q", "--checkpoint",
        tmp_path / "kept", *"--batch 4 --steps 1000 --lr 0.01 --eval-every 0".split())
    assert code == 0, said
    assert ("continue as PSM(4,1e-4)+LN+G, which computes a different function" in said) == is_power
    losses = es.open(str(tmp_path / "train.db")).values("loss")
    # A model that only knows the frequencies of tokens has a loss of ln 53 = 3.97.
    assert losses[0] > 4 and losses[-20:].mean() < 2
    (checkpoint,) = (tmp_path / "kept").glob("*.safetensors")
    saved = save(tmp_path / "saved", model)
    names = {name for name in load_file(checkpoint) if name[:10] != "optimizer."}
    assert names == set(load_file(saved))
    shutil.copy(checkpoint, saved)
    again = tf.RobertaForMaskedLM.from_pretrained(saved.parent)
    if is_power:
        monkeypatch.setattr(torch.nn.functional, "softmax", power_softmax)
    seen = probe(tmp_path, checkpoint)
    assert seen.info["arch"] == arch
    same(seen, theirs(again, tokens))


def test_a_shorter_context_uses_the_first_positions(tmp_path):
    model = build("published")
    path = save(tmp_path / "hf", model)
    short = tf.RobertaConfig(max_position_embeddings=14, pad_token_id=1)
    tokens = make_tokens(tmp_path / "x.tok", short)
    assert tokens.shape[1] == 12
    seen = probe(tmp_path, path, "--mask-token", MASK, "--ctx", 12)
    same(seen, theirs(model, tokens))


def test_a_mask_token_behind_the_tokens_of_the_data_is_found(tmp_path):
    model = build("published")
    path = save(tmp_path / "hf", model)
    make_tokens(tmp_path / "x.tok", model.config)
    code, said = run(CORPUS, "--ids", tmp_path / "x.ids", "--vocab", VOCAB - 1, "-o",
                     tmp_path / "x.tok", "--held-out=50")
    assert code == 0, said
    seen = probe(tmp_path, path, "--mask-token", VOCAB - 1)
    assert seen.config["mask_token"] == VOCAB - 1


# For each name: a change of the tensors, a change of config.json, options, and the expected
# error message.
REFUSED = {
    "no head": (lambda x: {k: v for k, v in x.items() if k[:8] != "lm_head."}, {}, [],
                "lm_head.dense.weight is missing: without the layers lm_head"),
    "half a head": (lambda x: {k: v for k, v in x.items() if k != "lm_head.bias"}, {},
                    [], "lm_head.bias is missing"),
    "another output matrix": (
        lambda x: x | {"lm_head.decoder.weight": torch.zeros(VOCAB, 24)}, {}, [],
        "lm_head.decoder.weight is not the embedding roberta.embeddings.word"),
    "another output bias": (lambda x: x | {"lm_head.decoder.bias": torch.zeros(VOCAB)},
                            {}, [], "lm_head.decoder.bias is not the bias lm_head.bias"),
    "an unknown head": (lambda x: x | {"lm_head.extra": torch.zeros(2)}, {}, [],
                        "unexpected tensor lm_head.extra in a RoBERTa model"),
    "no token type": (
        lambda x: x | {"roberta.embeddings.token_type_embeddings.weight":
                       torch.zeros(1, 23)}, {}, [],
        "token_type_embeddings.weight has shape (1,23): expected (1,24)"),
    "untied": (dict, {"tie_word_embeddings": False}, [],
               "tie_word_embeddings is false"),
    "another kind": (dict, {"model_type": "camembert"}, [],
                     "model_type is camembert: expected roberta"),
    "no padding": (dict, {"pad_token_id": None}, [], "pad_token_id is missing"),
    "no mask token": (dict, {}, ["--mask-token", -1],
                      "do not name the mask token among their 61 tokens"),
    "a mask token that is padding": (dict, {}, ["--mask-token", 1],
                                     "--mask-token 1 is also the token of --padding"),
    "another padding": (dict, {}, ["--padding", -1], "--padding 1, not -1"),
    "family bert": (dict, {}, ["--family", "bert"], "need --family roberta"),
    "another part": (dict, {}, ["--arch", "SM(gate)+LN+G"],
                     "architecture SM+LN+G, not SM(gate)+LN+G"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsuitable_weights_and_options_are_refused_by_name(tmp_path, name):
    form, changes, options, named = REFUSED[name]
    model = build("published")
    path = save(tmp_path / "hf", model, form)
    make_tokens(tmp_path / "x.tok", model.config)
    config = json.loads((tmp_path / "hf/config.json").read_text())
    (tmp_path / "hf/config.json").write_text(json.dumps(config | changes))
    code, said = run(PROGRAM, "--init", path, "--mask-token", MASK, *options, "--data",
                     tmp_path / "x.tok", "--no-record", "--steps", 1)
    assert code in (2, 3) and named in said, said
