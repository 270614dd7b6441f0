"""Servers that are down, slow, half-open or wrong: every stream ends with a reason, and the others go on."""

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import pytest

from penny_bench.client import Server, StreamRecord, http_client, stream
from penny_bench.client import pool as pool_module
from penny_bench.errors import BenchError
from penny_bench.load import Closed, RunPlan, measure_run, summarise_run
from penny_bench.measure import new_clock
from penny_bench.mock import Cut, MockServer, Refusal, Script, Step, token_script

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


def answered(answer: bytes, close: bool = False, timeout: float = 30.0) -> StreamRecord:
    """What becomes of a request that is answered with these bytes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(answer)
        await writer.drain()
        if not close:
            await reader.read()  # until the client leaves

    async def run() -> StreamRecord:
        async with talking(talk) as port:
            return (await ask(f"http://127.0.0.1:{port}/v1", timeout))[0]

    return asyncio.run(run())


def kind(record: StreamRecord) -> str | None:
    return record.failure.kind if record.failure else None


# ---- down, slow, half-open


def test_server_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    [record] = asyncio.run(ask(f"http://127.0.0.1:{port}/v1"))
    assert record.failure is not None
    assert record.failure.kind == "connection"
    assert "ConnectionRefusedError" in record.failure.message


def test_no_such_host() -> None:
    [record] = asyncio.run(ask("http://no-such-host.invalid/v1"))
    assert kind(record) == "connection"


def test_half_open_accepts_and_never_answers() -> None:
    """The kernel completes the connection; nobody ever looks at it."""

    async def run() -> StreamRecord:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            return (await ask(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", timeout=0.3))[0]

    record = asyncio.run(run())
    assert record.failure is not None
    assert record.failure.kind == "timeout"
    assert "nothing came for 0.3 s" in record.failure.message
    assert record.ended - record.sent >= 0.3


def test_connecting_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens to the packets of a new connection: the queue of the listener is full."""
    monkeypatch.setattr(pool_module, "CONNECT", 0.3)

    async def run() -> StreamRecord:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(0)
            address = listening.getsockname()
            others = [socket.socket() for _ in range(3)]
            for other in others:
                other.setblocking(False)
                other.connect_ex(address)
            await asyncio.sleep(0.05)
            try:
                return (await ask(f"http://127.0.0.1:{address[1]}/v1"))[0]
            finally:
                for other in others:
                    other.close()

    record = asyncio.run(run())
    assert record.failure is not None
    assert record.failure.kind == "timeout"
    assert "no connection within 0.3 s" in record.failure.message


def test_server_stops_in_mid_stream() -> None:
    record = answered(HEAD + b"Content-Length: 9999\r\n\r\n" + EVENT, timeout=0.3)
    assert kind(record) == "timeout"
    assert len(record.arrivals) >= 1
    assert record.ttft is None


def test_slow_is_no_failure_while_something_comes() -> None:
    script = [
        *token_script(tokens=1)[:1],
        *(Step(0.1, b": wait\n\n") for _ in range(8)),
        *token_script(tokens=1)[1:],
    ]

    async def run() -> StreamRecord:
        async with MockServer(lambda number, body: script).start() as mock:
            return (await ask(f"{mock.url}/v1", timeout=0.5))[0]

    record = asyncio.run(run())
    assert record.failure is None
    assert record.ttft is not None
    assert record.ttft >= 0.8


# ---- answers that are none


