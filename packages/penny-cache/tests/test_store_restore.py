"""Reading: into the caller's memory, at any alignment, with few files open, and past what cannot be read."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from penny_cache import namespace
from penny_cache.engine import ThreadEngine, Transfer, Transferred
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import Digest, Settings, Stage, Store, StoreError, chain, files, open_store
from penny_cache.store.complaints import Complaints
from penny_cache.store.memory import Pool

SIZES = (1, 511, 512, 4095, 4096, 4097, 200_704)
SMALL = Settings(segment_bytes=1 << 20)


@pytest.fixture
def here(tmp_path: Path) -> Namespace:
    return namespace.ensure(tmp_path / "store", Identity.of("tiny", {"page": 64}))


def payload(seed: int, size: int) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def memory(size: int, offset: int) -> memoryview:
    """Writable memory that starts `offset` bytes behind a whole block."""
    block = np.empty(size + 8192, np.uint8)
    start = -block.ctypes.data % 4096 + offset
    return memoryview(block)[start : start + size]


@pytest.mark.parametrize("offset", [0, 16])
@pytest.mark.parametrize("direct", [True, False])
def test_awkward_sizes_and_buffers(here: Namespace, direct: bool, offset: int) -> None:
    """CP-19: every size, aligned or not, with and without O_DIRECT, comes back with its true length."""
    parts = {f"p{size}": payload(size, size) for size in SIZES}
    with open_store(here, engine=ThreadEngine(2, direct)) as store:
        given = {name: memory(len(data), offset) for name, data in parts.items()}
        for name, data in parts.items():
            given[name][:] = data
        store.put("k", given).wait()
        asked: list[tuple[int, str, int]] = []
        room = {name: memory(len(data) + 3, offset) for name, data in parts.items()}
        for view in room.values():
            view[:] = b"\xaa" * len(view)

        def place(position: int, name: str, size: int) -> memoryview:
            asked.append((position, name, size))
            return room[name]

        assert list(store.restore(["k"], place)) == [0]
        assert asked == [(0, f"p{size}", size) for size in SIZES]
        for name, data in parts.items():
            assert bytes(room[name]) == data + b"\xaa\xaa\xaa"  # and nothing behind it


def put_chain(store: Store, count: int, size: int = 5000) -> list[Digest]:
    keys = list(chain(bytes([i]) for i in range(count)))
    tickets = []
    for i, key in enumerate(keys):
        parts = {"kv": payload(i, size), "gdn": payload(1000 + i, 9000), "qsa": payload(2000 + i, 300)}
        tickets.append(store.put(key, parts, keys[i - 1] if i else None, wait=10))
    assert all(ticket.wait() for ticket in tickets)
    return keys


def test_parts_that_are_left_out_are_not_read(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        keys = put_chain(store, 6)

    class Counting(ThreadEngine):
        read_bytes = 0

        def read(self, transfer: Transfer) -> Transferred:
            Counting.read_bytes += transfer.size
            return super().read(transfer)

    with open_store(here, writable=False, engine=Counting()) as store:
        Counting.read_bytes = 0
        got: dict[tuple[int, str], memoryview] = {}

        def place(position: int, name: str, size: int) -> memoryview | None:
            if name == "gdn" and position != 5:
                return None
            got[position, name] = memory(size, 0)
            return got[position, name]

        assert list(store.restore(keys, place)) == list(range(6))
        for i in range(6):
            assert got[i, "kv"] == payload(i, 5000)
            assert got[i, "qsa"] == payload(2000 + i, 300)
        assert got[5, "gdn"] == payload(1005, 9000)
        # Headers of a block each; kv takes two blocks, qsa one, gdn three.
        assert Counting.read_bytes == 4096 * (6 * (1 + 2 + 1 + 1) + (1 + 3))
        assert store.counters.bytes_read == 6 * 5300 + 9000
        assert store.parts(keys) == [frozenset({"kv", "gdn", "qsa"})] * 6


def test_memory_that_does_not_fit_is_refused(here: Namespace) -> None:
    with open_store(here) as store:
        store.put("k", {"kv": bytes(100)}).wait()
        with pytest.raises(ValueError, match="part kv has 99 bytes; it takes 100 contiguous ones"):
            list(store.restore(["k"], lambda *_: memoryview(bytearray(99))))
        with pytest.raises(ValueError, match="100 bytes that are read-only"):
            list(store.restore(["k"], lambda *_: memoryview(bytes(100))))


@pytest.mark.parametrize("target", ["header", "payload"])
def test_a_damaged_part_is_never_said_to_be_there(here: Namespace, target: str) -> None:
    with open_store(here) as store:
        keys = put_chain(store, 4)
        row = next(row for row in store.survey().rows if row["key"].tobytes() == keys[2])
        at = int(row["offset"]) * 4096 + {"header": 150, "payload": 4096 + 77}[target]
    path = here.path / "00000001.segment"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with open_store(here) as store:
        assert list(store.restore(keys, lambda _, __, size: memory(size, 0))) == [0, 1]
        assert store.counters.damaged == 1
        assert store.match(keys) == 2
    with open_store(here) as store:  # which was written down
        assert store.match(keys) == 2
        assert store.recovered.walked == []
        assert len(store) == 3


class Failing(ThreadEngine):
    """Reads of payloads fail with `number` while it is set."""

    number = 0

    def read(self, transfer: Transfer) -> Transferred:
        if not self.number:
            return super().read(transfer)
        done = Transferred()
        done.set_exception(OSError(self.number, os.strerror(self.number)))
        return done


def test_what_cannot_be_read_is_a_miss_until_the_store_is_opened_again(here: Namespace) -> None:
    with open_store(here) as store:
        keys = put_chain(store, 3)
    engine = Failing()
    with open_store(here, engine=engine) as store:
        engine.number = errno.EIO
        assert list(store.load(keys)) == []
        assert store.match(keys) == 0
        assert (store.counters.unreadable, store.counters.damaged) == (1, 0)
        engine.number = 0
        store.put(keys[0], {"kv": b"new"}).wait()  # what is stored again is there again
        assert store.match(keys) == 3
    with open_store(here) as store:
        assert store.match(keys) == 3


def test_a_shortage_of_the_process_forgets_nothing(here: Namespace) -> None:
    with open_store(here) as store:
        keys = put_chain(store, 3)
    engine = Failing()
    with open_store(here, writable=False, engine=engine) as store:
        engine.number = errno.EMFILE
        assert list(store.load(keys)) == []
        engine.number = 0
        assert len(list(store.load(keys))) == 3


def test_few_files_are_open(here: Namespace) -> None:
    """CP-16: descriptors do not grow with segments, with loads or with those that fail."""
    with open_store(here, settings=Settings(segment_bytes=1 << 16)) as store:
        keys = put_chain(store, 40)
    assert len(list(here.path.glob("*.segment"))) > 20
    engine = Failing(2)
    with open_store(here, writable=False, settings=Settings(open_files=4), engine=engine) as store:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            assert len(list(store.load(keys))) == 40
            assert len(os.listdir("/proc/self/fd")) - before <= 4
        engine.number = errno.EMFILE
        for _ in range(10):
            assert list(store.load(keys)) == []
        assert len(os.listdir("/proc/self/fd")) - before <= 4
    assert len(os.listdir("/proc/self/fd")) < before  # the directory's own is closed too


def test_a_reader_sees_what_came_since_when_it_looks_again(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store, open_store(here, writable=False) as reader:
        assert reader.refresh() is False
        keys = put_chain(store, 3)
        store.put("last", {"kv": b"1"}, wanted=Stage.DURABLE).wait()
        assert reader.match(keys) == 0
        assert reader.refresh() is True
        assert reader.match(keys) == 3
        with pytest.raises(StoreError, match="only readers need to look again"):
            store.refresh()


def test_bundles_are_forgotten_for_good(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        keys = put_chain(store, 6)
    with open_store(here, settings=SMALL) as store:
        before = store.allocated
        assert store.forget([keys[1], keys[4], "unknown"]) == 2
        assert store.match(keys) == 1
        assert store.allocated < before
        store.put("new", {"kv": b"1"}).wait()
        assert store.forget(["new"]) == 1
    with open_store(here, settings=SMALL) as store:
        assert len(store) == 4
        assert store.match(["new"]) == 0
        assert (store.counters.damaged, store.recovered.walked) == (0, [])


def test_what_is_replaced_gives_its_space_back_and_stays_replaced(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        for version in range(6):
            store.put("k", {"kv": bytes([version]) * 400_000}).wait()
        taken = store.allocated
    with open_store(here, settings=SMALL) as store:
        assert [bytes(got.parts["kv"]) for got in store.load(["k"])] == [b"\x05" * 400_000]
        store.collect(0)
        assert taken - store.allocated >= 5 * 400_000
        assert store.forget(["k"]) == 1
    with open_store(here, settings=SMALL) as store:
        assert store.match(["k"]) == 0  # no earlier version came back


def test_a_segment_whose_sync_failed_is_not_called_durable(here: Namespace) -> None:
    class Unsound(ThreadEngine):
        failing = True

        def sync(self, file: int) -> None:
            if self.failing:
                raise OSError(errno.EIO, "Input/output error")
            super().sync(file)

    engine = Unsound()
    with open_store(here, engine=engine) as store:
        ticket = store.put("a", {"kv": b"1"}, wanted=Stage.DURABLE)
        with pytest.raises(StoreError, match="is written and not durable: Input/output error"):
            ticket.wait()
        engine.failing = False
        store.put("b", {"kv": b"2"}, wanted=Stage.DURABLE).wait()
        assert sorted(p.name for p in here.path.glob("*.segment")) == ["00000001.segment", "00000002.segment"]
    assert sorted(p.name for p in here.path.glob("*.index")) == ["00000002.index"]
    with open_store(here) as store:
        assert store.match(["a"]) == 1  # it was written, and the walk found it whole
        assert store.match(["b"]) == 1


def test_memory_comes_back_only_when_nobody_looks_at_it() -> None:
    pool = Pool(3 * 4096)
    first = pool.take(4096)
    assert first is not None
    first.view[:3] = b"one"
    kept = first.view[:3]
    first.close()
    second = pool.take(4096)
    assert second is not None
    second.view[:3] = b"two"
    assert bytes(kept) == b"one"
    kept.release()
    second.close()
    third = pool.take(4096)
    assert third is not None
    assert bytes(third.view[:3]) == b"two"  # the same memory again
    assert pool.used == 4096
    assert pool.take(2 * 4096) is not None
    assert pool.take(4096) is None


def test_parts_are_gone_when_the_next_bundle_is_asked_for(here: Namespace) -> None:
    with open_store(here) as store:
        keys = put_chain(store, 2)
        loading = store.load(keys)
        first = next(loading)
        next(loading)
        with pytest.raises(ValueError, match="released"):
            bytes(first.parts["kv"])


def test_a_load_that_is_left_gives_everything_back(here: Namespace) -> None:
    with open_store(here) as store:
        keys = put_chain(store, 8)
        loading = store.load(keys)
        next(loading)
        loading.close()  # type: ignore[attr-defined]
        assert store._reader._pool.used == 0
        assert store.collect(1 << 30) >= 0
    with open_store(here) as store:
        store.collect(1 << 30)
        assert len(store) == 0  # nothing stayed pinned


def test_keys_behind_a_hole_are_counted(here: Namespace) -> None:
    """CP-13: pages 3 to 199 of 200 are there: no page is found, and the figure says why."""
    keys = list(chain(page.to_bytes(2, "little") for page in range(200)))
    with open_store(here) as store:
        tickets = [store.put(keys[i], {"kv": b"1"}, keys[i - 1], wait=60) for i in range(3, 200)]
        assert all(ticket.wait() for ticket in tickets)
        assert store.match(keys) == 0
        counters = store.counters
        assert (counters.lookups, counters.hits, counters.pages_asked) == (1, 0, 200)
        assert (counters.pages_found, counters.pages_stranded) == (0, 197)


@pytest.mark.parametrize("data", [bytes(31), bytes(33), bytes(32)])
def test_a_digest_is_32_bytes(data: bytes) -> None:
    with pytest.raises(ValueError, match="A digest is 32 bytes that are not all zero"):
        Digest(data)


def test_parts_in_pieces_are_refused(here: Namespace) -> None:
    with open_store(here) as store, pytest.raises(Exception, match="parts kv are not contiguous"):
        store.put("k", {"kv": memoryview(bytes(100))[::2]})


def test_complaints_do_not_flood(caplog: pytest.LogCaptureFixture) -> None:
    """CP-10: one line at once, the others counted in the next one."""
    now = [0.0]
    complaints = Complaints("Bundles are not stored", lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for second in range(25):
            now[0] = float(second)
            complaints.about("No space left on device")
    assert [record.getMessage() for record in caplog.records] == [
        "Bundles are not stored: No space left on device",
        "Bundles are not stored: No space left on device (and 9 more since the last line)",
        "Bundles are not stored: No space left on device (and 9 more since the last line)",
    ]


def names(paths: Sequence[Path]) -> list[str]:
    return [path.name for path in paths]


def test_numbers_of_removed_segments_are_not_used_again(here: Namespace) -> None:
    """An index file that a power cut left behind would be taken for that of the new segment."""
    with open_store(here) as store:
        put_chain(store, 2)
    (here.path / "00000001.segment").unlink()
    (here.path / "00000009.unfinished").write_bytes(b"half")
    with open_store(here) as store:
        assert len(store) == 0
        store.put("k", {"kv": b"1"}).wait()
        assert names(sorted(here.path.glob("*.segment"))) == ["00000002.segment"]
        assert not list(here.path.glob("*.unfinished"))
        assert not (here.path / "00000001.index").exists()
    with open_store(here) as store:
        assert store.match(["k"]) == 1


def test_a_store_of_a_segment_without_bundles_has_none(here: Namespace) -> None:
    with open_store(here) as store:
        store.put("a", {"kv": b"1"}).wait()
    (here.path / "00000001.index").unlink()
    os.truncate(here.path / "00000001.segment", 4096)
    for writable in (False, True):
        with open_store(here, writable=writable) as store:
            assert store.match(["a"]) == 0
            assert list(store.load(["a"])) == []


def test_a_segment_that_cannot_be_made_nor_removed_stops_nothing(here: Namespace) -> None:
    class Broken(ThreadEngine):
        broken = True

        def write(self, transfer: Transfer) -> Transferred:
            if not self.broken:
                return super().write(transfer)
            done = Transferred()
            done.set_exception(OSError(errno.EIO, "Input/output error"))
            return done

        def unlink(self, path: Path) -> None:
            if self.broken:
                raise OSError(errno.EROFS, "Read-only file system")
            super().unlink(path)

    engine = Broken()
    with open_store(here, engine=engine) as store:
        with pytest.raises(StoreError, match="Input/output error"):
            store.put("a", {"kv": b"1"}).wait()
        engine.broken = False
        store.put("a", {"kv": b"2"}).wait()
        assert store.match(["a"]) == 1


def test_a_nearly_full_file_system_gets_small_segments(
    here: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing that is stored goes for the sake of a large one."""
    with open_store(here) as store:
        keys = put_chain(store, 3)
    left = 1 << 20

    class Free:
        f_bavail, f_frsize = left // 4096, 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Free)
    with open_store(here) as store:
        store.put("new", {"kv": bytes(100_000)}).wait()
        assert store.match(keys) == 3
        assert store.match(["new"]) == 1
        assert store.counters.evicted == 0


def test_who_looks_at_the_lock_keeps_no_writer_out(here: Namespace) -> None:
    with open_store(here):
        pass
    with (here.path / "writer.lock").open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.05, fcntl.flock, (looking, fcntl.LOCK_UN)).start()
        with open_store(here) as store:
            assert store.writable


def test_a_file_that_goes_while_the_store_is_listed_is_not_listed(
    here: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(here) as store:
        put_chain(store, 1)
    real = os.scandir

    class Going:
        """A listing whose files are gone when they are looked at."""

        def __enter__(self) -> list[os.DirEntry[str]]:
            with real(here.path) as entries:
                found = list(entries)
            for entry in found:
                if entry.name.endswith(".index"):
                    os.unlink(entry.path)
            return found

        def __exit__(self, *error: object) -> None:
            return None

    monkeypatch.setattr(os, "scandir", lambda path: Going())
    assert set(files.listing(here.path)) == {"00000001.segment"}
