"""A connection pool whose cost for a request does not grow with the number of open streams.

httpcore's pool looks at every connection whenever a request begins or ends, and at every pair of them when
many are idle. With a thousand streams that keeps the event loop for seconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx


class SpreadTransport(httpx.AsyncBaseTransport):
    """Gives each open request a transport of its own, and keeps those that are free for the next."""

    def __init__(self, make: Callable[[], httpx.AsyncBaseTransport]) -> None:
        """`make` gives a new transport, which will carry one request at a time."""
        self._make = make
        self._made: list[httpx.AsyncBaseTransport] = []
        self._free: list[httpx.AsyncBaseTransport] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx. The transport is free again when the response is closed."""
        transport = self._free.pop() if self._free else self._new()
        try:
            response = await transport.handle_async_request(request)
        except BaseException:
            self._free.append(transport)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Returning(response.stream, lambda: self._free.append(transport))
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in self._made:
            await transport.aclose()

    def _new(self) -> httpx.AsyncBaseTransport:
        self._made.append(self._make())
        return self._made[-1]


class _Returning(httpx.AsyncByteStream):
    """A stream that tells when it is closed for the first time."""

    def __init__(self, stream: httpx.AsyncByteStream, closed: Callable[[], None]) -> None:
        self._stream = stream
        self._closed: Callable[[], None] | None = closed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            yield data

    async def aclose(self) -> None:
        closed, self._closed = self._closed, None
        try:
            await self._stream.aclose()
        finally:
            if closed:
                closed()
