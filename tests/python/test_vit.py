"""Tests that family vit and transformers' ViTForImageClassification have the same loss,
entropies and accuracy: entropy-train probe reads weights with the names of the
published google/vit models, and transformers reads a checkpoint of entropy-train."""

import json
import subprocess

import numpy as np
import pytest
import torch
import transformers as tf
from safetensors.torch import load_file, save_file

import entropyscan as es
from entropyscan import _library

LEVELS, SIZE, CLASSES, IMAGES = 17, 6, 5, 8
PROGRAM = _library.program("entropy-train")
CORPUS = _library.program("entropy-corpus")
pytestmark = pytest.mark.skipif(
    PROGRAM is None or CORPUS is None, reason="entropy-train is not built"
)


def run(program, *arguments):
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def make_images(path, channels):
    pixels = torch.randint(LEVELS, (2 * IMAGES, channels, SIZE, SIZE))
    classes = torch.randint(CLASSES, (2 * IMAGES,))
    ids = path.with_suffix(".ids")
    rows = torch.cat([pixels.flatten(1), classes[:, None]], 1)
    ids.write_text(" ".join(map(str, rows.flatten().tolist())))
    code, said = run(CORPUS, "--ids", ids, "--vocab", LEVELS, "-o", path,
                     "--held-out=50")
    assert code == 0, said
    return pixels[IMAGES:], classes[IMAGES:]


def build(channels):
    return tf.ViTForImageClassification(tf.ViTConfig(
        hidden_size=24, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=20, image_size=SIZE, patch_size=2, num_channels=channels,
        num_labels=CLASSES))


def theirs(model, pixels, classes):
    """Returns the loss, accuracy and head entropies (L,H) that transformers
    computes."""
    model = model.double().eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(2 * pixels.double() / (LEVELS - 1) - 1, output_attentions=True)
    rows = [-(a * torch.log(a.clamp(min=1e-300))).sum(-1) for a in out.attentions]
    return (float(torch.nn.functional.cross_entropy(out.logits, classes)),
            float((out.logits.argmax(-1) == classes).double().mean()),
            torch.stack([r.mean((0, 2)) for r in rows]).numpy())


def probe(tmp_path, weights):
    out = tmp_path / "probe.db"
    code, said = run(PROGRAM, "probe", weights, "--data", tmp_path / "x.tok", "--out",
                     out, "--batch", 4, "--batches", IMAGES // 4)
    assert code == 0, said
    return es.open(str(out)), said


def same(seen, said, wanted):
    loss, right, entropies = wanted
    assert abs(seen.values("ce", "eval")[-1] - loss) <= 1e-4 * loss
    assert abs(seen.values("accuracy", "eval")[-1] - right) <= 1e-6
    assert f"accuracy {right:.4f}" in said
    ours = seen.entropy("eval")[-1]
    assert ours.shape == entropies.shape
    assert np.abs(ours - entropies).max() <= 1e-4
    # The ten positions are 9 patches and the class token.
    assert abs(seen.config["ceiling"] - np.log(10)) <= 1e-6


@pytest.mark.parametrize("channels", [1, 3])
def test_probe_of_published_weights_agrees_with_transformers(tmp_path, channels):
    pixels, classes = make_images(tmp_path / "x.tok", channels)
    model = build(channels)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path / "weights")
    names = load_file(tmp_path / "weights/model.safetensors").keys()
    assert "vit.encoder.layer.2.attention.attention.query.weight" in names
    seen, said = probe(tmp_path, tmp_path / "weights/model.safetensors")
    wanted = theirs(model, pixels, classes)
    assert wanted[2].std() > 0.01
    same(seen, said, wanted)
    assert seen.info["family"] == "vit" and seen.info["arch"] == "SM+LN+G"


def test_transformers_reads_a_checkpoint_of_entropy_train(tmp_path):
    pixels, classes = make_images(tmp_path / "x.tok", 2)
    code, said = run(
        PROGRAM, *"--family vit --n-layer 3 --n-head 4 --d-model 24 --d-ff 20".split(),
        *f"--image-size {SIZE} --patch-size 2 --channels 2 --classes {CLASSES}".split(),
        *"--batch 4 --steps 60 --lr 0.01 --eval-every 0 --ln-eps 1e-12".split(),
        "--data", tmp_path / "x.tok", "--no-record", "-q", "--checkpoint",
        tmp_path / "kept")
    assert code == 0, said
    (checkpoint,) = (tmp_path / "kept").glob("*.safetensors")
    arrays = {name: x for name, x in load_file(checkpoint).items()
              if not name.startswith("optimizer.")}
    model = build(2)
    model.save_pretrained(tmp_path / "theirs")
    assert arrays.keys() == load_file(tmp_path / "theirs/model.safetensors").keys()
    save_file(arrays, tmp_path / "theirs/model.safetensors", {"format": "pt"})
    model = tf.ViTForImageClassification.from_pretrained(tmp_path / "theirs")
    seen, said = probe(tmp_path, checkpoint)
    same(seen, said, theirs(model, pixels, classes))


REFUSED = dict(model_type=("deit", "model_type is deit"),
               qkv_bias=(False, "qkv_bias is not true"),
               patch_size=(3, "patch_size does not match the weights"),
               image_size=(8, "image_size 8: the weights have 10 positions"),
               num_attention_heads=(5, "--n-head 5 does not divide"))


@pytest.mark.parametrize("key", REFUSED)
def test_an_unsupported_setting_is_refused_by_name(tmp_path, key):
    value, named = REFUSED[key]
    make_images(tmp_path / "x.tok", 1)
    build(1).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
    code, said = run(PROGRAM, "probe", tmp_path / "model.safetensors", "--data",
                     tmp_path / "x.tok", "--no-record")
    assert code in (2, 3) and named in said, said
