"""What a start and an end do beyond stock: the structured warm-up and draining; and what stock does by itself."""

from __future__ import annotations

import ast
import asyncio
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penny_server.serving.phases import Event, Progress
from penny_server.sglang.backends import resolved_backends
from penny_server.sglang.seams import drain
from penny_server.sglang.warmup import SCHEMA, WarmUpError, warm_grammar


@contextmanager
def answering(status: int, seen: list[dict[str, Any]]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"no grammar here")

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_warm_up_asks_for_an_object() -> None:
    seen: list[dict[str, Any]] = []
    with answering(200, seen) as url:
        assert 0 < warm_grammar(url, "tiny", {"Authorization": "Bearer k"}) < 60
    assert (seen[0]["path"], seen[0]["key"], seen[0]["model"]) == ("/v1/chat/completions", "Bearer k", "tiny")
    assert seen[0]["response_format"]["json_schema"]["schema"] == SCHEMA
    assert seen[0]["max_tokens"] == 1


def test_a_refused_warm_up_is_told() -> None:
    with answering(400, []) as url, pytest.raises(WarmUpError, match="HTTP 400: no grammar here"):
        warm_grammar(url, "tiny", {})
    with pytest.raises(WarmUpError, match="ConnectError"):
        warm_grammar("http://127.0.0.1:9", "tiny", {})


@pytest.mark.parametrize(
    ("method", "path", "stopping", "expected"),
    [
        ("POST", "/v1/chat/completions", True, True),
        ("POST", "/v1/messages", True, True),
        ("POST", "/generate", True, True),
        ("POST", "/v1/chat/completions", False, False),
        ("GET", "/v1/models", True, False),
        ("GET", "/health", True, False),
        ("POST", "/flush_cache", True, False),
    ],
)
def test_new_work_is_refused_while_stopping(method: str, path: str, stopping: bool, expected: bool) -> None:
    assert drain.refused(method, path, stopping) is expected


def test_the_refusal_says_when_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    passed: list[str] = []

    async def stock(scope: dict[str, Any], receive: object, send: object) -> None:
        passed.append(scope["path"])

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": []}
    middleware = drain.Drain(stock)
    monkeypatch.setattr(drain, "_stopping", lambda: False)
    asyncio.run(middleware(scope, None, send))
    assert passed == ["/v1/completions"]
    monkeypatch.setattr(drain, "_stopping", lambda: True)
    asyncio.run(middleware(scope, None, send))
    assert passed == ["/v1/completions"]
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"30") in sent[0]["headers"]
    assert json.loads(sent[1]["body"])["message"].startswith("The server is stopping:")


class FlashBackend:
    """Named as it shall be shown."""


class GdnKernel:
    """Named as it shall be shown."""


class Fp8Method:
    """Named as it shall be shown."""


class GraphRunner:
    """Named as it shall be shown."""


def test_backends_are_read_from_what_computes() -> None:
    class Module:
        def __init__(self, *children: object, quant_method: object = None) -> None:
            self.children, self.quant_method = children, quant_method

        def modules(self) -> list[object]:
            return [self, *self.children]

    class ParallelLMHead(Module):
        pass

    linear = SimpleNamespace(
        kernel_dispatcher=SimpleNamespace(
            extend_kernel=GdnKernel(), decode_kernel=GdnKernel(), verify_kernel=None
        )
    )
    full = SimpleNamespace(prefill_backend=FlashBackend(), decode_backend=GdnKernel())
    dtype = SimpleNamespace(dtype="torch.float32")
    runner = SimpleNamespace(
        attn_backend=SimpleNamespace(full_attn_backend=full, linear_attn_backend=linear),
        model=Module(
            Module(quant_method=Fp8Method()),
            Module(quant_method=Fp8Method()),
            ParallelLMHead(quant_method=GdnKernel()),
        ),
        sampler=None,
        kv_cache_dtype="torch.bfloat16",
        req_to_token_pool=SimpleNamespace(
            mamba_pool=SimpleNamespace(mamba_cache=SimpleNamespace(temporal=dtype, conv=[dtype, dtype]))
        ),
        decode_cuda_graph_capture_bs=[1, 2, 4],
        decode_cuda_graph_runner=GraphRunner(),
        prefill_cuda_graph_runner=None,
    )
    assert resolved_backends(runner) == {
        "attention, prefill": "FlashBackend",
        "attention, decode": "GdnKernel",
        "linear attention, prefill": "GdnKernel",
        "linear attention, decode": "GdnKernel",
        "linear layers": "Fp8Method (2)",
        "output head": "GdnKernel (1)",
        "KV cache": "bfloat16",
        "recurrent state": "float32, convolution float32",
        "decode graphs": "GraphRunner, batches 1, 2, 4",
        "prefill graphs": "none",
    }


def test_backends_of_model_and_draft_are_told_apart() -> None:
    progress = Progress(0.0)
    for draft, found in ((False, {"attention": "A"}), (True, {"attention": "B"})):
        progress.apply(Event(1.0, "backends", "end", {"draft": draft, "resolved": found}))
    assert progress.backends == {"attention": "A", "draft, attention": "B"}
    assert progress.phases[0].state == "running"


def test_stock_collects_garbage_before_it_measures_the_memory_for_the_pool() -> None:
    """A collection before sizing gave a public user 528,640 more tokens; stock 0.5.23 does it, so no seam does."""
    spec = find_spec("sglang")
    if spec is None or spec.origin is None:
        pytest.skip("sglang is not installed")
    source = Path(spec.origin).parent / "srt/mem_cache/kv_cache_configurator.py"
    found = [
        node
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == "_profile_available_bytes"
    ]
    assert len(found) == 1
    lines = {ast.unparse(node.func): node.lineno for node in ast.walk(found[0]) if isinstance(node, ast.Call)}
    assert lines["gc.collect"] < lines["get_available_gpu_memory"]
