"""Bad requests answered with a sentence that names the field; stock echoes source locations or lets some pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

HTTP = "sglang.srt.entrypoints.http_server"
OPENAI = "sglang.srt.entrypoints.openai"
COMPLETIONS = f"{OPENAI}.serving_completions.OpenAIServingCompletion"
OTHER_ENVELOPES = ("/v1/messages", "/v1/systemone")
UNION_TAGS = frozenset({"str", "int", "float", "bool", "dict", "list", "none"})
GRAMMAR_ERROR = "sglang.srt.constrained.base_grammar_backend.InvalidGrammarObject.__init__"
LOCATION = re.compile(r"^\[[\d:]+\] \S+:\d+: ")
SHOWN_ERRORS = 3
TOP_LOGPROBS = 20
"""The OpenAI API's own limit on ``top_logprobs``."""


def field_of(location: Sequence[Any]) -> str:
    """The request field of a pydantic location: ``("body", "messages", 0, "role")`` -> ``messages.0.role``.

    The names of union members and validators that pydantic puts in between are left out.
    """
    parts = [str(part) for part in location if str(part) != "body"]
    named = [
        p
        for i, p in enumerate(parts)
        if p.replace("_", "").isalnum() and not p[:1].isupper() and not (i and p in UNION_TAGS)
    ]
    return ".".join(named) if named and not named[0].isdigit() else "body"


def _found(error: dict[str, Any]) -> str:
    """What pydantic found; for text that is no JSON, where and why its parser stopped."""
    if error["type"] == "json_invalid":
        return f"{error['ctx']['error']} at character {error['loc'][-1]}"
    return repr(error.get("input"))


def sentence_of(errors: Sequence[dict[str, Any]]) -> str:
    """One line for the first few of pydantic's errors, each with its field and what was found there."""
    lines = [f"{field_of(e['loc'])}: {e['msg']} (found {_found(e):.80})" for e in errors[:SHOWN_ERRORS]]
    more = f"; and {len(errors) - SHOWN_ERRORS} more" if len(errors) > SHOWN_ERRORS else ""
    return "; ".join(lines) + more + "."


def range_error(request: Any) -> str | None:
    """The first field of an OpenAI request that is out of range and that stock does not look at."""
    n = getattr(request, "n", None)
    if n is not None and n < 1:
        return f"n: must be at least 1 (found {n})."
    if n is not None and n > 1 and getattr(request, "seed", None) is not None:
        return f"n: with a seed all {n} choices would be the same one; send n requests with a seed each (found {n})."
    for name in ("max_tokens", "max_completion_tokens"):
        limit = getattr(request, name, None)
        if limit is not None and limit < 0:
            return f"{name}: must be at least 0 (found {limit})."
    top = getattr(request, "top_logprobs", None)
    if top is not None and not 0 <= top <= TOP_LOGPROBS:
        return f"top_logprobs: must be between 0 and {TOP_LOGPROBS} (found {top})."
    logprobs = getattr(request, "logprobs", None)
    if logprobs is not None and not isinstance(logprobs, bool) and not 0 <= logprobs <= TOP_LOGPROBS:
        return f"logprobs: must be between 0 and {TOP_LOGPROBS} (found {logprobs})."
    return None


def _check_ranges(original: Callable[..., str | None], serving: Any, request: Any) -> str | None:
    return range_error(request) or original(serving, request)


def plain_grammar_error(message: str) -> str:
    """A grammar compiler's message without the time and the C++ source location that xgrammar puts in front."""
    return "the JSON schema or grammar of the request cannot be used: " + LOCATION.sub("", message).strip()


def _plain_grammar_error(
    grammar: Any, error_message: str = "Unknown grammar error"
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (grammar, plain_grammar_error(error_message)), {}


def _answer_in_sentences() -> None:
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from sglang.srt.entrypoints.http_server import app

    stock: Any = app.exception_handlers[RequestValidationError]

    async def handler(request: Any, error: RequestValidationError) -> Any:
        if request.url.path.startswith(OTHER_ENVELOPES):
            return await stock(request, error)
        body = {
            "object": "error",
            "message": sentence_of(list(error.errors())),
            "type": "BadRequestError",
            "param": field_of(error.errors()[0]["loc"]),
            "code": 400,
        }
        nested = request.url.path.startswith("/v1/responses")
        return JSONResponse({"error": body} if nested else body, status_code=400)

    handler.__wrapped__ = stock  # type: ignore[attr-defined]
    app.exception_handlers[RequestValidationError] = handler


def _answers_in_sentences() -> bool:
    from fastapi.exceptions import RequestValidationError
    from sglang.srt.entrypoints.http_server import app

    return hasattr(app.exception_handlers[RequestValidationError], "__wrapped__")


def _ranges(name: str, target: str, digest: str) -> Seam:
    return Seam(
        f"requests.{name}", "requests", target, digest, "refuses n and logprobs out of range", "around",
        _check_ranges, lambda: hooked(target), ("main",),
    )  # fmt: skip


SEAMS = (
    Seam(
        "requests.validation-message",
        "requests",
        f"{HTTP}.validation_exception_handler",
        "0f73a3d642f94d75",
        "names the field of a malformed request instead of echoing source locations",
        "set",
        _answer_in_sentences,
        _answers_in_sentences,
        ("main",),
    ),
    _ranges("chat-ranges", f"{OPENAI}.serving_chat.OpenAIServingChat._validate_request", "9dbaa567e516aa86"),
    _ranges(
        "completion-ranges",
        f"{COMPLETIONS}._validate_request",
        "66767d3f7a77aab3",
    ),
    Seam(
        "requests.grammar-message",
        "requests",
        GRAMMAR_ERROR,
        "485323961e3e8044",
        "says of a schema or grammar that cannot be compiled what is wrong with it",
        "before",
        _plain_grammar_error,
        lambda: hooked(GRAMMAR_ERROR),
        ("scheduler",),
    ),
)
