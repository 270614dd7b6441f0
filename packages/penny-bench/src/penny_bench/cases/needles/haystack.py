"""Records that no model can guess, spread over a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from penny_bench.text import Segment

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
DIGITS = "23456789"
"""Without characters that look alike."""
JITTER = 0.6
"""Share of its slot in which a record may lie."""

_END = re.compile("\n|\u3002|[.!?][\"'\u00bb\u201d)]* ")
"""End of a sentence; Chinese and Japanese have no blank behind it."""


@dataclass(frozen=True)
class Record:
    """A record to be found.

    Attributes:
        key: its name, such as `K-7F3A`.
        value: what must be given back exactly, such as `93-QX-48-RTM-6627`.
        depth: how far down the text it lies, as a share of the tokens from 0 to 1.
    """

    key: str
    value: str
    depth: float


def draw_records(count: int, draw: Random) -> list[Record]:
    """`count` records, one in each of as many equal slots of the text, in the order in which they lie."""
    keys: dict[str, None] = {}
    while len(keys) < count:
        keys["K-" + _some(draw, DIGITS + LETTERS, 4)] = None
    records = []
    for slot, key in enumerate(keys):
        value = "-".join(
            (_some(draw, DIGITS, 2), _some(draw, LETTERS, 2), _some(draw, DIGITS, 2), _some(draw, LETTERS, 3))
        )
        place = 0.5 + JITTER * (draw.random() - 0.5)
        records.append(Record(key, f"{value}-{_some(draw, DIGITS, 4)}", (slot + place) / count))
    return records


def record_line(record: Record) -> str:
    """A record as it stands in the text, in a line of its own."""
    return f"Record {record.key}: value {record.value}."


def hide(segments: Sequence[Segment], records: Sequence[Record]) -> str:
    """The text with each record behind the sentence that ends next after its depth.

    Args:
        segments: of the text, with the tokens per character of each.
        records: in the order of their depths.
    """
    total = sum(len(segment.text) * segment.rate for segment in segments)
    waiting = list(records)
    parts: list[str] = []
    before = 0.0
    for segment in segments:
        text, at = segment.text, 0
        size = len(text) * segment.rate
        while waiting and waiting[0].depth * total < before + size:
            record = waiting.pop(0)
            wanted = max(at, int((record.depth * total - before) / segment.rate))
            end = _END.search(text, wanted)
            cut = end.end() if end else len(text)
            parts.append(f"{text[at:cut]}\n\n{record_line(record)}\n\n")
            at = cut
        parts.append(text[at:])
        before += size
    parts.extend(f"\n\n{record_line(record)}" for record in waiting)
    return "".join(parts)


def _some(draw: Random, letters: str, count: int) -> str:
    return "".join(draw.choices(letters, k=count))
