"""Chosen, deduplicated and split documents."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penny_models.training.sources import Document

HELD_OUT_ONE_IN: dict[str, int] = {"code": 64, "prose": 24, "chat": 64}
"""By kind: a document is held out when its SHA-256, read as a number, is a multiple of this."""

SOURCE_LIMIT_BYTES = 4_000_000
"""At most this much code from one distribution, so that no package dominates."""


@dataclass(frozen=True)
class Corpus:
    """Documents split by content hash; ``train`` and ``held_out`` share no text."""

    train: tuple[Document, ...]
    held_out: tuple[Document, ...]


def is_held_out(sha256: str, kind: str) -> bool:
    """Return whether the text of this kind with this SHA-256 (hex) is never trained on."""
    return int(sha256, 16) % HELD_OUT_ONE_IN[kind] == 0


def build_corpus(documents: Iterable[Document], limit_bytes: int) -> Corpus:
    """Deduplicate by hash, cap each distribution and the whole, and split by hash.

    Documents are taken in the order of their hash, so that a cap keeps an even sample. Prose is never
    capped, though it counts. The standard library is kept whole.
    """
    seen: set[str] = set()
    spent: Counter[str] = Counter()
    total = 0
    train: list[Document] = []
    held_out: list[Document] = []
    first = sorted(documents, key=lambda d: (d.source != "python", d.kind != "prose", d.sha256))
    for item in first:
        size = len(item.text.encode())
        capped = item.kind == "code" and item.source != "python"
        if item.sha256 in seen or (
            capped and (spent[item.source] + size > SOURCE_LIMIT_BYTES or total + size > limit_bytes)
        ):
            continue
        seen.add(item.sha256)
        spent[item.source] += size
        total += size
        (held_out if is_held_out(item.sha256, item.kind) else train).append(item)
    return Corpus(tuple(train), tuple(held_out))


def manifest(corpus: Corpus) -> dict[str, Any]:
    """Return the data manifest: per source its version, licence, size and SHA-256, and the corpus hash.

    A source's hash is over the texts of its documents, training and held-out, in the order of their paths.
    """
    by_source: dict[str, list[Document]] = defaultdict(list)
    for item in corpus.train + corpus.held_out:
        by_source[item.source].append(item)
    rows: list[dict[str, Any]] = []
    whole = hashlib.sha256()
    for source in sorted(by_source):
        items = sorted(by_source[source], key=lambda d: d.path)
        digest = hashlib.sha256()
        for item in items:
            digest.update(item.text.encode())
        whole.update(digest.digest())
        rows.append(
            {
                "name": source,
                "version": items[0].version,
                "licence": items[0].licence,
                "files": len(items),
                "bytes": sum(len(item.text.encode()) for item in items),
                "held_out_files": sum(is_held_out(item.sha256, item.kind) for item in items),
                "sha256": digest.hexdigest(),
            }
        )
    modules = sorted(item.path for item in by_source.get("python", ()) if item.kind == "code")
    return {
        "sources": rows,
        "standard_library_modules": modules,
        "held_out_rule": "int(sha256 of the file, 16) % n == 0",
        "held_out_one_in": HELD_OUT_ONE_IN,
        "sha256": whole.hexdigest(),
    }
