"""Token files: what the training machine reads instead of text."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from penny_models.training.sources import Document

Tokens = NDArray[np.uint16]
_BATCH = 512


@dataclass(frozen=True)
class TokenStream:
    """Documents one after another, each closed by ``<|endoftext|>``; ``text_bytes`` counts UTF-8 bytes."""

    tokens: Tokens
    text_bytes: int


def tokenise(documents: tuple[Document, ...], tokenizer: Tokenizer) -> TokenStream:
    """Encode documents in their order."""
    end = tokenizer.token_to_id("<|endoftext|>")
    parts: list[Tokens] = []
    for start in range(0, len(documents), _BATCH):
        texts = [item.text for item in documents[start : start + _BATCH]]
        for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            parts.append(np.array([*encoding.ids, end], dtype=np.uint16))
    tokens = np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint16)
    return TokenStream(tokens, sum(len(item.text.encode()) for item in documents))


def save_streams(path: Path, streams: dict[str, TokenStream]) -> None:
    """Write streams to one compressed ``.npz``: an array and a byte count for each name."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, stream in streams.items():
        arrays[name] = stream.tokens
        arrays[f"{name}.bytes"] = np.array(stream.text_bytes)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def load_streams(path: Path) -> dict[str, TokenStream]:
    """Read what ``save_streams`` wrote."""
    with np.load(path) as file:
        names = [name for name in file.files if not name.endswith(".bytes")]
        return {name: TokenStream(file[name], int(file[f"{name}.bytes"])) for name in names}
