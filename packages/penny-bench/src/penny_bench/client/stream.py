"""One streaming request over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from penny_bench.client.record import StreamRecord
from penny_bench.client.sse import EventDecoder
from penny_bench.client.timeline import Timeline
from penny_bench.client.transport import SpreadTransport

if TYPE_CHECKING:
    from penny_bench.client.server import Server


def http_client(server: Server) -> httpx.AsyncClient:
    """A client without a limit on connections; a server on this machine is never reached through a proxy."""
    address = urlsplit(server.url)
    local = address.hostname in ("localhost", "127.0.0.1", "::1")
    timeout = httpx.Timeout(server.timeout, connect=10.0, pool=None)
    headers = {"Accept-Encoding": "identity"}
    # Without https the certificates would be read for nothing, for half a second.
    context = httpx.create_ssl_context(verify=address.scheme == "https")
    if local or not getproxies():
        transport = SpreadTransport(partial(httpx.AsyncHTTPTransport, verify=context, trust_env=not local))
        return httpx.AsyncClient(timeout=timeout, headers=headers, transport=transport, trust_env=not local)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(timeout=timeout, headers=headers, limits=limits, verify=context)


async def stream(
    client: httpx.AsyncClient,
    server: Server,
    body: Mapping[str, Any],
    clock: Callable[[], float],
    timeline: Timeline | None = None,
) -> StreamRecord:
    """Send one chat request and follow its stream to the end.

    Args:
        client: from `http_client`; its pool keeps connections between requests.
        server: where to ask.
        body: of the request, from `Server.body` or `Server.chat`.
        clock: gives seconds since the start of the group, monotonic.
        timeline: filled in place, for a caller who wants what came before the stream was cancelled.

    Returns:
        The record. A stream that failed in any way has its `failure` set; nothing is raised for it.
    """
    timeline = timeline or Timeline(sent=clock())
    try:
        async with client.stream(
            "POST",
            f"{server.url}/chat/completions",
            json=body,
            headers=server.headers(),
        ) as response:
            if response.status_code != 200:
                reason = _reason(await response.aread())
                status = response.status_code
                timeline.fail("http", f"The server answered with HTTP {status}: {reason}", status)
            else:
                await _follow(response, timeline, clock)
    except httpx.TimeoutException as error:
        timeline.fail("timeout", f"The server was silent for too long ({type(error).__name__}).")
    except httpx.TransportError as error:
        timeline.fail("connection", f"The connection failed ({type(error).__name__}: {error}).")
    return timeline.record(clock())


async def _follow(response: httpx.Response, timeline: Timeline, clock: Callable[[], float]) -> None:
    decoder = EventDecoder()
    async for data in response.aiter_raw():
        t = clock()
        timeline.byte(t)
        try:
            for event in decoder.feed(data):
                if event.strip() == "[DONE]":
                    timeline.done()
                else:
                    timeline.event(t, json.loads(event))
        except ValueError as error:  # not UTF-8, not JSON
            timeline.fail("protocol", f"The server sent a malformed event: {error}.")
            return


def _reason(body: bytes) -> str:
    try:
        answer: Any = json.loads(body)
        error = answer.get("error", answer)
        return str(error.get("message", error) if isinstance(error, dict) else error)[:300]
    except (ValueError, AttributeError):
        return body[:300].decode(errors="replace") or "(no reason given)"
