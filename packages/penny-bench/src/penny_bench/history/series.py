"""Numbers of one kind over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penny_bench.history.point import Entry, Setting
from penny_bench.report import Metric


@dataclass(frozen=True)
class Point:
    """One value with what it is set against.

    Attributes:
        entry: its document.
        metric: the number.
        to_previous: share by which it differs from the last one before it that is free of doubt.
        to_best: share by which it differs from the best of the series that is free of doubt; 0 for the best.
    """

    entry: Entry
    metric: Metric
    to_previous: float | None
    to_best: float | None


@dataclass(frozen=True)
class Series:
    """All values of one metric of one phase under one setting, in order of date.

    Attributes:
        setting: what its documents have in common.
        phase, key, label, unit, better: as in `Metric`.
        points: at least one.
    """

    setting: Setting
    phase: str | None
    key: str
    label: str
    unit: str
    better: str | None
    points: tuple[Point, ...]

    @property
    def title(self) -> str:
        """Phase and metric."""
        return " ".join(filter(None, (self.phase, self.label)))


def history(entries: Iterable[Entry]) -> list[Series]:
    """The series of all documents, by setting, phase and metric, in the order in which they first came."""
    found: dict[tuple[Setting, str | None, str], list[tuple[Entry, Metric]]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.started, entry.name)):
        for metric in entry.metrics:
            found.setdefault((entry.setting, metric.phase, metric.key), []).append((entry, metric))
    settings = list(dict.fromkeys(setting for setting, _, _ in found))
    ordered = sorted(found.items(), key=lambda item: settings.index(item[0][0]))
    return [_series(setting, values) for (setting, _, _), values in ordered]


def _series(setting: Setting, values: Sequence[tuple[Entry, Metric]]) -> Series:
    last = values[-1][1]
    sound = [metric.value for entry, metric in values if not entry.doubts]
    best = None
    if sound and last.better:
        best = max(sound) if last.better == "higher" else min(sound)
    points: list[Point] = []
    previous: float | None = None
    for entry, metric in values:
        points.append(Point(entry, metric, _change(metric.value, previous), _change(metric.value, best)))
        if not entry.doubts:
            previous = metric.value
    return Series(setting, last.phase, last.key, last.label, last.unit, last.better, tuple(points))


def _change(value: float, base: float | None) -> float | None:
    return value / base - 1 if base else None
