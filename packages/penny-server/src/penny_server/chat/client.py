"""The two calls of the OpenAI API that a conversation needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from penny_server.chat import sse
from penny_server.errors import ExitCode, PennyError

CONNECT_S = 5.0

Message = dict[str, str]


@dataclass(frozen=True)
class Sampling:
    """What is sent with each question; None leaves it to the server."""

    max_tokens: int | None = None
    temperature: float | None = None
    think: bool | None = None


@dataclass(frozen=True)
class Piece:
    """A piece of an answer: ``reasoning`` is what the model thinks, ``answer`` what it says."""

    kind: Literal["reasoning", "answer"]
    text: str


@dataclass(frozen=True)
class Usage:
    """Tokens of one answer as the server counted them; ``cached`` is None when it does not say."""

    prompt: int
    completion: int
    cached: int | None


class Client:
    """One server. ``url`` with or without ``/v1``; use as a context manager."""

    def __init__(self, url: str) -> None:
        base = url.rstrip("/").removesuffix("/v1")
        self.url = base if "://" in base else f"http://{base}"
        try:
            self._http = httpx.Client(
                base_url=self.url, timeout=httpx.Timeout(None, connect=CONNECT_S), trust_env=False
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise PennyError(f"{url!r} is not a server address: {error}.", ExitCode.USAGE) from error

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.close()

    def models(self) -> tuple[str, ...]:
        """The ids of ``GET /v1/models``; raises PennyError (environment) without an OpenAI server."""
        try:
            response = self._http.get("/v1/models", timeout=CONNECT_S)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unreachable(error) from error
        try:
            found = tuple(str(model["id"]) for model in response.json()["data"])
        except (ValueError, KeyError, TypeError):
            found = ()
        if response.status_code != 200 or not found:
            raise PennyError(
                f"{self.url} answers, but not like an OpenAI-compatible server: "
                f"GET /v1/models gave status {response.status_code} and no list of models.",
                ExitCode.ENVIRONMENT,
                "Give the address that `penny serve` printed with --url.",
            )
        return found

    def answer(self, model: str, messages: list[Message], sampling: Sampling) -> Iterator[Piece | Usage]:
        """Streams the answer to ``messages``. Raises PennyError with the server's own message on an error.

        Closing the iterator closes the connection, upon which the server gives up the request.
        """
        body: dict[str, Any] = {
            "model": model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if sampling.max_tokens is not None:
            body["max_tokens"] = sampling.max_tokens
        if sampling.temperature is not None:
            body["temperature"] = sampling.temperature
        if sampling.think is not None:
            body["chat_template_kwargs"] = {"enable_thinking": sampling.think}
        try:
            with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
                if response.status_code != 200:
                    raise _refused(response.status_code, response.read())
                for data in sse.data(response.iter_bytes()):
                    if data.strip() == sse.DONE:
                        return
                    yield from _pieces(data)
        except httpx.RemoteProtocolError as error:
            raise PennyError(f"The server broke off the answer: {error}.", ExitCode.ENVIRONMENT) from error
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> PennyError:
        return PennyError(
            f"There is no server at {self.url}: {error}.",
            ExitCode.ENVIRONMENT,
            "Start one with `penny serve tiny-27b`, or give its address with --url.",
        )


def _pieces(data: str) -> Iterator[Piece | Usage]:
    try:
        chunk = json.loads(data)
    except ValueError as error:
        raise PennyError(f"The server sent an event that is not JSON: {data[:80]!r}.", 3) from error
    if not isinstance(chunk, dict):
        raise PennyError(f"The server sent an event that is not an object: {data[:80]!r}.", 3)
    if message := _message_of(chunk):
        raise PennyError(f"The server broke off the answer: {message}", ExitCode.ENVIRONMENT)
    for choice in chunk.get("choices") or []:
        delta = choice.get("delta") or {}
        if delta.get("reasoning_content"):
            yield Piece("reasoning", delta["reasoning_content"])
        if delta.get("content"):
            yield Piece("answer", delta["content"])
    if usage := chunk.get("usage"):
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        yield Usage(usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0, cached)


def _refused(status: int, body: bytes) -> PennyError:
    text = body.decode("utf-8", "replace")
    try:
        message = _message_of(json.loads(text)) or text
    except ValueError:
        message = text
    return PennyError(f"The server refused (HTTP {status}): {message.strip()[:500] or 'no reason given'}", 3)


def _message_of(body: Any) -> str:
    """The message of an error body: ``{"error": {"message"}}``, ``{"message"}`` or ``{"detail"}``."""
    if not isinstance(body, dict):
        return ""
    error = body.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error)
    if error:
        return str(error)
    if body.get("object") == "error" or "choices" not in body:
        return str(body.get("message") or body.get("detail") or "")
    return ""
