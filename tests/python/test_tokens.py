"""Tests that token files contain the tokenizer's output and that entropy-train reads
them."""

import os
import struct
import subprocess

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import entropyscan as es
from entropyscan import _library

WORDS = ["[end]", "one", "two", "three", "four", "five"]
TEXTS = ["one two three", "", "four five one two"] + [
    " ".join(WORDS[1 + i // 5**j % 5] for j in range(4)) for i in range(200)
]


def words(end="[end]", unknown=None):
    table = {w: i for i, w in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(table, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end)


def content(path):
    data = open(path, "rb").read()
    head = struct.unpack("<8sIIIIQQQQ32sQ", data[:96])
    return head, np.frombuffer(data[96:], f"<u{head[3]}")


def test_all_tokens_are_written_and_documents_end_with_a_token(tmp_path):
    path = tmp_path / "x.tok"
    said = es.tokens(words(), TEXTS, path)
    head, ids = content(path)
    assert head[:3] == (b"ESTOKENS", 1, 6)
    assert (head[5], head[6]) == (said["n_train"], said["n_held_out"])
    assert head[7] + head[8] == len(TEXTS)
    assert 0 < head[8] < 20
    n = sum(len(text.split()) + 1 for text in TEXTS)
    assert ids.size == n == said["n_train"] + said["n_held_out"]
    assert (ids == 0).sum() == len(TEXTS)
    train = " ".join(WORDS[i] for i in ids[: head[5]])
    assert "one two three [end] [end] four five one two [end]" in train


def test_entropy_train_reads_a_token_file(tmp_path):
    path, run = tmp_path / "x.tok", tmp_path / "run.db"
    es.tokens(words(), TEXTS, path)
    program = _library.program("entropy-train")
    if program is None:
        pytest.skip("entropy-train is not built")
    command = [program, "--arch", "SM+LN+R", "--data", path, "--out", run]
    command += "--n-layer 2 --n-head 3 --d-model 24 --ctx 8 --steps 3".split()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert es.open(run).entropy().shape[1:] == (2, 3)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3 and "x.tok" in done.stderr


def test_a_single_text_is_split_into_two_parts(tmp_path):
    path = tmp_path / "x.tok"
    said = es.tokens(words(), ["one two three four " * 16], path, held_out=0.25)
    assert said == {"vocab": 6, "n_train": 49, "n_held_out": 16}
    said = es.tokens(words(), TEXTS, path, held_out=0)
    assert said["n_held_out"] == 0


def test_a_tokenizer_of_the_tokenizers_library_is_accepted(tmp_path):
    tokenizer = words().backend_tokenizer
    said = es.tokens(tokenizer, TEXTS, tmp_path / "x.tok")
    assert sum(said.values()) - 6 == sum(len(text.split()) for text in TEXTS)


def test_a_failure_leaves_no_file(tmp_path):
    with pytest.raises(es.Error, match="no tokens"):
        es.tokens(words().backend_tokenizer, ["", ""], tmp_path / "x.tok")
    with pytest.raises(es.Error, match="none/x.tok"):
        es.tokens(words(), TEXTS, tmp_path / "none" / "x.tok")

    class Wrong:
        def __len__(self):
            return 2

        def encode(self, text, add_special_tokens):
            return [0, 1, 2]

    with pytest.raises(es.Error, match="token 2 is outside"):
        es.tokens(Wrong(), ["x"], tmp_path / "x.tok")
    assert os.listdir(tmp_path) == []
