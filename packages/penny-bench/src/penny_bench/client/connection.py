"""One HTTP/1.1 connection, which carries one request at a time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httptools

from penny_bench.client.exchange import Exchange
from penny_bench.client.wire import Wire


class Connection:
    """Sends a request and feeds what comes back to its exchange. Its methods in `on_...` are httptools's.

    Attributes:
        wire: set by whoever opened it.
        broken: whether it can carry no further request.
        free_since: when its last request ended, on the monotonic clock, s.
    """

    wire: Wire

    def __init__(self) -> None:
        self.broken = False
        self.free_since = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._exchange: Exchange | None = None
        self._done: asyncio.Future[None] | None = None
        self._parser: Any = None
        self._t = 0.0
        self._heard = 0.0  # on the loop's clock
        self._timer: asyncio.TimerHandle | None = None
        self._delimited, self._type = False, ""

    async def ask(self, request: bytes, exchange: Exchange, timeout: float) -> None:
        """Write the request, take note when, and return when its exchange is over.

        Args:
            request: head and body.
            exchange: told everything, also of failures; nothing is raised for them.
            timeout: longest silence, s.
        """
        self._exchange, self._delimited, self._type = exchange, False, ""
        self._parser = httptools.HttpResponseParser(self)
        self._done = self._loop.create_future()
        exchange.timeline.start(exchange.clock())
        self.wire.write(request)
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(timeout, self._watch, timeout)
        try:
            await self._done
        finally:
            self._timer.cancel()
            if self._exchange:  # cancelled from outside
                self._finish(broken=True)
            self.free_since = time.monotonic()

    def close(self) -> None:
        """Drop the connection."""
        self.broken = True
        self.wire.close()

    def receive(self, data: bytes, came: float) -> None:
        """Bytes from the wire, which came at that time of `time.perf_counter()`."""
        exchange = self._exchange
        if exchange is None:  # nobody asked
            self.close()
            return
        self._heard = self._loop.time()
        self._t = came + exchange.offset
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            exchange.timeline.fail("protocol", f"The server's answer is not HTTP/1.1 ({error}).")
            self._finish(broken=True)
            return
        if exchange.over and self._exchange:
            self._finish(broken=True)

    def lost(self, error: OSError | None) -> None:
        """The wire has ended."""
        self.broken = True
        exchange = self._exchange
        if exchange is None:
            return
        if error is None and exchange.begun and not self._delimited:
            exchange.end()  # a body without a length ends with the connection
        else:
            exchange.lost(f"{type(error).__name__}: {error}" if error else "the server closed it")
        self._finish(broken=True)

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._delimited = True
        elif name == b"content-type":
            self._type = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._exchange and status >= 200:
            self._exchange.head(status, self._type)

    def on_body(self, data: bytes) -> None:
        if self._exchange:
            self._exchange.body(self._t, data)

    def on_message_complete(self) -> None:
        if self._exchange and self._parser.get_status_code() >= 200:
            self._exchange.end()
            self._finish(broken=not self._parser.should_keep_alive())

    def _watch(self, timeout: float) -> None:
        """The timer is not moved with every event: it looks again at the end of the latest silence."""
        left = self._heard + timeout - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._watch, timeout)
        elif self._exchange:
            self._exchange.silent(f"nothing came for {timeout:g} s")
            self._finish(broken=True)

    def _finish(self, broken: bool) -> None:
        self._exchange = None
        if broken:
            self.close()
        if self._done and not self._done.done():
            self._done.set_result(None)
