"""Tests that entropy-train and transformers compute the same loss and entropies from
the same weights: probe reads Llama, Qwen2 and Qwen3, and transformers reads a
checkpoint of family llama."""

import json
import subprocess

import models
import numpy as np
import pytest
import torch
import transformers as tf
from safetensors.torch import load_file

import entropyscan as es
from entropyscan import _library

LENGTH = 24  # tokens of a sequence
PROGRAM = _library.program("entropy-train")
CORPUS = _library.program("entropy-corpus")
pytestmark = [
    pytest.mark.skipif(
        PROGRAM is None or CORPUS is None, reason="entropy-train is not built"
    ),
    pytest.mark.skipif(
        tf.__version__ < "5",
        reason=f"transformers {tf.__version__} has no rope_parameters",
    ),
]
WEIGHTS = dict(
    llama=lambda: models.llama(rms_norm_eps=1e-5),
    llama_with_biases=lambda: models.llama(
        attention_bias=True, mlp_bias=True, num_key_value_heads=1
    ),
    qwen2=lambda: models.decoder(
        tf.Qwen2Config,
        tf.Qwen2ForCausalLM,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    ),
    llama3=lambda: models.llama(
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 5e2,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    ),
    # The total width of all heads is smaller than the width of the model.
    qwen3=lambda: models.qwen(head_dim=10, num_hidden_layers=2),
)


def run(program, *arguments):
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def make_tokens(path, held_out):
    tokens = torch.randint(models.VOCAB, (4 * (LENGTH + 1),))
    ids = path.with_suffix(".ids")
    ids.write_text(" ".join(map(str, tokens.tolist())))
    code, said = run(CORPUS, "--ids", ids, "--vocab", models.VOCAB, "-o", path,
                     f"--held-out={held_out}")
    assert code == 0, said
    return tokens


def roughened(model):
    """Changes weights so that attention is far from uniform, norms differ from 1 and
    biases from 0."""
    with torch.no_grad():
        for name, parameter in models.spread(model, 9.0).named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def probe(tmp_path, weights, tokens):
    out = tmp_path / "probe.db"
    code, said = run(PROGRAM, "probe", weights, "--data", tokens, "--out", out, "-q",
                     "--ctx", LENGTH, "--batch", 1, "--batches", 1)
    assert code == 0, said
    return es.open(str(out))


def theirs(model, tokens):
    """Returns the loss and the head entropies (L,H) that transformers computes for one
    sequence, in float64."""
    model = model.double().eval()
    model.set_attn_implementation("eager")
    tokens = tokens[None, : LENGTH + 1]
    with torch.no_grad():
        out = model(tokens[:, :-1], output_attentions=True, use_cache=False)
    loss = torch.nn.functional.cross_entropy(out.logits[0], tokens[0, 1:])
    entropies = [-(a * torch.log(a + 1e-9)).sum(-1).mean((0, 2)) for a in out.attentions]
    return float(loss), torch.stack(entropies).numpy()


@pytest.mark.parametrize("name", WEIGHTS)
def test_probe_has_the_loss_and_the_entropies_of_transformers(tmp_path, name):
    model = roughened(WEIGHTS[name]())
    model.save_pretrained(tmp_path / "weights")
    tokens = make_tokens(tmp_path / "x.tok", 100)
    seen = probe(tmp_path, tmp_path / "weights/model.safetensors", tmp_path / "x.tok")
    loss, entropies = theirs(model, tokens)
    assert abs(seen.values("ce", "eval")[-1] - loss) <= 1e-4 * loss
    assert seen.entropy("eval")[-1].shape == entropies.shape and entropies.std() > 0.01
    assert np.abs(seen.entropy("eval")[-1] - entropies).max() <= 1e-4
    assert seen.info["family"] == "llama" and seen.info["arch"] == "SM+RN+SwiGLU"


def test_transformers_reads_a_checkpoint_of_entropy_train(tmp_path):
    tokens = make_tokens(tmp_path / "x.tok", 50)
    code, said = run(
        PROGRAM, "--family", "llama", "--data", tmp_path / "x.tok", "--no-record", "-q",
        *"--n-layer 3 --n-head 4 --n-kv-head 2 --d-model 24 --d-ff 20 --d-head 8".split(),
        *f"--ctx {LENGTH} --batch 2 --steps 20 --lr 0.02 --eval-every 0".split(),
        "--qk-norm", "--rope-base", "5e5", "--checkpoint", tmp_path / "kept")
    assert code == 0, said
    (checkpoint,) = (tmp_path / "kept").glob("*.safetensors")
    config = tf.Qwen3Config(
        vocab_size=models.VOCAB, hidden_size=24, intermediate_size=20,
        num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        rms_norm_eps=1e-5, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    config.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs/model.safetensors").symlink_to(checkpoint)
    model = tf.Qwen3ForCausalLM.from_pretrained(tmp_path / "theirs")
    arrays = load_file(checkpoint)
    for name, value in model.state_dict().items():
        assert torch.equal(value, arrays.pop(name))
    assert all(name.startswith("optimizer.") for name in arrays)
    seen = probe(tmp_path, checkpoint, tmp_path / "x.tok")
    loss, entropies = theirs(model, tokens[len(tokens) // 2 :])
    assert abs(seen.values("ce", "eval")[-1] - loss) <= 1e-4 * loss
    assert np.abs(seen.entropy("eval")[-1] - entropies).max() <= 1e-4


REFUSED = dict(
    rope_scaling=({"rope_type": "llama3", "factor": 8.0}, "llama3 need low_freq_factor"),
    rope_parameters=({"rope_type": "yarn", "rope_theta": 1e4}, "type yarn"),
    hidden_act=("gelu", "hidden_act is gelu"),
    model_type=("mistral", "model_type is mistral"),
    num_key_value_heads=(4, "num_key_value_heads in config.json is 4"),
    head_dim=(6, "head_dim in config.json is 6"),
    intermediate_size=(7, "intermediate_size is 7"),
    attention_bias=(True, "attention_bias differs from mlp_bias"),
    use_sliding_window=(True, "use_sliding_window is not false"),
    layer_types=(["sliding_attention"] * 3, "sliding_attention"),
    rms_norm_eps=("small", "rms_norm_eps is not a valid number"),
    tie_word_embeddings=(True, "lm_head.weight is not the embedding"),
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    models.llama().save_pretrained(folder / "weights")
    make_tokens(folder / "x.tok", 100)
    return folder


@pytest.mark.parametrize("key", REFUSED)
def test_an_unsupported_setting_is_refused_by_name(tmp_path, saved, key):
    value, named = REFUSED[key]
    config = json.loads((saved / "weights/config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
    (tmp_path / "model.safetensors").symlink_to(saved / "weights/model.safetensors")
    code, said = run(PROGRAM, "probe", tmp_path / "model.safetensors", "--data",
                     saved / "x.tok", "--no-record", "--ctx", LENGTH)
    assert code in (2, 3) and named in said.strip().splitlines()[-1], said


def test_weights_without_a_configuration_are_refused(tmp_path, saved):
    (tmp_path / "model.safetensors").symlink_to(saved / "weights/model.safetensors")
    code, said = run(PROGRAM, "probe", tmp_path / "model.safetensors", "--data",
                     saved / "x.tok", "--no-record", "--n-head", "4")
    assert code == 2 and "config.json" in said, said
