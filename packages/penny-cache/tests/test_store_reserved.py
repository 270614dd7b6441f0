"""Segments that have their blocks before they are written."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penny_cache import namespace
from penny_cache.engine import ThreadEngine, Transfer, Transferred
from penny_cache.engine import files as local
from penny_cache.engine.faults import FaultEngine, Rule
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import Settings, Store, open_store, recover
from penny_cache.store.records import BLOCK


@pytest.fixture
def here(tmp_path: Path) -> Namespace:
    return namespace.ensure(tmp_path / "store", Identity.of("tiny", {"page": 64}))


def put(store: Store, key: str | bytes, parent: str | bytes | None = None, data: bytes = b"1" * 100) -> None:
    assert store.put(key, {"kv": data}, parent, wait=30).wait(timeout=30)


def found(store: Store, *keys: str | bytes) -> list[int]:
    return [store.match([key]) for key in keys]


@pytest.mark.parametrize("refused", [False, True])
def test_a_segment_has_its_blocks_ahead_and_gives_the_rest_back(
    here: Namespace, tmp_path: Path, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes behind the end of a file wait for each other; where blocks cannot be had ahead all is as without."""
    monkeypatch.setattr(local, "_file_system", lambda file: 0xEF53)
    size = 64 * BLOCK
    rules = [Rule("reserve", errno.ENOSPC, every=1)] if refused else []
    settings = Settings(segment_bytes=size)
    segment = here.path / "00000001.segment"
    with open_store(here, settings=settings, engine=FaultEngine(ThreadEngine(), rules)) as store:
        put(store, "a")
        image = 3 * BLOCK  # header, payload, commit
        assert segment.stat().st_size == (BLOCK + image if refused else size)
        assert store.allocated == segment.stat().st_blocks * 512
        killed = namespace.ensure(tmp_path / "killed", here.identity)
        (killed.path / segment.name).write_bytes(segment.read_bytes())
    assert segment.stat().st_size == BLOCK + image
    with open_store(killed, settings=settings) as store:
        assert store.recovered.walked == [1]
        assert found(store, "a") == [1]
        assert (killed.path / segment.name).stat().st_size == BLOCK + image


def test_blocks_that_were_never_written_are_not_walked(
    here: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_file_system", lambda file: 0xEF53)

    class Counting(ThreadEngine):
        seen = 0

        def read(self, transfer: Transfer) -> Transferred:
            self.seen += transfer.size
            return super().read(transfer)

    with open_store(here, settings=Settings(segment_bytes=64 << 20)) as store:
        put(store, "a")
        put(store, "b", "a")
        engine = Counting()
        with open_store(here, writable=False, engine=engine) as reader:
            assert reader.match(["a", "b"]) == 2
            assert engine.seen <= 4 * recover.WINDOW * BLOCK
            put(store, "c", "b")
            assert reader.refresh()
            assert reader.match(["a", "b", "c"]) == 3
