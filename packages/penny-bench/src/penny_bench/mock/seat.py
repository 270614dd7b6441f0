"""One connection to the mock: requests in, scripts out."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httptools

from penny_bench.client.wire import SocketWire
from penny_bench.mock.script import Cut, Refusal, Step
from penny_bench.mock.served import Served

if TYPE_CHECKING:
    from penny_bench.mock.server import MockServer

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class Seat:
    """Answers the requests of one connection, one after the other. Methods in `on_...` are httptools's."""

    def __init__(self, mock: MockServer, connection: socket.socket, gone: Callable[[Seat], None]) -> None:
        """`gone` is told when the connection has ended."""
        self._mock, self._gone = mock, gone
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._body = b"", b""
        self._received = 0.0
        self._steps: Iterator[Step | Cut] = iter(())
        self._next: Step | Cut | None = None
        self._begun = False
        self._served: Served | None = None
        self._wire = SocketWire(connection, self._receive, self._lost, mock.stamps, mock.loop)

    def close(self) -> None:
        """End the connection."""
        self._steps, self._next = iter(()), None
        self._wire.close()
        self._gone(self)

    def _receive(self, data: bytes, came: float) -> None:
        self._received = came
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._respond(400, {"error": {"message": f"This is no request ({error})."}})
            self.close()

    def _lost(self, error: OSError | None) -> None:
        self.close()

    def on_url(self, url: bytes) -> None:
        self._path, self._body = self._path + url, b""

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        method, path = self._parser.get_method().decode(), self._path.decode()
        self._path = b""
        if method == "GET" and path in self._mock.pages:
            self._respond(200, self._mock.pages[path])
        elif (method, path) != ("POST", "/v1/chat/completions"):
            self._respond(404, {"error": {"message": f"There is no {method} {path}."}})
        else:
            self._chat()

    def _chat(self) -> None:
        try:
            body: Any = json.loads(self._body)
        except ValueError as error:
            self._respond(400, {"error": {"message": f"The request is no JSON ({error})."}})
            return
        self._served, script = self._mock.take(self._received, body)
        if isinstance(script, Refusal):
            self._served.status, self._served.ended = script.status, time.perf_counter()
            self._respond(script.status, {"error": {"message": script.message}})
            return
        self._steps, self._begun = iter(script), False
        self._next = next(self._steps, Step(0.0, b""))
        self._mock.agenda.add(self._received + self._next.delay, self._play)

    def _play(self, due: float) -> None:
        """Write the step that is due, together with those that follow without a pause."""
        served, step, now = self._served, self._next, True
        if served is None or step is None:  # the connection is gone
            return
        data, tokens = b"" if self._begun or isinstance(step, Cut) else STREAM, []
        while now and isinstance(step, Step):
            data += step.chunk
            tokens.append(step.tokens)
            step = next(self._steps, None)
            now = step is not None and not step.delay
        self._begun, self._next = True, step
        before = time.perf_counter()
        self._wire.write(data if step else data + END)
        served.sent += [before] * len(tokens)
        served.after += [time.perf_counter()] * len(tokens)
        served.tokens += tokens
        served.late = max(served.late, before - due)
        served.held += bool(self._wire.waiting)
        if step and not now:
            self._mock.agenda.add(due + step.delay, self._play)
        else:
            served.ended, self._served = time.perf_counter(), None
            if step or not self._parser.should_keep_alive():
                self.close()

    def _respond(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._wire.write(head.encode() + body)
