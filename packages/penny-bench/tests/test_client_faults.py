"""Servers that are down, slow, half-open or wrong: every stream ends with a reason, and the others go on."""

import asyncio
import socket
from math import inf
from typing import Any

import pytest
from raw_server import EVENT, HEAD, USAGE, ask, request, talking

from penny_bench.client import Server, StreamRecord
from penny_bench.client import pool as pool_module
from penny_bench.errors import BenchError
from penny_bench.load import Closed, RunPlan, measure_run, summarise_run
from penny_bench.mock import Cut, MockServer, Refusal, Script, Step, token_script


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
        HEAD.replace(b"text/event-stream", b"application/json") + b"\r\n" + EVENT + USAGE,
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
