"""What another tool's result tells, in one form for all of them. Times are in seconds; None is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from penny_bench.client.record import FailureKind

Counts = Literal["tokens", "events"]


@dataclass(frozen=True, kw_only=True)
class ForeignRequest:
    """One request.

    Attributes:
        sent: on the clock of the run.
        ttft, ttft_content: from sent.
        e2e: from sent to the last token.
        ended: from sent to the end of the stream.
        pauses: between tokens or between events, as the phase says.
        prompt_tokens, cached_tokens, output_tokens: as the tool counted or took them from the server.
        tiers: cached tokens by `device`, `host` and `storage`.
        failure: kind and message; then there are no times but `sent`.
    """

    sent: float | None = None
    ttft: float | None = None
    ttft_content: float | None = None
    e2e: float | None = None
    ended: float | None = None
    pauses: tuple[float, ...] | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    tiers: Mapping[str, Any] | None = None
    failure: tuple[FailureKind, str] | None = None

    @property
    def tpot(self) -> float | None:
        """Time per token after the first, where the first event is taken for one token."""
        if self.e2e is None or self.ttft is None or not self.output_tokens or self.output_tokens < 2:
            return None
        return (self.e2e - self.ttft) / (self.output_tokens - 1)


@dataclass(frozen=True, kw_only=True)
class ForeignPhase:
    """A stretch of the run with one load.

    Attributes:
        name, label: for a program and for a person.
        started, ended: on the clock of the run.
        streams: at once, if that was fixed.
        requests: in order; nothing if the file holds sums only.
        succeeded, failed: requests, as the tool counted them.
        input_tokens, output_tokens: sums over the requests that succeeded.
        pauses_of: whether pauses are between tokens or between events of unknown size.
        stated: metrics as the tool states them, by key: rates in 1/s, times in s.
    """

    name: str
    label: str
    started: float
    ended: float
    streams: int | None
    requests: tuple[ForeignRequest, ...]
    succeeded: int
    failed: int
    input_tokens: int | None
    output_tokens: int | None
    pauses_of: Counts
    stated: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A whole result.

    Attributes:
        tool, version: who measured.
        note: what its numbers are, and what is not known.
        started: when; the date of the file where it does not tell.
        url, model, info: of the server.
        load: settings that make two results of this tool alike.
        phases: at least one.
    """

    tool: str
    version: str | None
    note: str
    started: datetime
    url: str
    model: str
    load: Mapping[str, Any]
    phases: tuple[ForeignPhase, ...]
    info: Mapping[str, Any] = field(default_factory=dict)
