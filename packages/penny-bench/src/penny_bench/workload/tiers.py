"""Where a prompt came from, proven by what the server counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penny_bench.client import CachedTokens, StreamRecord
from penny_bench.load import Check

Tier = Literal["device", "host", "storage"]


@dataclass(frozen=True)
class Limits:
    """What a verdict allows.

    Attributes:
        share: of the prompt that must come from the tier, at least.
        computed: tokens of a restored prompt that may be computed again, at most.
        shared: cached tokens that a cold prompt may have, as chat templates begin alike.
    """

    share: float
    computed: int
    shared: int


def cold_checks(case: str, record: StreamRecord, limits: Limits) -> list[Check]:
    """Whether a prompt came from no cache."""
    cached = record.cached_tokens
    name = "comes from no cache"
    if cached is None:
        return [Check(case, name, None, "The server does not tell cached tokens.")]
    return [Check(case, name, cached <= limits.shared, f"{cached} tokens were cached.")]


def tier_checks(case: str, record: StreamRecord, tier: Tier, limits: Limits) -> list[Check]:
    """Whether a prompt came from that tier, and whether no more than its end was computed again."""
    source = f"comes from {tier}"
    end = "computes only its end"
    prompt, cached = record.prompt_tokens, record.cached_tokens
    if prompt is None or cached is None:
        reason = "The server does not tell cached tokens; SGLang does with --enable-cache-report."
        return [Check(case, source, None, reason), Check(case, end, None, reason)]
    computed = prompt - cached
    verdicts = [
        Check(case, end, computed <= limits.computed, f"{computed:,} of {prompt:,} tokens were computed.")
    ]
    tiers = record.cached or (CachedTokens(0, 0) if cached == 0 else None)
    if tiers is None:
        reason = f"{cached:,} of {prompt:,} tokens were cached; the server does not tell where."
        return [Check(case, source, None, reason), *verdicts]
    found = from_tier(tiers, tier)
    detail = (
        f"Of {prompt:,} tokens {tiers.device:,} came from device, {tiers.host:,} from host, "
        f"{'none that is told' if tiers.storage is None else f'{tiers.storage:,}'} from storage."
    )
    return [Check(case, source, found >= limits.share * prompt, detail), *verdicts]


def from_tier(tiers: CachedTokens, tier: Tier) -> int:
    """Tokens of one tier; 0 for one that the server does not have."""
    return getattr(tiers, tier) or 0
