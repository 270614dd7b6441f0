"""One transport for each open request, used again when it is free."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from penny_bench.client.transport import SpreadTransport

URL = "http://x/"


async def _ok() -> AsyncIterator[bytes]:
    yield b"o"
    yield b"k"


class Inner(httpx.MockTransport):
    """Answers "ok", or fails for the path /broken."""

    closed = False

    def __init__(self) -> None:
        super().__init__(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/broken":
            raise httpx.ConnectError("no", request=request)
        return httpx.Response(200, content=_ok())

    async def aclose(self) -> None:
        self.closed = True


def test_transports_are_used_again_when_their_stream_is_closed() -> None:
    made: list[Inner] = []

    def make() -> Inner:
        made.append(Inner())
        return made[-1]

    async def run() -> list[int]:
        counts: list[int] = []
        async with httpx.AsyncClient(transport=SpreadTransport(make)) as client:
            for _ in range(3):
                assert (await client.get(URL)).text == "ok"
            counts.append(len(made))  # one after the other: one
            async with client.stream("GET", URL), client.stream("GET", URL) as second:
                counts.append(len(made))  # two at once: two
                await second.aread()
                async with client.stream("GET", URL):
                    counts.append(len(made))  # the second is read to its end and free
            with pytest.raises(httpx.ConnectError):
                await client.get(f"{URL}broken")
            for _ in range(2):
                await client.get(URL)
            counts.append(len(made))  # a failure frees its transport too
            assert not any(transport.closed for transport in made)
        return counts

    assert asyncio.run(run()) == [1, 2, 2, 2]
    assert all(transport.closed for transport in made)