@pytest.mark.parametrize(
    ("answer", "close", "failure", "words"),
    [
        (b"", True, "connection", "the server closed it"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", False, "protocol", "not HTTP/1.1"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", False, "protocol", "not HTTP/1.1"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nda", True, "connection", "the server closed it"),
        (HEAD + b"Content-Length: 500\r\n\r\n" + EVENT, True, "connection", "the server closed it"),
        (HEAD + b"Content-Length: 0\r\n\r\n", False, "protocol", "cut off"),
        (HEAD + b"\r\n" + b"data: \xff\xfe\n\n", True, "protocol", "malformed event"),
        (HEAD + b'\r\ndata: {"choices": ["x"]}\n\n', True, "protocol", "choices that are no objects"),
        (HEAD + b'\r\ndata: {"choices": "x"}\n\n', True, "protocol", "choices that are no objects"),
        (HEAD + b'\r\ndata: {"choices": [{"delta": []}]}\n\n', True, "protocol", "cut off"),
        (HEAD + b"\r\ndata: []\n\n", True, "protocol", "no JSON object"),
        (HEAD + b"\r\n<html>data</html>", True, "protocol", "cut off"),
        (
            HEAD.replace(b"text/event-stream", b"application/json")
            + b'Content-Length: 28\r\n\r\n{"error":{"message":"boom"}}',
            False,
            "protocol",
            "one JSON document and not with a stream: boom",
        ),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", False, "http", "HTTP 302"),
        (b"HTTP/1.1 500 -\r\nContent-Length: 4\r\n\r\n\xff\xfe{}", False, "http", "HTTP 500"),
    ],
)
def test_answers_that_are_no_stream(answer: bytes, close: bool, failure: str, words: str) -> None:
    record = answered(answer, close)
    assert record.failure is not None
    assert (record.failure.kind, words in record.failure.message) == (failure, True), record.failure


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"\r\n" + EVENT + USAGE,  # ends with the connection
        HEAD + b"Connection: close\r\n\r\n" + EVENT + USAGE,
        b"HTTP/1.0 200 OK\r\n\r\n" + EVENT + USAGE,
        b"HTTP/1.1 100 Continue\r\n\r\n"
        + HEAD
        + b"Content-Length: %d\r\n\r\n" % len(EVENT + USAGE)
        + EVENT
        + USAGE,
    ],
)
def test_older_and_rarer_forms_of_a_good_answer(answer: bytes) -> None:
    record = answered(answer, close=True)
    assert (record.failure, record.output_tokens) == (None, 1)


# ---- refusals


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_kept_apart_from_those_that_succeed(status: int) -> None:
    calls = 0

    def busy(number: int, body: dict[str, Any]) -> Script:
        nonlocal calls
        calls += body["max_tokens"] == 5
        refused = body["max_tokens"] == 5 and calls % 2 == 0
        return Refusal(status, "busy") if refused else token_script(tokens=body["max_tokens"])

    async def run() -> list[StreamRecord]:
        async with MockServer(busy).start() as mock:
            plan = RunPlan(load=Closed(2), requests=10, tokens=5, warmups=0)
            result = await measure_run(await Server.connect(mock.url), plan)
        return [request.record for request in result.requests]

    records = asyncio.run(run())
    failures = [record.failure for record in records if record.failure]
    assert {(failure.kind, failure.status) for failure in failures} == {("http", status)}
    summary = summarise_run(records)
    assert (summary.requests, summary.succeeded, summary.errors) == (10, 5, {"http": 5})
    assert summary.output_tokens == 25


def test_wrong_model() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        return Refusal(404, f"The model `{body['model']}` does not exist.")

    async def run() -> None:
        async with MockServer(answer).start() as mock:
            server = await Server.connect(mock.url, "gtp-4")
            await measure_run(server, RunPlan(load=Closed(1), requests=1))

    with pytest.raises(
        BenchError, match=r"A first request to .* failed\. .*HTTP 404: The model `gtp-4` does not exist"
    ):
        asyncio.run(run())


def test_a_run_goes_on_among_all_faults() -> None:
    wrong: dict[int, Script] = {
        1: Refusal(503, "overloaded"),
        2: [*token_script(tokens=4)[:3], Cut()],
        3: token_script(tokens=4, usage="none"),
        4: [Step(0.0, b"data: {nonsense\n\n")],
        5: [Step(inf, b"")],
    }
    calls = 0

    def answer(number: int, body: dict[str, Any]) -> Script:
        nonlocal calls
        calls += body["max_tokens"] == 4
        return wrong.get(calls % 8 if body["max_tokens"] == 4 else 0, token_script(tokens=body["max_tokens"]))

    async def run() -> list[StreamRecord]:
        async with MockServer(answer).start() as mock:
            plan = RunPlan(load=Closed(4), requests=32, tokens=4, warmups=0)
            result = await measure_run(await Server.connect(mock.url, timeout=0.5), plan)
        return [request.record for request in result.requests]

    summary = summarise_run(asyncio.run(run()))
    assert summary.errors == {"http": 4, "connection": 4, "no_usage": 4, "protocol": 4, "timeout": 4}
    assert (summary.succeeded, summary.output_tokens) == (12, 48)


# ---- connections


def test_connections_are_used_again_unless_the_server_ends_them() -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for last in (False, True):
            await request(reader)
            end = b"Connection: close\r\n" if last else b""
            writer.write(HEAD + end + b"Content-Length: %d\r\n\r\n" % len(EVENT + USAGE) + EVENT + USAGE)

    async def run() -> list[StreamRecord]:
        async with talking(talk) as port:
            return await ask(f"http://127.0.0.1:{port}/v1", count=6)

    assert [record.failure for record in asyncio.run(run())] == [None] * 6
    assert connections == 3


