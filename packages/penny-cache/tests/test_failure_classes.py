"""What users of other prefix caches complain of, one named test for each kind of complaint.

The reports are public issues of SGLang, LMCache, vLLM and others, named in each docstring.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from penny_cache import namespace
from penny_cache.engine import ThreadEngine, Transfer, Transferred
from penny_cache.hybrid import Rules, restorable
from penny_cache.namespace import Identity, Namespace, NamespaceMissing
from penny_cache.store import Digest, Settings, Stage, Store, StoreError, chain, open_store

FLASH_NEXT = Rules(
    pages=frozenset({"kv", "qsa"}),
    snapshots=frozenset({"gdn", "ple"}),
    siblings=frozenset({"ple"}),
)
KEYS = list(chain(page.to_bytes(2, "little") for page in range(12)))


@pytest.fixture
def here(tmp_path: Path) -> Namespace:
    return namespace.ensure(tmp_path / "store", Identity.of("tiny", {"page": 64}))


def data(page: int, part: str, size: int = 3000) -> bytes:
    return np.random.default_rng([page, *part.encode()]).bytes(size)


def put(store: Store, page: int, parts: str) -> None:
    store.put(
        KEYS[page],
        {part: data(page, part) for part in parts.split()},
        KEYS[page - 1] if page else None,
        wait=10,
    ).wait()


def restored(store: Store, rules: Rules = FLASH_NEXT) -> list[dict[str, bytes]]:
    """What a server restores: the longest legal prefix, with snapshots of its end only."""
    end = restorable(store.parts(KEYS), rules)
    got: list[dict[str, bytearray]] = [{} for _ in range(end)]

    def place(position: int, name: str, size: int) -> memoryview | None:
        if name in rules.snapshots and position != end - 1:
            return None
        got[position][name] = bytearray(size)
        return memoryview(got[position][name])

    assert list(store.restore(KEYS[:end], place)) == list(range(end))
    return [{name: bytes(value) for name, value in page.items()} for page in got]


def test_a_hybrid_prefix_is_never_restored_without_its_recurrent_state(here: Namespace) -> None:
    """LMCache 4492: 38 of 38 answers wrong after a restart, with status 200 and acceptance 0."""
    with open_store(here) as store:
        for page in range(8):
            put(store, page, "kv qsa gdn ple" if page == 4 else "kv qsa")
    with open_store(here, writable=False) as store:  # the restart
        assert store.match(KEYS) == 8
        pages = restored(store)
        assert len(pages) == 5  # and not eight
        assert pages[4] == {part: data(4, part) for part in ("kv", "qsa", "gdn", "ple")}
        assert pages[2] == {part: data(2, part) for part in ("kv", "qsa")}


def test_a_hit_that_is_reported_can_be_restored(here: Namespace) -> None:
    """sglang 39147: the minimum over the pools is a page at which no pool has a snapshot."""
    with open_store(here) as store:
        for page, snapshots in enumerate(("", "gdn", "ple", "", "gdn ple", "")):
            put(store, page, f"kv qsa {snapshots}")
        assert len(restored(store)) == 5
        store.forget([KEYS[4]])
        assert restored(store) == []


@pytest.mark.parametrize("missing", ["kv", "qsa", "gdn", "ple"])
def test_a_side_buffer_that_was_not_stored_is_missed(here: Namespace, missing: str) -> None:
    """sglang 38031, 38161, 38212: index keys and scales were forgotten, and pages counted all the same."""
    with open_store(here) as store:
        put(store, 0, "kv qsa gdn ple")
        put(store, 1, " ".join({"kv", "qsa", "gdn", "ple"} - {missing}))
        assert len(restored(store)) == 1


def test_a_transfer_that_fails_is_a_miss_and_not_an_answer(here: Namespace) -> None:
    """vLLM 52234: a failed transfer was answered with status 200 and garbage."""

    class Failing(ThreadEngine):
        failing = False

        def read(self, transfer: Transfer) -> Transferred:
            if not self.failing:
                return super().read(transfer)
            done = Transferred()
            done.set_exception(OSError(errno.EIO, "Input/output error"))
            return done

    engine = Failing()
    with open_store(here, engine=engine) as store:
        put(store, 0, "kv")
        engine.failing = True
        assert list(store.restore(KEYS, lambda _, __, size: memoryview(bytearray(size)))) == []


@pytest.mark.parametrize("at", [4096 + 200, 3 * 4096 + 5])
def test_garbled_bytes_are_never_given_out(here: Namespace, at: int) -> None:
    """sglang 27504, 30321: answers were garbled after an offload."""
    with open_store(here) as store:
        put(store, 0, "kv qsa")
    path = here.path / "00000001.segment"
    garbled = bytearray(path.read_bytes())
    garbled[at] ^= 0x10
    path.write_bytes(garbled)
    with open_store(here) as store:
        assert list(store.restore(KEYS, lambda _, __, size: memoryview(bytearray(size)))) == []
        assert restored(store, Rules(pages=frozenset({"kv", "qsa"}))) == []  # and it is not reported any more


def test_ranks_do_not_overwrite_one_another(tmp_path: Path) -> None:
    """sglang 10969: the files of two ranks had one name."""
    ranks = [namespace.ensure(tmp_path, Identity.of("m", {"tp_rank": rank, "tp_size": 2})) for rank in (0, 1)]
    for rank, here in enumerate(ranks):
        with open_store(here) as store:
            store.put(KEYS[0], {"kv": bytes([rank]) * 100}).wait()
    for rank, here in enumerate(ranks):
        with open_store(here) as store:
            assert [bytes(got.parts["kv"]) for got in store.load(KEYS[:1])] == [bytes([rank]) * 100]


def test_files_do_not_grow_with_pages(here: Namespace) -> None:
    """sglang 28653: a flat directory was full at 7.5 million files with most of the drive free."""
    with open_store(here) as store:
        for i in range(2000):
            store.put(f"page {i}", {"kv": b"x" * 100, "qsa": b"y"}, wait=30)
        store.put("end", {"kv": b"1"}, wanted=Stage.DURABLE, wait=30).wait()
    assert (
        len(list(here.path.iterdir())) == 5
    )  # a segment, its index, the snapshot, the lock and the manifest


def test_a_disk_budget_is_kept(here: Namespace) -> None:
    """LMCache 4664, 1454: a cap was of what this process wrote, and the disk ran full."""
    settings = Settings(budget=4 << 20)
    for run in range(4):
        with open_store(here, settings=settings) as store:
            for i in range(30):
                store.put(f"{run} {i}", {"kv": os.urandom(100_000)}, wait=30).wait()
                assert store.allocated <= 4 << 20
            assert store.match([f"{run} 29"]) == 1
            assert store.match(["0 0"]) == (run == 0)  # the oldest went


def test_pages_that_no_request_can_reach_are_counted(here: Namespace) -> None:
    """sglang 26886: pages were written and never read, for the head of their prefix was not there."""
    with open_store(here) as store:
        for page in range(3, 12):
            put(store, page, "kv")
        assert store.match(KEYS) == 0
        assert store.counters.pages_stranded == 9


@pytest.mark.parametrize("left", [0, 100, 4096, 10_000])
def test_a_file_cut_short_by_a_crash_costs_what_it_held_and_no_more(here: Namespace, left: int) -> None:
    """FreeToken 490: a truncated file after a reboot made the engine start again and again."""
    with open_store(here, settings=Settings(segment_bytes=1 << 16)) as store:
        for page in range(12):
            put(store, page, "kv qsa")
    segments = sorted(here.path.glob("*.segment"))
    assert len(segments) > 1
    os.truncate(segments[-1], left)
    for _ in range(2):
        with open_store(here) as store:
            count = store.match(KEYS)
            assert 0 < count < 12
            assert len(restored(store, Rules(pages=frozenset({"kv", "qsa"})))) == count
            put(store, count, "kv qsa")
            assert store.match(KEYS) == count + 1
            store.forget([KEYS[count]])


def test_other_weights_behind_the_same_name(tmp_path: Path) -> None:
    """CP-02 (sglang 24758): the second model went on from the first one's state."""
    identity = {
        "model_path": "/m/target", "weights_digest": "aaaa", "draft_digest": "dddd", "dtype": "bfloat16",
        "kv_cache_dtype": "fp8_e4m3", "quantization": "modelopt_fp4", "tp_size": 1, "tp_rank": 0, "page_size": 64,
        "layout": "page_first", "served_model_name": "m",
    }  # fmt: skip
    first = Identity.of("m", identity)
    other = Identity.of("m", {**identity, "weights_digest": "bbbb"})
    with open_store(namespace.ensure(tmp_path, first)) as store:
        store.put("h1", {"kv": b"\xa5" * 4096}).wait()
    with pytest.raises(NamespaceMissing, match=r'weights_digest is "aaaa" \(there\) and "bbbb" \(here\)'):
        namespace.open(tmp_path, other)
    with open_store(namespace.ensure(tmp_path, other)) as store:
        assert store.match(["h1"]) == 0
        assert list(store.load(["h1"])) == []
    with open_store(namespace.open(tmp_path, first)) as store:
        assert [bytes(got.parts["kv"]) for got in store.load(["h1"])] == [b"\xa5" * 4096]


