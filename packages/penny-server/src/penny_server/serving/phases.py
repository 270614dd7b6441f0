"""The phases of a start, put together from the events of all processes of a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

PHASES = ("identity", "imports", "weights", "pools", "graphs", "warm-up", "ready")

BACKENDS = "backends"
"""Name of the events that say which implementation each operation got; no phase."""
KERNELS = "kernels"
"""Name of the events that say how many kernels were compiled; no phase."""

State = Literal["waiting", "running", "done", "skipped", "failed"]


@dataclass(frozen=True)
class Event:
    """One line of ``events.jsonl``; ``t`` in seconds since the epoch."""

    t: float
    phase: str
    state: str
    detail: dict[str, Any]


class EventTail:
    """Reads the events that were appended since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> Iterator[Event]:
        """The complete lines added since the last call, in file order."""
        if not self._path.is_file():
            return
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            raw = json.loads(line)
            yield Event(float(raw["t"]), str(raw["phase"]), str(raw["state"]), dict(raw.get("detail") or {}))


def amount(size: float) -> str:
    """Bytes in decimal units, as drives and downloads count them."""
    return f"{size / 1e9:.2f} GB" if abs(size) >= 1e9 else f"{size / 1e6:.1f} MB"


def describe(detail: Mapping[str, Any]) -> str:
    """What an event's detail says to a person: its ``note``, ``bytes`` (``of`` all), ``tokens`` and ``requests``."""
    parts = [str(detail["note"])] if "note" in detail else []
    if "bytes" in detail:
        whole = f" of {amount(float(detail['of']))}" if "of" in detail else ""
        parts.append(f"{amount(float(detail['bytes']))}{whole}")
    if "tokens" in detail:
        parts.append(f"{detail['tokens']:,} tokens")
    if "requests" in detail:
        parts.append(f"{detail['requests']} requests")
    return ", ".join(parts)


@dataclass
class Phase:
    """One phase as a person sees it; ``began`` and ``ended`` in seconds since the epoch."""

    name: str
    state: State = "waiting"
    began: float = 0.0
    ended: float = 0.0
    fraction: float | None = None
    note: str = ""

    def seconds(self, now: float) -> float:
        """How long the phase took, or has taken up to ``now``."""
        if self.state in ("waiting", "skipped"):
            return 0.0
        return (now if self.state == "running" else self.ended) - self.began


@dataclass
class Progress:
    """All phases of a start. ``identity`` runs from the beginning, because the checks before belong to it.

    Attributes:
        backends: the implementation that each operation got, those of a draft model by ``draft, `` and its name.
        measured: what was found when a phase ended, by phase, those of a draft model by ``draft, `` and its name.
        built: kernels that were compiled, and the ``built_s`` seconds that this took where they are known;
            ``building`` is the latest.
    """

    started: float
    phases: list[Phase] = field(default_factory=lambda: [Phase(name) for name in PHASES])
    failure: dict[str, Any] | None = None
    backends: dict[str, str] = field(default_factory=dict)
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)
    built: int = 0
    built_s: float = 0.0
    building: str = ""

    def __post_init__(self) -> None:
        self.phases[0].state, self.phases[0].began = "running", self.started

    def apply(self, event: Event) -> None:
        """Takes in one event. A phase that begins ends those before it; what never began is skipped."""
        draft = "draft, " if event.detail.get("draft") else ""
        if event.phase == BACKENDS:
            self.backends |= {f"{draft}{name}": found for name, found in event.detail["resolved"].items()}
        if event.phase == KERNELS:
            self.built, self.built_s = int(event.detail["built"]), float(event.detail["seconds"])
            self.building = str(event.detail.get("name", ""))
        if event.phase not in PHASES:
            return
        at = PHASES.index(event.phase)
        phase = self.phases[at]
        for earlier in self.phases[:at]:
            if earlier.state == "running":
                earlier.state, earlier.ended = "done", event.t
            elif earlier.state == "waiting":
                earlier.state = "skipped"
        if phase.state in ("waiting", "skipped"):
            phase.state, phase.began = "running", event.t
        elif phase.state == "done" and event.state == "begin" and draft and not self._begun_after(at):
            phase.state = "running"
        phase.note = describe(event.detail) or phase.note
        if event.state == "progress" and "fraction" in event.detail:
            phase.fraction = min(1.0, max(0.0, float(event.detail["fraction"])))
        elif event.state == "end":
            phase.state, phase.ended, phase.fraction = "done", event.t, None
            self.measured[f"{draft}{event.phase}"] = event.detail
            if draft and event.phase in self.measured:
                phase.note = describe(self.measured[event.phase])
        elif event.state == "fail":
            phase.state, phase.ended = "failed", event.t
            self.failure = event.detail

    def _begun_after(self, at: int) -> bool:
        return any(later.state != "waiting" for later in self.phases[at + 1 :])

    def fail(self, t: float) -> None:
        """Marks the running phase as failed: the server process ended."""
        for phase in self.phases:
            if phase.state == "running":
                phase.state, phase.ended = "failed", t

    @property
    def announced(self) -> bool:
        """Whether the server has said that it is ready."""
        return self.phases[-1].state in ("running", "done")

    def failed_for(self, now: float) -> float:
        """Seconds since a phase failed, 0 when none has."""
        return max((now - phase.ended for phase in self.phases if phase.state == "failed"), default=0.0)

    def finish(self, t: float) -> None:
        """Marks every phase as over: the server answers."""
        for phase in self.phases:
            if phase.state == "running":
                phase.state, phase.ended = "done", t
            elif phase.state == "waiting":
                phase.state = "skipped"
