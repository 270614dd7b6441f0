"""Connections of the client: used again or not, what goes over them, TLS and proxies."""

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from raw_server import EVENT, HEAD, USAGE, ask, request, talking

from penny_bench.client import Server, StreamRecord, http_client, stream
from penny_bench.client import pool as pool_module
from penny_bench.errors import BenchError
from penny_bench.measure import new_clock


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


def test_the_next_address_of_a_host_is_tried_and_the_good_one_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(HEAD + b"Connection: close\r\n\r\n" + EVENT + USAGE)

    async def run() -> list[StreamRecord]:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            nobody = closed.getsockname()
        async with talking(talk) as port:

            async def addresses(host: str, port: int, **_: object) -> list[object]:
                nonlocal asked
                asked += 1
                targets = [nobody, ("127.0.0.1", port)]
                return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", target) for target in targets]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
            return await ask(f"http://two-addresses.example:{port}/v1", count=3)

    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    assert [record.failure for record in asyncio.run(run())] == [None] * 3
    assert asked == 1


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
    assert (record.failure.kind if record.failure else None) == failure, record.failure
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
