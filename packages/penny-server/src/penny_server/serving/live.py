"""What a running server says of itself over HTTP."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class LiveState:
    """None for what the server does not say.

    Attributes:
        healthy: whether ``GET /health`` answered 200.
        running, queued: requests that are computed, and that wait.
        pool_tokens: capacity of the KV pool; ``used`` the share of it that requests hold.
        mamba_used: the share of the recurrent states that requests hold.
        rate: output tokens/s over the server's last interval.
        acceptance_length: tokens of a verify step over that interval, where it speculates.
        draft_alarm: 1 if the acceptance of drafts is far from its calibration (feature ``spec-guard``).
    """

    healthy: bool
    running: int | None = None
    queued: int | None = None
    pool_tokens: int | None = None
    used: float | None = None
    mamba_used: float | None = None
    rate: float | None = None
    acceptance_length: float | None = None
    draft_alarm: int | None = None


_GAUGES = {
    "running": "sglang:num_running_reqs",
    "queued": "sglang:num_queue_reqs",
    "pool_tokens": "sglang:max_total_num_tokens",
    "used": "sglang:token_usage",
    "mamba_used": "sglang:mamba_usage",
    "rate": "sglang:gen_throughput",
    "acceptance_length": "sglang:spec_accept_length",
    "draft_alarm": "penny_spec_alarm",
}
_WHOLE = ("running", "queued", "pool_tokens", "draft_alarm")


def live_state(url: str) -> LiveState:
    """Asks the server; never raises for one that does not answer."""
    healthy = fetch(url, "/health") is not None
    page = fetch(url, "/metrics/") if healthy else None
    values = gauges(page.decode("utf-8", "replace")) if page else {}
    found: dict[str, Any] = {
        key: round(value) if key in _WHOLE else value
        for key, name in _GAUGES.items()
        if (value := values.get(name)) is not None
    }
    return LiveState(healthy=healthy, **found)


def gauges(page: str) -> dict[str, float]:
    """The wanted values of a page in Prometheus' text format; of several processes the largest counts."""
    from prometheus_client.parser import text_string_to_metric_families

    wanted = set(_GAUGES.values())
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in wanted:
                found[sample.name] = max(sample.value, found.get(sample.name, sample.value))
    return found


def fetch(url: str, path: str) -> bytes | None:
    """The body of a page that answered 200; None otherwise."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        return body if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
