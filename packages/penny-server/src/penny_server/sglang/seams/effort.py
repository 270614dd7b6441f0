"""A request's reasoning effort wins over the server's default; stock renders the default whatever the request says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

PROCESS = "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._process_messages"


def _requests_effort_first(
    original: Callable[..., Any], serving: Any, request: Any, *args: Any, **kw: Any
) -> Any:
    # Stock has taken the effort out of the template's arguments by now, and fills that gap with the default.
    if request.reasoning_effort is not None:
        own = dict(request.chat_template_kwargs or {})
        own.setdefault("reasoning_effort", request.reasoning_effort)
        request.chat_template_kwargs = own
    return original(serving, request, *args, **kw)


SEAMS = (
    Seam(
        "effort.of-the-request",
        "effort",
        PROCESS,
        "00296c1f9bed5732",
        "lets a request's own reasoning effort win over the server's default",
        "around",
        _requests_effort_first,
        lambda: hooked(PROCESS),
        ("main",),
    ),
)
