"""One streaming request over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import httpx

from penny_bench.client.exchange import Exchange
from penny_bench.client.http import HttpClient
from penny_bench.client.record import StreamRecord
from penny_bench.client.timeline import Timeline

if TYPE_CHECKING:
    from penny_bench.client.server import Server


async def stream(
    client: httpx.AsyncClient,
    server: Server,
    body: Mapping[str, Any],
    clock: Callable[[], float],
    timeline: Timeline | None = None,
) -> StreamRecord:
    """Send one chat request and follow its stream to the end.

    Args:
        client: from `http_client`; it keeps connections between requests.
        server: where to ask.
        body: of the request, from `Server.body` or `Server.chat`.
        clock: gives seconds since the start of the group, monotonic.
        timeline: filled in place, for a caller who wants what came before the stream was cancelled.

    Returns:
        The record. A stream that failed in any way has its `failure` set; nothing is raised for it.
    """
    timeline = timeline or Timeline(sent=clock(), count=server.count)
    exchange = Exchange(timeline, clock)
    if isinstance(client, HttpClient) and client.pool:
        await client.pool.ask(server, body, exchange)
    else:
        await _through_httpx(client, server, body, exchange)
    return timeline.record(clock())


async def _through_httpx(
    client: httpx.AsyncClient, server: Server, body: Mapping[str, Any], exchange: Exchange
) -> None:
    """The same by way of httpx, which passes proxies; here a stamp waits for the event loop."""
    url = f"{server.url}/chat/completions"
    try:
        async with client.stream("POST", url, json=body, headers=server.headers()) as response:
            exchange.head(response.status_code, response.headers.get("content-type", ""))
            async for data in response.aiter_raw():
                exchange.body(exchange.clock(), data)
                if exchange.over:
                    return
            exchange.end()
    except httpx.TimeoutException as error:
        exchange.silent(type(error).__name__)
    except httpx.TransportError as error:
        exchange.lost(f"{type(error).__name__}: {error}")
