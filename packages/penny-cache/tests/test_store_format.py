"""The format on disk: records, images, index files, and walking over damage."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from penny_cache.engine import ThreadEngine
from penny_cache.store import BundleRefused
from penny_cache.store.image import Bundle, check_image, fill, image_blocks, layout_of, places, seal
from penny_cache.store.index import ROW, Index
from penny_cache.store.keys import chain, digest
from penny_cache.store.records import BLOCK, Header, Kind, foreign_version, unpack
from penny_cache.store.recover import Window
from penny_cache.store.sidecar import Sidecar, decode, encode
from penny_cache.store.walk import walk

NAMESPACE = bytes(range(32))
KEY, PARENT = b"k" * 32, b"p" * 32


def image(parts: dict[str, bytes], key: bytes = KEY, sequence: int = 7) -> bytes:
    bundle, layout = Bundle(NAMESPACE, key, PARENT, sequence), layout_of(parts)
    made = bytearray(image_blocks(layout) * BLOCK)
    fill(memoryview(made), parts)
    seal(memoryview(made), bundle, layout)
    return bytes(made)


def test_a_header_has_its_fields_where_the_table_says() -> None:
    block = Header(Kind.PART, NAMESPACE, 0x0102, KEY, PARENT, 5000, b"c" * 16, "kv", 0).packed()
    assert len(block) == 4096
    assert block[:16] == b"PENNYREC" + b"\x01\x00" + b"\x02" + b"\x02" + bytes(4)
    assert block[16:32] == (5000).to_bytes(8, "little") + (0x0102).to_bytes(8, "little")
    assert block[32:144] == NAMESPACE + KEY + PARENT + b"c" * 16
    assert block[144:208] == b"kv".ljust(64, b"\0")
    assert block[208:224] == xxhash.xxh3_128_digest(block[:208])
    assert not any(block[224:])


def test_no_flipped_bit_of_a_header_is_read_as_one() -> None:
    block = Header(Kind.PART, NAMESPACE, 1, KEY, PARENT, 5000, b"c" * 16, "kv").packed()
    for bit in range(224 * 8):
        broken = bytearray(block)
        broken[bit // 8] ^= 1 << bit % 8
        assert unpack(broken) is None, bit
    assert unpack(block[:200]) is None
    assert unpack(bytes(BLOCK)) is None


def test_another_version_is_told_from_damage() -> None:
    block = bytearray(Header(Kind.START, NAMESPACE, 1).packed())
    assert foreign_version(block) is None
    block[8] = 2
    assert foreign_version(block) is None  # a flipped bit
    block[208:224] = xxhash.xxh3_128_digest(bytes(block[:208]))
    assert foreign_version(block) == 2
    assert unpack(block) is None
    assert foreign_version(b"x" * BLOCK) is None


def test_parts_start_at_whole_blocks() -> None:
    """1, 4,096 and 4,097 bytes take 1, 1 and 2 blocks, each after a header of one; the commit is the last."""
    layout = layout_of({"a": b"1", "b": bytes(4096), "c": bytes(4097)})
    assert [(n, h // BLOCK, p // BLOCK, size) for n, h, p, size in places(layout)] == [
        ("a", 0, 1, 1),
        ("b", 2, 3, 4096),
        ("c", 4, 5, 4097),
    ]
    assert image_blocks(layout) == 8


@pytest.mark.parametrize("name", ["", "x" * 65, "ü" * 33, "line\nbreak", "nul\0"])
def test_names_that_do_not_fit_are_refused(name: str) -> None:
    with pytest.raises(BundleRefused, match="is named"):
        layout_of({name: b"1"})


def test_a_bundle_has_at_least_one_part() -> None:
    with pytest.raises(BundleRefused, match="has 0 parts"):
        layout_of({})


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=5), st.binary(max_size=9000), min_size=1, max_size=4),
    st.data(),
)
def test_any_flipped_bit_that_matters_is_found(parts: dict[str, bytes], data: st.DataObject) -> None:
    layout, bundle = layout_of(parts), Bundle(NAMESPACE, KEY, PARENT, 7)
    made = bytearray(image(parts))
    assert check_image(memoryview(made), bundle, layout) == ""
    spots = [(h, h + 224) for _, h, _, _ in places(layout)] + [
        (p, p + n) for _, _, p, n in places(layout) if n
    ]
    start, end = data.draw(st.sampled_from(spots))
    at, bit = data.draw(st.integers(start, end - 1)), data.draw(st.integers(0, 7))
    made[at] ^= 1 << bit
    assert check_image(memoryview(made), bundle, layout) != ""


def test_a_whole_bundle_of_another_key_is_not_taken_for_this_one() -> None:
    parts = {"kv": b"data"}
    other = memoryview(image(parts, key=b"o" * 32))
    assert "another record" in check_image(other, Bundle(NAMESPACE, KEY, PARENT, 7), layout_of(parts))
    older = memoryview(image(parts, sequence=6))
    assert "another record" in check_image(older, Bundle(NAMESPACE, KEY, PARENT, 7), layout_of(parts))


def reader(data: bytes):
    return lambda block: data[block * BLOCK : (block + 1) * BLOCK]


def test_a_walk_finds_what_is_whole_around_what_is_not() -> None:
    start = Header(Kind.START, NAMESPACE, 1).packed()
    first, second, third = (image({"kv": bytes([i]) * 5000}, bytes([i]) * 32, i) for i in (1, 2, 3))
    torn = image({"kv": b"t" * 5000, "state": b"s"}, b"t" * 32, 9)[: 4 * BLOCK]  # no commit
    data = start + first + torn + second + bytes(3 * BLOCK) + b"x" * BLOCK + third
    found = list(walk(reader(data), NAMESPACE, len(data) // BLOCK))
    # A bundle of 5,000 bytes takes a header, two blocks and a commit.
    assert [(f.bundle.sequence, f.offset, f.blocks) for f in found] == [(1, 1, 4), (2, 9, 4), (3, 17, 4)]
    assert found[0].layout == (("kv", 5000),)
    assert list(walk(reader(data), bytes(32), len(data) // BLOCK)) == []
    assert len(list(walk(reader(data), NAMESPACE, len(data) // BLOCK - 1))) == 2


def test_a_walk_ends_though_its_file_was_cut_meanwhile(tmp_path: Path) -> None:
    """A writer gives back what it did not need of a segment, while a reader that saw the longer file walks it."""
    path = tmp_path / "segment"
    path.write_bytes(Header(Kind.START, NAMESPACE, 1).packed() + image({"kv": b"1" * 5000}, b"1" * 32, 1))
    file = os.open(path, os.O_RDONLY)
    seen = Window(file, ThreadEngine())
    found = list(walk(seen, NAMESPACE, 1000, skip=seen.skip))
    assert [(f.bundle.sequence, f.offset) for f in found] == [(1, 1)]
    os.close(file)


def test_an_index_file_is_read_back_and_any_damage_shows() -> None:
    rows = np.zeros(2, ROW)
    rows[0] = (KEY, PARENT, 1, 3, 1, 4, 0)
    rows[1] = (PARENT, KEY, 2, 3, 5, 4, 1)
    layouts = [(("kv", 5000),), (("kv", 5000), ("state", 1))]
    data = encode(Sidecar(3, 9, layouts, rows), NAMESPACE)
    read = decode(data, 3, NAMESPACE)
    assert read is not None
    assert (read.segment, read.blocks, list(read.layouts)) == (3, 9, layouts)
    assert read.rows.tobytes() == rows.tobytes()
    assert decode(data, 4, NAMESPACE) is None
    assert decode(data, 3, bytes(32)) is None
    for at in range(len(data)):
        assert decode(data[:at], 3, NAMESPACE) is None
        assert decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], 3, NAMESPACE) is None


def test_keys_are_digests_whatever_is_in_them() -> None:
    keys = ["a/b", "a-b", "../a", "a\0b", "x" * 10_240, b"a/b", "", b""]
    assert len({digest(key) for key in keys}) == len(keys)
    assert all(len(digest(key)) == 32 for key in keys)
    assert digest("a/b") == digest("a/b")


def test_a_chain_depends_on_every_page_before() -> None:
    one, other = list(chain([b"1", b"2", b"3"])), list(chain([b"0", b"2", b"3"]))
    assert one[:2] == list(chain([b"1", b"2"]))
    assert not set(one) & set(other)
    assert list(chain([b"1"], start=b"s")) != one[:1]


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=200), st.integers(1, 40))
def test_the_index_agrees_with_a_dictionary(steps: list[tuple[int, bool]], limit: int) -> None:
    """The same few keys stored again and removed, with the rows sorted in every now and then."""
    index, model = Index(), {}
    keys = [bytes([7] * 8 + [number] + [0] * 23) for number in range(31)]  # equal first bytes
    for step, (number, remove) in enumerate(steps):
        if remove and number in model:
            index.remove(np.array([model.pop(number)]))
        elif not remove:
            row = np.zeros(1, ROW)
            row["key"] = np.frombuffer(keys[number], "V32")
            if number in model:
                index.remove(np.array([model[number]]))
            model[number] = len(index.rows)
            index.add(row)
        if step % limit == 0:
            index._sort()
    assert index.find(keys).tolist() == [model.get(number, -1) for number in range(31)]
    assert len(index) == len(model)


@pytest.mark.parametrize(
    ("key", "kind", "data"), [("a/é\ud800", b"t", b"a/\xc3\xa9\xed\xa0\x80"), (b"a\0", b"b", b"a\0")]
)
def test_keys_are_hashed_as_stores_on_disk_have_it(key: str | bytes, kind: bytes, data: bytes) -> None:
    wanted = hashlib.blake2b(kind + data, digest_size=32, person=b"penny-cache key").digest()
    assert digest(key) == digest(key) == wanted
