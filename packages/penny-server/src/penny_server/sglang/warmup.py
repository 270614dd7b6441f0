"""What the server does once before it is ready, so that no user waits for it: stock's request, then a grammar."""

from __future__ import annotations

import time
from typing import Any

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["name", "count"],
    "additionalProperties": False,
}
TIMEOUT_S = 600.0


class WarmUpError(RuntimeError):
    """The server refused a request that it should take."""


def grammar_body(model: str) -> dict[str, Any]:
    """A request for one token of an object of `SCHEMA`."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": "Give a name and a count."}],
        "max_tokens": 1,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA}},
    }


def warm_grammar(url: str, model: str, headers: dict[str, str], verify: bool | str = True) -> float:
    """Sends one structured request, which makes the grammar back end read the vocabulary; returns its seconds.

    Without it the first structured request of a user pays for that: several seconds with 248,320 tokens.

    Raises:
        WarmUpError: the answer was no 200; the message says what it was.
    """
    import httpx

    began = time.monotonic()
    try:
        answer = httpx.post(
            f"{url}/v1/chat/completions",
            json=grammar_body(model),
            headers=headers,
            timeout=TIMEOUT_S,
            verify=verify,
            trust_env=False,
        )
    except httpx.HTTPError as error:
        raise WarmUpError(
            f"The structured warm-up request failed ({type(error).__name__}: {error})."
        ) from error
    if answer.status_code != 200:
        raise WarmUpError(
            f"The structured warm-up request was answered with HTTP {answer.status_code}: {answer.text[:300]}"
        )
    return time.monotonic() - began
