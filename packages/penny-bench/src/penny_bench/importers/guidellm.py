"""Results of GuideLLM: the JSON that `guidellm run --output kind=json` writes.

Source: the schemas of GuideLLM 0.8.1, report version 2. A file has several benchmarks, each a phase here.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from penny_bench.errors import BenchError
from penny_bench.importers.foreign import Foreign, ForeignPhase, ForeignRequest

NOTE = (
    "It keeps the first and the last token of a request but no event between, so there is no ITL and no "
    "token rate over time. TPOT takes the first event for one token."
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Timings(_Part):
    request_start: float | None = None
    first_token_iteration: float | None = None
    first_output_token_iteration: float | None = None
    last_token_iteration: float | None = None
    request_end: float | None = None


class _Info(_Part):
    timings: _Timings
    error: str | None = None


class _Request(_Part):
    info: _Info
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


class _Requests(_Part):
    successful: list[_Request] | None = None
    errored: list[_Request] | None = None
    incomplete: list[_Request] | None = None


class _Config(_Part):
    strategy: dict[str, Any]
    constraints: dict[str, Any] = {}
    backend: dict[str, Any] = {}


class _Benchmark(_Part):
    config: _Config
    requests: _Requests
    start_time: float
    end_time: float


class _Metadata(_Part):
    guidellm_version: str | None = None


class _Report(_Part):
    metadata: _Metadata = _Metadata()
    config: dict[str, Any] = {}
    benchmarks: list[_Benchmark]


def read_guidellm(name: str, data: bytes) -> Foreign:
    """Read a result file.

    Raises:
        BenchError: it is no such file, or holds no benchmark.
    """
    try:
        report = _Report.model_validate(json.loads(data))
    except (ValueError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BenchError(
            f"{name} is no result of GuideLLM ({first}); give the JSON file that guidellm run writes."
        ) from error
    if not report.benchmarks:
        raise BenchError(f"{name} holds no benchmark; GuideLLM was stopped before one was complete.")
    zero = min(benchmark.start_time for benchmark in report.benchmarks)
    names = _names([_strategy(benchmark.config.strategy) for benchmark in report.benchmarks])
    backend = report.benchmarks[0].config.backend
    return Foreign(
        tool="guidellm",
        version=report.metadata.guidellm_version,
        note=NOTE,
        started=datetime.fromtimestamp(zero, UTC),
        url=str(backend.get("target") or ""),
        model=str(backend.get("model") or "unknown"),
        load={
            "request_format": backend.get("request_format"),
            "data": _data(report.config),
            "strategies": names,
        },
        phases=tuple(
            _phase(benchmark, label, zero) for benchmark, label in zip(report.benchmarks, names, strict=True)
        ),
    )


def _phase(benchmark: _Benchmark, name: str, zero: float) -> ForeignPhase:
    told = benchmark.requests
    good = [_request(request, zero) for request in told.successful or ()]
    bad = [_failed(request, zero, "server") for request in told.errored or ()]
    cut = [_failed(request, zero, "interrupted") for request in told.incomplete or ()]
    seconds = benchmark.end_time - benchmark.start_time
    outputs = [request.output_tokens for request in good]
    inputs = [request.prompt_tokens for request in good]
    output = sum(outputs_known) if len(outputs_known := _known(outputs)) == len(good) else None
    streams = benchmark.config.strategy.get("streams")
    return ForeignPhase(
        name=name,
        label=name,
        started=benchmark.start_time - zero,
        ended=benchmark.end_time - zero,
        streams=streams if isinstance(streams, int) else None,
        requests=tuple(sorted((*good, *bad, *cut), key=lambda request: request.sent or 0.0)),
        succeeded=len(good),
        failed=len(bad) + len(cut),
        input_tokens=sum(_known(inputs)) if len(_known(inputs)) == len(good) else None,
        output_tokens=output,
        pauses_of="events",
        stated={
            "output_rate": output / seconds if output is not None and seconds > 0 else None,
            "request_rate": len(good) / seconds if seconds > 0 else None,
        },
    )


def _request(told: _Request, zero: float) -> ForeignRequest:
    timings = told.info.timings
    start = timings.request_start

    def since(t: float | None) -> float | None:
        return None if t is None or start is None else t - start

    return ForeignRequest(
        sent=None if start is None else start - zero,
        ttft=since(timings.first_token_iteration),
        ttft_content=since(timings.first_output_token_iteration),
        e2e=since(timings.last_token_iteration),
        ended=since(timings.request_end),
        prompt_tokens=told.prompt_tokens,
        cached_tokens=told.cached_tokens,
        output_tokens=told.output_tokens,
    )


def _failed(told: _Request, zero: float, kind: Any) -> ForeignRequest:
    timings = told.info.timings
    start = timings.request_start
    ended = None if start is None or timings.request_end is None else timings.request_end - start
    default = "It was not complete when the benchmark ended." if kind == "interrupted" else "It failed."
    return ForeignRequest(
        sent=None if start is None else start - zero,
        ended=ended,
        prompt_tokens=told.prompt_tokens,
        failure=(kind, told.info.error or default),
    )


def _known(values: list[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _strategy(strategy: dict[str, Any]) -> str:
    """`concurrent 4`, `constant 2/s`, or the bare kind."""
    kind = str(strategy.get("type_") or "benchmark")
    if strategy.get("streams"):
        return f"{kind} {strategy['streams']}"
    if strategy.get("rate"):
        return f"{kind} {strategy['rate']:.4g}/s"
    return kind


def _names(names: list[str]) -> list[str]:
    """The same, with a number behind those that come again."""
    seen: Counter[str] = Counter()
    made = []
    for name in names:
        seen[name] += 1
        made.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return made


def _data(config: dict[str, Any]) -> Any:
    """What the prompts were made of, without paths: kind and lengths of each source."""
    sources = (config.get("spec") or config).get("data") or []
    wanted = ("kind", "prompt_tokens", "output_tokens", "turns")
    return [
        {key: source[key] for key in wanted if source.get(key) is not None}
        for source in sources
        if isinstance(source, dict)
    ]
