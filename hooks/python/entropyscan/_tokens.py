"""Writes token files for entropy-train (hooks/trainer/files/tokens.h) with a tokenizer
of the library transformers or tokenizers."""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._library import Error

_MASK = 2**64 - 1
_START = 0xCBF29CE484222325
_PRIME = 0x100000001B3


def tokens(
    tokenizer: Any,
    texts: Iterable[str],
    path: str | os.PathLike[str],
    *,
    held_out: float = 1 / 32,
) -> dict[str, int]:
    """Writes the token file `path`. Each string in `texts` is one document.

    Documents end with the tokenizer's end-of-text token, if it has one. held_out:
    the share of documents to hold out, chosen by a hash of their text; if this leaves
    the training or the held-out part without tokens, the last tokens are held out
    instead. Returns a dict with vocab, n_train and n_held_out. The file appears
    complete or not at all."""
    vocab = _vocabulary(tokenizer)
    end = _end(tokenizer)
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for i, text in enumerate(texts):
        ids = np.asarray(_encode(tokenizer, text, end), np.int64)
        if ids.size and (ids.min() < 0 or ids.max() >= vocab):
            raise Error(
                f"text {i}: token {ids.max()} is outside the tokenizer's vocabulary of "
                f"{vocab}"
            )
        parts[_is_held_out(text, held_out)].append(ids)
    documents = [len(part) for part in parts]
    train, rest = (np.concatenate([*part, _NONE]) for part in parts)
    if not train.size or (held_out > 0 and not rest.size):
        everything = np.concatenate([train, rest])
        n = min(everything.size, round(everything.size * held_out))
        train, rest = np.split(everything, [everything.size - n])
        documents = [sum(documents), int(n > 0)]
    if not train.size:
        raise Error(f"{os.fspath(path)}: not written, because the texts have no tokens")
    name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
    content = _content(vocab, train, rest, documents, os.path.basename(name))
    _write(os.fspath(path), content)
    return {"vocab": vocab, "n_train": train.size, "n_held_out": rest.size}


_NONE = np.zeros(0, np.int64)


def _vocabulary(tokenizer: Any) -> int:
    if hasattr(tokenizer, "get_vocab_size"):
        return int(tokenizer.get_vocab_size())
    return len(tokenizer)


def _end(tokenizer: Any) -> int | None:
    return getattr(tokenizer, "eos_token_id", None)


def _encode(tokenizer: Any, text: str, end: int | None) -> list[int]:
    ids = tokenizer.encode(text, add_special_tokens=False)
    ids = list(getattr(ids, "ids", ids))
    return ids if end is None else [*ids, end]


def _is_held_out(text: str, share: float) -> bool:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") < share * 2**64


def _content(
    vocab: int,
    train: np.ndarray,
    rest: np.ndarray,
    documents: list[int],
    name: str,
) -> bytes:
    size = 1 if vocab <= 1 << 8 else 2 if vocab <= 1 << 16 else 4
    both = np.concatenate([train, rest]).astype(f"<u{size}").tobytes()
    head = struct.pack(
        "<8sIIIIQQQQ32s",
        b"ESTOKENS",
        1,
        vocab,
        size,
        0,
        train.size,
        rest.size,
        *documents,
        name.encode("utf-8", "replace")[:31],
    )
    return head + struct.pack("<Q", _hash(head + both)) + both


def _hash(data: bytes) -> int:
    """Computes the hash of a token file in the same way as es_tokens_hash in the trainer."""
    value = _START
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8").tolist()
    for word in words:
        value = (value ^ word) * _PRIME & _MASK
        value ^= value >> 32
    value ^= len(data)
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    return value ^ value >> 33


def _write(path: str, content: bytes) -> None:
    folder = os.path.dirname(path) or "."
    try:
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                umask = os.umask(0)
                os.umask(umask)
                os.fchmod(file.fileno(), 0o666 & ~umask)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
