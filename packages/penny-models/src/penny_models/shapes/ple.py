"""The PLE table: its rows and bytes on the host or on a drive."""

from dataclasses import dataclass
from math import isqrt

from penny_models.shapes.base import WIDTHS
from penny_models.shapes.text import Ngram

MAX_SMALL = 1 << 16


@dataclass(frozen=True)
class NgramTable:
    """One table per PLE layer. ``row_bytes`` is what one head of one token reads; ``reads`` rows per token."""

    rows: int
    row_bytes: int
    reads: int

    @property
    def bytes(self) -> int:
        """Bytes of the whole table."""
        return self.rows * self.row_bytes


def _is_prime(number: int, small: list[int]) -> bool:
    return all(number % prime for prime in small if prime * prime <= number)


def _primes_to(limit: int) -> list[int]:
    sieve = bytearray([1]) * (limit + 1)
    for value in range(2, isqrt(limit) + 1):
        if sieve[value]:
            sieve[value * value :: value] = bytes(len(range(value * value, limit + 1, value)))
    return [value for value in range(2, limit + 1) if sieve[value]]


def head_vocabularies(base: int, heads: int) -> list[int]:
    """The first ``heads`` primes from ``base`` on: each head hashes into a vocabulary of its own."""
    small = _primes_to(min(isqrt(base + 1000 * heads) + 1, MAX_SMALL))
    found: list[int] = []
    number = max(base, 2)
    while len(found) < heads:
        if _is_prime(number, small):
            found.append(number)
        number += 1
    return found


def ngram_tables(ngram: Ngram) -> tuple[NgramTable, ...]:
    """The tables of all PLE layers, in order (SGLang ``models/qwen4_exp.py``, ``_build_head_vocab_and_offsets``)."""
    heads = (ngram.ngram - 1) * ngram.heads_per_ngram
    vocabularies = head_vocabularies(ngram.vocabulary, heads * len(ngram.layers))
    tables = []
    for layer in range(len(ngram.layers)):
        rows = sum(vocabularies[layer * heads : (layer + 1) * heads])
        padded = -(-rows // ngram.divisible_by) * ngram.divisible_by
        width = WIDTHS.get(ngram.table_dtype, 2)
        tables.append(NgramTable(padded, ngram.embed_dim // heads * width, heads))
    return tuple(tables)
