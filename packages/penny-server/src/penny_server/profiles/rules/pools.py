"""Pool sizes that do not go together."""

from __future__ import annotations

from penny_server.profiles.rules.base import Case, Rule, refuse

SLOTS_PER_REQUEST = 6
"""Recurrent-state slots for each request with speculation: below that, stock captures its speculative graphs for
fewer requests (reference, capacity options)."""


def _pages(case: Case) -> None:
    page = case.number("page_size") or 1
    if page < 1:
        refuse(f"page_size is {page}; it takes 1 or more.")
    for name in ("max_total_tokens", "chunked_prefill_size"):
        tokens = case.number(name)
        if tokens is None or (name == "chunked_prefill_size" and tokens == -1):
            continue
        if tokens < page:
            refuse(f"{name} is {tokens}, less than one page of {page} tokens.")
        if tokens % page:
            below = tokens // page * page
            refuse(
                f"{name} is {tokens}, which is not a multiple of the page of {page} tokens.",
                f"The nearest are {below} and {below + page}.",
            )


def slots_needed(case: Case) -> int | None:
    """The least max_mamba_cache_size for max_running_requests; None where SGLang sizes one of them itself."""
    requests = case.number("max_running_requests")
    if requests is None or case.number("max_mamba_cache_size") is None:
        return None
    if case.get("disable_radix_cache"):
        return requests
    if case.get("speculative_algorithm"):
        return requests * SLOTS_PER_REQUEST
    strategy = case.get("mamba_radix_cache_strategy", "auto")
    # Stock's own ratio: three for the running state and its cached ones, and the buffers that track it.
    buffers = {"extra_buffer": 1 if case.get("disable_overlap_schedule") else 2, "extra_buffer_lazy": 1}
    return requests * (3 + buffers.get(strategy, 0))


def _slots(case: Case) -> None:
    requests, slots = case.number("max_running_requests"), case.number("max_mamba_cache_size")
    for name, value in (("max_running_requests", requests), ("max_mamba_cache_size", slots)):
        if value is not None and value < 1:
            refuse(f"{name} is {value}; it takes 1 or more.")
    needed = slots_needed(case)
    if needed is None or slots is None or requests is None or slots >= needed:
        return
    each = needed // requests
    refuse(
        f"max_mamba_cache_size is {slots}, too few recurrent-state slots for {requests} requests at once: they need "
        f"about {each} each, {needed} in all.",
        f"Set max_mamba_cache_size to {needed}, or max_running_requests to {max(1, slots // each)}.",
    )


def _tracking(case: Case) -> None:
    strategy = str(case.get("mamba_radix_cache_strategy", "auto"))
    page, interval = case.number("page_size"), case.number("mamba_track_interval")
    if strategy == "no_buffer" and page not in (None, 1):
        refuse(f"mamba_radix_cache_strategy no_buffer works with pages of 1 token, and page_size is {page}.")
    if not strategy.startswith("extra_buffer") or interval is None:
        return
    tokens = case.number("speculative_num_draft_tokens") or 0
    if page and interval % page:
        refuse(
            f"mamba_track_interval is {interval}, which is not a multiple of the page of {page} tokens.",
            "Recurrent state is kept at page boundaries only.",
        )
    if interval < tokens:
        refuse(
            f"mamba_track_interval is {interval}, less than the {tokens} tokens that one verification may accept."
        )


def _states_per_path(case: Case) -> None:
    states = case.number("mamba_max_states_per_path")
    if states is not None and (states == 0 or states < -1):
        refuse(f"mamba_max_states_per_path is {states}; it takes a number above zero, or -1 for no limit.")


def _fraction(case: Case) -> None:
    fraction = case.get("mem_fraction_static")
    if fraction is not None and not 0 < float(fraction) < 1:
        refuse(f"mem_fraction_static is {fraction}; it is a share of the GPU's memory between 0 and 1.")


RULES: tuple[Rule, ...] = (_pages, _slots, _tracking, _states_per_path, _fraction)
