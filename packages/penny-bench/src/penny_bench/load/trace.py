"""Replay of recorded arrivals."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penny_bench.errors import BenchError
from penny_bench.load.base import Slot, positive


@dataclass(frozen=True)
class Trace:
    """The requests of a trace, at their own times.

    Attributes:
        name: file name, for the report.
        requests: in order; the first is due at 0.
        speed: 2 replays in half the time.
    """

    name: str
    requests: tuple[Slot, ...]
    speed: float = 1.0

    def __post_init__(self) -> None:
        positive(speed=self.speed)

    @classmethod
    def read(cls, path: Path, speed: float = 1.0) -> Trace:
        """Read JSON lines of `t` (seconds) and, each optional, `prompt_tokens` and `output_tokens`.

        Times are taken relative to the first. Blank lines and other keys are left out.

        Raises:
            BenchError: no readable file, or the first line that is wrong.
        """
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BenchError(f"The trace {path} cannot be read ({error}); correct the file name.") from error
        slots: list[Slot] = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                slot = _slot(line, f"Line {number} of the trace {path.name}")
                if slots and slot.t < slots[-1].t:
                    raise BenchError(
                        f"Line {number} of the trace {path.name} has t = {slot.t:g}, before the line above it; "
                        f"sort the lines by t."
                    )
                slots.append(slot)
        if not slots:
            raise BenchError(f"The trace {path.name} has no request; each line needs at least a t.")
        zero = slots[0].t
        return cls(path.name, tuple(Slot(s.t - zero, s.prompt_tokens, s.tokens) for s in slots), speed)

    def slots(self, seed: int) -> Iterator[Slot]:
        """See `OpenLoad`. The seed changes nothing."""
        return (Slot(s.t / self.speed, s.prompt_tokens, s.tokens) for s in self.requests)


def _slot(line: str, where: str) -> Slot:
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise BenchError(f"{where} is no JSON ({error}).") from error
    t = value.get("t") if isinstance(value, dict) else None
    if not isinstance(t, int | float) or isinstance(t, bool) or not math.isfinite(t):
        raise BenchError(f'{where} has no time; write {{"t": seconds, ...}}.')
    return Slot(float(t), _tokens(value, "prompt_tokens", where), _tokens(value, "output_tokens", where))


def _tokens(value: dict[str, Any], key: str, where: str) -> int | None:
    count = value.get(key)
    if count is None:
        return None
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise BenchError(f"{where} has {key} = {count!r}; give a whole number of at least 1.")
    return count
