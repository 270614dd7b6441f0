"""`penny-bench run` and `penny-bench schema`."""

from __future__ import annotations

import asyncio
import re
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

import penny_bench
from penny_bench.client import Server, StreamRecord
from penny_bench.errors import BenchError
from penny_bench.evidence import GpuSampler, Nvml, evidence, schema_text, server_info
from penny_bench.load import FORMS, RunPlan, RunResult, Slo, Trace, measure_run, parse_load
from penny_bench.report import print_run, write_json

CONTAMINATED = 4
"""Exit status of a run in which a prefix cache took part."""


def run(
    url: Annotated[str, typer.Option(help="Address of the server, with or without its /v1.")],
    load: Annotated[str, typer.Option(help=f"When requests are sent: {FORMS}.")] = "closed:concurrency=1",
    requests: Annotated[
        int | None, typer.Option(help="Send at most so many; else 100, or a trace whole.")
    ] = None,
    duration: Annotated[str | None, typer.Option(help="Send none later than this: 60s, 5m, 1h.")] = None,
    tokens: Annotated[int, typer.Option(help="Tokens that each request asks for.")] = 128,
    prompt_tokens: Annotated[int, typer.Option(help="Length of the prompts, about.")] = 128,
    warmups: Annotated[int, typer.Option(help="Requests sent before, together, and kept apart.")] = 4,
    slo: Annotated[
        str | None, typer.Option(help="Limits in s for goodput: ttft=0.5,ttft_content=2,tpot=0.05,e2e=10.")
    ] = None,
    same_prompt: Annotated[
        bool, typer.Option("--same-prompt", help="Send one prompt over and over.")
    ] = False,
    allow_cached: Annotated[
        bool, typer.Option("--allow-cached", help="Status 0 although a prefix cache took part.")
    ] = False,
    cached_limit: Annotated[int, typer.Option(help="Cached prompt tokens that a template may share.")] = 32,
    model: Annotated[
        str | None, typer.Option(help="Model name; else the first that the server lists.")
    ] = None,
    api_key: Annotated[str | None, typer.Option(envvar="OPENAI_API_KEY", help="Bearer token.")] = None,
    timeout: Annotated[float, typer.Option(help="Longest silence of the server, s.")] = 120.0,
    seed: Annotated[int | None, typer.Option(help="Of arrivals and prompts; else a new one.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the evidence to this file.")] = None,
) -> None:
    """Send a load and measure every request; keep all evidence in one JSON document.

    Exit status: 0 measured, 1 measured but some requests failed, 2 nothing measured, 4 a prefix cache took
    part, 130 interrupted (what was measured is written, marked partial).
    """
    if json_file and not json_file.parent.is_dir():
        raise BenchError(f"There is no folder {json_file.parent}; make it, or correct --json.")
    what = parse_load(load)
    seconds = None if duration is None else parse_duration(duration)
    endless = requests is None and seconds is None and not isinstance(what, Trace)
    plan = RunPlan(
        load=what,
        requests=100 if endless else requests,
        duration=seconds,
        tokens=tokens,
        prompt_tokens=prompt_tokens,
        warmups=warmups,
        seed=secrets.randbelow(1_000_000) if seed is None else seed,
        same_prompt=same_prompt,
        cached_limit=cached_limit,
        slo=Slo.parse(slo) if slo else None,
    )
    started = datetime.now(UTC)
    with GpuSampler(Nvml.load()) as gpu:
        result, info = asyncio.run(_measure(url, model, api_key, timeout, plan))
    words = ["penny-bench", *sys.argv[1:]]
    document = evidence(result, words, started, penny_bench.__version__, gpu, info)
    print_run(document, Console())
    if json_file:
        write_json(json_file, document, indent=None)
    _finish(document, allow_cached)


def schema() -> None:
    """Print the JSON Schema of the evidence of a run."""
    print(schema_text(), end="")


def parse_duration(text: str) -> float:
    """Seconds of `90`, `90s`, `1.5m` or `1h`.

    Raises:
        BenchError: it is none of these.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", text)
    if not found:
        raise BenchError(f"--duration is {text!r}; give a number with s, m or h, such as 60s.")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def _finish(document: dict[str, Any], allow_cached: bool) -> None:
    if document["status"] == "partial":
        raise typer.Exit(130)
    if document["cache"]["verdict"] == "contaminated" and not allow_cached:
        raise typer.Exit(CONTAMINATED)
    if document["summary"]["errors"]:
        raise typer.Exit(1)


async def _measure(
    url: str, model: str | None, api_key: str | None, timeout: float, plan: RunPlan
) -> tuple[RunResult, dict[str, Any]]:
    server = await Server.connect(url, model, api_key, timeout)
    info = await server_info(server)
    failed = 0
    with Console(stderr=True).status("Warming up") as status:

        def show(ended: int, record: StreamRecord) -> None:
            nonlocal failed
            failed += record.failure is not None
            status.update(escape(f"{ended} requests ended, {failed} failed"))

        return await measure_run(server, plan, show), info
