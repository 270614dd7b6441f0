"""Token-level baselines: unigram, and an interpolated Kneser-Ney trigram."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penny_models.training.shards import Tokens

Counts = tuple[NDArray[np.uint64], NDArray[np.int64]]


def _count(keys: NDArray[np.uint64]) -> Counts:
    values, counts = np.unique(keys, return_counts=True)
    return values, counts.astype(np.int64)


def _look_up(table: Counts, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    values, counts = table
    at = np.minimum(np.searchsorted(values, keys), len(values) - 1)
    return np.where(values[at] == keys, counts[at], 0).astype(np.float64)


def _group(table: Counts, shift: int, weights: bool) -> Counts:
    """Sum the counts (or the number of entries) of ``table`` by the key without its low bits."""
    values, counts = table
    heads, starts = np.unique(values >> np.uint64(shift), return_index=True)
    summed = np.add.reduceat(counts if weights else np.ones_like(counts), starts)
    return heads, summed


def _discount(counts: NDArray[np.int64]) -> float:
    """Ney's estimate of the absolute discount, n1 / (n1 + 2 n2)."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return once / (once + 2 * twice) if once else 0.5


@dataclass(frozen=True)
class NGram:
    """Counts of a training stream. Keys are token ids packed in 12 bits each, oldest token highest."""

    unigram: NDArray[np.float64]
    continuation: NDArray[np.float64]
    bigram: Counts
    bigram_heads: tuple[Counts, Counts]
    trigram: Counts
    trigram_heads: tuple[Counts, Counts]
    discounts: tuple[float, float]

    @classmethod
    def count(cls, tokens: Tokens, vocab: int) -> "NGram":
        """Count ``tokens`` [n], ids below ``vocab`` (at most 4096)."""
        if vocab > 4096:
            raise ValueError(f"The packed keys hold ids below 4096; the vocabulary has {vocab}.")
        ids = tokens.astype(np.uint64)
        trigram = _count(ids[:-2] << np.uint64(24) | ids[1:-1] << np.uint64(12) | ids[2:])
        # Kneser-Ney's lower order counts in how many different contexts a bigram ends a trigram.
        bigram = _count(trigram[0] & np.uint64((1 << 24) - 1))
        endings = np.bincount((bigram[0] & np.uint64(4095)).astype(np.int64), minlength=vocab)
        plain = np.bincount(tokens.astype(np.int64), minlength=vocab) + 1.0
        return cls(
            unigram=plain / plain.sum(),
            continuation=(endings + 0.5) / (endings + 0.5).sum(),
            bigram=bigram,
            bigram_heads=(_group(bigram, 12, True), _group(bigram, 12, False)),
            trigram=trigram,
            trigram_heads=(_group(trigram, 12, True), _group(trigram, 12, False)),
            discounts=(_discount(bigram[1]), _discount(trigram[1])),
        )

    def unigram_nll(self, tokens: Tokens) -> float:
        """Return the nats that the unigram model gives to every token but the first."""
        return float(-np.log(self.unigram[tokens[1:].astype(np.int64)]).sum())

    def _interpolate(
        self,
        table: Counts,
        heads: tuple[Counts, Counts],
        keys: NDArray[np.uint64],
        discount: float,
        lower: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        head = keys >> np.uint64(12)
        total, kinds = _look_up(heads[0], head), _look_up(heads[1], head)
        seen = np.maximum(_look_up(table, keys) - discount, 0.0)
        mixed = (seen + discount * kinds * lower) / np.maximum(total, 1.0)
        return np.where(total > 0, mixed, lower)

    def trigram_probabilities(
        self, first: NDArray[np.uint64], second: NDArray[np.uint64], third: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        """Return p(third | first, second), element by element."""
        pair = second << np.uint64(12) | third
        lower = self.continuation[third.astype(np.int64)]
        middle = self._interpolate(self.bigram, self.bigram_heads, pair, self.discounts[0], lower)
        triple = first << np.uint64(24) | pair
        return self._interpolate(self.trigram, self.trigram_heads, triple, self.discounts[1], middle)

    def trigram_nll(self, tokens: Tokens) -> float:
        """Return the nats that the trigram gives to every token but the first (the second by unigram)."""
        ids = tokens.astype(np.uint64)
        rest = self.trigram_probabilities(ids[:-2], ids[1:-1], ids[2:])
        return float(-np.log(self.unigram[int(ids[1])]) - np.log(rest).sum())
