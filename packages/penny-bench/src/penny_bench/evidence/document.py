"""The evidence of a run, field by field: what its JSON Schema is made from.

All times are seconds since the start of the measured part, unless said otherwise. Null stands for what is not known.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penny_bench.client.record import FailureKind

Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra=lambda schema: schema.pop("title", None))


class DistributionPart(_Part):
    """Of `n` values."""

    n: Annotated[int, Field(ge=1)]
    mean: float
    minimum: float
    p50: float
    p90: float
    p95: float
    p99: float
    maximum: float


class SummaryPart(_Part):
    """Of requests outside warm-ups. Only those that succeeded are in latencies and tokens."""

    percentiles: str = Field(description="how they are computed")
    requests: Count
    succeeded: Count
    errors: dict[FailureKind, Count] = Field(description="failed requests by kind")
    seconds: float = Field(
        description="from the first request sent to the last token or failure; 0 if all failed"
    )
    request_rate: float | None = Field(description="requests/s")
    output_rate: float | None = Field(description="tokens/s")
    peak_output_rate: float | None = Field(description="tokens/s in the busiest second")
    input_tokens: Count | None
    output_tokens: Count | None
    reasoning_tokens: Count | None
    ttft: DistributionPart | None
    ttft_content: DistributionPart | None
    tpot: DistributionPart | None
    e2e: DistributionPart | None
    itl: DistributionPart | None
    stalls: DistributionPart | None
    good: Count | None = Field(description="requests that met the objectives")
    goodput: float | None = Field(description="good requests/s")


class CachePart(_Part):
    """Cached prompt tokens of requests that should find none."""

    verdict: Literal["clean", "contaminated", "unknown", "intended"] = Field(
        description="intended: prompts were meant to come from a cache"
    )
    limit: Count = Field(description="tokens that a chat template may share between all prompts")
    reported: Count = Field(description="requests for which the server told a number")
    above: Count = Field(description="requests above the limit")
    most: Count | None
    total: Count


class UsagePart(_Part):
    """As the server reported it."""

    prompt_tokens: Count | None
    cached_tokens: Count | None
    output_tokens: Count | None
    reasoning_tokens: Count | None
    by_tokenizer: bool = Field(description="output_tokens are an estimate: the reply counted by a tokenizer")


class LatencyPart(_Part):
    """From sent."""

    ttft: float
    ttft_content: float | None
    tpot: float | None
    e2e: float


class FailurePart(_Part):
    """Why a request is in no rate and no latency."""

    kind: FailureKind
    message: str
    status: int | None = Field(description="HTTP status, for the kind http")


class SpansPart(_Part):
    """The server's own times of the request; durations."""

    queue: float | None
    prefill: float | None = Field(description="the initial prefill, on which prefill rates are defined")
    post_prefill: float | None
    source: str


class CachedPart(_Part):
    """Cached prompt tokens by tier."""

    device: Count
    host: Count
    storage: Count | None


class SpeculationPart(_Part):
    """Acceptance of drafts."""

    verify: Count = Field(description="verify steps")
    accepted: Count = Field(description="draft tokens accepted")
    proposed: Count = Field(description="draft tokens proposed")
    acceptance_length: float | None = Field(description="1 + accepted / verify")
    histogram: list[Count] = Field(description="verify steps by how many drafts they accepted, from 0")


class ToolCallPart(_Part):
    """A tool call; the arguments are the text that came."""

    name: str
    arguments: str
    id: str


class TextPart(_Part):
    """What the model said."""

    content: str
    reasoning: str
    tool_calls: list[ToolCallPart]


class CheckPart(_Part):
    """Something that was asked of a reply."""

    case: str
    name: str
    passed: bool | None = Field(description="null where a person must judge")
    detail: str
    points: float
    of: float


class RecordPart(_Part):
    """A request that is no part of the measurement."""

    sent: float | None = Field(description="just before the request was sent")
    first_byte: float | None = Field(description="first byte of the answer's body")
    first_token: float | None = Field(description="content, reasoning, or counted but hidden")
    first_reasoning: float | None
    first_content: float | None = Field(
        description="first token that is not reasoning: content, tool call or refusal"
    )
    last_token: float | None
    ended: float | None = Field(description="end of the stream, or its failure")
    arrivals: list[tuple[float, Count | None]] = Field(
        description="events that brought tokens: time, and completion tokens so far as the server counted them"
    )
    usage: UsagePart
    latency: LatencyPart | None = Field(description="null for a stream that failed")
    finish_reason: str | None
    failure: FailurePart | None
    spans: SpansPart | None
    cached: CachedPart | None
    speculation: SpeculationPart | None
    text: TextPart | None = Field(description="kept where a workload looks at it")


class AskedPart(_Part):
    """What the request asked for."""

    prompt_tokens: Count | None
    tokens: Count | None


