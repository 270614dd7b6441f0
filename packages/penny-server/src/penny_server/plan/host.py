"""What a server takes on the host and on drives."""

from __future__ import annotations

from dataclasses import dataclass

from penny_models.shapes import ModelShape
from penny_server.plan.constants import HICACHE_RATIO, HICACHE_RESERVE, HICACHE_UNIT
from penny_server.plan.demand import Demand
from penny_server.plan.settings import PlanSettings
from penny_server.plan.sizing import Pool

SIBLING_STRIDE = 4096
"""Siblings are padded to this on the host, so that they can be written with O_DIRECT."""


@dataclass(frozen=True)
class HostPlan:
    """Bytes on the host (RAM) and on drives, and what the host tier holds.

    Attributes:
        tables: PLE tables in pinned RAM, 0 where they are read from a drive.
        tier: the host tier of the prefix cache (HiCache); ``tier_tokens`` and ``tier_slots`` are what fits into it.
        reserve: what SGLang leaves free beside the tier.
        checkpoint: the weights as files, PLE and draft included; the host's page cache holds them while loading.
        table_file: the prepared PLE table on a drive, with PLE on NVMe.
        persistent: bytes that each stored token and slot takes where a storage backend is set.
    """

    tables: int
    tier: int
    tier_tokens: int
    tier_slots: int
    reserve: int
    checkpoint: int
    table_file: int
    token_bytes: int
    slot_bytes: int

    @property
    def ram(self) -> int:
        """Host memory that is taken for good."""
        return self.tables + self.tier


def plan_host(model: ModelShape, settings: PlanSettings, need: Demand, pool: Pool) -> HostPlan:
    """The host side of a server with these pools (``hybrid_pool_assembler.py``, ``_split_hicache_size``)."""
    tables = sum(table.bytes for table in model.tables)
    token = need.token.total + need.draft_token.total
    siblings = sum(
        -(-size // SIBLING_STRIDE) * SIBLING_STRIDE for size in (need.slot.ple_conv, need.slot.ple_context)
    )
    slot = need.slot.recurrent + siblings
    tier = tokens = slots = 0
    if settings.hicache:
        kv, states = pool.tokens * need.token.total, (pool.slots + 1) * need.slot.recurrent
        if settings.hicache_gb > 0:
            tier = int(settings.hicache_gb * HICACHE_UNIT)
            share = kv / max(kv + states, 1)
            tokens, slots = int(tier * share) // max(token, 1), int(tier * (1 - share)) // max(slot, 1)
        else:
            ratio = settings.hicache_ratio or HICACHE_RATIO
            tokens, slots = int(pool.tokens * ratio), int(pool.slots * ratio)
            tier = tokens * token + slots * slot
    stored = sum(part.bytes for part in (*model.parts, *need.draft)) + tables
    return HostPlan(
        tables=tables if settings.ple == "ram" else 0,
        tier=tier,
        tier_tokens=tokens,
        tier_slots=slots,
        reserve=HICACHE_RESERVE if settings.hicache else 0,
        checkpoint=stored,
        table_file=tables if settings.ple == "nvme" else 0,
        token_bytes=token,
        slot_bytes=slot,
    )
