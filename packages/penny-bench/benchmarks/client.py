"""How true the client's times are, and what it costs: against the mock, whose log is the truth.

    python client.py --out bench-client.json

For each number of streams: the error of TTFT, of the pauses between events and of the time per token, in absolute
values, beside the client's processor time; then token counts with 1 to 16 tokens an event; then more and more events
a second, until the client's error passes 5 ms, it fills a core, or the mock can no more. The floor of the errors is
that of the truth: how long the mock's writes took. The rows with `loop` have the event loop's stamps, as connections
with TLS do, in place of the kernel's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from truth import Errors, errors, machine, mock, spread, wait_until_quiet, write

from penny_bench.client import Server
from penny_bench.client.stamps import Stamps
from penny_bench.load import Closed, RunPlan, RunResult, measure_run, summarise_run
from penny_bench.mock import MockServer, Script, token_script

COMMAND = "python packages/penny-bench/benchmarks/client.py --out FILE"
POINTS = (
    {"key": "c1", "name": "1 stream", "streams": 1, "rate": 20, "events": 40},
    {"key": "c64", "name": "64 streams", "streams": 64, "rate": 10, "events": 30},
    {"key": "c256", "name": "256 streams", "streams": 256, "rate": 10, "events": 40},
    {"key": "c1000", "name": "1,000 streams", "streams": 1000, "rate": 5, "events": 20},
    {
        "key": "c1000_4",
        "name": "1,000 streams, 4 tokens an event",
        "streams": 1000,
        "rate": 5,
        "events": 20,
        "per_chunk": 4,
    },
    {
        "key": "c1000_loop",
        "name": "1,000 streams, loop",
        "streams": 1000,
        "rate": 5,
        "events": 20,
        "loop": True,
    },
)
SATURATION = (5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 40_000, 50_000, 60_000, 80_000)
LIMIT = 5e-3
"""Error at which the client counts as saturated, s."""
FULL = 0.95
"""Processor time by wall time at which a core counts as full."""


def run(
    streams: int, rate: float, events: int, per_chunk: int = 1, loop: bool = False, ramp_up: float = 0.0
) -> tuple[RunResult, Errors]:
    """One run, and its errors."""
    with mock(first=0.3, interval=1 / rate, per_chunk=per_chunk) as server:

        async def measure() -> RunResult:
            plan = RunPlan(
                load=Closed(streams, ramp_up), requests=streams, tokens=events * per_chunk, warmups=0
            )
            return await measure_run(await Server.connect(server.url), plan)

        with patch.object(Stamps, "came", lambda *_: time.perf_counter()) if loop else nullcontext():
            result = asyncio.run(measure())
    return result, errors(result, server.served)


def row(streams: int, rate: float, events: int, per_chunk: int = 1, **settings: Any) -> dict[str, Any]:
    """One run as a row of the result."""
    result, found = run(streams, rate, events, per_chunk, **settings)
    records = [request.record for request in result.requests]
    summary = summarise_run(records)
    tokens = streams * events * per_chunk
    return {
        "ttft_error": spread(found.ttft),
        "itl_error": spread(found.itl),
        "tpot_error": spread(found.tpot),
        "output_rate_error": abs(summary.output_rate / (tokens / found.seconds) - 1),
        "seen_after": spread(found.seen),
        "truth_known_to": spread(found.uncertain),
        "mock_late": spread(found.late),
        "mock_held": found.held,
        "tokens_exact": all(record.output_tokens == events * per_chunk for record in records),
        "cpu_s": result.own.cpu_seconds,
        "cores": result.own.cores,
        "cpu_per_event": result.own.cpu_seconds / (streams * events),
        "loop_lag_p99": result.own.loop_lag.p99,
        "load_before": os.getloadavg()[0],
    }


def worst(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several runs: the worst of every number."""
    joined: dict[str, Any] = {}
    for key, value in rows[0].items():
        every = [one[key] for one in rows]
        if isinstance(value, dict):
            joined[key] = worst(every)
        else:
            joined[key] = all(every) if isinstance(value, bool) else max(every)
    return joined


def counts() -> dict[str, Any]:
    """Tokens that the client counts with 1 to 16 tokens an event, the last event shorter, for both kinds of usage."""
    rows = {}
    for usage in ("final", "running"):

        def answer(number: int, body: dict[str, Any], usage: Any = usage) -> Script:
            return token_script(
                tokens=body["max_tokens"], per_chunk=1 + number % 16, interval=1e-3, usage=usage
            )

        async def measure(answer: Any = answer) -> RunResult:
            async with MockServer(answer).start() as server:
                plan = RunPlan(load=Closed(16), requests=160, tokens=101, warmups=0)
                return await measure_run(await Server.connect(server.url), plan)

        rows[usage] = [request.record.output_tokens for request in asyncio.run(measure()).requests]
    return {"requests": 320, "tokens_each": 101, "exact": all(set(row) == {101} for row in rows.values())}


