"""The server under test: its address, model, and the extensions of the protocol that it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import httpx

from penny_bench.client.http import http_client
from penny_bench.errors import BenchError


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that answers `POST {url}/chat/completions`.

    Attributes:
        url: base address with its `/v1`, without a slash at the end.
        model: model name for every request.
        api_key: bearer token, or None.
        extensions: whether requests ask for `ignore_eos` and running usage counts, which not every server
            takes.
        details: whether they ask for cached tokens by tier and the acceptance of drafts, as SGLang gives them.
        timeout: longest silence before a request counts as failed, s.
        count: counts tokens where the server sends no usage, as an estimate; None: such requests fail.
    """

    url: str
    model: str = ""
    api_key: str | None = None
    extensions: bool = True
    details: bool = True
    timeout: float = 120.0
    count: Callable[[str], int] | None = field(default=None, compare=False, repr=False)

    @classmethod
    async def connect(
        cls, url: str, model: str | None = None, api_key: str | None = None, timeout: float = 120.0
    ) -> Server:
        """Complete the address and, where no model is given, ask for the first one the server lists.

        Raises:
            BenchError: not an http address, no answer, or no model listed.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BenchError(f"{url!r} is no address of a server; pass one like http://127.0.0.1:8000.")
        base = url.rstrip("/")
        if not parts.path.strip("/"):
            base += "/v1"
        server = cls(url=base, api_key=api_key, timeout=timeout)
        return replace(server, model=model or await server._first_model())

    def headers(self) -> dict[str, str]:
        """HTTP headers of a request."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def body(self, prompt: str, tokens: int) -> dict[str, Any]:
        """JSON body of a streaming chat request for exactly `tokens` greedy tokens, if the server can do that."""
        return self.chat([{"role": "user", "content": prompt}], tokens, exact=True)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tokens: int,
        *,
        exact: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """JSON body of a streaming chat request.

        Args:
            messages: the conversation, in the form of the protocol.
            tokens: `max_tokens`.
            exact: whether to go on after the end of the text (`ignore_eos`), where the server takes that.
            settings: further fields, such as `tools`, `response_format`, `temperature` (0 without).
        """
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(messages),
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.extensions:
            body["stream_options"]["continuous_usage_stats"] = True
            if exact:
                body["ignore_eos"] = True
        if self.details:
            body["return_cached_tokens_details"] = True
            body["return_spec_tokens_details"] = True
        return {**body, **(settings or {})}

    async def _first_model(self) -> str:
        try:
            async with http_client(self) as client:
                answer = await client.get(f"{self.url}/models", headers=self.headers())
        except httpx.HTTPError as error:
            raise BenchError(
                f"No server answers at {self.url} ({type(error).__name__}: {error}); "
                f"start it, or correct the address."
            ) from error
        if answer.status_code != 200:
            raise BenchError(
                f"{self.url}/models answered with HTTP {answer.status_code}; name the model with --model."
            )
        try:
            return str(answer.json()["data"][0]["id"])
        except (json.JSONDecodeError, KeyError, IndexError, TypeError) as error:
            raise BenchError(f"{self.url}/models lists no model; name it with --model.") from error
