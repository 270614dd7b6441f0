"""A server that says whatever bytes a test wants, for tests of the client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from penny_bench.client import Server, StreamRecord, http_client, stream
from penny_bench.measure import new_clock

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"completion_tokens": 1}}\n\ndata: [DONE]\n\n'


@asynccontextmanager
async def talking(talk: Talk, **settings: Any) -> AsyncIterator[int]:
    """A server on 127.0.0.1 that does whatever `talk` does with a connection; gives its port."""

    async def then_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left, as some of these tests mean it to
        finally:
            writer.close()

    async with await asyncio.start_server(then_close, "127.0.0.1", 0, **settings) as server:
        yield server.sockets[0].getsockname()[1]


async def request(reader: asyncio.StreamReader) -> bytes:
    """Read one request whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    return head + await reader.readexactly(length)


async def ask(url: str, timeout: float = 30.0, count: int = 1) -> list[StreamRecord]:
    """So many requests, one after the other, over one client."""
    server = Server(url=url, model="m", timeout=timeout)
    async with http_client(server) as client:
        return [await stream(client, server, server.body("hello", 4), new_clock()) for _ in range(count)]