def saturation() -> dict[str, Any]:
    """Raise the events a second until the client or the mock can no more."""
    rows: list[dict[str, Any]] = []
    reached, why = 0, "the mock and the client kept up with all that was tried"
    for rate in SATURATION:
        found = row(1000, rate / 1000, max(20, 3 * rate // 1000), ramp_up=1.0)
        rows.append({"events_per_s": rate, **found})
        show(f"{rate:,} events/s", found)
        if found["mock_late"]["p50"] > LIMIT or found["mock_held"]:
            why = f"the mock was late by more than {1000 * LIMIT:g} ms, so that nobody can judge the client"
            break
        if found["itl_error"]["p99"] > LIMIT or found["ttft_error"]["p99"] > LIMIT:
            why = f"the client's error passes {1000 * LIMIT:g} ms"
            break
        if found["cores"] > FULL:
            why = "the client fills a core"
            break
        reached = rate
    return {"streams": 1000, "reached_events_per_s": reached, "ended_by": why, "rows": rows}


def bars(points: dict[str, Any], tokens: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What is asked of the client, and whether it is so; errors are the p99 of the worst run."""

    def bar(limit: float, measured: float) -> dict[str, Any]:
        return {"limit": limit, "measured": measured, "passed": measured <= limit}

    def times(*keys: str) -> float:
        return max(points[key]["worst"][f"{kind}_error"]["p99"] for key in keys for kind in ("ttft", "itl"))

    def rates(*keys: str) -> float:
        found = [points[key]["worst"] for key in keys]
        return max(max(one["tpot_error"]["p99"], one["output_rate_error"]) for one in found)

    exact = tokens["exact"] and all(point["worst"]["tokens_exact"] for point in points.values())
    return {
        "times_at_1_and_64": bar(1e-3, times("c1", "c64")),
        "rates_at_1_and_64": bar(0.01, rates("c1", "c64")),
        "times_at_1000": bar(5e-3, times("c1000", "c1000_4")),
        "rates_at_1000": bar(0.01, rates("c1000", "c1000_4")),
        "cores_at_256": bar(0.5, points["c256"]["worst"]["cores"]),
        "token_counts_wrong": bar(0, 0 if exact else 1),
    }


def show(name: str, found: dict[str, Any]) -> None:
    """Print a row."""
    times = "  ".join(
        f"{key} {1000 * found[f'{key}_error']['p99']:7.3f} /{1000 * found[f'{key}_error']['max']:8.3f}"
        for key in ("ttft", "itl")
    )
    print(
        f"{name:34} {times}  tpot {100 * found['tpot_error']['p99']:.4f} %  "
        f"rate {100 * found['output_rate_error']:.4f} %  "
        f"cores {found['cores']:.3f}  {1e6 * found['cpu_per_event']:5.1f} us/event  "
        f"mock late {1000 * found['mock_late']['p50']:.2f} ms",
        flush=True,
    )


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--runs", type=int, default=2, help="of each row; the worst of every number counts")
    parser.add_argument(
        "--load", type=float, default=0.5, help="wait, a minute at most, for a load below this"
    )
    arguments = parser.parse_args()
    wait_until_quiet(arguments.load)
    computer = machine()
    print(
        f"load {computer['load_before']:.2f}; errors as p99 / max in ms, the worst of {arguments.runs} runs"
    )
    points: dict[str, Any] = {}
    for point in POINTS:
        settings: dict[str, Any] = dict(point)
        key, name = settings.pop("key"), settings.pop("name")
        rows = [row(**settings) for _ in range(arguments.runs)]
        points[key] = {"name": name, **settings, "worst": worst(rows)}
        show(name, points[key]["worst"])
    tokens = counts()
    print(f"tokens exact with 1 to 16 an event: {tokens['exact']}")
    passed = bars(points, tokens)
    for name, one in passed.items():
        print(
            f"{name}: {one['measured']:.3g} of at most {one['limit']:g}: {'passed' if one['passed'] else 'FAILED'}"
        )
    top = saturation()
    print(f"saturation: {top['reached_events_per_s']:,} events/s ({top['ended_by']})")
    write(
        arguments.out,
        {
            "command": COMMAND,
            "machine": computer,
            "runs": arguments.runs,
            "points": points,
            "tokens": tokens,
            "bars": passed,
            "saturation": top,
            "load_after": os.getloadavg()[0],
        },
    )


if __name__ == "__main__":
    main()
