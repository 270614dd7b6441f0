"""Bytes and lines of a file, plain or compressed, without holding the whole of it."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import zstandard

from penny_spec.frspec.errors import InputError

Advance = Callable[[int], None]
"""Told how many bytes of the files as they lie on disk were read since the last call."""

BLOCK = 1 << 16
LINE_LIMIT = 1 << 26


class _Member(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def read_chunks(path: Path, advance: Advance) -> Iterator[bytes]:
    """The contents of `path` in pieces, decompressed when its name ends in `.gz` or `.zst`.

    Raises:
        InputError: compressed data that is damaged or ends too early.
    """
    suffix = path.suffix.lower()
    try:
        if suffix == ".gz":
            yield from _members(_blocks(path, advance), lambda: zlib.decompressobj(wbits=31), padding=b"\0")
        elif suffix == ".zst":
            reader = zstandard.ZstdDecompressor(max_window_size=1 << 31)
            yield from _members(_blocks(path, advance), reader.decompressobj, padding=b"")
        else:
            yield from _blocks(path, advance)
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        raise InputError(f"{path} is damaged ({error}); fetch or compress it again.") from error


def read_lines(path: Path, advance: Advance) -> Iterator[tuple[int, bytes]]:
    """Line number from 1 and line, without its end; empty lines are left out.

    Raises:
        InputError: as `read_chunks`, or a line of more than 64 MiB.
    """
    number, pending, length = 1, list[bytes](), 0
    for chunk in read_chunks(path, advance):
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            if content := b"".join([*pending, line]).strip():
                yield number, content
            pending, length, number = [], 0, number + 1
        pending.append(rest)
        length += len(rest)
        if length > LINE_LIMIT:
            raise InputError(f"Line {number} of {path} is longer than 64 MiB; put one document on each line.")
    if content := b"".join(pending).strip():
        yield number, content


def _blocks(path: Path, advance: Advance) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block
            advance(len(block))


def _members(blocks: Iterable[bytes], new: Callable[[], _Member], padding: bytes) -> Iterator[bytes]:
    member: _Member | None = None
    for read in blocks:
        block = read
        while block:
            if member is None:
                block = block.lstrip(padding) if padding else block
                if not block:
                    break
                member = new()
            if content := member.decompress(block):
                yield content
            if not member.eof:
                break
            block, member = member.unused_data, None
    if member is not None:
        raise EOFError("it ends inside the compressed data")
