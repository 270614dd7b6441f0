"""One request of a document, ready to be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penny_bench.client import Arrival, Failure, StreamRecord
from penny_bench.load import latencies
from penny_bench.load.metrics import tokens_of_arrivals

Floats = npt.NDArray[np.float64]
LATENCIES = ("ttft", "ttft_content", "tpot", "e2e")


@dataclass(frozen=True, eq=False)
class Entry:
    """A measured request. Times are seconds on the clock of the report; None where they are not known.

    Attributes:
        number: in its run.
        phase: name of the phase it belongs to.
        case, turn: of its workload.
        sent, first_token, first_reasoning, first_content, last_token, ended: as in the document.
        times: of the events that brought tokens.
        brought: how many tokens each of them brought; None where the server's counts do not tell.
        prompt_tokens, cached_tokens, output_tokens: the server's usage.
        latency: `ttft`, `ttft_content`, `tpot` and `e2e`, s; nothing for a request that failed.
        spans: the server's own times: `queue`, `prefill`, `post_prefill`, s.
        cached: cached prompt tokens by tier: `device`, `host`, `storage`.
        speculation: acceptance of this request.
        failure: its kind and its message.
    """

    number: int
    phase: str
    case: str | None
    turn: int | None
    sent: float | None
    first_token: float | None
    first_reasoning: float | None
    first_content: float | None
    last_token: float | None
    ended: float | None
    times: Floats
    brought: Floats | None
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    latency: Mapping[str, float | None]
    spans: Mapping[str, Any] | None
    cached: Mapping[str, Any] | None
    speculation: Mapping[str, Any] | None
    failure: tuple[str, str] | None

    @property
    def rate(self) -> float | None:
        """Decode rate after the first event, tokens/s."""
        tpot = self.latency.get("tpot")
        return 1 / tpot if tpot else None

    @property
    def itl(self) -> Floats | None:
        """For each token after the first event its share of the pause before its event, s."""
        if self.failure or self.brought is None:
            return None
        tokens = self.brought[1:]
        each = np.diff(self.times) / np.maximum(tokens, 1)
        return np.repeat(each, tokens.astype(int))

    @property
    def spread(self) -> Floats:
        """Tokens of each event; where they are not known, those of the request evenly over its events."""
        if self.brought is not None:
            return self.brought
        share = (self.output_tokens or 0) / max(1, self.times.size)
        return np.full(self.times.size, share)


def entry_of_request(value: Mapping[str, Any], phase: str) -> Entry:
    """From an entry of `requests` of a run."""
    return _entry(value, phase, _record(value, value["arrivals"] or []), value.get("latency") or {}, 0.0)


def entry_of_record(value: Mapping[str, Any], phase: str, number: int, offset: float) -> Entry:
    """From a record of a group of `penny-bench decode`, moved by `offset` seconds."""
    arrivals = [(arrival["t"], arrival["tokens"]) for arrival in value["arrivals"]]
    record = _record({**value, "usage": value}, arrivals)
    times = latencies(record)
    told = {
        "number": number,
        "sent": value["sent"],
        "first_token": arrivals[0][0] if arrivals else None,
        "first_reasoning": value.get("first_reasoning"),
        "first_content": value.get("first_answer"),
        "last_token": arrivals[-1][0] if arrivals else None,
        "ended": value["ended"],
        "usage": value,
        "failure": value.get("failure"),
    }
    latency = {key: getattr(times, key) for key in LATENCIES} if times else {}
    return _entry(told, phase, record, latency, offset)


def _entry(
    value: Mapping[str, Any], phase: str, record: StreamRecord, latency: Mapping[str, Any], offset: float
) -> Entry:
    def moved(key: str) -> float | None:
        return None if value.get(key) is None else value[key] + offset

    brought = tokens_of_arrivals(record) if record.arrivals else None
    failure = value.get("failure")
    usage = value.get("usage") or {}
    return Entry(
        number=value["number"],
        phase=phase,
        case=value.get("case"),
        turn=value.get("turn"),
        sent=moved("sent"),
        first_token=moved("first_token"),
        first_reasoning=moved("first_reasoning"),
        first_content=moved("first_content"),
        last_token=moved("last_token"),
        ended=moved("ended"),
        times=np.array([arrival.t for arrival in record.arrivals], dtype=float) + offset,
        brought=None if brought is None else np.array(brought, dtype=float),
        prompt_tokens=usage.get("prompt_tokens"),
        cached_tokens=usage.get("cached_tokens"),
        output_tokens=usage.get("output_tokens"),
        latency={key: latency.get(key) for key in LATENCIES if latency},
        spans=value.get("spans"),
        cached=value.get("cached"),
        speculation=value.get("speculation"),
        failure=(str(failure["kind"]), str(failure["message"])) if failure else None,
    )


def _record(value: Mapping[str, Any], arrivals: Sequence[Sequence[Any]]) -> StreamRecord:
    failure = value.get("failure")
    return StreamRecord(
        sent=value.get("sent") or 0.0,
        ended=value.get("ended") or 0.0,
        arrivals=tuple(Arrival(t, tokens) for t, tokens in arrivals),
        first_answer=value.get("first_answer"),
        output_tokens=(value.get("usage") or {}).get("output_tokens"),
        failure=Failure(failure["kind"], failure["message"]) if failure else None,
    )
