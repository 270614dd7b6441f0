"""The one document of a run."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from penny_bench.client import StreamRecord
from penny_bench.evidence import redact
from penny_bench.evidence.machine import machine
from penny_bench.evidence.parts import checks_part, numbered, record_part, rounded, speculation_part
from penny_bench.evidence.sampler import GpuSampler
from penny_bench.evidence.schema import SCHEMA
from penny_bench.load import (
    CacheUse,
    Load,
    RunPlan,
    RunRequest,
    RunResult,
    Slo,
    Trace,
    cache_use,
    summarise_run,
)
from penny_bench.workload import Metric, PhaseResult, WorkloadResult
from penny_bench.workload.speculation import summed

PERCENTILES = "linear between the two nearest ranks (Hyndman and Fan's type 7)"


@dataclass(frozen=True, kw_only=True)
class Around:
    """What belongs to a document beside the result.

    Attributes:
        words: the command, with its program; secrets and paths are taken out.
        started: when the command began.
        penny_bench: version of this package.
        gpu: GPUs of this machine and their states over time; None if it was not looked at.
        info: what the server tells of itself.
        samples: counters of the server over time; `t` is `time.perf_counter()`.
        floors: stated best values of metrics, by `key` or `phase/key`.
        notes: further sentences for the reader.
        earlier: parts of the run before an interruption, as they stand in a document.
    """

    words: Sequence[str]
    started: datetime
    penny_bench: str
    gpu: GpuSampler | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    samples: Sequence[Mapping[str, float | None]] = ()
    floors: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    earlier: Sequence[Mapping[str, Any]] = ()


def evidence(result: RunResult | WorkloadResult, around: Around) -> dict[str, Any]:
    """The document of a run, as `penny_bench/evidence/schema.json` describes it. Times are in seconds."""
    if isinstance(result, RunResult):
        phases, limit, slo = _phases_of(result), result.plan.cached_limit, result.plan.slo
        metrics, plan = _run_metrics(result), _plan(result.plan)
        notes: Sequence[str] = ()
        workload = None
    else:
        phases, limit, slo = result.phases, result.cached_limit, None
        metrics, notes, plan = result.metrics, result.notes, _workload_plan(result)
        workload = result.workload.document()
    measured = [request for phase in phases if not phase.warmup for request in phase.requests]
    cold = [r for phase in phases if not (phase.warmup or phase.cached) for r in phase.requests]
    records = _records(measured)
    document = {
        "schema": SCHEMA,
        "status": "complete" if result.complete else "partial",
        "command": redact.command(around.words),
        "started": around.started.astimezone(UTC).isoformat(timespec="milliseconds"),
        "seconds": rounded(result.seconds),
        "versions": {
            "penny_bench": around.penny_bench,
            "python": platform.python_version(),
            **{name: version(name) for name in ("httpx", "numpy")},
        },
        "machine": _machine(around.gpu, result.zero),
        "server": {
            "url": redact.address(result.server.url),
            "model": redact.text(result.server.model),
            "extensions": result.server.extensions,
            "details": result.server.details,
            "info": dict(around.info),
            "samples": [
                {**sample, "t": rounded((sample["t"] or 0.0) - result.zero)} for sample in around.samples
            ],
        },
        "workload": workload,
        "plan": plan,
        "metrics": [_metric(metric, around.floors) for metric in metrics],
        "summary": _summary(records, slo),
        "phases": [_phase(phase, limit, slo) for phase in phases],
        "cache": asdict(_cache(phases, cold, limit)),
        "checks": checks_part(
            [check for request in sorted(measured, key=_number) for check in request.checks]
        ),
        "speculation": speculation_part(summed(record.speculation for record in records)),
        "client": asdict(result.own),
        "notes": [*notes, *_estimates(records), *around.notes],
        "earlier": list(around.earlier),
        "imported": None,
        "preflight": [record_part(record) for record in result.preflight],
        "warmups": numbered(r for phase in phases if phase.warmup for r in phase.requests),
        "requests": numbered(measured),
    }
    return dict(redact.without(document, result.server.api_key))


def _estimates(records: Sequence[StreamRecord]) -> list[str]:
    counted = sum(record.by_tokenizer for record in records)
    if not counted:
        return []
    return [
        f"ESTIMATES: the server sent no usage, so the tokens of {counted} of {len(records)} requests were counted by a "
        f"tokenizer. Numbers of tokens and rates are not exact."
    ]


def _phases_of(result: RunResult) -> tuple[PhaseResult, ...]:
    parts = (("warm-up", True, result.warmups), ("run", False, result.requests))
    return tuple(
        PhaseResult(
            name,
            name,
            warmup,
            getattr(result.plan.load, "concurrency", None),
            result.plan.same_prompt and not warmup,
            min((request.record.sent for request in requests), default=0.0),
            None if not (warmup or result.complete) else max((r.record.ended for r in requests), default=0.0),
            requests,
        )
        for name, warmup, requests in parts
        if requests or not warmup
    )


def _run_metrics(result: RunResult) -> tuple[Metric, ...]:
    summary = summarise_run(_records(result.requests), result.plan.slo)
    wanted = [
        ("output_rate", "output", summary.output_rate, "tok/s", "higher"),
        ("request_rate", "requests", summary.request_rate, "1/s", "higher"),
        ("goodput", "goodput", summary.goodput, "1/s", "higher"),
    ]
    for key, label in (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2e", "E2E")):
        spread = getattr(summary, key)
        for rank in ("p50", "p99"):
            value = spread and getattr(spread, rank)
            wanted.append((f"{key}_{rank}", f"{label} {rank}", value, "s", "lower"))
    return tuple(
        Metric("run", key, label, (value,), unit, "higher" if better == "higher" else "lower")
        for key, label, value, unit, better in wanted
        if value is not None
    )


def _plan(plan: RunPlan) -> dict[str, Any]:
    return {**asdict(plan), "load": load_part(plan.load)}


def _workload_plan(result: WorkloadResult) -> dict[str, Any]:
    empty = dict.fromkeys(("load", "requests", "duration", "tokens", "prompt_tokens", "warmups", "slo"))
    fixed = {"same_prompt": False, "random_prompts": False}
    return {**empty, **fixed, "seed": result.seed, "cached_limit": result.cached_limit}


def load_part(load: Load) -> dict[str, Any]:
    """A load with its kind, as it stands in a document."""
    kind = type(load).__name__.lower()
    if isinstance(load, Trace):  # its requests are in the document anyway
        return {"kind": kind, "file": load.name, "speed": load.speed, "requests": len(load.requests)}
    return {"kind": kind, **asdict(load)}


def _machine(gpu: GpuSampler | None, zero: float) -> dict[str, Any]:
    computer: dict[str, Any] = asdict(machine())
    if gpu and gpu.gpus:
        computer["gpus"] = [asdict(device) for device in gpu.gpus]
        computer["gpu_samples"] = [
            {"t": rounded(sample.t - zero), "gpu": sample.gpu, **asdict(sample.state)}
            for sample in gpu.samples
        ]
    return computer


def _phase(phase: PhaseResult, limit: int, slo: Slo | None) -> dict[str, Any]:
    records = _records(phase.requests)
    return {
        "name": phase.name,
        "label": phase.label,
        "warmup": phase.warmup,
        "started": rounded(phase.started),
        "ended": rounded(phase.ended),
        "streams": phase.streams,
        "summary": _summary(records, slo),
        "cache": asdict(cache_use(records, limit, phase.cached)),
    }


def _cache(phases: Iterable[PhaseResult], cold: list[RunRequest], limit: int) -> CacheUse:
    intended = not cold and any(phase.cached for phase in phases)
    records = [r for phase in phases if not phase.warmup for r in phase.requests] if intended else cold
    return cache_use(_records(records), limit, intended)


def _metric(metric: Metric, floors: Mapping[str, float]) -> dict[str, Any]:
    floor = floors.get(f"{metric.phase}/{metric.key}", floors.get(metric.key))
    share = None
    if floor is not None and metric.value:
        share = metric.value / floor if metric.better == "higher" else floor / metric.value
    return {
        **asdict(metric),
        "values": list(metric.values),
        "value": metric.value,
        "n": len(metric.values),
        "floor": floor,
        "share": share,
    }


def _summary(records: Sequence[StreamRecord], slo: Slo | None) -> dict[str, Any]:
    return {"percentiles": PERCENTILES, **asdict(summarise_run(records, slo))}


def _records(requests: Iterable[RunRequest]) -> list[StreamRecord]:
    return [request.record for request in sorted(requests, key=_number)]


def _number(request: RunRequest) -> int:
    return request.number