def test_a_connection_that_was_long_free_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "STALE", -1.0)
    ports = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.add(writer.get_extra_info("peername")[1])
        while True:
            await request(reader)
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(EVENT + USAGE) + EVENT + USAGE)

    async def run() -> list[StreamRecord]:
        async with talking(talk) as port:
            return await ask(f"http://127.0.0.1:{port}/v1", count=3)

    assert [record.failure for record in asyncio.run(run())] == [None] * 3
    assert len(ports) == 3


def test_the_request_on_the_wire() -> None:
    seen: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request(reader))
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(EVENT + USAGE) + EVENT + USAGE)

    async def run() -> int:
        async with talking(talk) as port:
            server = Server(url=f"http://127.0.0.1:{port}/a%20b", model="m", api_key="sesame")
            async with http_client(server) as client:
                await stream(client, server, {"prompt": "é%d"}, new_clock())
            return port

    port = asyncio.run(run())
    head, _, body = seen[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /a%20b/chat/completions HTTP/1.1"
    fields = dict(line.split(": ", 1) for line in lines[1:])
    assert fields["Host"] == f"127.0.0.1:{port}"
    assert fields["Authorization"] == "Bearer sesame"
    assert fields["Accept-Encoding"] == "identity"
    assert int(fields["Content-Length"]) == len(body)
    assert json.loads(body) == {"prompt": "é%d"}


def test_a_key_that_is_no_header() -> None:
    server = Server(url="http://127.0.0.1:9/v1", api_key="a\r\nX: b")

    async def run() -> None:
        async with http_client(server) as client:
            await stream(client, server, {}, new_clock())

    with pytest.raises(BenchError, match="The header Authorization has characters that HTTP does not allow"):
        asyncio.run(run())


def test_a_long_request_goes_out_whole_though_the_server_reads_slowly() -> None:
    got = b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        await asyncio.sleep(0.3)
        got = await request(reader)
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(EVENT + USAGE) + EVENT + USAGE)

    async def run() -> StreamRecord:
        async with talking(talk, limit=1 << 16) as port:
            server = Server(url=f"http://127.0.0.1:{port}/v1", model="m")
            async with http_client(server) as client:
                return await stream(client, server, server.body("0123456789" * 1_000_000, 1), new_clock())

    record = asyncio.run(run())
    assert record.failure is None
    assert got.count(b"0123456789") == 1_000_000
    assert record.ttft is not None
    assert record.ttft >= 0.3  # from the first byte that was written


def test_a_cancelled_stream_ends_its_connection() -> None:
    left = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        await reader.read()
        left.set()

    async def run() -> None:
        async with talking(talk) as port:
            server = Server(url=f"http://127.0.0.1:{port}/v1", model="m")
            async with http_client(server) as client:
                task = asyncio.create_task(stream(client, server, server.body("x", 1), new_clock()))
                await asyncio.sleep(0.2)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.wait_for(left.wait(), 10)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (EVENT + USAGE, None),
        (EVENT, "timeout"),
        (b"data: {nonsense\n\n" + bytes(500), "protocol"),
        (b"", "connection"),
    ],
)
def test_through_a_proxy(answer: bytes, failure: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only httpx knows how to pass one; what comes back counts as it does elsewhere."""
    targets: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        targets.append((await request(reader)).split(b" ")[1])
        if answer:
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(EVENT + USAGE) + answer)
            await reader.read()

    async def run() -> StreamRecord:
        async with talking(talk) as port:
            monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
            monkeypatch.setenv("NO_PROXY", "")
            monkeypatch.setenv("no_proxy", "")
            return (await ask("http://model.example/v1", timeout=0.5))[0]

    record = asyncio.run(run())
    assert targets == [b"http://model.example/v1/chat/completions"]
    assert kind(record) == failure, record.failure
    assert failure or record.output_tokens == 1


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes its certificate with openssl")
def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(["openssl", *words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(EVENT + USAGE) + EVENT)
            await asyncio.sleep(0.05)
            writer.write(USAGE)

    async def run() -> list[StreamRecord]:
        async with talking(talk, ssl=context) as port:
            return await ask(f"https://localhost:{port}/v1", count=2)

    [stranger, _] = asyncio.run(run())
    assert stranger.failure is not None
    assert "CERTIFICATE_VERIFY_FAILED" in stranger.failure.message
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert [(record.failure, record.output_tokens) for record in asyncio.run(run())] == [(None, 1)] * 2