def test_salts_and_pictures_are_part_of_the_key() -> None:
    """CP-07, CP-20 (sglang 26747, LMCache 690): another tenant's pages, and answers about the picture before."""
    tokens = np.array([1, 9, 9, 9, 2], "<i4").tobytes()

    def keys(salt: str = "", picture: str = "") -> list[Digest]:
        return list(chain([tokens + bytes.fromhex(picture)], salt.encode()))

    assert keys("tenant-a") != keys("tenant-b")
    assert keys("tenant-a") == keys("tenant-a")
    pictures = ["00000000000000000000000000000000aaaaabcd", "11111111111111111111111111111111bbbbabcd", ""]
    assert len({keys(picture=picture)[0] for picture in pictures}) == 3


def test_no_key_is_a_path(here: Namespace) -> None:
    """CP-07, CP-12: a salt, a name with `..`, a NUL, ten kilobytes: nothing leaves the store, and none collide."""
    keys = [
        "a/../b",
        "org/my-model",
        "org-my/model",
        "../evil",
        "/abs/name",
        "a\\b",
        "a\0b",
        "x" * 10_240,
        b"a/../b",
    ]
    before = set(here.path.parent.parent.rglob("*"))
    with open_store(here) as store:
        for i, key in enumerate(keys):
            store.put(key, {"kv": bytes([i])}, wanted=Stage.DURABLE).wait()
        for i, key in enumerate(keys):
            assert [bytes(got.parts["kv"]) for got in store.load([key])] == [bytes([i])]
    new = set(here.path.parent.parent.rglob("*")) - before
    assert {path.parent for path in new} == {here.path}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in new)
    assert here.path.stat().st_mode & 0o777 == 0o700


def test_one_that_may_not_write_says_so_at_once(here: Namespace) -> None:
    """CP-11 (sglang 38428): files of no bytes were counted as pages."""

    class NotAllowed(ThreadEngine):
        def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
            if flags & os.O_CREAT:
                raise OSError(errno.EACCES, "Permission denied", str(path))
            return super().open(path, flags, mode)

    with open_store(here, engine=NotAllowed()) as store:
        with pytest.raises(StoreError, match=rf"not stored in {here.path}: Permission denied"):
            store.put("k", {"kv": b"1"}).wait()
        assert len(store) == 0
    assert not list(here.path.glob("*.segment"))
