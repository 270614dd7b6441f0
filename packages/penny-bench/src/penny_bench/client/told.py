"""What servers tell of a request beyond the protocol, from the fields in which they tell it."""

from typing import Any

from penny_bench.client.record import CachedTokens, Spans, Speculation


def told_cached(told: dict[str, Any]) -> CachedTokens | None:
    """Cached tokens by tier, from SGLang's `sglext.cached_tokens_details`."""
    details = _object(told.get("sglext"), "cached_tokens_details")
    device, host = _count(details, "device"), _count(details, "host")
    if device is None and host is None:
        return None
    return CachedTokens(device or 0, host or 0, _count(details, "storage"))


def told_speculation(told: dict[str, Any]) -> Speculation | None:
    """Acceptance, from SGLang's `sglext.spec_tokens_details`; None without a verify step."""
    details = _object(told.get("sglext"), "spec_tokens_details")
    verify = _count(details, "spec_verify_ct")
    if not verify:
        return None
    histogram = details.get("spec_correct_drafts_histogram")
    steps = tuple(n for n in histogram if isinstance(n, int)) if isinstance(histogram, list) else ()
    accepted = _count(details, "spec_num_correct_drafts") or 0
    return Speculation(verify, accepted, _count(details, "spec_num_proposed_drafts") or 0, steps)


def told_spans(told: dict[str, Any]) -> Spans | None:
    """Server times from llama.cpp's `timings`, which come with the last event. Its queue is not told."""
    timings = told.get("timings") or {}
    prefill, rest = timings.get("prompt_ms"), timings.get("predicted_ms")
    if not isinstance(prefill, int | float) or not isinstance(rest, int | float):
        return None
    return Spans(None, prefill / 1000, rest / 1000, "llama.cpp timings")


def _object(value: Any, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _count(values: dict[str, Any], key: str) -> int | None:
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
