"""How to compare."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from penny_bench.errors import BenchError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to compare.

    Attributes:
        metrics: patterns of the rows, as for `Place.matches`; without any, the headline numbers.
        margin: relative change to the worse that does not matter, a share.
        alpha: rate of false alarms among all rows; the intervals are at `1 - alpha`.
        paired: whether restart i of A and restart i of B, in the order of time, are a pair.
        floor: least time that a token of one stream can take, ms, by number of streams; 0 stands for any. Without
            one, a floor that the result files state is used.
        force: whether to compare in spite of faults.
    """

    metrics: tuple[str, ...] = ()
    margin: float = 0.03
    alpha: float = 0.05
    paired: bool = False
    floor: Mapping[int, float] | None = None
    force: bool = False

    def __post_init__(self) -> None:
        if len(set(self.metrics)) != len(self.metrics) or "" in self.metrics:
            raise BenchError(f"The metrics are {', '.join(map(repr, self.metrics))}; give each once.")
        if not 0 <= self.margin < 1:
            raise BenchError(f"The margin is {self.margin}; give a share from 0 to under 1, such as 0.03.")
        if not 0 < self.alpha < 1:
            raise BenchError(f"alpha is {self.alpha}; give a share between 0 and 1, such as 0.05.")
        for c, time in (self.floor or {}).items():
            if not 0 < time < math.inf or c < 0:
                raise BenchError(f"The floor is {c}={time}; give a positive time in ms.")
