"""The counters that servers keep for Prometheus at `/metrics`."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import httpx
from prometheus_client.parser import text_string_to_metric_families

from penny_bench.client import Server
from penny_bench.server.pages import PATIENCE, page_url

Labels = frozenset[tuple[str, str]]

_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank", "pid")
"""Labels of processes that share one piece of work, each of which counts it."""

HINT = "SGLang has it with --enable-metrics, llama.cpp with --metrics, vLLM always"


class MetricsPage:
    """The values on one page.

    Processes that do the same work together (tensor and pipeline ranks) each count it; of their equal values
    the largest stands. Values that differ in any other label are different things, and are added up.
    """

    def __init__(self, samples: Iterable[tuple[str, dict[str, str], float]] = ()) -> None:
        self._values: dict[str, dict[Labels, float]] = {}
        for name, labels, value in samples:
            series = self._values.setdefault(name, {})
            key = frozenset(item for item in labels.items() if item[0] not in _RANKS)
            series[key] = max(series.get(key, value), value)

    def __bool__(self) -> bool:
        return bool(self._values)

    def names(self) -> set[str]:
        """Names of all values."""
        return set(self._values)

    def value(self, name: str, **labels: str) -> float | None:
        """Sum of the values that have these labels; None without any, or where one is no finite number."""
        wanted = set(labels.items())
        found = [value for key, value in self._values.get(name, {}).items() if wanted <= key]
        return sum(found) if found and all(map(isfinite, found)) else None

    def by(self, name: str, label: str) -> dict[str, float]:
        """The values by what they have for one label."""
        return {
            text: value
            for key, value in self._values.get(name, {}).items()
            for found, text in key
            if found == label
        }


def parse_metrics(text: str, names: Iterable[str] = ("",)) -> MetricsPage:
    """The values of a page in Prometheus' text format whose names begin with one of `names`.

    Raises:
        ValueError: the page is not in that format.
    """
    starts = tuple(names)
    lines = [line for line in text.splitlines() if line.startswith(starts) and not line.startswith("#")]
    families = text_string_to_metric_families("\n".join(lines) + "\n")
    return MetricsPage((s.name, s.labels, s.value) for family in families for s in family.samples)


class MetricsReader:
    """Reads the counters of a server.

    Attributes:
        reason: why the last page could not be read, as a sentence; "" if it could.
        absent: whether the server has no such page at all, so that nobody need ask again.
    """

    def __init__(self, server: Server, client: httpx.AsyncClient, names: Iterable[str] = ("",)) -> None:
        """`names` are the beginnings of the names of what is wanted; a page has hundreds of other values."""
        self.reason = ""
        self.absent = False
        self._url, self._headers = page_url(server, "metrics"), server.headers()
        self._client = client
        self._names = tuple(names)

    async def read(self) -> MetricsPage | None:
        """The page now; None if it cannot be had, with the `reason`."""
        if self.absent:
            return None
        try:
            answer = await self._client.get(
                self._url, headers=self._headers, timeout=PATIENCE, follow_redirects=True
            )
        except httpx.HTTPError as error:
            self.reason = f"The page /metrics did not come ({type(error).__name__})."
            return None
        page, self.reason, self.absent = judged(answer, self._names)
        return page


def judged(answer: httpx.Response, names: Iterable[str]) -> tuple[MetricsPage | None, str, bool]:
    """What an answer for `/metrics` is: its values or None, the reason, and whether to stop asking."""
    if answer.status_code != 200:
        gone = answer.status_code in (404, 405, 501)
        return None, f"The server has no page /metrics (HTTP {answer.status_code}); {HINT}.", gone
    try:
        return parse_metrics(answer.text, names), "", False
    except ValueError as error:
        return None, f"The page /metrics is not in the text format of Prometheus ({error}).", True
