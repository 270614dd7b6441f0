"""Engines that fail as they are told, and drives after power cuts."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from penny_cache import namespace
from penny_cache.engine import ThreadEngine, Transfer
from penny_cache.engine.faults import SECTOR, FaultEngine, Rule, read_only
from penny_cache.engine.powercut import cut
from penny_cache.engine.recording import Recording, RecordingEngine
from penny_cache.namespace import Identity
from penny_cache.store import Settings, StoreError, open_store

OLD, NEW = b"o" * 4096 * 8, b"n" * 4096 * 8


@pytest.fixture
def engine() -> Iterator[FaultEngine]:
    made = FaultEngine(ThreadEngine(2, direct=False), seed=1)
    yield made
    made.shutdown()


def write(engine: FaultEngine, path: Path, data: bytes = NEW, offset: int = 0) -> int:
    """The number of the error, 0 for none."""
    try:
        file = engine.open(path, os.O_RDWR | os.O_CREAT)
        try:
            engine.write(Transfer(file, offset, [memoryview(data)])).result(30)
        finally:
            engine.close(file)
    except OSError as error:
        return error.errno or -1
    return 0


def test_a_rule_hits_the_nth_call_and_every_so_manieth_after(engine: FaultEngine, tmp_path: Path) -> None:
    engine.set([Rule("write", errno.EIO, nth=2, every=3)])
    assert [write(engine, tmp_path / "a") != 0 for _ in range(8)] == [
        False, True, False, False, True, False, False, True
    ]  # fmt: skip
    assert engine.hits == 3
    engine.set([Rule("write", errno.EIO, nth=2)])
    assert [write(engine, tmp_path / "a") for _ in range(4)] == [0, errno.EIO, 0, 0]
    engine.set()
    assert write(engine, tmp_path / "a") == 0


def test_a_rule_is_for_some_files_and_the_first_that_hits_counts(engine: FaultEngine, tmp_path: Path) -> None:
    engine.set([Rule("write", errno.EIO, "*.index", every=1), Rule("write", errno.EPERM, "b*", every=1)])
    names = ["a.segment", "a.index", "b.segment", "b.index"]
    assert [write(engine, tmp_path / name) for name in names] == [0, errno.EIO, errno.EPERM, errno.EIO]


def test_a_disk_is_full_after_so_many_bytes(engine: FaultEngine, tmp_path: Path) -> None:
    engine.set([Rule("write", errno.ENOSPC, after_bytes=2 * len(NEW), every=1)])
    assert [write(engine, tmp_path / str(i)) for i in range(4)] == [0, 0, errno.ENOSPC, errno.ENOSPC]


def sectors(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[at : at + SECTOR] for at in range(0, len(data), SECTOR)]


def test_a_short_write_leaves_a_start_and_a_torn_one_any_sectors(engine: FaultEngine, tmp_path: Path) -> None:
    file = tmp_path / "a"
    starts: Counter[int] = Counter()
    for _ in range(40):
        file.write_bytes(OLD)
        engine.set([Rule("write", errno.EIO, kept="start")])
        assert write(engine, file) == errno.EIO
        count = file.read_bytes().count(b"n")
        assert file.read_bytes() == NEW[:count] + OLD[count:]
        assert count % 4096 == 0
        starts[count] += 1
    assert len(starts) > 4
    file.write_bytes(OLD)
    engine.set([Rule("write", errno.EIO, kept="torn")])
    assert write(engine, file) == errno.EIO
    assert Counter(sectors(file)).keys() == {b"n" * SECTOR, b"o" * SECTOR}
    file.write_bytes(OLD)
    engine.set([Rule("write", kept="torn")])
    assert write(engine, file) == 0  # it lies
    assert len(Counter(sectors(file))) == 2


def test_the_same_seed_tears_in_the_same_way(tmp_path: Path) -> None:
    found = []
    for seed in (1, 1, 2):
        made = FaultEngine(
            ThreadEngine(1, direct=False), [Rule("write", errno.EIO, kept="torn", every=1)], seed
        )
        (tmp_path / "a").write_bytes(OLD)
        write(made, tmp_path / "a")
        made.shutdown()
        found.append((tmp_path / "a").read_bytes())
    assert found[0] == found[1] != found[2]


def test_a_delay_is_waited_for(engine: FaultEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("penny_cache.engine.faults.time.sleep", waited.append)
    engine.set([Rule("write", delay=3.5)])
    assert write(engine, tmp_path / "a") == 0
    assert (waited, (tmp_path / "a").read_bytes()) == ([3.5], NEW)


def test_every_operation_can_fail(engine: FaultEngine, tmp_path: Path) -> None:
    file = tmp_path / "a"
    engine.write_file(file, OLD)
    calls = {
        "open": lambda: engine.open(file, os.O_RDONLY),
        "write_file": lambda: engine.write_file(file, NEW),
        "rename": lambda: engine.rename(file, tmp_path / "b"),
        "unlink": lambda: engine.unlink(file),
        "truncate": lambda: engine.truncate(file, 1),
        "punch": lambda: engine.punch(file, [(0, 4096)]),
        "sync_directory": lambda: engine.sync_directory(tmp_path),
    }
    for operation, call in calls.items():
        engine.set([Rule(operation, errno.EPERM)])  # type: ignore[arg-type]
        with pytest.raises(PermissionError, match=str(tmp_path)):
            call()
        assert file.read_bytes() == OLD
    opened = engine.open(file, os.O_RDWR)
    engine.set([Rule("sync", errno.EIO), Rule("read", errno.EIO)])
    with pytest.raises(OSError, match="Input/output error"):
        engine.sync(opened)
    view = memoryview(bytearray(4096))
    with pytest.raises(OSError, match="Input/output error"):
        engine.read(Transfer(opened, 0, [view])).result(30)
    engine.read(Transfer(opened, 0, [view])).result(30)
    assert bytes(view) == OLD[:4096]
    engine.close(opened)


def test_a_read_only_file_system_reads(engine: FaultEngine, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(OLD)
    engine.set(read_only(errno.EROFS))
    assert write(engine, tmp_path / "a") == write(engine, tmp_path / "new") == errno.EROFS
    assert not (tmp_path / "new").exists()
    engine.close(engine.open(tmp_path / "a", os.O_RDONLY))


def test_a_full_disk_fails_bundles_one_by_one_and_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Case CP-10: after the first error the loop was dead, the queue grew, and the memory was never given back."""
    here = namespace.ensure(tmp_path / "store", Identity.of("tiny", {"page": 64}))
    full = FaultEngine(ThreadEngine(1))
    # Five bundles of six blocks fill the queue.
    settings = Settings(segment_bytes=1 << 20, write_memory=30 * 4096, read_memory=1 << 20)
    parts = {"kv": b"k" * 16_000}
    with open_store(here, settings=settings, engine=full) as store:
        store.put("before", parts).wait(timeout=30)
        full.set([Rule("write", errno.ENOSPC, kept="start", nth=2, every=1)])
        store.put("page 0", parts).wait(timeout=30)
        tickets = [store.put(f"page {i}", parts, wait=30) for i in range(1, 8)]
        for ticket in tickets:
            with pytest.raises(StoreError, match=rf"{here.path}.*No space left on device"):
                ticket.wait(timeout=30)
        assert [store.match([f"page {i}"]) for i in range(8)] == [1] + [0] * 7
        assert store.counters.queue_bytes == 0
        full.set()
        assert store.put("after", parts).wait(timeout=30)
        found = [len(list(store.load([key]))) for key in ("before", "page 0", "after")]
        assert found == [1, 1, 1]
    told = [line for line in caplog.messages if "No space left on device" in line]
    assert len(told) == 1  # more would be counted in the next line, ten seconds later
    assert str(here.path) in told[0]


