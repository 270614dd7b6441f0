"""penny chat against a small fake OpenAI server that streams server-sent events."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from penny_server.chat import commands, sse
from penny_server.chat.client import Client, Piece, Sampling, Usage
from penny_server.chat.repl import printable
from penny_server.chat.session import Session
from penny_server.errors import PennyError

PENNY = [sys.executable, "-c", "from penny_server.cli import main; main()", "chat"]
PATIENCE_S = 20.0


class FakeServer(http.server.ThreadingHTTPServer):
    """Answers with the number of messages it got; words in the question choose what goes wrong."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.disconnected = threading.Event()
        self.models = b'{"data": [{"id": "tiny-27b"}, {"id": "other"}]}'

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: FakeServer

    def log_message(self, *args: object) -> None:
        pass

    def plain(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def send(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()

    def delta(self, **delta: str) -> None:
        self.send(f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n")

    def do_GET(self) -> None:
        self.plain(200, self.server.models)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        question = body["messages"][-1]["content"]
        if "too long" in question:
            self.plain(400, b'{"object": "error", "message": "The prompt has 5000 tokens.", "code": 400}')
            return
        if "openai error" in question:
            self.plain(429, b'{"error": {"message": "Slow down.", "type": "rate"}}')
            return
        if "html error" in question:
            self.plain(502, b"<h1>Bad gateway</h1>")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if "breaks" in question:
            self.delta(content="half an ")
            self.send('data: {"error": {"message": "The scheduler is gone."}}\n\n')
            return
        if "endless" in question:
            try:
                while True:
                    self.delta(content="tick ")
                    time.sleep(0.05)
            except OSError:
                self.server.disconnected.set()
            return
        self.delta(reasoning_content="thinking")
        for word in ("got ", f"{len(body['messages'])} ", "messages"):
            self.delta(content=word)
        usage = {"prompt_tokens": 40, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 32}}
        self.send(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n")
        self.send("data: [DONE]\n\n")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as fake:
        thread = threading.Thread(target=fake.serve_forever, args=(0.05,))
        thread.start()
        yield fake
        fake.shutdown()
        thread.join()


def chat(server: FakeServer, questions: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [*PENNY, "--url", server.url, *options]
    return subprocess.run(
        command, input=questions, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_streams_answers_and_keeps_the_history(server: FakeServer) -> None:
    result = chat(server, "one\n\ntwo\n")
    assert result.returncode == 0
    assert result.stdout == "thinking\n\ngot 1 messages\nthinking\n\ngot 3 messages\n"
    assert "9 tokens" in result.stderr
    assert "32 of 40 prompt tokens cached" in result.stderr
    assert [m["content"] for m in server.requests[1]["messages"]] == ["one", "got 1 messages", "two"]
    assert [m["role"] for m in server.requests[1]["messages"]] == ["user", "assistant", "user"]
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    assert {"max_tokens", "temperature", "chat_template_kwargs"} & set(server.requests[0]) == set()


def test_options_reach_the_server(server: FakeServer) -> None:
    options = ["--model", "other", "--max-tokens", "7", "--temperature", "0", "--no-think", "--system"]
    chat(server, "one", *options, "Be brief.")
    (body,) = server.requests
    assert body["model"] == "other"
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (body["max_tokens"], body["temperature"]) == (7, 0)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_reset_clears_what_is_sent(server: FakeServer) -> None:
    result = chat(server, "/system Be brief.\none\n/reset\ntwo\n/think on\nthree\n/exit\nfour\n")
    assert result.returncode == 0
    assert [len(body["messages"]) for body in server.requests] == [2, 2, 4]
    assert server.requests[1]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "two"},
    ]
    assert server.requests[2]["chat_template_kwargs"] == {"enable_thinking": True}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("too long", "The server refused (HTTP 400): The prompt has 5000 tokens."),
        ("openai error", "The server refused (HTTP 429): Slow down."),
        ("html error", "The server refused (HTTP 502): <h1>Bad gateway</h1>"),
        ("breaks", "The server broke off the answer: The scheduler is gone."),
    ],
)
def test_refusals_are_shown_and_not_kept(server: FakeServer, question: str, message: str) -> None:
    result = chat(server, f"{question}\nnext\n")
    assert result.returncode == 3
    assert message in result.stderr
    assert "got 1 messages" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


def test_no_server() -> None:
    result = subprocess.run(
        [*PENNY, "--url", "127.0.0.1:9"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert result.returncode == 3
    assert "There is no server at http://127.0.0.1:9" in result.stderr
    assert "penny serve" in result.stderr


def test_server_that_speaks_something_else(server: FakeServer) -> None:
    server.models = b"<html>hello</html>"
    result = chat(server, "one\n")
    assert result.returncode == 3
    assert "not like an OpenAI-compatible server" in " ".join(result.stderr.split())


def test_model_that_is_not_served(server: FakeServer) -> None:
    result = chat(server, "one\n", "--model", "tiny-72b")
    assert result.returncode == 2
    assert "Did you mean 'tiny-27b'?" in " ".join(result.stderr.split())


class Terminal:
    """``penny chat`` on a pseudo terminal."""

    def __init__(self, url: str) -> None:
        self.main, side = pty.openpty()
        self.process = subprocess.Popen(
            [*PENNY, "--url", url], stdin=side, stdout=side, stderr=side, start_new_session=True
        )
        os.close(side)
        self.shown = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the end of a pseudo terminal is EIO
            while data := os.read(self.main, 4096):
                self.shown += data.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        os.write(self.main, text.encode())

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            time.sleep(0.02)

    def end(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join()
        os.close(self.main)
        return code


def test_ctrl_c_stops_the_answer_and_the_second_leaves(server: FakeServer) -> None:
    terminal = Terminal(server.url)
    terminal.wait_for("> ")
    terminal.type("endless\n")
    terminal.wait_for("tick tick")
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for("[stopped")
    assert server.disconnected.wait(PATIENCE_S)
    terminal.type("what did you say\n")
    terminal.wait_for("got 3 messages")
    terminal.wait_for("cached]")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert server.requests[1]["messages"][1]["content"].startswith("tick tick")
    assert "Traceback" not in terminal.shown


def test_ctrl_d_leaves(server: FakeServer) -> None:
    terminal = Terminal(server.url)
    terminal.wait_for("> ")
    terminal.type("\x04")
    assert terminal.end() == 0


def test_ctrl_c_ends_a_piped_conversation(server: FakeServer) -> None:
    process = subprocess.Popen(
        [*PENNY, "--url", server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"endless\nanother\n")
    process.stdin.flush()
    while not server.requests:
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert b"stopped" in out
    assert b"Traceback" not in out
    assert len(server.requests) == 1


def test_pieces_of_an_answer(server: FakeServer) -> None:
    with Client(server.url + "/v1/") as client:
        assert client.models() == ("tiny-27b", "other")
        got = list(client.answer("tiny-27b", [{"role": "user", "content": "x"}], Sampling()))
    assert got == [
        Piece("reasoning", "thinking"),
        Piece("answer", "got "),
        Piece("answer", "1 "),
        Piece("answer", "messages"),
        Usage(40, 9, 32),
    ]


STREAM = (
    "data: one\r\n\r\n: comment\nevent: x\ndata: two\ndata:  three\u2028é\n\nid: 1\n\rdata:four\r\rdata: last"
).encode()


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(STREAM)])
def test_events_however_the_bytes_arrive(size: int) -> None:
    chunks = [STREAM[i : i + size] for i in range(0, len(STREAM), size)]
    assert list(sse.data(chunks)) == ["one", "two\n three\u2028é", "four", "last"]


def test_commands() -> None:
    session = Session("m", Sampling())
    session.keep("q", "a")
    assert commands.run("/system", session) == "There is no system prompt."
    commands.run("/system  Be brief. ", session)
    assert commands.run("/system", session) == "Be brief."
    assert "Did you mean '/reset'" in commands.run("/rest", session)
    assert commands.run("/think maybe", session) == "Say /think on or /think off."
    commands.run("/think off", session)
    assert session.sampling.think is False
    assert len(session.messages("x")) == 4
    commands.run("/reset", session)
    assert session.messages("x") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "x"},
    ]
    with pytest.raises(commands.Leave):
        commands.run("/exit", session)


def test_answers_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\x07\r\x9bc\n\td é 日本") == "a[31mbc\n\td é 日本"


def test_address_that_is_not_one() -> None:
    with pytest.raises(PennyError) as caught, Client("http://[bad") as client:
        client.models()
    assert caught.value.exit_code in (2, 3)
