"""Promises that are easily broken at the edges: bursts, replaced and pinned keys, closed and forked stores."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from penny_cache import namespace
from penny_cache.engine import Range, ThreadEngine
from penny_cache.engine.powercut import cut
from penny_cache.engine.recording import Recording, RecordingEngine
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import (
    BundleRefused,
    Digest,
    Settings,
    Stage,
    Store,
    StoreError,
    StoreLocked,
    chain,
    files,
    open_store,
)
from penny_cache.store.index import ROW, Index
from penny_cache.store.records import BLOCK

STATE = frozenset({"state"})
SMALL = Settings(segment_bytes=8 * BLOCK, snapshots=STATE)
"""Two bundles of one block a part in each segment."""


@pytest.fixture
def here(tmp_path: Path) -> Namespace:
    return namespace.ensure(tmp_path / "store", Identity.of("tiny", {"page": 64}))


def put(store: Store, key: str | bytes, parent: str | bytes | None = None, data: bytes = b"1" * 100) -> None:
    assert store.put(key, {"kv": data}, parent, wait=30).wait(timeout=30)


def found(store: Store, *keys: str | bytes) -> list[int]:
    return [store.match([key]) for key in keys]


def test_a_burst_on_a_full_budget_loses_no_new_bundle(here: Namespace) -> None:
    """Full segments wait for writes that only the writer's own thread can take note of."""
    settings = Settings(budget=4 << 20, segment_bytes=1 << 18)
    with open_store(here, settings=settings) as store:
        tickets = [store.put(f"{i}", {"kv": os.urandom(60_000)}, wait=60) for i in range(300)]
        assert all(ticket.wait(timeout=60) for ticket in tickets)
        assert store.allocated <= 4 << 20
        assert store.match(["299"]) == 1


def test_a_bundle_is_not_its_own_parent(here: Namespace) -> None:
    with open_store(here) as store:
        with pytest.raises(BundleRefused, match="cannot be its own parent"):
            store.put("k", {"kv": b"1"}, "k")
        put(store, "a", "b")
        put(store, "b", "a")
    with open_store(here) as store:
        assert store.collect(1 << 30) > 0  # and it ends
        assert len(store) == 0


def test_segments_that_refuse_for_a_while_keep_their_bundles_and_go_later(here: Namespace) -> None:
    class Shortage(ThreadEngine):
        short = False

        def write_file(self, path: Path, data: bytes) -> None:
            if self.short:
                raise OSError(errno.EMFILE, "Too many open files")
            super().write_file(path, data)

    engine = Shortage()
    keys = [f"{i}" for i in range(10)]
    with open_store(here, settings=SMALL) as store:
        for key in keys:
            put(store, key)
    with open_store(here, settings=SMALL, engine=engine) as store:
        engine.short = True
        assert store.collect(1 << 30) == 0
        assert found(store, *keys) == [1] * 10  # nothing came free, so nothing is forgotten
        engine.short = False
        assert store.collect(1 << 30) > 0
        assert found(store, *keys) == [0] * 10


def test_a_closed_store_touches_nothing(here: Namespace) -> None:
    first = open_store(here, settings=SMALL)
    for key in "abcd":
        put(first, key)
    loading = first.load(["a"])
    first.close()
    first.close()
    with open_store(here, settings=SMALL) as second:
        for call in (
            lambda: first.collect(1 << 30),
            lambda: first.forget(["a"]),
            lambda: first.put("x", {"kv": b"1"}),
            lambda: first.match(["a"]),
            lambda: next(loading),
        ):
            with pytest.raises(StoreError, match="is closed"):
                call()
        assert found(second, *"abcd") == [1] * 4


def test_a_durable_bundle_outlives_a_newer_one_that_is_not_durable(here: Namespace, tmp_path: Path) -> None:
    """The newer one is put again by another request, say, and the older one's space is given up before a power cut."""
    recording = Recording.of(here.path)
    engine = RecordingEngine(ThreadEngine(2), recording)
    with open_store(here, settings=SMALL, engine=engine) as store:
        assert store.put("a", {"kv": b"old"}, wanted=Stage.DURABLE).wait(timeout=30)
        for key in "bcd":  # which seals its segment
            put(store, key)
        assert store.put("d", {"kv": b"1"}, wanted=Stage.DURABLE).wait(timeout=30)
        put(store, "a", data=b"new")
        store.collect(0)
        moment = recording.now + 1
    for seed in range(40):
        target = tmp_path / f"cut {seed}" / here.path.name
        target.mkdir(parents=True)
        for name, data in cut(recording, moment, np.random.default_rng(seed)).items():
            (target / name).write_bytes(data)
        with open_store(Namespace(target, here.identity), settings=SMALL) as store:
            assert [bytes(got.parts["kv"]) for got in store.load(["a"])] in ([b"old"], [b"new"])


