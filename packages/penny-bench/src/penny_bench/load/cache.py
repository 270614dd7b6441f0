"""Whether a prefix cache took part in what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from penny_bench.client import StreamRecord

Verdict = Literal["clean", "contaminated", "unknown", "intended"]


@dataclass(frozen=True)
class CacheUse:
    """What the server said of cached prompt tokens.

    Attributes:
        verdict: `contaminated` if a request had more than `limit` cached tokens; `clean` if none had and the
            server reports them; `unknown` if it never does (SGLang needs --enable-cache-report); `intended` if
            prompts were meant to come from a cache.
        limit: tokens that a chat template may share between all prompts.
        reported: requests for which the server said a number.
        above: requests above the limit.
        most: largest number; None if nothing was reported.
        total: sum over all requests.
    """

    verdict: Verdict
    limit: int
    reported: int
    above: int
    most: int | None
    total: int


def cache_use(records: Iterable[StreamRecord], limit: int, intended: bool = False) -> CacheUse:
    """Judge the measured requests; failed ones count too, for what they reported."""
    cached = [record.cached_tokens for record in records if record.cached_tokens is not None]
    above = sum(tokens > limit for tokens in cached)
    verdict: Verdict = "clean" if cached else "unknown"
    if intended:
        verdict = "intended"
    elif above:
        verdict = "contaminated"
    return CacheUse(verdict, limit, len(cached), above, max(cached, default=None), sum(cached))
