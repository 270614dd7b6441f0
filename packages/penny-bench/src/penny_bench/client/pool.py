"""Connections to servers, opened when there is no free one: no limit, and no search through those in use."""

from __future__ import annotations

import asyncio
import base64
import json
import resource
import socket
import ssl
import time
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx

from penny_bench.client.connection import Connection
from penny_bench.client.exchange import Exchange
from penny_bench.client.stamps import Stamps
from penny_bench.client.wire import SocketWire, TlsWire
from penny_bench.errors import BenchError

if TYPE_CHECKING:
    from penny_bench.client.server import Server

CONNECT = 10.0
"""Longest time to open a connection, s."""
STALE = 4.0
"""A connection that was free for longer is not used again: many servers close theirs after 5 s."""

Origin = tuple[str, str, int]


class Pool:
    """Connections by origin: scheme, host and port.

    Attributes:
        stamps: shared by all plain connections.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        """`context` is for https."""
        lift_file_limit()
        self.stamps = Stamps()
        self._context = context
        self._free: dict[Origin, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._addresses: dict[Origin, list[Any]] = {}

    async def ask(self, server: Server, body: Mapping[str, Any], exchange: Exchange) -> None:
        """Post a request and follow its answer to the end; failures are told to the exchange."""
        origin, head = _target(server)
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            connection = self._fresh(origin) or await self._connect(origin)
        except TimeoutError:
            exchange.silent(f"no connection within {CONNECT:g} s")
            return
        except OSError as error:
            exchange.lost(f"{type(error).__name__}: {error}")
            return
        try:
            await connection.ask(head % len(content) + content, exchange, server.timeout)
        finally:
            if connection.broken:
                self._open.discard(connection)
            else:
                self._free.setdefault(origin, []).append(connection)

    def close(self) -> None:
        """Drop all connections."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._free.clear()

    def _fresh(self, origin: Origin) -> Connection | None:
        free = self._free.get(origin, [])
        while free:
            connection = free.pop()
            if not connection.broken and time.monotonic() - connection.free_since < STALE:
                return connection
            connection.close()
            self._open.discard(connection)
        return None

    async def _connect(self, origin: Origin) -> Connection:
        scheme, host, _ = origin
        connection = Connection()
        async with asyncio.timeout(CONNECT):
            wired = await self._socket(origin)
            if scheme == "https":
                connection.wire = await TlsWire.open(
                    wired, connection.receive, connection.lost, self._context, host
                )
            else:
                loop = asyncio.get_running_loop()
                connection.wire = SocketWire(wired, connection.receive, connection.lost, self.stamps, loop)
        self._open.add(connection)
        return connection

    async def _socket(self, origin: Origin) -> socket.socket:
        """A connected socket, to the address that worked before or else the first that does."""
        loop = asyncio.get_running_loop()
        _, host, port = origin
        addresses = self._addresses.get(origin)
        if addresses is None:
            addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        error = OSError(f"{host} has no address")
        for address in addresses:
            family, kind, protocol, _, target = address
            wired = socket.socket(family, kind, protocol)
            wired.setblocking(False)
            self.stamps.switch_on(wired)
            try:
                await loop.sock_connect(wired, target)
            except OSError as failed:
                error = failed
                wired.close()
            except BaseException:
                wired.close()
                raise
            else:
                self._addresses[origin] = [address]
                return wired
        raise error


@cache
def _target(server: Server) -> tuple[Origin, bytes]:
    """Where requests to a server go, and their head with a place for the length of the body.

    Raises:
        BenchError: a header that would not be one line of ASCII.
    """
    url = httpx.URL(f"{server.url}/chat/completions")
    headers = {
        "Host": url.netloc.decode("ascii"),
        "User-Agent": "penny-bench",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        **server.headers(),
    }
    if url.userinfo and "Authorization" not in headers:
        headers["Authorization"] = "Basic " + base64.b64encode(url.userinfo).decode()
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            raise BenchError(f"The header {name} has characters that HTTP does not allow; correct the key.")
    lines = [f"POST {url.raw_path.decode('ascii')} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(lines).replace("%", "%%") + "\r\nContent-Length: %d\r\n\r\n"
    return (url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)), head.encode("ascii")


def lift_file_limit() -> None:
    """Allow this process as many open files, and so connections, as the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
