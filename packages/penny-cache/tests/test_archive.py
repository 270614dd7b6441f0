"""Archives: what comes out is what went in, and a broken file gives what is whole of it."""

from __future__ import annotations

import io
import os
import random
import threading
from pathlib import Path

import pytest

from penny_cache import namespace
from penny_cache.archive import Archive, ArchiveError, Brought, bring, write
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import Settings, StoreError, chain, open_store

SMALL = Settings(segment_bytes=64 * 4096, write_memory=1 << 20, read_memory=1 << 20)
KEYS = list(chain(bytes([i]) for i in range(12)))
SIDE = list(chain((b"x", b"y"), start=b"side"))


def parts(number: int) -> dict[str, bytes]:
    draw = random.Random(number)
    return {"kv": draw.randbytes(5000), "state": draw.randbytes(1 + number * 100)}


def made(path: Path, page: int = 64) -> Namespace:
    return namespace.ensure(path, Identity.of("tiny", {"page": page}))


def digest(here: Namespace) -> bytes:
    return bytes.fromhex(here.identity.digest)


@pytest.fixture
def here(tmp_path: Path) -> Namespace:
    """12 bundles in a chain, and 2 that branch off after the fifth."""
    here = made(tmp_path / "store")
    with open_store(here, settings=SMALL) as store:
        for i, key in enumerate(KEYS):
            store.put(key, parts(i), KEYS[i - 1] if i else None, wait=30).wait()
        store.put(SIDE[0], parts(20), KEYS[4], wait=30).wait()
        store.put(SIDE[1], parts(21), SIDE[0], wait=30).wait()
    return here


def archived(here: Namespace, ends: list[bytes] | None = None) -> bytes:
    stream = io.BytesIO()
    with open_store(here, writable=False, settings=SMALL) as store:
        written = write(store, here, stream, ends=ends)
    assert written.lost == 0
    return stream.getvalue()


def brought(data: bytes, target: Namespace) -> tuple[Brought, Archive]:
    archive = Archive(io.BytesIO(data), "it")
    with open_store(target, settings=SMALL) as store:
        return bring(archive, store, digest(target)), archive


def content(target: Namespace) -> set[int]:
    """Numbers of the bundles that are there; each must have exactly the parts that were put."""
    numbers = {key: i for i, key in enumerate(KEYS)} | {SIDE[0]: 20, SIDE[1]: 21}
    found = set()
    with open_store(target, writable=False, settings=SMALL) as store:
        for key, number in numbers.items():
            for one in store.load([key]):
                assert {name: bytes(view) for name, view in one.parts.items()} == parts(number)
                found.add(number)
        assert len(store) == len(found)
    return found


ALL = {*range(12), 20, 21}