def recorded(tmp_path: Path, **files: bytes) -> tuple[RecordingEngine, Recording]:
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    recording = Recording.of(tmp_path)
    return RecordingEngine(ThreadEngine(1, direct=False), recording), recording


def left(recording: Recording, moment: int | None = None, count: int = 200) -> list[dict[str, bytes]]:
    draw = np.random.default_rng(3)
    return [cut(recording, recording.now if moment is None else moment, draw) for _ in range(count)]


def put(engine: RecordingEngine, path: Path, data: bytes, offset: int = 0, sync: bool = False) -> None:
    file = engine.open(path, os.O_RDWR | os.O_CREAT)
    engine.write(Transfer(file, offset, [memoryview(data)])).result(30)
    if sync:
        engine.sync(file)
    engine.close(file)


def test_what_was_synced_is_there_with_its_length(tmp_path: Path) -> None:
    engine, recording = recorded(tmp_path)
    put(engine, tmp_path / "a", OLD, sync=True)
    engine.sync_directory(tmp_path)
    put(engine, tmp_path / "a", NEW, len(OLD))
    found = left(recording)
    assert all(files["a"][: len(OLD)] == OLD for files in found)
    engine.shutdown()


def test_of_a_write_that_was_not_synced_any_sectors_are_there(tmp_path: Path) -> None:
    engine, recording = recorded(tmp_path, a=OLD)
    put(engine, tmp_path / "a", NEW)
    found = [files["a"] for files in left(recording)]
    assert {OLD, NEW} < set(found)
    pieces = [{data[at : at + SECTOR] for at in range(0, len(data), SECTOR)} for data in found]
    assert all(kinds <= {b"o" * SECTOR, b"n" * SECTOR} for kinds in pieces)
    torn = [data for data in found if len(set(data[:4096])) == 2]
    assert torn  # inside a block of 4,096, too
    engine.shutdown()


