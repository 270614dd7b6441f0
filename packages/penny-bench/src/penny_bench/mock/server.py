"""The mock server itself: just enough HTTP/1.1 on asyncio streams."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, cast

from penny_bench.mock.script import Cut, Refusal, Script

Answer = Callable[[int, dict[str, Any]], Script]


class MockServer:
    """Answers `GET /v1/models` and `POST /v1/chat/completions` on a free port of 127.0.0.1.

    Attributes:
        url: its address, once started.
        bodies: JSON bodies of the chat requests, in the order in which they came.
        sent: for each of them, `time.perf_counter()` right after each step was sent.
    """

    def __init__(self, answer: Answer, pages: Mapping[str, Any] | None = None) -> None:
        """`answer(number, body)` gives the script for chat request `number`, counted from 0.

        `pages` are further answers, by path: `{"/server_info": {...}}`.
        """
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self.sent: list[list[float]] = []
        self._answer = answer
        self._pages = {"/v1/models": {"data": [{"id": "mock"}]}, **(pages or {})}
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def start(self) -> AsyncIterator[MockServer]:
        """Serve until the context ends."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=4096)
        host, port = server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A client may leave at any time, and the end of the server ends the connection.
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while head := await _read_head(reader):
                target, length = head
                body = await reader.readexactly(length)
                method, _, path = target.partition(" ")
                if method == "GET" and path in self._pages:
                    _respond(writer, 200, self._pages[path])
                elif target != "POST /v1/chat/completions":
                    _respond(writer, 404, {"error": {"message": f"There is no {target}."}})
                elif not await self._chat(writer, json.loads(body)):
                    break
                await writer.drain()
        writer.close()

    async def _chat(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> bool:
        """Play one script; false if the connection was cut."""
        sent: list[float] = []
        self.bodies.append(body)
        self.sent.append(sent)
        script = self._answer(len(self.bodies) - 1, body)
        if isinstance(script, Refusal):
            _respond(writer, script.status, {"error": {"message": script.message}})
            return True
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for step in script:
            if step.delay:
                await writer.drain()
                await asyncio.sleep(step.delay)
            if isinstance(step, Cut):
                await writer.drain()
                return False
            data = step.encode()
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            sent.append(time.perf_counter())
        writer.write(b"0\r\n\r\n")
        return True


@contextmanager
def running(answer: Answer, pages: Mapping[str, Any] | None = None) -> Iterator[MockServer]:
    """A mock server on a thread of its own, for clients in this or another process."""
    mock, ready, loop = MockServer(answer, pages), threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with mock.start():
            ready.set()
            await stop.wait()

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    try:
        yield mock
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, int] | None:
    """Method and path, and length of the body; None when the client has closed."""
    request = (await reader.readline()).decode("latin-1").split()
    if len(request) < 2:
        return None
    length = 0
    while line := (await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        if name.lower() == "content-length":
            length = int(value)
    return f"{request[0]} {request[1]}", length


def _respond(writer: asyncio.StreamWriter, status: int, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
