"""A connected socket on the event loop: bytes are handed on with the time they came, and written at once."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from typing import Protocol, cast

from penny_bench.client.stamps import SPACE, Stamps

READ = 1 << 16
"""Most bytes of one read."""

Receive = Callable[[bytes, float], None]
Lost = Callable[[OSError | None], None]


class Wire(Protocol):
    """What a connection is to those who use it."""

    def write(self, data: bytes) -> None:
        """Send now what the system takes, and the rest when it can."""
        ...

    def close(self) -> None:
        """Drop the connection; nothing is told of it afterwards."""
        ...


class SocketWire:
    """A plain TCP connection, whose bytes have the kernel's stamps.

    Attributes:
        waiting: bytes that the system has not taken yet.
    """

    def __init__(
        self,
        connection: socket.socket,
        receive: Receive,
        lost: Lost,
        stamps: Stamps,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`receive` gets data and when it came, by `time.perf_counter()`.

        `lost` gets the error, or None at the end of the stream; it is called once, and not after `close`.
        """
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stamps.switch_on(connection)
        self.waiting = bytearray()
        self._socket, self._loop, self._stamps = connection, loop, stamps
        self._receive, self._lost = receive, lost
        loop.add_reader(connection.fileno(), self._read)

    def write(self, data: bytes) -> None:
        """See `Wire`."""
        if self.waiting:
            self.waiting += data
        elif rest := data[self._send(data) :]:
            self.waiting += rest
            self._loop.add_writer(self._socket.fileno(), self._write_rest)

    def close(self) -> None:
        """See `Wire`."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def _read(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(READ, SPACE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if data:
            self._receive(data, self._stamps.came(ancillary))
        else:
            self._end(None)

    def _write_rest(self) -> None:
        del self.waiting[: self._send(self.waiting)]
        if not self.waiting:
            self._loop.remove_writer(self._socket.fileno())

    def _send(self, data: bytes | bytearray) -> int:
        """Bytes that are done with. A broken connection takes them all: the reader is told why."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(data)

    def _end(self, error: OSError | None) -> None:
        if self._socket.fileno() >= 0:
            self.close()
            self._lost(error)


class TlsWire(asyncio.Protocol):
    """A connection through TLS. The kernel's stamps do not pass it: bytes came when the event loop had them."""

    def __init__(self, receive: Receive, lost: Lost) -> None:
        """As for `SocketWire`."""
        self._receive, self._lost = receive, lost
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(
        cls, connection: socket.socket, receive: Receive, lost: Lost, context: ssl.SSLContext, name: str
    ) -> TlsWire:
        """Shake hands over a connected socket; `name` is the server's, for its certificate."""
        _, wire = await asyncio.get_running_loop().create_connection(
            lambda: cls(receive, lost), sock=connection, ssl=context, server_hostname=name
        )
        return wire

    def write(self, data: bytes) -> None:
        """See `Wire`."""
        if self._transport:
            self._transport.write(data)

    def close(self) -> None:
        """See `Wire`."""
        transport, self._transport = self._transport, None
        if transport:
            transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self._transport:
            self._receive(data, time.perf_counter())

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if self._transport:
            self._transport = None
            self._lost(exc if isinstance(exc, OSError) else None)
