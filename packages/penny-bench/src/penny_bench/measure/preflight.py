"""The requests before a measurement."""

from __future__ import annotations

from dataclasses import replace

from penny_bench.client import Server, StreamRecord, http_client, stream
from penny_bench.errors import BenchError
from penny_bench.measure.clock import new_clock
from penny_bench.text import Gauge, head_line, sample_prompts

REFUSED = (400, 422)
"""HTTP status of a server that does not know a field of the request."""


async def preflight(server: Server, seed: int) -> tuple[Server, tuple[StreamRecord, ...], Gauge]:
    """Settle which extensions the server takes, and learn how it counts prompts.

    Returns:
        The server as it must be asked, the requests this took, and the gauge for prompts.

    Raises:
        BenchError: a request failed, so that nothing can be measured.
    """
    first, samples = head_line(seed, 0), sample_prompts(seed)
    async with http_client(server) as client:
        record = await stream(client, server, server.body(first, 2), new_clock())
        refused = record.failure is not None and record.failure.status in REFUSED
        for extensions, details in ((True, False), (False, True), (False, False)) if refused else ():
            plain = replace(server, extensions=extensions, details=details)
            retried = await stream(client, plain, plain.body(first, 2), new_clock())
            if retried.failure is None:
                server, record = plain, retried
                break
        records = [_checked(server, record)]
        for text in samples:
            records.append(_checked(server, await stream(client, server, server.body(text, 2), new_clock())))
    texts = [first, *samples]
    counts = [r.prompt_tokens or len(text) // 4 for r, text in zip(records, texts, strict=True)]
    return server, tuple(records), Gauge.of(counts[0], counts[1:])


def _checked(server: Server, record: StreamRecord) -> StreamRecord:
    # Two tokens may be special ones without text, such as the start of the reasoning; their counts are there.
    if record.failure and record.failure.kind != "no_tokens":
        raise BenchError(f"A first request to {server.url} failed. {record.failure.message}")
    return record
