"""How a store uses memory and disk."""

from __future__ import annotations

from dataclasses import dataclass

from penny_cache.store.records import BLOCK

MIB = 1 << 20
MOST_BLOCKS = (1 << 32) - 1
"""Of a segment: places in it have 32 bits."""


@dataclass(frozen=True)
class Settings:
    """How a store uses memory and disk.

    Attributes:
        segment_bytes: size of a segment file; what a walk after a kill may have to read.
        write_memory: bytes that wait to be written, at most.
        read_memory: bytes of bundles that are being loaded, at most.
        budget: bytes that the store may take on the drive; None for no limit. A segment takes a quarter of it at most.
        free_floor: bytes that stay free on its file system.
        snapshots: names of parts that a prefix needs at its end only; inside a path they are given up first.
        open_files: segments that are open for reading at a time.
    """

    segment_bytes: int = 256 * MIB
    write_memory: int = 256 * MIB
    read_memory: int = 256 * MIB
    budget: int | None = None
    free_floor: int = 0
    snapshots: frozenset[str] = frozenset()
    open_files: int = 64

    def __post_init__(self) -> None:
        for name in ("segment_bytes", "write_memory", "read_memory", "budget", "free_floor", "open_files"):
            value = getattr(self, name)
            if not (value is None and name == "budget") and (type(value) is not int or value < 0):
                raise ValueError(f"{name} is {value!r}; give a whole number that is not negative.")
        if isinstance(self.snapshots, str):
            raise ValueError(f"snapshots is the text {self.snapshots!r}; give a set of names.")
        if self.segment_bytes > MOST_BLOCKS * BLOCK:
            raise ValueError(
                f"segment_bytes is {self.segment_bytes:,}; at most {MOST_BLOCKS * BLOCK:,} fit the format."
            )
        if self.budget is not None and self.budget < 16 * BLOCK:
            raise ValueError(
                f"A budget of {self.budget:,} bytes holds no bundle; give {16 * BLOCK:,} or more."
            )
        for name, least in (("segment_bytes", 4), ("write_memory", 3), ("read_memory", 3)):
            if getattr(self, name) < least * BLOCK:
                raise ValueError(
                    f"{name} is {getattr(self, name):,} and holds no bundle; give {least * BLOCK:,} or more."
                )

    @property
    def segment_size(self) -> int:
        """Bytes of a segment file, with regard to the budget; whole blocks."""
        most = self.segment_bytes if self.budget is None else min(self.segment_bytes, self.budget // 4)
        return most // BLOCK * BLOCK