class RequestPart(RecordPart):
    """A request of the measurement, or of its warm-up."""

    number: Count = Field(description="from 0, in the order of sending")
    scheduled: float | None = Field(description="when it was due; in a closed loop when its user became free")
    asked: AskedPart
    phase: str
    case: str | None
    turn: Count | None
    checks: list[CheckPart]


class PhasePart(_Part):
    """A part of the run, as `Bench.phase` makes it."""

    name: str
    label: str
    warmup: bool
    started: float
    ended: float | None = Field(description="null if the run was interrupted in it")
    streams: Count | None
    summary: SummaryPart
    cache: CachePart


class MetricPart(_Part):
    """A headline number."""

    phase: str | None
    key: str
    label: str
    value: float = Field(description="median of the values")
    values: list[float]
    unit: str
    better: Literal["higher", "lower"] | None
    n: Annotated[int, Field(ge=1)]
    floor: float | None = Field(description="the best value that is possible, as stated with --floor")
    share: float | None = Field(description="share of the floor that was reached")


class ChecksPart(_Part):
    """All checks of the run."""

    passed: Count
    failed: Count
    open: Count = Field(description="for a person to judge")
    total: Count
    score: float | None = Field(description="points earned, where there are any")
    of: float | None
    rows: list[CheckPart]


class GpuPart(_Part):
    """A GPU of the machine."""

    index: Count
    name: str
    driver: str


class GpuSamplePart(_Part):
    """One GPU at one moment."""

    t: float
    gpu: Count
    power: float | None = Field(description="W")
    graphics_clock: Count | None = Field(description="MHz")
    memory_clock: Count | None = Field(description="MHz")
    temperature: Count | None = Field(description="degrees Celsius")


class MachinePart(_Part):
    """The one that penny-bench ran on; the server's may be another."""

    cpu: str | None
    cores: Count | None
    usable_cores: Count | None
    memory_bytes: Count | None
    system: str
    gpus: list[GpuPart] = []
    gpu_samples: list[GpuSamplePart] = []


class ServerPart(_Part):
    """The server under test."""

    url: str
    model: str
    extensions: bool | None = Field(description="whether it took ignore_eos and running usage counts")
    details: bool | None = Field(description="whether it took the questions for cache tiers and acceptance")
    info: dict[str, Any] = Field(description="what it told of itself, from an allow-list, without paths")
    samples: list[dict[str, float | None]] = Field(description="its counters over time, where it has any")


class ClientPart(_Part):
    """The client's own cost."""

    cpu_seconds: float
    cores: float
    loop_lag: DistributionPart | None
    lateness: DistributionPart | None = Field(description="sent minus scheduled; null in a closed loop")


class WorkloadPart(_Part):
    """The workload file that was run."""

    name: str
    title: str
    version: int
    kind: str
    source: str
    digest: str = Field(description="of name, version, kind, settings and sampling")
    settings: dict[str, Any]
    sampling: dict[str, Any]
    changed: dict[str, Any] = Field(description="settings that differ from the file")


class PlanPart(_Part):
    """What was to be sent."""

    load: dict[str, Any] | None = Field(description="kind and settings; null for a workload")
    requests: Count | None
    duration: float | None
    tokens: Count | None
    prompt_tokens: Count | None
    warmups: Count | None
    seed: Count
    same_prompt: bool
    random_prompts: bool = Field(description="random words in place of real text")
    cached_limit: Count
    slo: dict[str, float | None] | None


class EarlierPart(_Part):
    """A part of this run that was interrupted and then resumed."""

    started: str
    seconds: float
    requests: Count = Field(description="how many of the requests are from it")


class ImportedPart(_Part):
    """Another tool whose result this is."""

    tool: str
    version: str | None
    note: str = Field(description="what its numbers are, and what is not known")


class Document(_Part):
    """Evidence of one run."""

    model_config = ConfigDict(extra="forbid", title="Evidence of a penny-bench run")

    schema_: Literal["penny-bench/run/1"] = Field(alias="schema")
    status: Literal["complete", "partial", "imported"]
    command: str = Field(description="without keys, and with paths cut to their last part")
    started: str = Field(description="RFC 3339")
    seconds: float = Field(description="wall time of the measured part")
    versions: dict[str, str]
    machine: MachinePart | None
    server: ServerPart
    workload: WorkloadPart | None
    plan: PlanPart | None
    metrics: list[MetricPart]
    summary: SummaryPart
    phases: list[PhasePart]
    cache: CachePart
    checks: ChecksPart | None
    speculation: SpeculationPart | None
    client: ClientPart | None
    notes: list[str]
    earlier: list[EarlierPart] = Field(description="parts of the run before an interruption")
    imported: ImportedPart | None
    preflight: list[RecordPart]
    warmups: list[RequestPart]
    requests: list[RequestPart]
