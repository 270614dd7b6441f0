"""Keys: any text or bytes of the caller, as 32 bytes of fixed meaning.

A key never becomes part of a path, so `/`, `..`, NUL and ten kilobytes are keys like any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

DIGEST_BYTES = 32
# Copied for each key, which takes half the time of a new one.
_TEXT, _BYTES = (
    hashlib.blake2b(kind, digest_size=DIGEST_BYTES, person=b"penny-cache key") for kind in (b"t", b"b")
)


class Digest(bytes):
    """A key that is 32 bytes of a strong hash already (a link of a hash chain, say): stored as it is, not hashed again.

    Raises:
        ValueError: it has another length, or is all zeros, which stand for no bundle.
    """

    def __new__(cls, data: bytes) -> Digest:
        """Check the bytes."""
        if len(data) != DIGEST_BYTES or data == bytes(DIGEST_BYTES):
            raise ValueError(
                f"A digest is {DIGEST_BYTES} bytes that are not all zero; these are {bytes(data)[:40]!r}."
            )
        return super().__new__(cls, data)


def digest(key: str | bytes) -> bytes:
    """The 32 bytes that stand for `key` on disk: its BLAKE2b digest, or itself if it is a `Digest`.

    Text is taken as UTF-8, surrogates included.
    """
    if isinstance(key, Digest):
        return key
    if isinstance(key, str):
        hasher = _TEXT.copy()
        hasher.update(key.encode("utf-8", "surrogatepass"))
    elif isinstance(key, bytes):
        hasher = _BYTES.copy()
        hasher.update(key)
    else:
        raise TypeError(f"A key is text or bytes, and {key!r} is of type {type(key).__name__}.")
    return hasher.digest()


def digests(chain: Sequence[str | bytes]) -> list[bytes]:
    """The digests of a chain of keys.

    Raises:
        TypeError: it is one key, or has something else than keys.
    """
    if isinstance(chain, str | bytes):
        raise TypeError(f"A chain is a sequence of keys, and {chain[:40]!r} is one key.")
    return [digest(key) for key in chain]


def chain(pages: Iterable[bytes], start: bytes = b"") -> Iterator[Digest]:
    """A key for each prefix of `pages`: of all pages up to it, in order, from `start` on.

    For callers without a hash chain of their own. Each key follows from the one before and its page
    (for example the page's token ids as little-endian int32).
    """
    before = hashlib.blake2b(start, digest_size=DIGEST_BYTES, person=b"penny-cache root").digest()
    for page in pages:
        before = hashlib.blake2b(
            page, digest_size=DIGEST_BYTES, key=before, person=b"penny-cache link"
        ).digest()
        yield Digest(before)
