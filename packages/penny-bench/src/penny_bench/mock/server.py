"""The mock server itself: connections in, one agenda for all that is due."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any

from penny_bench.client.pool import lift_file_limit
from penny_bench.client.stamps import Stamps
from penny_bench.errors import BenchError
from penny_bench.mock.agenda import Agenda
from penny_bench.mock.loop import exact_loop
from penny_bench.mock.script import Script
from penny_bench.mock.seat import Seat
from penny_bench.mock.served import Served

Answer = Callable[[int, dict[str, Any]], Script]

BACKLOG = 4096
"""Connections that may wait to be accepted."""


class MockServer:
    """Answers `GET /v1/models` and `POST /v1/chat/completions`.

    Attributes:
        url: its address, once started.
        bodies: JSON bodies of the chat requests, in the order in which they came.
        served: what was done for each of them, and when.
        keep: whether these two are kept; without, a mock may run for days.
        pages: further answers, by path.
        agenda, loop, stamps: for its connections.
    """

    agenda: Agenda
    loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        answer: Answer,
        pages: Mapping[str, Any] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        keep: bool = True,
    ) -> None:
        """`answer(number, body)` gives the script for chat request `number`, counted from 0.

        `pages` are further answers, by path: `{"/server_info": {...}}`. Port 0 is any that is free.
        """
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self.served: list[Served] = []
        self.pages = {"/v1/models": {"data": [{"id": "mock"}]}, **(pages or {})}
        self.keep = keep
        self.stamps = Stamps()
        self._numbers = count()
        self._answer = answer
        self._address = (host, port)
        self._seats: set[Seat] = set()

    @property
    def sent(self) -> list[list[float]]:
        """For each request, `time.perf_counter()` right before each step was written."""
        return [one.sent for one in self.served]

    def take(self, received: float, body: dict[str, Any]) -> tuple[Served, Script]:
        """Number and answer a chat request."""
        served = Served(next(self._numbers), received)
        if self.keep:
            self.bodies.append(body)
            self.served.append(served)
        return served, self._answer(served.number, body)

    @asynccontextmanager
    async def start(self) -> AsyncIterator[MockServer]:
        """Serve until the context ends.

        Raises:
            BenchError: the port is taken.
        """
        lift_file_limit()
        self.loop, self.agenda = asyncio.get_running_loop(), Agenda()
        try:
            listening = socket.create_server(self._address, backlog=BACKLOG)
        except OSError as error:
            raise BenchError(
                f"The mock cannot listen on {self._address[0]}:{self._address[1]} ({error})."
            ) from error
        with listening:
            listening.setblocking(False)
            self.stamps.switch_on(listening)  # what it accepts inherits that
            host, port = listening.getsockname()[:2]
            self.url = f"http://{host}:{port}"
            self.loop.add_reader(listening.fileno(), self._accept, listening)
            try:
                yield self
            finally:
                self.loop.remove_reader(listening.fileno())
                self.agenda.close()
                for seat in list(self._seats):
                    seat.close()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(BACKLOG):
            try:
                connection, _ = listening.accept()
            except BlockingIOError:
                return
            self._seats.add(Seat(self, connection, self._seats.discard))


@contextmanager
def running(answer: Answer, pages: Mapping[str, Any] | None = None) -> Iterator[MockServer]:
    """A mock server on a thread of its own, for clients in this or another process."""
    mock, ready, loop = MockServer(answer, pages), threading.Event(), exact_loop()
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
