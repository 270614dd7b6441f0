"""The pool that SGLang 0.5.23 gives: its own formulas, in its own order.

Each step names where it is in SGLang: ``mem_cache/kv_cache_configurator.py`` (class ``KVCacheConfigurator``) and
``model_executor/pool_configurator.py`` (class ``DefaultPoolConfigurator``).
"""

from __future__ import annotations

from dataclasses import dataclass

from penny_server.plan.constants import GIB, MIB, VISION_CACHE_MIB, VISION_TRANSPORT_MIB
from penny_server.plan.demand import Demand
from penny_server.plan.machines import Machine
from penny_server.plan.settings import PlanSettings

BASE_SLOTS = 3
"""``MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO``."""
LEAST_REQUESTS, MOST_REQUESTS = 2048, 4096


@dataclass(frozen=True)
class Pool:
    """The pools of one server; sizes in bytes.

    Attributes:
        before: free before loading; ``after`` is free when the pool is sized.
        slack: what ``mem_fraction_static`` leaves outside the pools; ``vision`` is kept back for images besides.
        states: what SGLang charges for recurrent slots; ``verification`` for speculation.
        budget: what is left for KV, possibly below zero.
        fits: tokens that the budget holds, whole pages; ``tokens`` is after ``max_total_tokens``.
        slots: recurrent slots; ``requests`` may run at once; ``per_request`` slots each.
    """

    before: int
    after: int
    slack: int
    vision: int
    states: int
    verification: int
    budget: int
    fits: int
    tokens: int
    slots: int
    requests: int
    per_request: int


def slots_per_request(settings: PlanSettings) -> int:
    """Recurrent slots that a running request needs (``_calculate_mamba_ratio``)."""
    if not settings.radix:
        return 1
    base = BASE_SLOTS - (1 if settings.skip_decode_lock else 0)
    if settings.strategy == "extra_buffer_lazy":
        return base + 1
    if settings.strategy == "extra_buffer":
        return base + (2 if settings.overlap else 1)
    return base + (1 if settings.skip_decode_lock else 0)


def vision_reserve(settings: PlanSettings, multimodal: bool) -> int:
    """What is kept back for images (``mm_runtime_reservation_gb``)."""
    if not multimodal:
        return 0
    cache = VISION_CACHE_MIB if settings.vision_cache_mib is None else settings.vision_cache_mib
    shared = VISION_TRANSPORT_MIB if settings.transport in ("cuda_ipc", "cuda_vmm") else 0
    return (cache + shared) * MIB


def size_pool(
    machine: Machine, settings: PlanSettings, need: Demand, fraction: float, multimodal: bool
) -> Pool:
    """Sizes the pools (``_profile_available_bytes``, ``_handle_max_mamba_cache``, ``calculate_pool_sizes``)."""
    before = machine.usable - machine.context
    after = before - need.loaded
    slack = int(before * (1 - fraction))
    vision = vision_reserve(settings, multimodal)
    rest = after - slack - vision

    ratio = slots_per_request(settings)
    slots, verification = _slots(settings, need, rest, ratio)
    ring = need.ring * ((settings.requests or 0) + 1)
    states = (slots + 1) * need.slot.recurrent + ring
    budget = rest - verification - states
    fits = max(budget, 0) // max(need.cell, 1) // settings.page * settings.page
    tokens = min(fits, settings.max_tokens) if settings.max_tokens is not None else fits
    tokens = tokens // settings.page * settings.page
    return Pool(
        before=before,
        after=after,
        slack=slack,
        vision=vision,
        states=states,
        verification=verification,
        budget=budget,
        fits=fits,
        tokens=tokens,
        slots=slots,
        requests=_requests(settings, tokens, slots, ratio, need.context),
        per_request=ratio,
    )


def _slots(settings: PlanSettings, need: Demand, rest: int, ratio: int) -> tuple[int, int]:
    """The recurrent slots, and what is charged for verification (``_handle_max_mamba_cache``)."""
    asked = settings.requests or 1

    def charged(slots: int, requests: int) -> int:
        return need.verify_charged * (min(asked, requests) + 1) if slots > 0 else 0

    if settings.slots is not None:
        return settings.slots, charged(settings.slots, settings.slots // ratio)
    if not settings.radix and settings.requests is not None:
        return asked, charged(asked, asked)
    share = int(rest * settings.slot_ratio / (1 + settings.slot_ratio))
    per = need.slot.recurrent
    if need.verify_charged:
        width = settings.draft_tokens
        slots = int((share - per * (1 + width)) // (per * (1 + width / ratio)))
        return slots, charged(slots, slots // ratio)
    return int((share - need.ring * (asked + 1 if settings.replay else 0) - per) // per), 0


def _requests(settings: PlanSettings, tokens: int, slots: int, ratio: int, context: int) -> int:
    """Requests that may run at once (``resolve_max_num_reqs``)."""
    guessed = max(min(int(tokens / context * 512), MOST_REQUESTS), LEAST_REQUESTS)
    return max(min(settings.requests or guessed, tokens // 2, slots // ratio), 0)


def gib(size: float) -> float:
    """Bytes as GiB."""
    return size / GIB