def test_behind_the_old_end_of_a_file_are_zeros_or_nothing(tmp_path: Path) -> None:
    engine, recording = recorded(tmp_path, a=b"")
    put(engine, tmp_path / "a", NEW)
    found = [files["a"] for files in left(recording)]
    assert {b"", bytes(len(NEW)), NEW} < set(found)
    assert {len(data) % SECTOR for data in found} == {0}
    engine.shutdown()


def test_a_sync_covers_what_was_done_when_it_began(tmp_path: Path) -> None:
    """Moments: 0 the write is asked for, 1 a sync, 2 that returns, 3 the write is done, 4 and 5 as 1 and 2."""
    recording = Recording({"a": OLD})
    writing = recording.begin("write", file=0, data=NEW)
    recording.end(recording.begin("sync", file=0))
    recording.end(writing)
    recording.end(recording.begin("sync", file=0))
    for moment in (1, 2, 3, 4, 5):
        assert {OLD, NEW} < {files["a"] for files in left(recording, moment)}
    assert [files["a"] for files in left(recording, 6)] == [NEW] * 200
    assert [files["a"] for files in left(recording, 0)] == [OLD] * 200


def test_reserved_blocks_are_zeros_that_are_durable_when_synced(tmp_path: Path) -> None:
    engine, recording = recorded(tmp_path)
    file = engine.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    engine.sync_directory(tmp_path)
    assert engine.reserve(file, 4 * 4096)
    before = recording.now
    engine.sync(file)
    assert {files["a"] for files in left(recording, before)} == {b"", bytes(4 * 4096)}
    put(engine, tmp_path / "a", NEW[:4096], offset=4096)
    for files in left(recording):
        assert len(files["a"]) == 4 * 4096
        assert not any(files["a"][:4096])
        assert not any(files["a"][2 * 4096 :])


def test_a_rename_leaves_one_of_the_two_under_the_name(tmp_path: Path) -> None:
    engine, recording = recorded(tmp_path, a=OLD)
    engine.write_file(tmp_path / "b", NEW)
    engine.rename(tmp_path / "b", tmp_path / "a")
    found = left(recording)
    assert {files["a"] for files in found} == {OLD, NEW}
    assert {"b" in files for files in found} == {True, False}
    engine.sync_directory(tmp_path)
    assert left(recording) == [{"a": NEW}] * 200
    engine.shutdown()


def test_names_come_and_go_with_the_sync_of_the_directory(tmp_path: Path) -> None:
    engine, recording = recorded(tmp_path, old=OLD)
    put(engine, tmp_path / "new", NEW, sync=True)
    engine.unlink(tmp_path / "old")
    found = left(recording)
    assert {frozenset(files) for files in found} == {
        frozenset(names) for names in [("old",), ("new",), ("old", "new"), ()]
    }
    assert all(files.get("new", NEW) == NEW for files in found)
    engine.sync_directory(tmp_path)
    assert left(recording) == [{"new": NEW}] * 200
    engine.shutdown()


def test_holes_and_shorter_files_are_durable_when_synced(tmp_path: Path) -> None:
    engine, recording = recorded(tmp_path, a=OLD)
    assert engine.punch(tmp_path / "a", [(4096, 4096)])
    engine.truncate(tmp_path / "a", 3 * 4096)
    whole = [OLD, OLD[:4096] + bytes(4096) + OLD[8192:]]
    assert {files["a"] for files in left(recording)} == {*whole, *(data[: 3 * 4096] for data in whole)}
    put(engine, tmp_path / "a", b"", sync=True)
    assert {files["a"] for files in left(recording)} == {whole[1][: 3 * 4096]}
    engine.shutdown()
