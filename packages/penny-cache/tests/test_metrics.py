"""Metrics: every value is one that the test can count."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from penny_cache import namespace
from penny_cache.metrics import COUNTERS, GAUGES, StoreCollector, exposition
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import Settings, Stage, StoreError, chain, open_store
from penny_cache.store.counters import Counters

SMALL = Settings(segment_bytes=64 * 4096, write_memory=1 << 20, read_memory=1 << 20, budget=1 << 22)
KEYS = list(chain(bytes([i]) for i in range(6)))
BLOCKS = 4  # of each bundle: the part's header, two of payload, the commit


@pytest.fixture
def here(tmp_path: Path) -> Namespace:
    return namespace.ensure(tmp_path / "store", Identity.of("tiny", {"page": 64}))


def test_what_a_store_did_is_what_its_metrics_say(here: Namespace) -> None:
    registry = CollectorRegistry()
    before = time.perf_counter()
    with open_store(here, settings=SMALL) as store:
        registry.register(StoreCollector([store], shapes=True))

        def value(name: str) -> float | None:
            return registry.get_sample_value(f"penny_cache_{name}", {"namespace": str(here.path)})

        assert (value("bundles"), value("put_bundles_total"), value("holes")) == (0, 0, 0)
        for i, key in enumerate(KEYS):
            parent = KEYS[i - 1] if i else None
            store.put(key, {"kv": bytes(5000)}, parent, Stage.DURABLE, wait=30).wait()
        store.put("hangs on nothing", {"kv": bytes(5000)}, "nowhere", wait=30).wait()
        with pytest.raises(StoreError):
            store.put("none", {})
        assert store.match(KEYS) == 6
        assert store.match([*KEYS[:2], b"gone", *KEYS[2:]]) == 2
        assert store.match(["gone"]) == 0
        assert len([None for _ in store.load(KEYS[:4])]) == 4
        assert value("bundles") == 7
        assert value("put_bundles_total") == value("written_bundles_total") == 7
        assert value("written_bytes_total") == 7 * BLOCKS * 4096
        assert value("durable_bundles_total") == 6
        assert (value("refused_bundles_total"), value("failed_bundles_total")) == (1, 0)
        assert (value("lookups_total"), value("lookup_hits_total")) == (4, 3)
        assert (value("asked_pages_total"), value("found_pages_total")) == (6 + 7 + 1 + 4, 6 + 2 + 0 + 4)
        assert value("stranded_pages_total") == 4
        assert (value("loaded_bundles_total"), value("read_bytes_total")) == (4, 4 * BLOCKS * 4096)
        assert value("load_seconds_count") == 1
        assert 0 < (value("load_seconds_sum") or 0) < time.perf_counter() - before
        assert (value("budget_bytes"), value("queue_limit_bytes"), value("queue_bytes")) == (
            1 << 22,
            1 << 20,
            0,
        )
        on_disk = sum(p.stat().st_blocks * 512 for p in here.path.glob("0*"))
        assert value("allocated_bytes") == on_disk > 0
        assert (value("chains"), value("tails"), value("branch_points")) == (1, 2, 0)
        assert (value("depth"), value("holes"), value("stranded")) == (6, 1, 1)
        assert (value("damaged_bundles_total"), value("evicted_total")) == (0, 0)


def test_every_counter_of_a_store_has_a_metric() -> None:
    shown = {field for field, _ in (*COUNTERS.values(), *GAUGES.values())} | {"loads", "load_nanoseconds"}
    assert shown == {field.name for field in fields(Counters)}


def test_several_stores_share_a_registry_by_label(here: Namespace, tmp_path: Path) -> None:
    other = namespace.ensure(tmp_path / "store", Identity.of("tiny", {"page": 32}))
    with open_store(here, settings=SMALL) as one, open_store(other) as two:
        two.put("a", {"kv": b"1"}, wait=30).wait()
        found = {
            sample.labels["namespace"]: sample.value
            for family in text_string_to_metric_families(exposition([one, two]))
            for sample in family.samples
            if sample.name == "penny_cache_bundles"
        }
        assert found == {str(here.path): 0, str(other.path): 1}
        text = exposition([two])
        assert f'penny_cache_budget_bytes{{namespace="{other.path}"}} +Inf\n' in text
        registry = CollectorRegistry()
        registry.register(StoreCollector([one]))
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            registry.register(StoreCollector([two]))


def test_a_scrape_without_shapes_copies_no_index(here: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(here, settings=SMALL) as store:
        monkeypatch.setattr(store, "survey", lambda: pytest.fail("the index was copied"))
        names = {family.name for family in StoreCollector([store]).collect()}
    assert "penny_cache_holes" not in names
    assert {"penny_cache_bundles", "penny_cache_stranded_pages"} <= names
