"""Whole bundles out of an archive, whatever is broken in it; read once from its start, so it may come from a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from penny_cache.archive.format import ArchiveError, Head, Tail, head, is_head, tail
from penny_cache.namespace import Identity, ManifestDamaged, manifest
from penny_cache.store.records import BLOCK, Header, Kind, blocks, checksum, unpack


@dataclass(frozen=True)
class Whole:
    """A bundle whose every byte is what was stored. Key and parent have 32 bytes; no parent is all zeros."""

    key: bytes
    parent: bytes
    parts: Mapping[str, bytes]


class Archive:
    """An archive that is read.

    Args:
        stream: its bytes.
        name: for messages.
        largest: bytes of the largest bundle that is taken into memory.

    Attributes:
        head: None if it is damaged.
        identity: of the namespace that the bundles are from; None if head or manifest are damaged.
        whole: bundles that came.
        tail: None as long as the end was not reached, or for good if it is damaged.
        problems: what is wrong with the file, each a sentence.
    """

    def __init__(self, stream: BinaryIO, name: str, largest: int = 1 << 30) -> None:
        self._stream, self._name, self._largest = stream, name, largest
        first = self._read(BLOCK)
        self.whole = 0
        self.tail: Tail | None = None
        self.problems: list[str] = []
        self.head: Head | None = head(first)
        self.identity: Identity | None = None
        if self.head is None:
            if not is_head(first):
                raise ArchiveError(f"{name} is no archive of penny-cache.")
            self.problems.append(f"The head of {name} is damaged.")
            return
        text = self._read(blocks(self.head.manifest) * BLOCK)[: self.head.manifest]
        try:
            self.identity = manifest.decode(text, Path("the manifest"))
        except ManifestDamaged:
            self.problems.append(f"The manifest in {name} is damaged.")

    @property
    def lost(self) -> int:
        """Bundles that the archive had and that did not come; 0 if head and tail are both damaged."""
        had = self.tail or self.head
        return max(0, had.bundles - self.whole) if had is not None else 0

    def bundles(self, namespace: bytes) -> Iterator[Whole]:
        """The whole bundles of a namespace (32 bytes, the digest of its identity), in order. Raises OSError."""
        group = _Group()
        while block := self._read(BLOCK):
            self.tail = tail(block)
            if self.tail is not None:
                break
            header = unpack(block)
            if header is None or header.namespace != namespace or header.kind is Kind.START:
                group = _Group()
            elif header.kind is Kind.COMMIT:
                if group.complete(header):
                    self.whole += 1
                    yield Whole(header.key, header.parent, group.parts)
                group = _Group()
            else:
                group = group.going_on(header)
                if group.size + header.length > self._largest:
                    group = _Group()
                    continue  # its payload is passed over block by block
                payload = self._read(blocks(header.length) * BLOCK)
                group.add(header, payload[: header.length])
        if self.tail is None:
            self.problems.append(f"{self._name} ends early: its last block is not there.")
        if self.lost:
            self.problems.append(
                f"{self._name} lacks {self.lost:,} of its {self.whole + self.lost:,} bundles: "
                "they are damaged or missing."
            )

    def _read(self, size: int) -> bytes:
        """So many bytes, fewer at the end."""
        read = bytearray()
        while len(read) < size and (more := self._stream.read(size - len(read))):
            read += more
        return bytes(read)


class _Group:
    """The parts of one bundle as they come."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self.size = 0
        self._of: tuple[bytes, bytes, int] | None = None
        self._sound = True

    def going_on(self, header: Header) -> _Group:
        """This group if the part belongs to it, or a new one."""
        of = (header.key, header.parent, header.sequence)
        if self._of == of:
            return self
        fresh = _Group()
        fresh._of = of
        return fresh

    def add(self, header: Header, payload: bytes) -> None:
        """Take a part; a damaged one spoils the group."""
        self._sound = self._sound and len(payload) == header.length and checksum(payload) == header.payload
        self.parts[header.name] = payload
        self.size += header.length

    def complete(self, commit: Header) -> bool:
        """Whether this is all that the commit makes visible."""
        of = (commit.key, commit.parent, commit.sequence)
        return self._sound and self._of == of and commit.parts == len(self.parts)
