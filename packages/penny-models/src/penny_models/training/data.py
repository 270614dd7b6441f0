"""The data step: corpus, tokenizer, token files, baselines and manifest in one folder."""

import hashlib
import itertools
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from penny_models.training.chat.build import build_chat
from penny_models.training.corpus import Corpus, build_corpus, manifest
from penny_models.training.ngram import NGram
from penny_models.training.shards import TokenStream, save_streams, tokenise
from penny_models.training.sources import Document, package_documents, stdlib_documents
from penny_models.training.tokenizer import train_tokenizer, write_tokenizer
from penny_models.training.vocabulary import VOCAB_SIZE

CHAT_SHARE_OF_TEXT = 0.2
KINDS = ("code", "prose", "chat")


def write_json(path: Path, value: Any, indent: int = 2) -> None:
    """Write indented JSON with a final newline."""
    path.write_text(
        json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )


def _of_kind(documents: tuple[Document, ...], kind: str) -> tuple[Document, ...]:
    return tuple(item for item in documents if item.kind == kind)


def _sample(corpus: Corpus, rng: random.Random, limit_bytes: int) -> Iterator[str]:
    """Yield training texts for the tokenizer: all prose, chat and standard library, then other code."""
    order = list(corpus.train)
    rng.shuffle(order)
    order.sort(key=lambda item: item.kind == "code" and item.source != "python")
    spent = 0
    for item in order:
        yield item.text
        spent += len(item.text)
        if spent > limit_bytes:
            return


def bits_per_byte(nats: float, text_bytes: int) -> float:
    """Turn a sum of negative log-likelihoods in nats into bits per byte of text."""
    return nats / math.log(2) / text_bytes


def baselines(train: TokenStream, held_out: dict[str, TokenStream]) -> dict[str, dict[str, float]]:
    """Return held-out bits per byte of the unigram and the trigram model, by kind and together."""
    model = NGram.count(train.tokens, VOCAB_SIZE)
    nats = {
        "unigram": {kind: model.unigram_nll(s.tokens) for kind, s in held_out.items()},
        "trigram": {kind: model.trigram_nll(s.tokens) for kind, s in held_out.items()},
    }
    return {name: summarise(values, held_out) for name, values in nats.items()}


def summarise(nats: dict[str, float], held_out: dict[str, TokenStream]) -> dict[str, float]:
    """Return bits per byte of each kind and, under ``all``, of the kinds together."""
    rows = {kind: bits_per_byte(nats[kind], held_out[kind].text_bytes) for kind in nats}
    total = sum(held_out[kind].text_bytes for kind in nats)
    return {**rows, "all": bits_per_byte(sum(nats.values()), total)}


def _tokens_of(documents: tuple[Document, ...], tokenizer: Tokenizer, rng: random.Random) -> TokenStream:
    shuffled = list(documents)
    rng.shuffle(shuffled)
    return tokenise(tuple(shuffled), tokenizer)


def build_data(
    folder: Path, name: str, seed: int, limit_bytes: int, tokenizer_file: Path | None = None
) -> dict[str, Any]:
    """Fill ``folder`` with everything that the training of ``name`` needs, and return the manifest.

    Written: ``tokenizer/``, ``train.npz``, ``held_out.npz``, ``baselines.json`` and ``manifest.json``. With a
    ``tokenizer_file`` (``tokenizer.json`` of another checkpoint) no tokenizer is trained.
    """
    rng = random.Random(seed)
    (folder / "tokenizer").mkdir(parents=True, exist_ok=True)
    files = build_corpus(itertools.chain(stdlib_documents(), package_documents()), limit_bytes)
    chat = build_chat(files, seed, int(limit_bytes * CHAT_SHARE_OF_TEXT), name)
    corpus = Corpus(files.train + chat.train, files.held_out + chat.held_out)

    if tokenizer_file:
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
    else:
        tokenizer = train_tokenizer(_sample(corpus, rng, limit_bytes // 2))
    write_tokenizer(tokenizer, folder / "tokenizer")

    train = _tokens_of(corpus.train, tokenizer, rng)
    held_out = {kind: _tokens_of(_of_kind(corpus.held_out, kind), tokenizer, rng) for kind in KINDS}
    save_streams(folder / "train.npz", {"train": train})
    save_streams(folder / "held_out.npz", held_out)
    write_json(folder / "baselines.json", baselines(train, held_out))
    record = {
        "name": name,
        "seed": seed,
        "limit_bytes": limit_bytes,
        **manifest(corpus),
        "train_tokens": len(train.tokens),
        "train_bytes": train.text_bytes,
        "train_bytes_by_kind": {
            k: sum(len(d.text.encode()) for d in _of_kind(corpus.train, k)) for k in KINDS
        },
        "held_out_tokens": {kind: len(s.tokens) for kind, s in held_out.items()},
        "held_out_bytes": {kind: s.text_bytes for kind, s in held_out.items()},
        "train_tokens_sha256": hashlib.sha256(np.ascontiguousarray(train.tokens).tobytes()).hexdigest(),
    }
    write_json(folder / "manifest.json", record)
    return record
