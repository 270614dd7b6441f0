"""Token counts of many documents: pre-tokens are counted first, each unique one is encoded once."""

import re
from collections import Counter
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from penny_spec.frspec.vocabulary import Vocabulary

Counts = NDArray[np.int64]
K = TypeVar("K", bound=Hashable)

PIECES = 1 << 20
"""Unique pre-tokens held at once, about 150 MB; at the limit they are encoded and the table starts anew."""

_CONTEXT_FREE = {
    "ByteLevel",
    "Digits",
    "Punctuation",
    "Split",
    "Whitespace",
    "WhitespaceSplit",
    "BertPreTokenizer",
}


class TokenCounter(Generic[K]):
    """Counts tokens of documents in groups, exactly as encoding each whole document would.

    A document is cut at added tokens, normalised and pre-tokenized by the tokenizer's own parts; pre-tokens are
    counted, and the model encodes each unique one when the counts are asked for. A tokenizer for which
    cutting could change the result (a pre-tokenizer that looks at the start of the text, added tokens that strip
    spaces) has each document encoded whole.
    """

    def __init__(self, vocabulary: Vocabulary, pieces: int = PIECES) -> None:
        self._tokenizer = vocabulary.tokenizer
        self._size = vocabulary.size
        self._limit = pieces
        self._ids: dict[K, Counts] = {}
        self._pieces: dict[K, Counter[str]] = {}
        added = vocabulary.definition.get("added_tokens") or []
        self.by_pieces = _separable(vocabulary.definition, added)
        """True when unique pre-tokens are encoded, False when whole documents are."""
        self._added = {token["content"]: token["id"] for token in added}
        longest_first = sorted(self._added, key=len, reverse=True)
        self._cut = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None

    def add(self, group: K, text: str) -> None:
        """Count the tokens of one document under `group`."""
        ids = self._ids.setdefault(group, np.zeros(self._size, dtype=np.int64))
        if not self.by_pieces:
            found = self._tokenizer.encode(text, add_special_tokens=False).ids
            np.add.at(ids, np.asarray(found, dtype=np.int64), 1)
            return
        pieces = self._pieces.setdefault(group, Counter())
        for section in self._cut.split(text) if self._cut else (text,):
            if section in self._added:
                ids[self._added[section]] += 1
            elif section:
                pieces.update(self._pre_tokens(section))
        if sum(map(len, self._pieces.values())) > self._limit:
            self._encode()

    def counts(self) -> dict[K, Counts]:
        """Occurrences of each id by group, int64 `(highest id + 1,)`."""
        self._encode()
        return {group: ids.copy() for group, ids in self._ids.items()}

    def _pre_tokens(self, section: str) -> list[str]:
        if self._tokenizer.normalizer is not None:
            section = self._tokenizer.normalizer.normalize_str(section)
        return [piece for piece, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(section)]

    def _encode(self) -> None:
        groups = list(self._pieces.items())
        for at, (group, pieces) in enumerate(groups):
            while pieces:
                piece, times = pieces.popitem()
                tokens = [token.id for token in self._tokenizer.model.tokenize(piece)]
                self._credit(group, tokens, times)
                for other, others in groups[at + 1 :]:
                    self._credit(other, tokens, others.pop(piece, 0))

    def _credit(self, group: K, tokens: list[int], times: int) -> None:
        if times:
            ids = self._ids[group]
            for token in tokens:
                ids[token] += times


def _separable(definition: dict[str, Any], added: list[dict[str, Any]]) -> bool:
    plain = not any(t["single_word"] or t["lstrip"] or t["rstrip"] or t["normalized"] for t in added)
    return plain and _context_free(definition.get("pre_tokenizer"))


def _context_free(pre_tokenizer: dict[str, Any] | None) -> bool:
    if pre_tokenizer is None:
        return False
    if pre_tokenizer["type"] == "Sequence":
        return all(_context_free(part) for part in pre_tokenizer["pretokenizers"])
    return pre_tokenizer["type"] in _CONTEXT_FREE