def test_everything_goes_there_and_back(here: Namespace, tmp_path: Path) -> None:
    data = archived(here)
    # Head, one block of manifest, tail; each bundle has a block for each of two headers and the commit, two of kv,
    # and those of its state.
    assert len(data) == 4096 * (3 + sum(5 + -(-(1 + i * 100) // 4096) for i in ALL))
    target = made(tmp_path / "other")
    done, archive = brought(data, target)
    assert (done, archive.problems, archive.lost) == (Brought(14, 0), [], 0)
    assert archive.identity == here.identity
    assert content(target) == ALL
    with open_store(target, writable=False) as store:
        assert store.match(KEYS) == 12
        assert store.match([*KEYS[:5], *SIDE]) == 7


def test_chains_alone(here: Namespace, tmp_path: Path) -> None:
    target = made(tmp_path / "other")
    brought(archived(here, [SIDE[1], KEYS[2]]), target)
    assert content(target) == {0, 1, 2, 3, 4, 20, 21}
    with pytest.raises(ArchiveError, match="no bundle with the key 0101"):
        archived(here, [b"\1" * 32])


def test_what_is_there_is_passed_over(here: Namespace, tmp_path: Path) -> None:
    target = made(tmp_path / "other")
    brought(archived(here, [KEYS[6]]), target)
    done, _ = brought(archived(here), target)
    assert done == Brought(stored=14 - 7, there=7)
    assert content(target) == ALL


def test_a_bundle_that_hangs_on_another_parent_here_is_replaced(here: Namespace, tmp_path: Path) -> None:
    target = made(tmp_path / "other")
    with open_store(target, settings=SMALL) as store:
        store.put(KEYS[0], parts(0), wait=30).wait()
        store.put(KEYS[1], {"kv": b"other"}, "elsewhere", wait=30).wait()
    done, _ = brought(archived(here), target)
    assert done == Brought(13, 1)
    assert content(target) == ALL


@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 10, 40])
def test_a_file_that_ends_early_gives_what_came_before(here: Namespace, tmp_path: Path, blocks: int) -> None:
    data = archived(here)
    target = made(tmp_path / "other")
    cut = data[: blocks * 4096 + 100]
    done, archive = brought(cut, target)
    assert content(target) == set([*range(12), 20, 21][: done.stored])  # parents come first
    assert archive.problems[-2:] == [
        "it ends early: its last block is not there.",
        f"it lacks {14 - done.stored} of its 14 bundles: they are damaged or missing.",
    ]
    assert done.stored == archive.whole


def test_without_its_last_block_all_comes_and_it_is_said(here: Namespace, tmp_path: Path) -> None:
    done, archive = brought(archived(here)[:-4096], made(tmp_path / "other"))
    assert (done.stored, archive.lost) == (14, 0)
    assert archive.problems == ["it ends early: its last block is not there."]


def test_every_flipped_bit_costs_at_most_its_bundle(here: Namespace, tmp_path: Path) -> None:
    """`content` compares every byte of what came in."""
    data = archived(here)
    draw = random.Random(7)
    for trial in range(60):
        at, bit = draw.randrange(len(data)), 1 << draw.randrange(8)
        broken = bytearray(data)
        broken[at] ^= bit
        target = made(tmp_path / f"{trial}")
        done, archive = brought(bytes(broken), target)
        found = content(target)
        assert len(found) == done.stored >= 13
        if done.stored < 14:
            assert archive.problems == ["it lacks 1 of its 14 bundles: they are damaged or missing."]
            # The same file once more, whole: only the one that was lost is stored.
            assert brought(data, target)[0] == Brought(1, 13)


def test_many_bits_and_missing_blocks(here: Namespace, tmp_path: Path) -> None:
    data = archived(here)
    draw = random.Random(8)
    for trial in range(10):
        broken = bytearray(data)
        for _ in range(12):
            broken[draw.randrange(2 * 4096, len(broken))] ^= 1 << draw.randrange(8)
        at = draw.randrange(2, len(broken) // 4096 - 1)
        del broken[at * 4096 : (at + draw.randrange(1, 4)) * 4096]
        target = made(tmp_path / f"{trial}")
        done, archive = brought(bytes(broken), target)
        assert len(content(target)) == done.stored < 14
        assert archive.problems


def test_head_and_manifest_may_be_lost_if_the_namespace_is_known(here: Namespace, tmp_path: Path) -> None:
    data = archived(here)
    for at, problem in ((9, "The head of it is damaged."), (4096 + 40, "The manifest in it is damaged.")):
        broken = bytearray(data)
        broken[at] ^= 1
        target = made(tmp_path / f"{at}")
        done, archive = brought(bytes(broken), target)
        assert archive.identity is None
        assert (done.stored, archive.problems) == (14, [problem])
        assert content(target) == ALL


def test_bundles_of_another_namespace_are_not_taken(here: Namespace, tmp_path: Path) -> None:
    other = made(tmp_path / "other", page=32)
    done, archive = brought(archived(here), other)
    assert (done, archive.lost) == (Brought(0, 0), 14)
    assert content(other) == set()


def test_what_is_no_archive_is_said(here: Namespace) -> None:
    for data in (b"", b"PK\3\4" + bytes(5000), bytes(8192), (here.path / "00000001.segment").read_bytes()):
        with pytest.raises(ArchiveError, match="it is no archive"):
            Archive(io.BytesIO(data), "it")


def test_a_later_version_is_not_read(here: Namespace) -> None:
    import struct

    import xxhash

    fields = struct.pack("<8sHHIQQ", b"PENNYARC", 2, 0, 100, 1, 1)
    with pytest.raises(ArchiveError, match="has format version 2, this penny-cache reads version 1"):
        Archive(io.BytesIO((fields + xxhash.xxh3_128_digest(fields)).ljust(4096, b"\0")), "it")


def test_a_pipe_that_gives_a_few_bytes_at_a_time(here: Namespace, tmp_path: Path) -> None:
    data = archived(here)
    read, write_end = os.pipe()

    def feed() -> None:
        with os.fdopen(write_end, "wb") as stream:
            stream.write(data)

    feeder = threading.Thread(target=feed)
    feeder.start()
    target = made(tmp_path / "other")
    with os.fdopen(read, "rb", buffering=0) as stream, open_store(target, settings=SMALL) as store:
        assert bring(Archive(stream, "it"), store, digest(target)).stored == 14
    feeder.join()
    assert content(target) == ALL


def test_a_bundle_too_large_for_memory_is_passed_over(here: Namespace, tmp_path: Path) -> None:
    target = made(tmp_path / "other")
    archive = Archive(io.BytesIO(archived(here)), "it", largest=6000)  # bundles 0 to 9 have up to 5,901 bytes
    with open_store(target, settings=SMALL) as store:
        assert bring(archive, store, digest(target)).stored == 10
    assert archive.problems == ["it lacks 4 of its 14 bundles: they are damaged or missing."]
    assert content(target) == set(range(10))


def test_a_store_that_takes_no_more_stops_it_and_keeps_what_came(here: Namespace, tmp_path: Path) -> None:
    target = made(tmp_path / "other")
    data = archived(here)
    with open_store(target, settings=SMALL) as store:
        put, room = store.put, iter(range(5))

        def full(*arguments: object, **more: object) -> object:
            if next(room, None) is None:
                raise StoreError("No space left.")
            return put(*arguments, **more)  # type: ignore[arg-type]

        store.put = full  # type: ignore[method-assign, assignment]
        with pytest.raises(StoreError, match="No space left"):
            bring(Archive(io.BytesIO(data), "it"), store, digest(target))
    assert content(target) == {0, 1, 2, 3, 4}
    assert brought(data, target)[0] == Brought(9, 5)


def test_damage_in_the_store_is_left_out_and_counted(here: Namespace, tmp_path: Path) -> None:
    with open_store(here, writable=False, settings=SMALL) as store:
        survey = store.survey()
        [row] = [row for row in survey.rows if row["key"].tobytes() == KEYS[3]]
        path = here.path / f"{int(row['segment']):08d}.segment"
        with path.open("r+b") as file:
            file.seek((int(row["offset"]) + 1) * 4096 + 7)
            file.write(b"\xff\xff\xff")
        stream = io.BytesIO()
        written = write(store, here, stream)
    assert (written.bundles, written.lost) == (13, 1)
    target = made(tmp_path / "other")
    done, archive = brought(stream.getvalue(), target)
    assert (done.stored, archive.problems, archive.lost) == (13, [], 0)
    assert content(target) == ALL - {3}


def test_progress_ends_at_the_total(here: Namespace) -> None:
    told: list[tuple[int, int]] = []
    with open_store(here, writable=False, settings=SMALL) as store:
        write(store, here, io.BytesIO(), progress=lambda *step: told.append(step))
        size = int(store.survey().rows["blocks"].sum()) * 4096
    assert len(told) == 14
    assert told[-1] == (size, size)
