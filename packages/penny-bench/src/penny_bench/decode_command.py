"""`penny-bench decode`."""

import asyncio
import secrets
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penny_bench import __version__
from penny_bench.client import Server
from penny_bench.errors import BenchError
from penny_bench.measure import DecodePlan, DecodeResult, measure_decode
from penny_bench.report import document, print_result, write_json


def decode(
    url: Annotated[str, typer.Option(help="Address of the server, with or without its /v1.")],
    concurrency: Annotated[str, typer.Option(help="Streams at once, a row for each number.")] = "1,8",
    tokens: Annotated[int, typer.Option(help="Tokens that each stream asks for.")] = 256,
    prompt_tokens: Annotated[int, typer.Option(help="Length of the prompts, about.")] = 128,
    runs: Annotated[int, typer.Option(help="Measured groups for each concurrency.")] = 3,
    warmups: Annotated[int, typer.Option(help="Groups before them, kept apart.")] = 1,
    model: Annotated[
        str | None, typer.Option(help="Model name; else the first that the server lists.")
    ] = None,
    api_key: Annotated[str | None, typer.Option(envvar="OPENAI_API_KEY", help="Bearer token.")] = None,
    timeout: Annotated[float, typer.Option(help="Longest silence of the server, s.")] = 120.0,
    seed: Annotated[
        int | None, typer.Option(help="Series of the prompts; else a new one, which no cache knows.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything to this file.")] = None,
) -> None:
    """Decode rate and time to the first token, in tokens that the server counted.

    Exit status: 0 measured, 1 measured but some streams failed, 2 nothing measured.
    """
    if json_file and not json_file.parent.is_dir():
        raise BenchError(f"There is no folder {json_file.parent}; make it, or correct --json.")
    plan = DecodePlan(
        concurrency=_numbers(concurrency),
        tokens=tokens,
        prompt_tokens=prompt_tokens,
        runs=runs,
        warmups=warmups,
        seed=secrets.randbelow(1_000_000) if seed is None else seed,
    )
    started = datetime.now(UTC)
    result = asyncio.run(_measure(url, model, api_key, timeout, plan))
    print_result(result, Console())
    if json_file:
        write_json(json_file, document(result, _command(), started, __version__))
    measured = [group for c in plan.concurrency for group in result.measured(c)]
    if any(record.failure for group in measured for record in group.records):
        raise typer.Exit(1)


async def _measure(
    url: str, model: str | None, api_key: str | None, timeout: float, plan: DecodePlan
) -> DecodeResult:
    with Console(stderr=True).status("Connecting") as status:

        def show(concurrency: int, number: int, count: int) -> None:
            label = "warm-up" if number <= plan.warmups else "run"
            status.update(f"{concurrency} streams, {label}, group {number} of {count}")

        server = await Server.connect(url, model, api_key, timeout)
        return await measure_decode(server, plan, show)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BenchError(
            f"--concurrency is {text!r}; give numbers with commas between, such as 1,8."
        ) from None


def _command() -> str:
    """The command line, without a key that was given on it."""
    words = ["penny-bench", *sys.argv[1:]]
    for i, word in enumerate(words):
        if word == "--api-key" and i + 1 < len(words):
            words[i + 1] = "..."
        elif word.startswith("--api-key="):
            words[i] = "--api-key=..."
    return shlex.join(words)