def test_what_is_forgotten_stays_forgotten(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        put(store, "a", data=b"old")
        for key in "bcd":
            put(store, key)
        put(store, "a", data=b"new")
        put(store, "e")
        assert store.forget(["a", "e"]) == 2
    (here.path / files.SNAPSHOT).unlink()
    with open_store(here, settings=SMALL) as store:
        assert found(store, *"abcde") == [0, 1, 1, 1, 0]


def test_pins_hold_what_is_put_again(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        put(store, "a")
        put(store, "b", "a")
        with store.pinned(["a", "b"]) as count:
            assert count == 2
            put(store, "a")
            put(store, "b", "a")
            put(store, "c")
            put(store, "d")
            store.collect(1 << 30)
            assert store.match(["a", "b"]) == 2


def test_a_reader_goes_on_after_its_segments_went_and_numbers_came_again(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        for key in "abcd":
            put(store, key)
    with open_store(here, settings=SMALL, writable=False) as reader:
        assert [len(list(reader.load([key]))) for key in "abcd"] == [1] * 4
        with open_store(here, settings=SMALL) as store:
            store.collect(1 << 30)
        with open_store(here, settings=SMALL) as store:
            for key in "efgh":
                put(store, key)
        assert reader.refresh()
        assert [len(list(reader.load([key]))) for key in "efgh"] == [1] * 4
        links = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        opened = [os.readlink(path) for path in links]
        assert not [name for name in opened if name.startswith(str(here.path)) and name.endswith("(deleted)")]


def test_memory_that_changes_under_a_restore_costs_no_bundle(here: Namespace) -> None:
    """Two parts at one place, by mistake: the caller hears of it, and the bundle on the drive is as it was."""
    with open_store(here) as store:
        store.put("k", {"kv": b"1" * 5000, "qsa": b"2" * 5000}).wait()
        room = memoryview(bytearray(5000))
        with pytest.raises(StoreError, match="memory for kv of a bundle changes while it is restored"):
            list(store.restore(["k"], lambda *_: room))
        assert [bytes(got.parts["kv"]) for got in store.load(["k"])] == [b"1" * 5000]
        assert store.counters.damaged == 0


@pytest.mark.parametrize("writable", [False, True])
def test_snapshots_that_another_process_gave_up_are_left_out(here: Namespace, writable: bool) -> None:
    """Also where the index files are lost, and whoever opens the store does not say which parts are snapshots."""
    keys = list(chain(bytes([i]) for i in range(6)))
    with open_store(here, settings=SMALL) as store:
        for i, key in enumerate(keys):
            parts = {"kv": bytes([i]) * 100, "state": b"s" * 100}
            assert store.put(key, parts, keys[i - 1] if i else None).wait(timeout=30)
    with open_store(here, writable=False) as reader:
        with open_store(here, settings=SMALL) as store:
            store.collect(2 * BLOCK)
            gone = [names == {"kv"} for names in store.parts(keys)]
            assert any(gone[:5])
            assert not gone[5]
        assert [bytes(got.parts["kv"])[0] for got in reader.load(keys)] == list(range(6))
        assert [names == {"kv"} for names in reader.parts(keys)] == gone
        assert reader.counters.damaged == 0
    for path in [*here.path.glob("*.index"), here.path / files.SNAPSHOT]:
        path.unlink()
    with open_store(here, writable=writable) as store:
        assert [names == {"kv"} for names in store.parts(keys)] == gone
        assert len(list(store.load(keys))) == 6


def test_a_suspended_load_holds_up_no_other(here: Namespace) -> None:
    keys = list(chain(bytes([i]) for i in range(40)))
    with open_store(here, settings=Settings(read_memory=40 * BLOCK)) as store:
        for i, key in enumerate(keys):
            put(store, key, keys[i - 1] if i else None)
        suspended = store.load(keys)
        next(suspended)
        assert len(list(store.load(keys))) == 40
        assert len(list(suspended)) == 39


def test_few_segments_are_open_during_one_load(here: Namespace) -> None:
    keys = list(chain(bytes([i]) for i in range(60)))
    with open_store(here, settings=SMALL) as store:
        for i, key in enumerate(keys):
            put(store, key, keys[i - 1] if i else None)

    class Counting(ThreadEngine):
        now = most = 0

        def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
            self.now += 1
            self.most = max(self.most, self.now)
            return super().open(path, flags, mode)

        def close(self, file: int) -> None:
            self.now -= 1
            super().close(file)

    engine = Counting(2)
    with open_store(here, writable=False, settings=Settings(open_files=4), engine=engine) as store:
        assert len(list(store.load(keys))) == 60
    assert (engine.now, engine.most) == (0, 4)


def test_those_before_one_that_is_too_large_come_first(here: Namespace) -> None:
    with open_store(here) as store:
        put(store, "a")
        put(store, "b", "a", data=bytes(200_000))
    with open_store(here, writable=False, settings=Settings(read_memory=16 * BLOCK)) as store:
        loading = store.load(["a", "b"])
        assert next(loading).position == 0
        with pytest.raises(StoreError, match="read_memory is 65,536; open the store with more"):
            next(loading)


def test_an_abandoned_load_may_end_anywhere(here: Namespace) -> None:
    """The garbage collector ends it in the middle of a call that holds the same locks."""

    class Collecting(ThreadEngine):
        def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
            gc.collect()
            return super().open(path, flags, mode)

    keys = list(chain(bytes([i]) for i in range(10)))
    with open_store(here, settings=SMALL) as store:
        for i, key in enumerate(keys):
            put(store, key, keys[i - 1] if i else None)
    with open_store(here, writable=False, settings=SMALL, engine=Collecting(2)) as store:
        cycle: list[object] = [store.load(keys)]
        next(cycle[0])  # type: ignore[call-overload]
        cycle.append(cycle)
        del cycle
        done: list[int] = []
        thread = threading.Thread(target=lambda: done.append(len(list(store.load(keys)))), daemon=True)
        thread.start()
        thread.join(60)
        assert done == [10]


def test_a_child_of_a_fork_has_no_store_and_no_lock(here: Namespace) -> None:
    store = open_store(here, engine=ThreadEngine(1))
    put(store, "a")
    read, write = os.pipe()
    hold, let_go = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            store.put("child", {"kv": b"1"})
            os.write(write, b"took it")
        except StoreError as error:
            os.write(write, str(error).encode())
        os.read(hold, 1)
        os._exit(0)
    try:
        assert os.read(read, 200).endswith(b"is closed.")
        with pytest.raises(StoreLocked):
            open_store(here)
        store.close()
        open_store(here).close()  # while the child lives
    finally:
        os.write(let_go, b"1")
        os.waitpid(pid, 0)
        for end in (read, write, hold, let_go):
            os.close(end)


def test_a_full_drive_keeps_nobody_out(here: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens the store is perhaps here to make room; the process id in the lock file is for people."""

    def full(file: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with open_store(here) as store:
            assert store.writable
    open_store(here).close()


def test_stages_may_be_numbers(here: Namespace) -> None:
    with open_store(here) as store:
        assert store.put("a", {"kv": b"1"}, wanted=3).wait(timeout=30)  # type: ignore[arg-type]
        assert store.counters.durable == 1
        with pytest.raises(ValueError, match="7 is not a valid Stage"):
            store.put("a", {"kv": b"1"}, wanted=7)  # type: ignore[arg-type]


def test_what_is_written_is_said_to_be_though_its_sync_failed(here: Namespace) -> None:
    class Unsound(ThreadEngine):
        def sync(self, file: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

    with open_store(here, engine=Unsound()) as store:
        ticket = store.put("a", {"kv": b"1"}, wanted=Stage.DURABLE)
        with pytest.raises(StoreError, match="is written and not durable: Input/output error"):
            ticket.wait(timeout=30)
        assert ticket.wait(Stage.WRITTEN)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda store: store.match("abc"), TypeError, "A chain is a sequence of keys, and 'abc' is one key"),
        (lambda store: store.put(5, {"kv": b"1"}), TypeError, "A key is text or bytes, and 5 is of type int"),
        (
            lambda store: store.put("k", {"kv": "text"}),
            BundleRefused,
            "part 'kv' is of type str; a part is a name",
        ),
        (lambda store: store.put("k", {5: b"1"}), BundleRefused, "part 5 is of type bytes; a part is a name"),
    ],
)
def test_wrong_types_are_named(here: Namespace, call: object, kind: type[Exception], text: str) -> None:
    with open_store(here) as store, pytest.raises(kind, match=text):
        call(store)  # type: ignore[operator]


def test_parts_may_be_empty_and_arrays(here: Namespace) -> None:
    with open_store(here) as store:
        store.put("k", {"a": np.zeros((0, 4)), "b": np.arange(6, dtype="<i2").reshape(2, 3)}).wait(timeout=30)
        got = [{name: bytes(view) for name, view in one.parts.items()} for one in store.load(["k"])]
    assert got == [{"a": b"", "b": b"\0\0\1\0\2\0\3\0\4\0\5\0"}]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"budget": 2e9}, "budget is 2000000000.0; give a whole number"),
        ({"free_floor": -5}, "free_floor is -5; give a whole number that is not negative"),
        ({"snapshots": "state"}, "snapshots is the text 'state'; give a set"),
        ({"segment_bytes": 32 << 40}, "at most 17,592,186,040,320 fit"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Settings(**given)  # type: ignore[arg-type]


def test_the_index_does_not_grow_with_what_is_gone() -> None:
    index = Index()
    keys: list[Digest] = list(chain(i.to_bytes(4, "little") for i in range(40_000)))
    for i, key in enumerate(keys):
        row = np.zeros(1, ROW)
        row["key"], row["sequence"] = np.frombuffer(key, "V32"), i
        index.add(row)
        if i >= 300:
            index.remove(index.find([keys[i - 300]]))
    assert len(index) == 300
    assert len(index.rows) < 10_000
    kept = index.find(keys[-300:])
    assert (kept >= 0).all()
    assert index.rows["sequence"][kept].tolist() == list(range(39_700, 40_000))
    assert (index.find(keys[:-300]) < 0).all()


def test_a_snapshot_keeps_who_was_used_last(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        for key in "abcdef":
            put(store, key)
        assert len(list(store.load(["a"]))) == 1
    with open_store(here, settings=SMALL) as store:
        assert store.recovered.walked == []
        store.collect(3 * BLOCK)
        assert found(store, "a", "b") == [1, 0]


@pytest.mark.parametrize("change", ["flip", "cut", "other files"])
def test_a_snapshot_that_does_not_hold_is_not_used(here: Namespace, change: str) -> None:
    with open_store(here, settings=SMALL) as store:
        for key in "abcd":
            put(store, key)
    path = here.path / files.SNAPSHOT
    data = bytearray(path.read_bytes())
    if change == "flip":
        data[len(data) // 2] ^= 1
    path.write_bytes(data[: 200 if change == "cut" else len(data)])
    if change == "other files":
        (here.path / "00000001.segment").unlink()
    with open_store(here, settings=SMALL) as store:
        assert found(store, *"abcd") == ([0, 0, 1, 1] if change == "other files" else [1] * 4)


def test_there_is_no_snapshot_while_somebody_writes(here: Namespace) -> None:
    with open_store(here) as store:
        put(store, "a")
    assert (here.path / files.SNAPSHOT).exists()
    with open_store(here):
        assert not (here.path / files.SNAPSHOT).exists()


def test_holes_of_an_evicted_segment_that_stays_are_tried_again(here: Namespace) -> None:
    class NoHoles(ThreadEngine):
        refusing = True

        def punch(self, path: Path, ranges: Sequence[Range]) -> bool:
            if self.refusing:
                raise OSError(errno.EPERM, "Operation not permitted")
            return super().punch(path, ranges)

    engine, settings = NoHoles(), Settings(segment_bytes=1 << 20)
    with open_store(here, settings=settings) as store:
        for i in range(20):
            put(store, f"{i}", data=bytes(100_000))
    with open_store(here, settings=settings, engine=engine) as store:  # all of it is sealed by now
        store.collect(100_000)
        taken = store.allocated
        gone = [f"{i}" for i in range(20) if not store.match([f"{i}"])]
        assert gone  # the index file says so, though the space did not come free
        engine.refusing = False
        store.collect(0)
        assert store.allocated <= taken - len(gone) * 100_000
