"""What every engine of local files does, the same for all of them."""

from __future__ import annotations

import errno
import gc
import importlib.util
import mmap
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penny_cache import namespace
from penny_cache.engine import Engine, ThreadEngine, Transfer, files
from penny_cache.namespace import Identity
from penny_cache.store import Stage, open_store

BLOCK = 4096
SOON = 60.0
"""Seconds after which a transfer counts as hanging."""


def nixl_engine(depth: int = 16, direct: bool = True) -> Engine:
    if importlib.util.find_spec("nixl_cu13") is None and importlib.util.find_spec("nixl_cu12") is None:
        pytest.skip("NIXL is not installed (penny-cache[nixl])")
    from penny_cache.engine.agent import NixlMissing
    from penny_cache.engine.nixl import NixlEngine

    try:
        return NixlEngine(depth, direct)
    except NixlMissing as reason:
        pytest.skip(f"NIXL does not work here: {reason}")


MAKERS: dict[str, Callable[..., Engine]] = {"threads": ThreadEngine, "nixl": nixl_engine}


@pytest.fixture(params=[(name, direct) for name in MAKERS for direct in (True, False)], ids=str)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    name, direct = request.param
    made = MAKERS[name](depth=4, direct=direct)
    assert made.name == name
    yield made
    made.shutdown()


def memory(size: int, seed: int | None = None) -> memoryview:
    view = memoryview(mmap.mmap(-1, size))
    if seed is not None:
        view[:] = random.Random(seed).randbytes(size)
    return view


def put(engine: Engine, path: Path, data: bytes | memoryview) -> int:
    file = engine.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    view = memory(len(data))
    view[:] = data
    engine.write(Transfer(file, 0, [view])).result(SOON)
    return file


def descriptors() -> int:
    gc.collect()  # engines of other tests
    return len(os.listdir("/proc/self/fd"))


def test_bytes_come_back_over_several_views(engine: Engine, tmp_path: Path) -> None:
    whole = memory(11 * BLOCK, seed=1)
    file = engine.open(tmp_path / "file", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    engine.write(Transfer(file, 2 * BLOCK, [whole[: 3 * BLOCK], whole[3 * BLOCK :]])).result(SOON)
    assert (tmp_path / "file").read_bytes() == bytes(2 * BLOCK) + whole
    views = [memory(BLOCK), memory(7 * BLOCK), memory(0x1000)]
    transfer = Transfer(file, 3 * BLOCK, [views[0], memoryview(b""), *views[1:]])
    assert transfer.size == 9 * BLOCK
    engine.read(transfer).result(SOON)
    assert b"".join(views) == whole[BLOCK : 10 * BLOCK]
    engine.close(file)


def test_what_is_larger_than_one_request_comes_back(engine: Engine, tmp_path: Path) -> None:
    """More requests than may be under way, in one transfer, and a last one that is shorter."""
    whole = memory((17 << 20) + BLOCK, seed=2)
    file = put(engine, tmp_path / "file", whole)
    back = memory(whole.nbytes)
    engine.read(Transfer(file, 0, [back])).result(SOON)
    assert back == whole
    engine.close(file)


def test_nothing_to_move_is_done(engine: Engine, tmp_path: Path) -> None:
    file = put(engine, tmp_path / "file", bytes(BLOCK))
    engine.read(Transfer(file, 0, [])).result(SOON)
    engine.write(Transfer(file, 0, [memoryview(b"")])).result(SOON)
    engine.close(file)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 2 << 20])
