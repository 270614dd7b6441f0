"""The document of an imported result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Any

from penny_bench.evidence.build import PERCENTILES
from penny_bench.evidence.redact import address, text
from penny_bench.importers.foreign import Foreign, ForeignPhase, ForeignRequest
from penny_bench.load import Distribution
from penny_bench.report.read import RUN

LIMIT = 32
"""Cached tokens that a chat template may share between prompts."""
MESSAGE = 400
RATES = (
    ("output_rate", "output", "tok/s"),
    ("request_rate", "requests", "1/s"),
    ("goodput", "goodput", "1/s"),
)
TIMES = (
    ("ttft", "TTFT"),
    ("tpot", "TPOT"),
    ("itl", "ITL"),
    ("stalls", "pause between events"),
    ("e2e", "E2E"),
)


def imported(foreign: Foreign, words: str, penny_bench: str) -> dict[str, Any]:
    """The document of `penny-bench run`, with null wherever the other tool does not tell.

    Args:
        foreign: what was read.
        words: the command that imports it.
        penny_bench: version of this package.
    """
    requests = [request for phase in foreign.phases for request in phase.requests]
    numbered = [(phase.name, request) for phase in foreign.phases for request in phase.requests]
    started = min(phase.started for phase in foreign.phases)
    ended = max(phase.ended for phase in foreign.phases)
    return {
        "schema": RUN,
        "status": "imported",
        "command": words,
        "started": foreign.started.astimezone(UTC).isoformat(timespec="milliseconds"),
        "seconds": round(ended - started, 6),
        "versions": {"penny_bench": penny_bench},
        "machine": None,
        "server": {
            "url": address(foreign.url),
            "model": text(foreign.model),
            "extensions": None,
            "details": None,
            "info": dict(foreign.info),
            "samples": [],
        },
        "workload": _workload(foreign),
        "plan": None,
        "metrics": [row for phase in foreign.phases for row in _metrics(phase)],
        "summary": _summary(foreign.phases),
        "phases": [_phase(phase) for phase in foreign.phases],
        "cache": _cache(requests),
        "checks": None,
        "speculation": None,
        "client": None,
        "notes": [],
        "earlier": [],
        "imported": {"tool": foreign.tool, "version": foreign.version, "note": foreign.note},
        "preflight": [],
        "warmups": [],
        "requests": [_request(i, phase, request) for i, (phase, request) in enumerate(numbered)],
    }


def _workload(foreign: Foreign) -> dict[str, Any]:
    """What tells results of other settings apart, since such a result has no workload file."""
    settings = dict(foreign.load)
    digest = hashlib.sha256(json.dumps([foreign.tool, settings], sort_keys=True).encode()).hexdigest()
    return {
        "name": f"{foreign.tool}-load",
        "title": f"A load of {foreign.tool}",
        "version": 1,
        "kind": "imported",
        "source": foreign.tool,
        "digest": digest,
        "settings": settings,
        "sampling": {},
        "changed": {},
    }


def _metrics(phase: ForeignPhase) -> Iterable[dict[str, Any]]:
    """What the tool states, in the names of `penny-bench run`; else what follows from its requests."""
    spreads = _distributions([phase])
    wanted = [(key, label, unit, "higher", phase.stated.get(key)) for key, label, unit in RATES]
    for key, label in TIMES:
        for rank in ("p50", "p99"):
            spread = spreads[key]
            value = getattr(spread, rank) if spread else phase.stated.get(f"{key}_{rank}")
            wanted.append((f"{key}_{rank}", f"{label} {rank}", "s", "lower", value))
    wanted.append(
        ("acceptance_length", "acceptance length", "", "higher", phase.stated.get("acceptance_length"))
    )
    for key, label, unit, better, value in wanted:
        if value is not None:
            yield {
                "phase": phase.name,
                "key": key,
                "label": label,
                "value": value,
                "values": [value],
                "unit": unit,
                "better": better,
                "n": 1,
                "floor": None,
                "share": None,
            }


def _distributions(phases: Sequence[ForeignPhase]) -> dict[str, Distribution | None]:
    good = [(phase, r) for phase in phases for r in phase.requests if not r.failure]
    found = {
        key: Distribution.of(getattr(request, key) for _, request in good)
        for key in ("ttft", "ttft_content", "tpot", "e2e")
    }
    for key, counts in (("itl", "tokens"), ("stalls", "events")):
        found[key] = Distribution.of(
            pause for phase, r in good if phase.pauses_of == counts for pause in r.pauses or ()
        )
    return found


def _summary(phases: Sequence[ForeignPhase]) -> dict[str, Any]:
    seconds = sum(phase.ended - phase.started for phase in phases)
    succeeded, failed = sum(phase.succeeded for phase in phases), sum(phase.failed for phase in phases)
    outputs = [phase.output_tokens for phase in phases if phase.output_tokens is not None]
    inputs = [phase.input_tokens for phase in phases if phase.input_tokens is not None]
    kinds = [r.failure[0] for phase in phases for r in phase.requests if r.failure]
    errors = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    if failed > len(kinds):  # the file counts more than it lists
        errors["server"] = errors.get("server", 0) + failed - len(kinds)
    whole = len(outputs) == len(phases)
    single = phases[0].stated if len(phases) == 1 else {}
    return {
        "percentiles": PERCENTILES,
        "requests": succeeded + failed,
        "succeeded": succeeded,
        "errors": errors,
        "seconds": round(seconds, 6),
        "request_rate": single.get("request_rate") or (succeeded / seconds if seconds > 0 else None),
        "output_rate": single.get("output_rate")
        or (sum(outputs) / seconds if whole and seconds > 0 else None),
        "peak_output_rate": None,
        "input_tokens": sum(inputs) if len(inputs) == len(phases) else None,
        "output_tokens": sum(outputs) if whole else None,
        "reasoning_tokens": None,
        **{key: value and asdict(value) for key, value in _distributions(phases).items()},
        "good": None,
        "goodput": single.get("goodput"),
    }


def _phase(phase: ForeignPhase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "label": phase.label,
        "warmup": False,
        "started": round(phase.started, 6),
        "ended": round(phase.ended, 6),
        "streams": phase.streams,
        "summary": _summary([phase]),
        "cache": _cache(phase.requests),
    }


def _cache(requests: Iterable[ForeignRequest]) -> dict[str, Any]:
    told = [request.cached_tokens for request in requests if request.cached_tokens is not None]
    above = sum(tokens > LIMIT for tokens in told)
    return {
        "verdict": "contaminated" if above else "clean" if told else "unknown",
        "limit": LIMIT,
        "reported": len(told),
        "above": above,
        "most": max(told, default=None),
        "total": sum(told),
    }


def _request(number: int, phase: str, request: ForeignRequest) -> dict[str, Any]:
    def at(since: float | None) -> float | None:
        known = request.sent is not None and since is not None
        return round((request.sent or 0.0) + (since or 0.0), 6) if known else None

    latency = None
    if not request.failure and request.ttft is not None and request.e2e is not None:
        latency = {
            "ttft": request.ttft,
            "ttft_content": request.ttft_content,
            "tpot": request.tpot,
            "e2e": request.e2e,
        }
    failure = request.failure and {
        "kind": request.failure[0],
        "message": text(request.failure[1])[:MESSAGE],
        "status": None,
    }
    unknown = dict.fromkeys(("case", "turn", "finish_reason", "spans", "speculation", "text"))
    return {
        "number": number,
        "scheduled": None,
        "asked": {"prompt_tokens": None, "tokens": None},
        "phase": phase,
        "sent": at(0.0),
        "first_byte": None,
        "first_token": at(request.ttft),
        "first_reasoning": None,
        "first_content": at(request.ttft_content),
        "last_token": at(request.e2e),
        "ended": at(request.ended),
        "arrivals": [[t, None] for t in _arrivals(request)],
        "usage": {
            "prompt_tokens": request.prompt_tokens,
            "cached_tokens": request.cached_tokens,
            "output_tokens": request.output_tokens,
            "reasoning_tokens": None,
            "by_tokenizer": False,
        },
        "latency": latency,
        "failure": failure,
        "cached": _tiers(request),
        "checks": [],
        **unknown,
    }


def _arrivals(request: ForeignRequest) -> Iterable[float]:
    """When events came, where both the moment of sending and all pauses are known."""
    if request.sent is None or request.ttft is None or request.pauses is None:
        return
    t = request.sent + request.ttft
    yield round(t, 6)
    for pause in request.pauses:
        t += pause
        yield round(t, 6)


def _tiers(request: ForeignRequest) -> dict[str, int | None] | None:
    if not request.tiers:
        return None
    told = request.tiers
    return {
        "device": int(told.get("device") or 0),
        "host": int(told.get("host") or 0),
        "storage": None if told.get("storage") is None else int(told["storage"]),
    }
