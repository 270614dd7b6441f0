"""The one document of a run."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from penny_bench.client import StreamRecord
from penny_bench.evidence import redact
from penny_bench.evidence.machine import machine
from penny_bench.evidence.sampler import GpuSampler
from penny_bench.evidence.schema import SCHEMA
from penny_bench.load import Load, RunPlan, RunRequest, RunResult, Trace, cache_use, latencies, summarise_run

PERCENTILES = "linear between the two nearest ranks (Hyndman and Fan's type 7)"


def evidence(
    result: RunResult,
    words: Sequence[str],
    started: datetime,
    penny_bench: str,
    gpu: GpuSampler,
    server_info: dict[str, Any],
) -> dict[str, Any]:
    """The document of a run, as `penny_bench/evidence/schema.json` describes it. Times are in seconds.

    Args:
        result: what was measured.
        words: the command, with its program; secrets and paths are taken out.
        started: when the command began.
        penny_bench: version of this package.
        gpu: GPUs of this machine and their states over time.
        server_info: from `server_info`.
    """
    records = [request.record for request in result.requests]
    computer: dict[str, Any] = asdict(machine())
    if gpu.gpus:
        computer["gpus"] = [asdict(device) for device in gpu.gpus]
        computer["gpu_samples"] = [
            {"t": _time(sample.t), "gpu": sample.gpu, **asdict(sample.state)} for sample in gpu.samples
        ]
    return {
        "schema": SCHEMA,
        "status": "complete" if result.complete else "partial",
        "command": redact.command(words),
        "started": started.astimezone(UTC).isoformat(timespec="milliseconds"),
        "seconds": _time(result.seconds),
        "versions": {
            "penny_bench": penny_bench,
            "python": platform.python_version(),
            "httpx": version("httpx"),
            "numpy": version("numpy"),
        },
        "machine": computer,
        "server": {
            "url": redact.address(result.server.url),
            "model": redact.text(result.server.model),
            "extensions": result.server.extensions,
            "info": server_info,
        },
        "plan": _plan(result.plan),
        "summary": {"percentiles": PERCENTILES, **asdict(summarise_run(records, result.plan.slo))},
        "cache": asdict(cache_use(records, result.plan.cached_limit)),
        "client": asdict(result.own),
        "preflight": [_record(record) for record in result.preflight],
        "warmups": [_request(request) for request in result.warmups],
        "requests": [_request(request) for request in result.requests],
    }


def _plan(plan: RunPlan) -> dict[str, Any]:
    fields = asdict(plan)
    return {**fields, "load": _load(plan.load)}


def _load(load: Load) -> dict[str, Any]:
    kind = type(load).__name__.lower()
    if isinstance(load, Trace):  # its requests are in the document anyway
        return {"kind": kind, "file": load.name, "speed": load.speed, "requests": len(load.requests)}
    return {"kind": kind, **asdict(load)}


def _request(request: RunRequest) -> dict[str, Any]:
    return {
        "number": request.number,
        "scheduled": _time(request.scheduled),
        "asked": {"prompt_tokens": request.prompt_tokens, "tokens": request.tokens},
        **_record(request.record),
    }


def _record(record: StreamRecord) -> dict[str, Any]:
    times = latencies(record)
    last = record.arrivals[-1].t if record.arrivals else None
    return {
        "sent": _time(record.sent),
        "first_byte": _time(record.first_byte),
        "first_token": _time(record.arrivals[0].t if record.arrivals else None),
        "first_reasoning": _time(record.first_reasoning),
        "first_content": _time(record.first_answer),
        "last_token": _time(last),
        "ended": _time(record.ended),
        "arrivals": [[_time(arrival.t), arrival.tokens] for arrival in record.arrivals],
        "usage": {
            "prompt_tokens": record.prompt_tokens,
            "cached_tokens": record.cached_tokens,
            "output_tokens": record.output_tokens,
            "reasoning_tokens": record.reasoning_tokens,
        },
        "latency": times
        and {
            "ttft": _time(times.ttft),
            "ttft_content": _time(times.ttft_content),
            "tpot": times.tpot,
            "e2e": _time(times.e2e),
        },
        "finish_reason": record.finish_reason,
        "failure": record.failure and asdict(record.failure),
    }


def _time(seconds: float | None) -> float | None:
    """Microseconds are kept; no event loop knows more."""
    return None if seconds is None else round(seconds, 6)
