"""One number of one restart: where it stands, what it means, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

Better = Literal["higher", "lower"] | None

ALL = "all"
"""Phase of a number that is of a whole run."""


class Place(NamedTuple):
    """What makes two numbers the same row: workload, phase of it, and key of the metric."""

    workload: str
    phase: str
    metric: str

    def __str__(self) -> str:
        return "/".join(self)

    def matches(self, pattern: str) -> bool:
        """Whether a pattern with `*` and `?` names this place: with a slash the whole of it, else its metric."""
        return fnmatchcase(str(self) if "/" in pattern else self.metric, pattern)


@dataclass(frozen=True)
class Metric:
    """What a number means.

    Attributes:
        key: its name in result files.
        label: its name in tables.
        unit: of the values.
        better: whether more or less is better; None where neither is, which gives no verdict.
    """

    key: str
    label: str
    unit: str
    better: Better

    @property
    def timed(self) -> bool:
        """Whether it is a time or a rate, which no two restarts ever share to the last digit."""
        return self.unit in ("s", "ms") or self.unit.endswith("/s")


@dataclass(frozen=True)
class Value:
    """A number of a restart.

    Attributes:
        metric: what it means.
        value: in the unit of the metric; None where it was to be measured and could not be.
        streams: at once, where a phase has a number of them.
        share: of the floor that the result file states, None without one.
        headline: whether it is compared where no metrics are asked for.
    """

    metric: Metric
    value: float | None
    streams: int | None = None
    share: float | None = None
    headline: bool = True
