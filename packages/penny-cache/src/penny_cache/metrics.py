"""Prometheus metrics of open stores.

    registry.register(StoreCollector([store]))

Every metric has the label `namespace`, the name of the store's directory. Counters count since the store was opened. A
scrape reads the counters and lists the directory; `holes` and what hangs together is worked out only with `shapes`,
since that copies the index (about two seconds for a million bundles).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from penny_cache.inspect import Report, report
from penny_cache.store import Store
from penny_cache.store.counters import Counters

LABEL = "namespace"
COUNTERS = {
    "put_bundles": ("put", "Bundles that the write queue took"),
    "refused_bundles": ("refused", "Bundles that can never be stored"),
    "busy_puts": ("busy", "Puts that the write queue had no room for"),
    "written_bundles": ("written", "Bundles that were written"),
    "written_bytes": ("bytes_written", "Bytes of written bundles with headers and padding"),
    "durable_bundles": ("durable", "Bundles whose caller asked for a sync, and got it"),
    "failed_bundles": ("failed", "Bundles that were taken and could not be written"),
    "syncs": ("syncs", "Syncs that made bundles durable"),
    "lookups": ("lookups", "Chains that were asked for"),
    "lookup_hits": ("hits", "Chains of which a bundle was there"),
    "asked_pages": ("pages_asked", "Keys of the chains that were asked for"),
    "found_pages": ("pages_found", "Keys that were found, from the start of their chain on"),
    "stranded_pages": ("pages_stranded", "Keys that were there behind a missing one, so of no use"),
    "loaded_bundles": ("loaded", "Bundles that were read and verified"),
    "read_bytes": ("bytes_read", "Bytes that were read for them"),
    "damaged_bundles": ("damaged", "Bundles whose bytes were not those that were stored"),
    "unreadable_bundles": ("unreadable", "Bundles that the drive did not give"),
    "gone_bundles": (
        "gone",
        "Bundles, or parts of them, that another process gave up since this reader looked",
    ),
    "evicted": ("evicted", "Bundles and snapshots that were given up for space"),
}
"""Counters by name: the field of `Counters`, and the help text."""
GAUGES = {
    "queue_bytes": ("queue_bytes", "Bytes that wait to be written"),
    "queue_limit_bytes": ("queue_limit", "Bytes that may wait to be written"),
}
SHAPES = {
    "chains": "Bundles without a parent",
    "tails": "Bundles that nothing hangs on",
    "branch_points": "Bundles that several hang on",
    "depth": "Bundles of the longest chain",
    "holes": "Bundles whose parent is missing",
    "stranded": "Bundles that no chain reaches because of holes",
}
"""Gauges by name, which is the field of `Report`, and the help text."""


class StoreCollector(Collector):
    """The metrics of some open stores, read when they are asked for.

    Args:
        stores: that stay open for as long as the collector is registered.
        shapes: whether to work out how the bundles hang together too.
    """

    def __init__(self, stores: Sequence[Store], shapes: bool = False) -> None:
        self._stores, self._shapes = tuple(stores), shapes

    def describe(self) -> list[Metric]:
        """The metrics without values, for the registry to find names that are taken."""
        return list(_metrics((), self._shapes))

    def collect(self) -> Iterator[Metric]:
        """The metrics now."""
        return _metrics(self._stores, self._shapes)


def exposition(stores: Sequence[Store], shapes: bool = True) -> str:
    """The metrics of some stores in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(stores, shapes))
    return generate_latest(registry).decode()


def _metrics(stores: Sequence[Store], shapes: bool) -> Iterator[Metric]:
    names = [[str(store.path)] for store in stores]
    counted: list[Counters] = [store.counters for store in stores]

    def gauge(name: str, text: str, values: Sequence[float]) -> Metric:
        family = GaugeMetricFamily(f"penny_cache_{name}", f"{text}.", labels=[LABEL])
        for label, value in zip(names, values, strict=True):
            family.add_metric(label, value)
        return family

    yield gauge("bundles", "Bundles that are there", [len(store) for store in stores])
    yield gauge("allocated_bytes", "Bytes of the store on the drive", [store.allocated for store in stores])
    limits = [store.settings.budget for store in stores]
    yield gauge(
        "budget_bytes",
        "Bytes that the store may take on the drive, infinite without a limit",
        [float("inf") if limit is None else limit for limit in limits],
    )
    yield gauge(
        "dropped_bundles",
        "Bundles that were not whole when the store was opened",
        [store.recovered.dropped for store in stores],
    )
    for name, (field, text) in GAUGES.items():
        yield gauge(name, text, [getattr(counters, field) for counters in counted])
    for name, (field, text) in COUNTERS.items():
        family = CounterMetricFamily(f"penny_cache_{name}", f"{text}.", labels=[LABEL])
        for label, counters in zip(names, counted, strict=True):
            family.add_metric(label, getattr(counters, field))
        yield family
    loads = SummaryMetricFamily("penny_cache_load_seconds", "Time within loads.", labels=[LABEL])
    for label, counters in zip(names, counted, strict=True):
        loads.add_metric(label, counters.loads, counters.load_nanoseconds / 1e9)
    yield loads
    if shapes:
        reports: list[Report] = [report(store) for store in stores]
        for name, text in SHAPES.items():
            yield gauge(name, text, [getattr(one, name) for one in reports])
