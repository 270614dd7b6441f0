"""Giving space up: within which limits, and never what is needed."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penny_cache import namespace
from penny_cache.engine import Range, ThreadEngine
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import Settings, Store, StoreError, open_store, writer
from penny_cache.store.records import BLOCK

STATE = frozenset({"gdn"})
PAGE = {"kv": b"k" * 20_000}
WITH_STATE = {**PAGE, "gdn": b"g" * 50_000}
BUDGET = Settings(
    segment_bytes=1 << 18, budget=1 << 20, snapshots=STATE, write_memory=1 << 20, read_memory=1 << 20
)


@pytest.fixture
def here(tmp_path: Path) -> Namespace:
    return namespace.ensure(tmp_path / "store", Identity.of("tiny", {"page": 64}))


def put(store: Store, prefix: str, count: int, start: int = 0) -> list[str]:
    keys = [f"{prefix}{i}" for i in range(start + count)]
    for i in range(start, start + count):
        store.put(keys[i], WITH_STATE if i % 2 else PAGE, keys[i - 1] if i else None, wait=30).wait()
    return keys


def names(store: Store, keys: list[str]) -> list[list[str]]:
    return [sorted(one.parts) for one in store.load(keys)]


def test_a_budget_holds_while_writing_and_after_opening_again(here: Namespace) -> None:
    """Case CP-18: counting only what a process wrote itself let a kept directory grow past its cap."""
    with open_store(here, settings=BUDGET) as store:
        first = put(store, "first", 8)
        assert store.allocated <= 1 << 20
    with open_store(here, settings=BUDGET) as store:
        assert store.match(first) == 8
        for number in range(6):
            keys = put(store, f"more{number}-", 8)
            assert store.allocated <= 1 << 20
            assert store.match(keys) == 8  # the newest is there
        assert store.match(first) < 8
        assert store.counters.evicted > 0
    with open_store(here, settings=BUDGET) as store:
        assert store.allocated <= 1 << 20
        assert store.match(keys) == 8
        assert len(names(store, keys)) == 8


def test_snapshots_go_before_pages_and_what_is_left_loads(here: Namespace) -> None:
    """Eight pages with snapshots at the second, fourth, sixth and eighth: the first three are inside the path. 50,000
    bytes take 13 blocks; the files' own tables may take some of what three of those free."""
    with open_store(here, settings=BUDGET) as store:
        put(store, "a", 8)
    with open_store(here, settings=BUDGET) as store:
        keys = [f"a{i}" for i in range(8)]
        assert store.collect(3 * 13 * BLOCK) > 3 * 11 * BLOCK
        assert store.match(keys) == 8
        assert names(store, keys) == [["kv"]] * 7 + [["gdn", "kv"]]
        assert store.collect(1) > 0
        assert names(store, keys) == [["kv"]] * 7
    with open_store(here, settings=BUDGET) as store:
        assert names(store, keys) == [["kv"]] * 7
        assert store.counters.damaged == 0


def test_pinned_chains_stay_and_a_full_store_says_why(here: Namespace) -> None:
    with open_store(here, settings=BUDGET) as store:
        keys = put(store, "a", 8)
    with open_store(here, settings=BUDGET) as store, store.pinned(keys) as count:
        assert count == 8
        assert store.collect(1 << 30) == 0
        assert len(names(store, keys)) == 8
    with open_store(here, settings=Settings(free_floor=1 << 60)) as store:
        ticket = store.put("b", PAGE)
        with pytest.raises(StoreError, match=r"has no room for .*\(free_floor\); what is pinned"):
            ticket.wait()
        assert store.match(keys) == 0  # it tried


def test_an_emptied_segment_goes_and_one_that_cannot_go_holds_nothing_up(here: Namespace) -> None:
    with open_store(here, settings=BUDGET) as store:
        put(store, "a", 4)
        put(store, "b", 4)
        put(store, "c", 4)
    segments = sorted(here.path.glob("*.segment"))
    assert len(segments) > 2

    class Stays(ThreadEngine):
        def punch(self, path: Path, ranges: Sequence[Range]) -> bool:
            if path == segments[0]:
                raise OSError(errno.EPERM, "Operation not permitted")
            return super().punch(path, ranges)

        def unlink(self, path: Path) -> None:
            if path == segments[0]:
                raise OSError(errno.EPERM, "Operation not permitted")
            super().unlink(path)

    with open_store(here, settings=BUDGET, engine=Stays()) as store:
        before = store.allocated
        freed = store.collect(1 << 30)
        assert 0 < freed < before
        assert len(store) == 0
    assert sorted(here.path.glob("*.segment")) == segments[:1]


def test_no_removed_file_stays_open(here: Namespace) -> None:
    """Its space would not come free before the process ends."""
    with open_store(here, settings=BUDGET) as store:
        keys = put(store, "a", 12)
    with open_store(here, settings=BUDGET) as store:
        assert len(names(store, keys)) == 12  # which opens every segment
        store.collect(1 << 30)
        assert not list(here.path.glob("*.segment"))
        links = [Path("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
        held = [os.readlink(link) for link in links if link.is_symlink()]
        assert not [name for name in held if name.startswith(str(here.path)) and name.endswith("(deleted)")]


def test_two_rounds_at_once_leave_a_store_that_opens(here: Namespace) -> None:
    with open_store(here, settings=BUDGET) as store:
        keys = put(store, "a", 12)
    with open_store(here, settings=BUDGET) as store:
        with ThreadPoolExecutor(4) as pool:
            freed = list(pool.map(store.collect, [50_000] * 4))
        assert all(freed)
        count = store.match(keys)
        assert len(names(store, keys)) == count
    with open_store(here, settings=BUDGET) as store:
        assert store.match(keys) == count
        assert len(names(store, keys)) == count
        assert (store.counters.damaged, store.recovered.walked) == (0, [])


def test_a_bundle_larger_than_the_memory_for_reading_says_so(here: Namespace) -> None:
    with open_store(here, settings=BUDGET) as store:
        keys = put(store, "a", 2)
    with (
        open_store(here, writable=False, settings=Settings(read_memory=4 * BLOCK)) as store,
        pytest.raises(StoreError, match="read_memory is 16,384; open the store with more"),
    ):
        names(store, keys)


def test_a_writer_that_fails_tells_those_who_wait(here: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("a fault of ours")

    with open_store(here, settings=BUDGET) as store:
        monkeypatch.setattr(writer, "seal", broken)
        with pytest.raises(StoreError, match="a fault of ours"):
            store.put("a", PAGE).wait(timeout=30)
        monkeypatch.undo()
        with pytest.raises(StoreError, match="ended with a fault"):
            store.put("b", PAGE)
