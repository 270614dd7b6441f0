"""A server that was asked to end takes no new work; stock takes it, and so may never become idle and end."""

from __future__ import annotations

from typing import Any

from penny_server.sglang.seam import Seam

RETRY_S = 30
WORK = ("/v1/", "/generate", "/api/", "/encode", "/classify", "/invocations", "/vertex_generate")
"""Paths that ask for work when they are posted to."""
STOPPING = "The server is stopping: it finishes what it has begun and takes no new requests."


def refused(method: str, path: str, stopping: bool) -> bool:
    """Whether a request is turned away."""
    return stopping and method == "POST" and path.startswith(WORK)


def _stopping() -> bool:
    from sglang.srt.entrypoints.http_server import _global_state

    return _global_state is not None and bool(_global_state.tokenizer_manager.gracefully_exit)


class Drain:
    """ASGI middleware: 503 with a sentence for new work while the server is stopping."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See the ASGI specification, version 3."""
        if scope["type"] == "http" and refused(scope["method"], scope["path"], _stopping()):
            from fastapi.responses import JSONResponse

            body = {"object": "error", "message": STOPPING, "type": "ServiceUnavailableError", "code": 503}
            answer = JSONResponse(body, status_code=503, headers={"Retry-After": str(RETRY_S)})
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _add() -> None:
    from sglang.srt.entrypoints.http_server import app

    app.add_middleware(Drain)


def _added() -> bool:
    from sglang.srt.entrypoints.http_server import app

    return any(middleware.cls is Drain for middleware in app.user_middleware)


SEAMS = (
    Seam(
        "drain.refuses-new-work",
        "drain",
        "sglang.srt.managers.tokenizer_manager.SignalHandler.sigterm_handler",
        "0a4aac4977e172a8",
        "answers 503 to new requests while the server finishes those it has",
        "set",
        _add,
        _added,
        ("main",),
    ),
)
