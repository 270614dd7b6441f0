"""Asks a server for tokens and times them: decode rates of one stream and of several, and the accepted length."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

LIMIT_S = 90.0
"""Seconds that one request may take."""


@dataclass(frozen=True)
class Stream:
    """One answer: when its first tokens came and how many, when the last, and what the server says of it."""

    first_at: float
    first_tokens: int
    last_at: float
    tokens: int
    meta: dict[str, Any]


def prompt(seed: int, length: int, vocabulary: int) -> list[int]:
    """Ids spread like words of a text: few that are frequent, many that are rare; no two prompts begin alike."""
    draw = random.Random(seed)
    return [5 + int((vocabulary - 6) * draw.random() ** 4) for _ in range(length)]


def generate(url: str, ids: list[int], tokens: int) -> dict[str, Any]:
    """The server's whole answer. Raises httpx.HTTPError."""
    sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
    response = httpx.post(
        f"{url}/generate", json={"input_ids": ids, "sampling_params": sampling}, timeout=LIMIT_S
    )
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    return answer


def stream(url: str, ids: list[int], tokens: int) -> Stream:
    """The same, streamed. Raises httpx.HTTPError, also when the whole takes too long, and RuntimeError."""
    sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
    body = {"input_ids": ids, "sampling_params": sampling, "stream": True}
    begun, first_at, first = time.perf_counter(), 0.0, 0
    meta: dict[str, Any] = {}
    with httpx.stream("POST", f"{url}/generate", json=body, timeout=LIMIT_S) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if not line.startswith("data:") or "[DONE]" in line:
                continue
            meta = json.loads(line[5:])["meta_info"]
            if not first:
                first_at, first = time.perf_counter(), meta["completion_tokens"]
            if time.perf_counter() - begun > LIMIT_S:
                raise httpx.ReadTimeout(f"an answer took more than {LIMIT_S:.0f} s")
    if meta.get("completion_tokens") != tokens:
        raise RuntimeError(f"{tokens} tokens were asked for, {meta.get('completion_tokens')} came.")
    return Stream(first_at, first, time.perf_counter(), tokens, meta)


def rate(
    url: str, streams: int, tokens: int, prompt_tokens: int, vocabulary: int, seed: int
) -> dict[str, Any]:
    """One reading of ``streams`` requests at once.

    ``tokens_per_s`` is all streams' tokens after each one's first event, over the time from the earliest first event to
    the latest end.
    """
    asked = [prompt(seed * 100 + i, prompt_tokens, vocabulary) for i in range(streams)]
    with ThreadPoolExecutor(streams) as pool:
        done = list(pool.map(lambda ids: stream(url, ids, tokens), asked))
    span = max(d.last_at for d in done) - min(d.first_at for d in done)
    verifies = sum(d.meta.get("spec_verify_ct") or 0 for d in done)
    found: dict[str, Any] = {"tokens_per_s": sum(d.tokens - d.first_tokens for d in done) / span}
    if verifies:
        # The first token comes from the prefill.
        found["tokens_per_verify"] = sum(d.tokens - 1 for d in done) / verifies
        found["server_accept_length"] = sum(d.meta["spec_accept_length"] for d in done) / streams
    return found
