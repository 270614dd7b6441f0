"""Requests, metrics and checks as they stand in a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from penny_bench.client import Reply, Speculation, StreamRecord
from penny_bench.load import Check, RunRequest, latencies


def request_part(request: RunRequest) -> dict[str, Any]:
    """A request with its record."""
    return {
        "number": request.number,
        "scheduled": rounded(request.scheduled),
        "asked": {"prompt_tokens": request.prompt_tokens, "tokens": request.tokens},
        "phase": request.phase,
        "case": request.case,
        "turn": request.turn,
        **record_part(request.record),
        "checks": [asdict(check) for check in request.checks],
    }


def record_part(record: StreamRecord) -> dict[str, Any]:
    """A record, with the latencies that follow from it."""
    times = latencies(record)
    last = record.arrivals[-1].t if record.arrivals else None
    return {
        "sent": rounded(record.sent),
        "first_byte": rounded(record.first_byte),
        "first_token": rounded(record.arrivals[0].t if record.arrivals else None),
        "first_reasoning": rounded(record.first_reasoning),
        "first_content": rounded(record.first_answer),
        "last_token": rounded(last),
        "ended": rounded(record.ended),
        "arrivals": [[rounded(arrival.t), arrival.tokens] for arrival in record.arrivals],
        "usage": {
            "prompt_tokens": record.prompt_tokens,
            "cached_tokens": record.cached_tokens,
            "output_tokens": record.output_tokens,
            "reasoning_tokens": record.reasoning_tokens,
            "by_tokenizer": record.by_tokenizer,
        },
        "latency": times
        and {
            "ttft": rounded(times.ttft),
            "ttft_content": rounded(times.ttft_content),
            "tpot": times.tpot,
            "e2e": rounded(times.e2e),
        },
        "finish_reason": record.finish_reason,
        "failure": record.failure and asdict(record.failure),
        "spans": record.spans and asdict(record.spans),
        "cached": record.cached and asdict(record.cached),
        "speculation": speculation_part(record.speculation),
        "text": _text(record.reply),
    }


def _text(reply: Reply | None) -> dict[str, Any] | None:
    if reply is None:
        return None
    return {
        "content": reply.content,
        "reasoning": reply.reasoning,
        "tool_calls": [asdict(call) for call in reply.tool_calls],
    }


def speculation_part(told: Speculation | None) -> dict[str, Any] | None:
    """Acceptance with its length."""
    if told is None:
        return None
    return {
        "verify": told.verify,
        "accepted": told.accepted,
        "proposed": told.proposed,
        "acceptance_length": told.acceptance_length if told.verify else None,
        "histogram": list(told.histogram),
    }


def checks_part(checks: Sequence[Check]) -> dict[str, Any] | None:
    """All checks with their sums; None without any."""
    if not checks:
        return None
    counts = Counter(check.passed for check in checks)
    of = sum(check.of for check in checks)
    return {
        "passed": counts[True],
        "failed": counts[False],
        "open": counts[None],
        "total": len(checks),
        "score": sum(check.points for check in checks) if of else None,
        "of": of or None,
        "rows": [asdict(check) for check in checks],
    }


def rounded(seconds: float | None) -> float | None:
    """Microseconds are kept; no event loop knows more."""
    return None if seconds is None else round(seconds, 6)


def numbered(requests: Iterable[RunRequest]) -> list[dict[str, Any]]:
    """Request parts in the order of their numbers."""
    return [request_part(request) for request in sorted(requests, key=lambda request: request.number)]
