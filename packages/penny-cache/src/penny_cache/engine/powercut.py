"""Power cuts: what a directory may hold afterwards, drawn from a recording of what was done to it.

What is promised: the bytes and the length of a file as they were when a `sync` of it began that has returned; the names
in a directory likewise after `sync_directory`. A rename leaves the old file or the new one under the name. Of all else,
any subset is there: changes that came later without those that came before, names without their bytes, and any sectors
of a write without the others.

The grain is 512 bytes, the smallest unit that any drive writes whole: one with sectors of 4,096 bytes does no worse,
and most drives promise not even two of their sectors together. A torn sector is not modelled: it fails its own check
and reads as an error. A sector that did not come to the drive holds what was there before, or zeros where nothing was,
as file systems with ordered data or unwritten extents have it (ext4 by default, xfs, btrfs, f2fs).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from penny_cache.engine.recording import Recording, Step

SECTOR = 512


def cut(recording: Recording, moment: int, draw: np.random.Generator) -> dict[str, bytes]:
    """The files of a directory, by name, after the power went at a moment.

    Args:
        recording: of the directory.
        moment: changes that start at it or later were never asked for.
        draw: decides what survives of what was not synced.
    """
    steps = [step for step in recording.steps if step.start < moment]
    # One cut keeps most of what was pending, the next one almost nothing.
    share = float(draw.choice([0.0, 0.1, 0.5, 0.9, 1.0]))
    names = _names(recording, [s for s in steps if s.change in _NAMES], moment, share, draw)
    whole = dict(enumerate(recording.before.values()))
    changes: dict[int, list[Step]] = {number: [] for number in names.values()}
    for step in steps:
        if step.change not in _NAMES and step.file in changes:
            changes[step.file].append(step)
    return {
        name: _content(whole.get(number, b""), changes[number], moment, share, draw)
        for name, number in names.items()
    }


_NAMES = ("link", "rename", "unlink", "sync_names")


def _durable(steps: Iterable[Step], sync: str, moment: int) -> set[int]:
    """Starts of the steps that a sync covers which had returned by then."""
    steps = list(steps)
    begun = max(
        (s.start for s in steps if s.change == sync and s.end is not None and s.end < moment), default=-1
    )
    return {s.start for s in steps if s.end is not None and s.end < begun}


def _names(
    recording: Recording, steps: list[Step], moment: int, share: float, draw: np.random.Generator
) -> dict[str, int]:
    names = {name: number for number, name in enumerate(recording.before)}
    durable = _durable(steps, "sync_names", moment)
    in_order = draw.random() < 0.5  # as a journal has it: none without those before it
    for step in steps:
        if step.start not in durable and draw.random() >= share:
            if in_order:
                share = 0.0
            continue
        if step.change == "link":
            names[step.name] = step.file
        elif step.change == "rename":
            names = {name: number for name, number in names.items() if name != step.name}
            names[step.target] = step.file
        elif step.change == "unlink":
            names.pop(step.name, None)
    return names


def _content(before: bytes, steps: list[Step], moment: int, share: float, draw: np.random.Generator) -> bytes:
    durable = _durable(steps, "sync", moment)
    room = max([len(before), *(max(s.offset + len(s.data), s.offset) for s in steps)], default=0)
    data = np.zeros(-(-room // SECTOR) * SECTOR, np.uint8)
    data[: len(before)] = np.frombuffer(before, np.uint8)
    size = len(before)
    for step in steps:
        sure = step.start in durable
        if step.change == "write":
            size = max(size, _write(data, step, 1.0 if sure else share, draw))
        elif step.change == "reserve" and (sure or draw.random() < share):
            size = max(size, step.offset)
        elif step.change == "truncate" and (sure or draw.random() < share):
            size = step.offset
            data[size:] = 0
        elif step.change == "punch":
            for offset, length in step.ranges:
                if sure or draw.random() < share:
                    data[offset : min(offset + length, size)] = 0
    return data[:size].tobytes()


def _write(data: NDArray[np.uint8], step: Step, share: float, draw: np.random.Generator) -> int:
    """Let sectors of a write survive; the length that the file has by it, at least."""
    end = step.offset + len(step.data)
    count = -(-len(step.data) // SECTOR)
    kept = draw.random(count) < share
    # The length may come to the drive without the bytes, and not without those that are there.
    length = end if draw.random() < 0.5 else 0
    for sector in np.flatnonzero(kept).tolist() if not kept.all() else ():
        at = sector * SECTOR
        piece = step.data[at : at + SECTOR]
        data[step.offset + at : step.offset + at + len(piece)] = np.frombuffer(piece, np.uint8)
        length = max(length, step.offset + at + len(piece))
    if kept.all():
        data[step.offset : end] = np.frombuffer(step.data, np.uint8)
        return end
    return length
