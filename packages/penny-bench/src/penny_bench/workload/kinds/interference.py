"""Decode of a few streams while a long prefill runs beside them.

Each stream is a user who asks again as soon as an answer is complete; the others feel the short prefill of the next, so
`tokens` should be many. After a lead the long prompt is sent. `before` is the time in which all decode and nothing else
happens, `during` lasts from the long prompt's sending to its first token, `after` from there to the moment at which the
first user stops. A pause that touches `during` belongs to it: a stream that stands still for the whole prefill has one
pause, at least as long as it. The pauses between two answers of a user are none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from penny_bench.client import StreamRecord
from penny_bench.load import RunRequest
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind
from penny_bench.workload.kinds.prefill import prefill_rate
from penny_bench.workload.windows import Window, all_decoding, three_windows

LONG = "prefill"


class Settings(BaseModel):
    """Attributes:
    streams: that decode.
    tokens: of each of their requests.
    stream_prompt_tokens: length of their prompts, about.
    prompt_tokens: length of the long prompt, about.
    long_tokens: tokens that the long request asks for.
    lead: from the start of the streams to the long prompt, s; long enough that all decode for a while.
    lag: for how long the streams go on after the long request, s.
    runs: how often.
    alone: whether to send a long prompt without company too, before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    streams: int = Field(default=3, ge=1)
    tokens: int = Field(default=4096, ge=2)
    stream_prompt_tokens: int = Field(default=128, ge=1)
    prompt_tokens: int = Field(default=490_000, ge=1)
    long_tokens: int = Field(default=8, ge=1)
    lead: float = Field(default=15.0, ge=0)
    lag: float = Field(default=10.0, ge=0)
    runs: int = Field(default=1, ge=1)
    alone: bool = True


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    async with bench.phase(
        "warm-up", "warm-up", warmup=True, streams=settings.streams, total=settings.streams
    ) as phase:
        texts = [bench.prompt(settings.stream_prompt_tokens) for _ in range(settings.streams)]
        await phase.group([bench.chat(text, min(64, settings.tokens), exact=True) for text in texts])
    alone: list[RunRequest] = []
    if settings.alone:
        async with bench.phase("alone", "the long prompt alone", streams=1, total=settings.runs) as phase:
            for _ in range(settings.runs):
                alone.append(await phase.send(_long(bench, settings), case=LONG, lone=True))
        _long_metrics(phase, [request.record for request in alone])
    long: list[StreamRecord] = []
    windows: list[tuple[Window, Window, Window]] = []
    # How many requests the streams send depends on how long the prefill takes.
    async with bench.phase("together", "decode beside a long prefill", resume=False) as phase:
        for _ in range(settings.runs):
            users, record = await _together(bench, phase, settings)
            long.append(record)
            if found := _windows(bench, users, record):
                windows.append(found)
    _long_metrics(phase, long)
    _window_metrics(phase, windows)
    times = [[r.ttft for r in records if r.ttft] for records in ([a.record for a in alone], long)]
    if all(times):
        phase.metric(
            "prefill_slowdown", "its TTFT / alone", [_mean(times[1]) / _mean(times[0])], "x", "lower"
        )


async def _together(
    bench: Bench, phase: Phase, settings: Settings
) -> tuple[list[list[StreamRecord]], StreamRecord]:
    """The requests of each user, and the long one."""
    stop = asyncio.Event()
    users = [asyncio.create_task(_user(bench, phase, settings, i, stop)) for i in range(settings.streams)]
    try:
        await asyncio.sleep(settings.lead / 2)
        counters = await bench.spans.before()
        await asyncio.sleep(settings.lead / 2)
        long = await phase.send(_long(bench, settings), case=LONG)
        if long.record.spans is None and long.record.failure is None:
            # The streams go on, so that only the prefill is of one request: their own were counted before.
            spans = await bench.spans.after(counters, whole=False)
            if spans is None:
                bench.note(f"The long prompt has no server times in company: {bench.spans.reason}")
            place = phase.requests.index(long)
            long = phase.requests[place] = replace(long, record=replace(long.record, spans=spans))
        await asyncio.sleep(settings.lag)
    except BaseException:
        for user in users:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)
        raise
    stop.set()
    return await asyncio.gather(*users), long.record


async def _user(
    bench: Bench, phase: Phase, settings: Settings, number: int, stop: asyncio.Event
) -> list[StreamRecord]:
    records: list[StreamRecord] = []
    while not stop.is_set():
        text = bench.prompt(settings.stream_prompt_tokens)
        body = bench.chat(text, settings.tokens, exact=True)
        record = (await phase.send(body, case=f"decode {number + 1}", turn=len(records))).record
        if record.failure:
            break
        records.append(record)
    return records


def _long(bench: Bench, settings: Settings) -> dict[str, object]:
    return bench.chat(bench.prompt(settings.prompt_tokens), settings.long_tokens, exact=True)


def _windows(
    bench: Bench, users: Sequence[Sequence[StreamRecord]], long: StreamRecord
) -> tuple[Window, Window, Window] | None:
    common = all_decoding(users)
    if long.failure or common is None:
        bench.note("A run beside the long prompt failed, so it is in no number.")
        return None
    begin, end = common
    first = long.arrivals[0].t
    if begin > long.sent or end < first:
        bench.note(
            "Not all streams decoded from before the long prompt to behind its first token, so a run is in no number; "
            "make `lead` longer."
        )
        return None
    return three_windows([record for records in users for record in records], begin, long.sent, first, end)


def _window_metrics(phase: Phase, runs: Sequence[tuple[Window, Window, Window]]) -> None:
    for place, name in enumerate(("before", "during", "after")):
        windows = [run[place] for run in runs]
        phase.metric(f"rate_{name}", f"decode {name}, all", [w.rate for w in windows], "tok/s", "higher")
        pauses = [found for w in windows if (found := w.distribution)]
        phase.metric(f"pause_p50_{name}", f"pause {name}, median", [p.p50 for p in pauses], "s", "lower")
        phase.metric(f"pause_p99_{name}", f"pause {name}, p99", [p.p99 for p in pauses], "s", "lower")
        phase.metric(f"pause_max_{name}", f"pause {name}, longest", [p.maximum for p in pauses], "s", "lower")
    kept = [(b.rate, d.rate) for b, d, _ in runs]
    shares = [100 * during / before for before, during in kept if before and during is not None]
    phase.metric("rate_kept", "decode rate kept", shares, "%", "higher")


def _long_metrics(phase: Phase, records: Sequence[StreamRecord]) -> None:
    fine = [record for record in records if record.failure is None]
    phase.metric("prefill_ttft", "long prompt, TTFT", [record.ttft for record in fine], "s", "lower")
    phase.metric(
        "prefill", "long prompt, server's span", [prefill_rate(record) for record in fine], "tok/s", "higher"
    )
    spans = [record.spans.prefill if record.spans else None for record in fine]
    phase.metric("prefill_span", "initial prefill, server", spans, "s", "lower")
    inputs = [None if record.prompt_tokens is None else float(record.prompt_tokens) for record in fine]
    phase.metric("input", "long prompt, input", inputs, "tokens", None)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


KIND = Kind("interference", Settings, run)
