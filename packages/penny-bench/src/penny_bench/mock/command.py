"""`penny-bench mock`."""

from __future__ import annotations

import asyncio
import gc
import signal
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from penny_bench.errors import BenchError
from penny_bench.mock import faults as fault
from penny_bench.mock.loop import exact_loop
from penny_bench.mock.program import Program, Usage
from penny_bench.mock.served import write_log
from penny_bench.mock.server import MockServer


def mock(
    port: Annotated[int, typer.Option(help="Port; 0 for any that is free.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    tokens: Annotated[int, typer.Option(help="Of answers to requests without max_tokens.")] = 128,
    per_chunk: Annotated[int, typer.Option(help="Tokens in an event.")] = 1,
    first: Annotated[float, typer.Option(help="From a request to its first token, s.")] = 0.1,
    interval: Annotated[float, typer.Option(help="From event to event, s.")] = 0.02,
    prefill_rate: Annotated[
        float | None, typer.Option(help="Of prompts, tokens/s, before --first; without, at once.")
    ] = None,
    usage: Annotated[str, typer.Option(help="asked (as the request says), final, running, none.")] = "asked",
    reasoning: Annotated[int, typer.Option(help="So many tokens come first, as reasoning.")] = 0,
    faults: Annotated[str, typer.Option(help=f"Every n-th request fails: {fault.FORMS}.")] = "",
    log: Annotated[Path | None, typer.Option(help="At the end, write here what was sent when.")] = None,
) -> None:
    """Serve streams of a programmed timeline, to try clients without a model. Ends with Ctrl-C or SIGTERM.

    `--log` has one JSON line for each request: when it came and when each event was written, on the monotonic
    clock of this machine.
    """
    if usage not in get_args(Usage):
        raise BenchError(f"--usage is {usage!r}; give asked, final, running or none.")
    if log and not log.parent.is_dir():
        raise BenchError(f"There is no folder {log.parent}; make it, or correct --log.")
    program = Program(
        tokens=tokens,
        per_chunk=per_chunk,
        first=first,
        interval=interval,
        prefill_rate=prefill_rate,
        usage=cast("Usage", usage),
        reasoning=reasoning,
        faults=fault.parse_faults(faults),
    )
    server = MockServer(program, {"/health": {}}, host, port, keep=log is not None)
    with asyncio.Runner(loop_factory=exact_loop) as runner:
        runner.run(_serve(server))
    if log:
        write_log(log, server.served)


async def _serve(server: MockServer) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    gc.collect()
    gc.disable()  # a collection would hold up every stream
    async with server.start():
        typer.echo(f"The mock serves at {server.url}")
        await stop.wait()
