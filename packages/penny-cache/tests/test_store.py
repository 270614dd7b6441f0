"""The store: what is put is found whole, after a kill, among damage, and by its readers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import xxhash

from penny_cache import namespace
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import (
    BundleRefused,
    Settings,
    Stage,
    Store,
    StoreBusy,
    StoreError,
    StoreLocked,
    StoreVersion,
    chain,
    open_store,
)

SMALL = Settings(segment_bytes=64 * 4096, write_memory=1 << 20, read_memory=1 << 20)
KEYS = list(chain(bytes([i]) for i in range(20)))


def parts(number: int) -> dict[str, bytes]:
    draw = random.Random(number)
    return {"kv": draw.randbytes(5000), "state": draw.randbytes(1 + number * 100)}


@pytest.fixture
def here(tmp_path: Path) -> Namespace:
    return namespace.ensure(tmp_path / "store", Identity.of("tiny", {"page": 64}))


def put_chain(store: Store, keys: Sequence[bytes] = KEYS) -> None:
    tickets = [
        store.put(key, parts(i), keys[i - 1] if i else None, Stage.DURABLE, wait=30)
        for i, key in enumerate(keys)
    ]
    assert all(ticket.wait(timeout=60) for ticket in tickets)


def loaded(store: Store, keys: Sequence[bytes] = KEYS) -> int:
    """How many bundles of the chain load; each must be what was put."""
    count = 0
    for one in store.load(keys):
        assert one.position == count
        assert {name: bytes(view) for name, view in one.parts.items()} == parts(one.position)
        count += 1
    return count


def test_a_chain_is_found_and_loaded_now_and_after_opening_again(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        assert (len(store), store.match(KEYS)) == (0, 0)
        put_chain(store)
        assert (len(store), store.match(KEYS), loaded(store)) == (20, 20, 20)
        assert store.match([*KEYS[:5], b"elsewhere"]) == 5
        assert store.match(KEYS[3:]) == 17
        assert store.match([]) == 0
    with open_store(here, settings=SMALL) as store:
        assert (len(store), store.match(KEYS), loaded(store)) == (20, 20, 20)
        assert store.recovered.walked == []
    assert len(list(here.path.glob("*.segment"))) > 1
    assert {p.stat().st_mode & 0o777 for p in here.path.iterdir()} == {0o600}


def test_a_chain_ends_where_a_bundle_hangs_on_another(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        store.put("a", {"kv": b"1"}).wait()
        store.put("b", {"kv": b"2"}, parent="not a").wait()
        assert store.match(["a", "b"]) == 1
        store.put("b", {"kv": b"3"}, parent="a").wait()  # replaces it
        assert [bytes(one.parts["kv"]) for one in store.load(["a", "b"])] == [b"1", b"3"]
    with open_store(here, settings=SMALL) as store:
        assert [bytes(one.parts["kv"]) for one in store.load(["a", "b"])] == [b"1", b"3"]


def test_without_index_files_the_segments_are_walked(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        put_chain(store)
    indexes = sorted(here.path.glob("*.index"))
    indexes[0].unlink()
    indexes[1].write_bytes(indexes[1].read_bytes()[:-1])
    with open_store(here, writable=False, settings=SMALL) as reader:
        assert loaded(reader) == 20
    with open_store(here, settings=SMALL) as store:
        assert store.recovered.walked == [1, 2]
        assert loaded(store) == 20
    with open_store(here, settings=SMALL) as store:
        assert store.recovered.walked == []


def changed(path: Path, at: int, value: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([value]))


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bits_and_short_files_cost_bundles_and_never_make_wrong_ones(
    here: Namespace, seed: int
) -> None:
    """`loaded` compares every byte that comes back."""
    with open_store(here, settings=SMALL) as store:
        put_chain(store)
    draw = random.Random(seed)
    originals = {path: path.read_bytes() for path in here.path.iterdir() if path.name != "writer.lock"}
    del originals[here.path / namespace.MANIFEST_NAME]
    lost = 0
    for _ in range(40):
        path = draw.choice(sorted(originals))
        whole = originals[path]
        at = draw.randrange(len(whole))
        broken = (
            whole[:at]
            if draw.random() < 0.25
            else whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]
        )
        path.write_bytes(broken)
        if draw.random() < 0.5:
            (here.path / f"{path.stem}.index").unlink(missing_ok=True)
        with open_store(here, settings=SMALL) as store:
            count = loaded(store)
            assert store.match(KEYS) == count  # what is damaged is not promised again
            lost += count < 20
        for file, data in originals.items():
            file.write_bytes(data)
    assert lost > 3  # some of it hits a snapshot or a block that nobody reads


def test_a_damaged_bundle_ends_its_chain_and_the_rest_stays(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        put_chain(store)
        first = sorted(here.path.glob("*.segment"))[0]
        changed(
            first, 2 * 4096 + 17, 255
        )  # block 2 is in the first bundle's first payload, 17 is no 255 there
        assert loaded(store) == 0
        assert (store.counters.damaged, store.match(KEYS), store.match(KEYS[1:])) == (1, 0, 19)


KILLED = """
import os, sys
from penny_cache import namespace
from penny_cache.store import Settings, Stage, open_store
sys.path.insert(0, {tests!r})
from test_store import KEYS, SMALL, parts
store = open_store(namespace.read({path!r}), settings=SMALL)
tickets = []
for i, key in enumerate(KEYS):
    tickets.append(store.put(key, parts(i), KEYS[i - 1] if i else None, Stage.DURABLE, wait=30))
    if i >= {behind}:
        tickets[i - {behind}].wait()
        print(i - {behind}, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("behind", [0, 3, 11])
def test_what_was_acknowledged_outlives_a_kill(here: Namespace, behind: int) -> None:
    code = KILLED.format(tests=str(Path(__file__).parent), path=str(here.path), behind=behind)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    acknowledged = len(done.stdout.split())
    assert acknowledged == 20 - behind
    with open_store(here, settings=SMALL) as store:
        assert store.recovered.walked
        found = loaded(store)
        assert acknowledged <= found == store.match(KEYS) == len(store)


def test_there_is_one_writer_and_any_number_of_readers(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        put_chain(store)
        with pytest.raises(StoreLocked, match=f"The process {os.getpid()} writes"):
            open_store(here, settings=SMALL)
        with open_store(here, writable=False) as one, open_store(here, writable=False) as other:
            assert loaded(one) == loaded(other) == 20
            with pytest.raises(StoreError, match="for reading only"):
                one.put("a", {"kv": b"1"})
    open_store(here, settings=SMALL).close()


def test_a_full_queue_says_so_at_once_and_takes_no_more_memory(here: Namespace) -> None:
    with open_store(here, settings=Settings(segment_bytes=1 << 20, write_memory=3 * 4096)) as store:
        with pytest.raises(BundleRefused, match="16,384 bytes on disk; the store takes up to 12,288"):
            store.put("large", {"kv": bytes(4097)})
        store._writer._pool.take(4096)  # type: ignore[union-attr]
        with pytest.raises(StoreBusy, match="no room for 12,288 more"):
            store.put("fits", {"kv": b"1"})


def test_a_store_of_a_newer_version_is_left_alone(here: Namespace) -> None:
    with open_store(here, settings=SMALL) as store:
        put_chain(store)
    (here.path / "00000001.index").unlink()
    changed(here.path / "00000001.segment", 8, 2)
    with open_store(here, writable=False) as store:  # a flipped bit is no newer version
        assert store.match(KEYS) == len(KEYS)
    with (here.path / "00000001.segment").open("r+b") as file:
        head = file.read(208)
        file.seek(208)
        file.write(xxhash.xxh3_128_digest(head))
    with pytest.raises(StoreVersion, match="format version 2"):
        open_store(here, settings=SMALL)
    open_files = {
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.islink(f"/proc/self/fd/{fd}")
    }
    assert str(here.path / "writer.lock") not in open_files


def test_a_directory_that_cannot_be_a_store_is_refused(here: Namespace, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(here.path)
    with pytest.raises(StoreError, match="is a symbolic link"):
        open_store(Namespace(link, here.identity))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StoreError, match="is not a directory"):
        open_store(Namespace(file, here.identity))
    with pytest.raises(StoreError, match="No such file"):
        open_store(Namespace(tmp_path / "none", here.identity))


def test_what_lies_there_besides_is_not_touched(here: Namespace) -> None:
    others = ["1.segment", "00000001.segment.bak", "notes.txt"]
    for name in others:
        (here.path / name).write_text(name)
    with open_store(here, settings=SMALL) as store:
        put_chain(store)
        assert loaded(store) == 20
    assert [(here.path / name).read_text() for name in others] == others
