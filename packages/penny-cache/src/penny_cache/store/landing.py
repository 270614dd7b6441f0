"""Where the parts of a bundle land when they are read into memory of the caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penny_cache.store.image import Layout, places
from penny_cache.store.records import BLOCK, blocks

Place = Callable[[int, str, int], memoryview | None]
"""Where a part goes: position of its bundle, name, bytes -> memory of so many bytes or more; None leaves it out."""
Run = tuple[int, list[memoryview]]
"""First byte in the image, and the memory that follows it."""


@dataclass(frozen=True)
class Landing:
    """A part and the memory of the caller that it goes to.

    Attributes:
        name, length: of the part.
        header: offset of its header in the image; the payload follows.
        memory: `length` bytes.
        direct: whether the drive may write there: O_DIRECT asks for memory at whole blocks.
    """

    name: str
    length: int
    header: int
    memory: memoryview
    direct: bool

    @property
    def scratch(self) -> int:
        """Blocks of other memory that reading it takes: its header, and what does not fit the caller's."""
        tail = 1 if self.length % BLOCK else 0
        return 1 + (tail if self.direct else blocks(self.length))


def landings(position: int, layout: Layout, place: Place) -> list[Landing]:
    """The parts of a bundle that the caller wants.

    Raises:
        ValueError: the memory for a part is too small, read-only or not contiguous.
    """
    found = []
    for name, header, _, length in places(layout):
        memory = place(position, name, length)
        if memory is None:
            continue
        memory = memoryview(memory)
        if memory.readonly or not memory.c_contiguous or memory.nbytes < length:
            raise ValueError(
                f"The memory for the part {name} has {memory.nbytes:,} bytes{' that are read-only' * memory.readonly}; "
                f"it takes {length:,} contiguous ones that can be written to."
            )
        memory = memory.cast("B")[:length]
        found.append(Landing(name, length, header, memory, _aligned(memory)))
    return found


@dataclass(frozen=True)
class Scattered:
    """How to read some parts of a bundle.

    Attributes:
        runs: what to read, from where.
        headers: of each part.
        payloads: of each part, to be verified once `copies` are made.
        copies: source and target of what passed through other memory.
    """

    runs: Sequence[Run]
    headers: Sequence[memoryview]
    payloads: Sequence[memoryview]
    copies: Sequence[tuple[memoryview, memoryview]]


def scatter(parts: Sequence[Landing], scratch: memoryview) -> Scattered:
    """Lay the parts out over the caller's memory and `scratch`, which has the blocks that they take."""
    runs: list[Run] = []
    headers, copies = [], []
    end = -1
    for part in parts:
        direct = part.length // BLOCK * BLOCK if part.direct else 0
        header, rest, scratch = (
            scratch[:BLOCK],
            scratch[BLOCK : part.scratch * BLOCK],
            scratch[part.scratch * BLOCK :],
        )
        if part.header != end:
            runs.append((part.header, []))
        runs[-1][1].extend(view for view in (header, part.memory[:direct], rest) if view.nbytes)
        if part.length > direct:
            copies.append((rest[: part.length - direct], part.memory[direct:]))
        headers.append(header)
        end = part.header + BLOCK * (1 + blocks(part.length))
    return Scattered(runs, headers, [part.memory for part in parts], copies)


def _aligned(memory: memoryview) -> bool:
    return memory.nbytes == 0 or int(np.frombuffer(memory, np.uint8).ctypes.data) % BLOCK == 0
