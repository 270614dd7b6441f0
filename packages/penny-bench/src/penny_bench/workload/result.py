"""What a run of a workload found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from penny_bench.client import Server, StreamRecord
from penny_bench.load import Check, OwnCost, RunRequest
from penny_bench.workload.spec import Workload

Better = Literal["higher", "lower"] | None


@dataclass(frozen=True)
class Metric:
    """A headline number.

    Attributes:
        phase: the phase it is of; None for the whole run.
        key: its name for programs, such as `aggregate`.
        label: its name for people.
        values: one for each repeat, none of them None.
        unit: of the values.
        better: which direction is an improvement; None where neither is.
    """

    phase: str | None
    key: str
    label: str
    values: tuple[float, ...]
    unit: str
    better: Better

    @property
    def value(self) -> float:
        """Median of the values."""
        return median(self.values)


@dataclass(frozen=True)
class PhaseResult:
    """A part of a run.

    Attributes:
        name, label: for programs and for people.
        warmup: whether it is in no number.
        streams: how many ran at once, where that is one number.
        cached: whether prompts were meant to come from the server's cache.
        started, ended: on the clock of the run, s; `ended` is None while it goes on.
        requests: in the order in which they ended.
    """

    name: str
    label: str
    warmup: bool
    streams: int | None
    cached: bool
    started: float
    ended: float | None
    requests: Sequence[RunRequest]


@dataclass(frozen=True)
class EarlierPhases:
    """A run that was interrupted and now goes on.

    Attributes:
        phases: those that had ended.
        seconds: when it was interrupted, on its clock, which goes on from there.
        parts: how many parts there were. What is sent now has prompts of its own, since a cache may know those
            of requests that were cut off.
    """

    phases: tuple[PhaseResult, ...]
    seconds: float
    parts: int = 1


@dataclass(frozen=True, kw_only=True)
class WorkloadResult:
    """Everything that a run of a workload saw.

    Attributes:
        server: as used.
        workload: what was run.
        seed: of its prompts and cases.
        cached_limit: cached prompt tokens above which a request that should be cold counts as contaminated.
        preflight: the requests that settled the protocol.
        phases: in order; the last may be unfinished if the run was interrupted.
        metrics: the headline numbers.
        notes: sentences for the reader.
        seconds: wall time, s.
        own: what the client took meanwhile.
        complete: false if the run was interrupted.
        zero: `time.perf_counter()` at 0 s.
    """

    server: Server
    workload: Workload
    seed: int
    cached_limit: int
    preflight: tuple[StreamRecord, ...]
    phases: tuple[PhaseResult, ...]
    metrics: tuple[Metric, ...]
    notes: tuple[str, ...]
    seconds: float
    own: OwnCost
    complete: bool
    zero: float = 0.0

    @property
    def checks(self) -> tuple[Check, ...]:
        """All checks outside warm-ups, in the order of the requests."""
        requests = sorted(
            (r for phase in self.phases if not phase.warmup for r in phase.requests), key=lambda r: r.number
        )
        return tuple(check for request in requests for check in request.checks)