def test_a_read_past_the_end_fails(engine: Engine, tmp_path: Path, size: int) -> None:
    """The file is one byte shorter than what is asked for, or more."""
    (tmp_path / "file").write_bytes(os.urandom(size))
    file = engine.open(tmp_path / "file", os.O_RDONLY)
    for blocks in (size // BLOCK + 1, size // BLOCK + 5):
        with pytest.raises(OSError, match="ends before") as caught:
            engine.read(Transfer(file, 0, [memory(blocks * BLOCK)])).result(SOON)
        assert caught.value.errno == errno.EIO
    engine.close(file)


def test_a_transfer_that_fails_is_the_only_one(engine: Engine, tmp_path: Path) -> None:
    whole = memory(64 * BLOCK, seed=3)
    file = put(engine, tmp_path / "file", whole)
    started = []
    for block in range(0, 80, 4):  # the last four are behind the end
        view = memory(4 * BLOCK)
        started.append((block, view, engine.read(Transfer(file, block * BLOCK, [view]))))
    for block, view, done in started:
        if block < 64:
            done.result(SOON)
            assert view == whole[block * BLOCK : (block + 4) * BLOCK]
        else:
            with pytest.raises(OSError, match="ends before"):
                done.result(SOON)
    engine.close(file)


def test_errors_are_those_of_the_operating_system(engine: Engine, tmp_path: Path) -> None:
    file = put(engine, tmp_path / "file", bytes(BLOCK))
    reader = engine.open(tmp_path / "file", os.O_RDONLY)
    with pytest.raises(OSError) as caught:  # noqa: PT011
        engine.write(Transfer(reader, 0, [memory(BLOCK)])).result(SOON)
    assert caught.value.errno == errno.EBADF
    engine.close(reader)
    with pytest.raises(OSError) as caught:  # noqa: PT011
        engine.read(Transfer(reader, 0, [memory(BLOCK)])).result(SOON)
    assert caught.value.errno == errno.EBADF
    with pytest.raises(OSError) as caught:  # noqa: PT011
        engine.close(reader)
    assert caught.value.errno == errno.EBADF
    engine.close(file)
    with pytest.raises(FileNotFoundError):
        engine.open(tmp_path / "none", os.O_RDONLY)
    with pytest.raises(FileExistsError):
        engine.open(tmp_path / "file", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError) as caught:  # noqa: PT011
        engine.open(tmp_path / "link", os.O_RDONLY)
    assert caught.value.errno == errno.ELOOP


def test_a_full_device_is_an_error_and_no_success(engine: Engine) -> None:
    file = engine.open(Path("/dev/full"), os.O_WRONLY)
    with pytest.raises(OSError) as caught:  # noqa: PT011
        engine.write(Transfer(file, 0, [memory(BLOCK)])).result(SOON)
    assert caught.value.errno == errno.ENOSPC
    engine.close(file)


def test_memory_that_is_not_aligned_is_moved_right_or_refused(engine: Engine, tmp_path: Path) -> None:
    whole = memory(4 * BLOCK, seed=4)
    file = put(engine, tmp_path / "file", whole)
    for start, size, offset in [(16, BLOCK, 0), (0, 100, 0), (0, BLOCK, 512)]:
        view = memory(3 * BLOCK)[start : start + size]
        error = engine.read(Transfer(file, offset, [view])).exception(SOON)
        if error is None:
            assert view == whole[offset : offset + size]
        else:
            assert isinstance(error, OSError)
            assert error.errno == errno.EINVAL
    engine.close(file)


def test_descriptors_of_one_path_are_apart(engine: Engine, tmp_path: Path) -> None:
    """CP-15: what one batch closes is never another one's file."""
    whole = memory(BLOCK, seed=5)
    for name in ("p1", "p2", "p3"):
        engine.close(put(engine, tmp_path / name, whole))
    opened = {
        batch: [engine.open(tmp_path / name, os.O_RDONLY) for name in names]
        for batch, names in {"A": ("p1", "p2"), "B": ("p2", "p3"), "C": ("p1",)}.items()
    }
    numbers = [file for files in opened.values() for file in files]
    assert len(set(numbers)) == 5
    for file in opened.pop("B"):
        engine.close(file)
    again = engine.open(tmp_path / "p3", os.O_RDONLY)  # has one of B's numbers now
    assert again in numbers
    for file in [*opened["A"], *opened["C"], again]:
        view = memory(BLOCK)
        engine.read(Transfer(file, 0, [view])).result(SOON)
        assert view == whole
        engine.close(file)


def test_many_batches_from_many_threads_leave_no_descriptor(engine: Engine, tmp_path: Path) -> None:
    """CP-16, and CP-15 across threads."""
    failures: list[str] = []

    def work(number: int) -> None:
        whole = memory(2 * BLOCK, seed=number)
        path = tmp_path / str(number)
        for batch in range(25):
            file = engine.open(path, os.O_RDWR | os.O_CREAT)
            engine.write(Transfer(file, batch * 2 * BLOCK, [whole])).result(SOON)
            views = [memory(BLOCK) for _ in range(16)]
            started = [
                engine.read(Transfer(file, (2 * batch + i) * BLOCK, [view])) for i, view in enumerate(views)
            ]
            for i, (view, done) in enumerate(zip(views, started, strict=True)):
                error = done.exception(SOON)
                if i < 2 and (error is not None or view != whole[i * BLOCK : (i + 1) * BLOCK]):
                    failures.append(f"{number}, batch {batch}, block {i}: {error}")
                if i >= 2 and not (isinstance(error, OSError) and error.errno == errno.EIO):
                    failures.append(f"{number}, batch {batch}, block {i} is no error: {error}")
            engine.close(file)

    before = descriptors()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert descriptors() <= before


def test_names_lengths_and_holes(engine: Engine, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    engine.write_file(one, b"abc")
    engine.write_file(one, b"de")
    assert one.read_bytes() == b"de"
    assert one.stat().st_mode & 0o777 == 0o600
    engine.rename(one, other)
    assert not one.exists()
    engine.truncate(other, 3 * BLOCK)
    file = engine.open(other, os.O_RDWR)
    whole = memory(3 * BLOCK, seed=6)
    engine.write(Transfer(file, 0, [whole])).result(SOON)
    engine.sync(file)
    assert engine.punch(other, [(BLOCK, BLOCK)])
    engine.sync_directory(tmp_path)
    assert other.read_bytes() == whole[:BLOCK].tobytes() + bytes(BLOCK) + whole[2 * BLOCK :].tobytes()
    engine.close(file)
    engine.unlink(other)
    engine.unlink(other)
    assert list(tmp_path.iterdir()) == []


def test_blocks_are_reserved_ahead_or_nothing_changes(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_file_system", lambda file: 0xEF53)
    file = engine.open(tmp_path / "new", os.O_RDWR | os.O_CREAT)
    assert engine.reserve(file, 256 * BLOCK)
    seen = os.fstat(file)
    assert seen.st_size == 256 * BLOCK
    assert seen.st_blocks * 512 >= 256 * BLOCK
    engine.write(Transfer(file, 255 * BLOCK, [memory(BLOCK, seed=9)])).result(SOON)
    assert (tmp_path / "new").read_bytes() == bytes(255 * BLOCK) + memory(BLOCK, seed=9)
    engine.close(file)

    file = engine.open(tmp_path / "too large", os.O_RDWR | os.O_CREAT)
    assert not engine.reserve(file, 1 << 62)
    # btrfs keeps what it gave at once until all of it goes, so it is not asked.
    monkeypatch.setattr(files, "_file_system", lambda file: 0x9123683E)
    assert not engine.reserve(file, 256 * BLOCK)
    assert os.fstat(file).st_size == os.fstat(file).st_blocks == 0
    engine.close(file)


def test_file_systems_are_known_by_their_numbers() -> None:
    file = os.open("/proc/self/stat", os.O_RDONLY)
    assert files._file_system(file) == 0x9FA0  # PROC_SUPER_MAGIC of linux/magic.h
    os.close(file)
    assert files._file_system(file) == 0


def test_shutting_down_waits_for_what_was_started(tmp_path: Path) -> None:
    for name, maker in MAKERS.items():
        engine = maker(depth=2)
        whole = memory(32 << 20, seed=7)
        file = engine.open(tmp_path / name, os.O_RDWR | os.O_CREAT)
        started = [engine.write(Transfer(file, i << 20, [whole[i << 20 : (i + 1) << 20]])) for i in range(32)]
        engine.shutdown()
        assert all(done.done() for done in started)
        with pytest.raises(RuntimeError):
            engine.read(Transfer(file, 0, [memory(BLOCK)]))
        engine.close(file)
        assert (tmp_path / name).read_bytes() == whole


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("name", MAKERS)
def test_a_store_takes_awkward_sizes_and_buffers(tmp_path: Path, name: str, direct: bool) -> None:
    """CP-19: the store's own memory is what is aligned."""
    sizes = [1, 511, 512, 4095, 4096, 4097, 200704]
    here = namespace.ensure(tmp_path / "store", Identity.of("tiny", {"page": 64}))
    source = memory(1 << 18, seed=8)
    wanted = {
        f"{size} at {start}": source[start : start + size].tobytes() for size in sizes for start in (0, 16)
    }
    with open_store(here, engine=MAKERS[name](direct=direct)) as store:
        parts = {f"{size} at {start}": source[start : start + size] for size in sizes for start in (0, 16)}
        assert store.put("all", parts, wanted=Stage.DURABLE).wait(timeout=SOON)
        for part, data in parts.items():
            assert store.put(part, {"kv": data}).wait(timeout=SOON)
    with open_store(here, engine=MAKERS[name](direct=direct)) as store:
        everything = [
            {part: view.tobytes() for part, view in one.parts.items()} for one in store.load(["all"])
        ]
        assert everything == [wanted]
        for part, data in wanted.items():
            assert [loaded.parts["kv"].tobytes() for loaded in store.load([part])] == [data]
