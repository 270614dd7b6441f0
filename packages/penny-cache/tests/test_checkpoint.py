"""Digests of checkpoints: every expected value comes from hashlib over bytes that the test wrote."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path

import pytest

from penny_cache.namespace import CheckpointError, Identity, digest_checkpoint
from penny_cache.namespace.checkpoint import CHUNK, INDEX
from penny_cache.namespace.hashes import HashCache

REVISION = "1" * 40
CLAIMED = "c" * 64  # what a record says; no file of the tests has this hash


def weights(size: int, fill: bytes = b"w") -> bytes:
    """A safetensors file with one tensor of `size` bytes."""
    header = json.dumps({"a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + fill * size


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def record(root: Path, name: str, time: float, digest: str = CLAIMED, revision: str = REVISION) -> None:
    path = root / ".cache/huggingface/download" / f"{name}.metadata"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{revision}\n{digest}\n{time}\n")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    root = tmp_path / "model"
    root.mkdir()
    (root / "config.json").write_bytes(b"{}")
    (root / "one.safetensors").write_bytes(weights(100))
    (root / "two.safetensors").write_bytes(weights(200))
    (root / INDEX).write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}))
    (root / "chat_template.jinja").write_bytes(b"{{ messages }}")
    (root / "README.md").write_bytes(b"does not count")
    (root / "sub").mkdir()
    return root


def found(root: Path, name: str = "one.safetensors") -> tuple[str, bool]:
    [one] = [f for f in digest_checkpoint(root).files if f.name == name]
    return one.sha256, one.recorded


def test_each_file_that_counts_has_its_size_and_hash(here: Path) -> None:
    names = ["chat_template.jinja", "config.json", INDEX, "one.safetensors", "two.safetensors"]
    data = {name: (here / name).read_bytes() for name in names}
    got = digest_checkpoint(here)
    files = {name: {"sha256": sha(data[name]), "size": len(data[name])} for name in names}
    assert got.fields == {"files": files}
    assert [f.name for f in got.files] == sorted(names)
    canonical = json.dumps({"files": files}, sort_keys=True, separators=(",", ":")).encode()
    assert got.sha256 == sha(canonical)
    assert Identity.of("m", {"target": got.fields}).fields == {"target": {"files": files}}


def test_other_weights_under_the_same_name_are_another_identity(here: Path) -> None:
    """CP-02."""
    before = Identity.of("m", {"target": digest_checkpoint(here).fields})
    (here / "two.safetensors").write_bytes(weights(200, b"v"))
    after = Identity.of("m", {"target": digest_checkpoint(here).fields})
    assert before.directory_name != after.directory_name


def test_where_it_lies_and_what_does_not_count_change_nothing(here: Path) -> None:
    before = digest_checkpoint(here).sha256
    (here / "README.md").unlink()
    moved = here.rename(here.with_name("elsewhere"))
    assert digest_checkpoint(moved).sha256 == before


def test_a_record_of_an_untouched_file_is_believed(here: Path) -> None:
    path = here / "one.safetensors"
    record(here, path.name, path.stat().st_ctime)
    assert found(here) == (CLAIMED, True)
    assert digest_checkpoint(here, recorded=False).files[3].sha256 == sha(path.read_bytes())
    assert [f.recorded for f in digest_checkpoint(here).files] == [False, False, False, True, False]


def test_a_record_is_not_believed_for_small_files(here: Path) -> None:
    record(here, "config.json", (here / "config.json").stat().st_ctime)
    assert found(here, "config.json") == (sha(b"{}"), False)


@pytest.mark.parametrize(
    ("digest", "revision", "late"),
    [
        (CLAIMED, REVISION, -5.0),  # the file is younger than its record
        (CLAIMED, REVISION, float("nan")),
        (CLAIMED, "main", 0.0),
        ("d" * 40, REVISION, 0.0),  # the etag of a file that is not in LFS
        (CLAIMED.upper(), REVISION, 0.0),
    ],
)
def test_a_record_that_does_not_fit_is_not_believed(
    here: Path, digest: str, revision: str, late: float
) -> None:
    path = here / "one.safetensors"
    record(here, path.name, path.stat().st_ctime + late, digest, revision)
    assert found(here) == (sha(path.read_bytes()), False)


def test_a_file_put_in_place_later_with_an_old_time_is_hashed(here: Path) -> None:
    path = here / "one.safetensors"
    record(here, path.name, path.stat().st_ctime - 100)
    path.write_bytes(weights(100, b"x"))
    os.utime(path, (0, 0))  # mtime says 1970; ctime cannot be set
    assert found(here) == (sha(weights(100, b"x")), False)


@pytest.mark.parametrize("size", [-1, 1])
def test_a_file_that_is_not_as_long_as_its_header_says_is_hashed(here: Path, size: int) -> None:
    path = here / "one.safetensors"
    data = weights(100)
    path.write_bytes(data[:size] if size < 0 else data + b"w")
    record(here, path.name, path.stat().st_ctime)
    assert found(here) == (sha(path.read_bytes()), False)


@pytest.mark.parametrize("text", ["", "one line\n", f"{REVISION}\n{CLAIMED}\nyesterday\n", "\xff"])
def test_a_torn_record_is_no_record(here: Path, text: str) -> None:
    record(here, "one.safetensors", 0)
    (here / ".cache/huggingface/download/one.safetensors.metadata").write_text(text, "latin-1")
    assert found(here) == (sha(weights(100)), False)


def test_a_link_into_the_blob_store_counts_by_content(here: Path) -> None:
    before = digest_checkpoint(here).sha256
    path = here / "one.safetensors"
    path.rename(here.with_name("blob"))
    path.symlink_to("../blob")
    record(here, path.name, path.stat().st_ctime + 10)
    assert found(here) == (sha(weights(100)), False)
    assert digest_checkpoint(here).sha256 == before


def test_progress_is_told_of_each_chunk(here: Path) -> None:
    data = weights(CHUNK + 1)
    (here / "one.safetensors").write_bytes(data)
    told: list[tuple[str, int, int]] = []
    digest_checkpoint(here, progress=lambda *step: told.append(step))
    assert [(done, size) for name, done, size in told if name == "one.safetensors"] == [
        (0, len(data)), (CHUNK, len(data)), (len(data), len(data)),
    ]  # fmt: skip


def test_a_missing_shard_is_named(here: Path) -> None:
    (here / "two.safetensors").unlink()
    with pytest.raises(
        CheckpointError, match=r"lacks two\.safetensors, which model\.safetensors\.index\.json"
    ):
        digest_checkpoint(here)
    (here / "two.safetensors").symlink_to("nowhere")
    with pytest.raises(CheckpointError, match=r"two\.safetensors cannot be read: No such file"):
        digest_checkpoint(here)


def test_what_is_no_checkpoint_is_said(here: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be listed: No such file"):
        digest_checkpoint(here / "none")
    for content in (
        b"{",
        b"[]",
        b'{"weight_map": 3}',
        b'{"weight_map": {"a": 1}}',
        b'{"weight_map": {"a": "../x"}}',
    ):
        (here / INDEX).write_bytes(content)
        with pytest.raises(CheckpointError, match=r"is no index of weights|is no plain file name"):
            digest_checkpoint(here)
    (here / INDEX).unlink()
    for path in here.glob("*.safetensors"):
        path.unlink()
    with pytest.raises(CheckpointError, match=r"no \*\.safetensors"):
        digest_checkpoint(here)
    (here / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        digest_checkpoint(here)


def test_a_pipe_among_the_files_does_not_hang(here: Path) -> None:
    (here / "tokenizer.json").unlink(missing_ok=True)
    os.mkfifo(here / "tokenizer.json")
    with pytest.raises(CheckpointError, match="is no plain file"):
        digest_checkpoint(here)


def test_a_cache_saves_the_second_hash_until_the_file_changes(here: Path, tmp_path: Path) -> None:
    def hashed() -> set[str]:
        names: set[str] = set()
        digest_checkpoint(
            here, cache=HashCache(tmp_path / "hashes.json"), progress=lambda name, *_: names.add(name)
        )
        return names & {"one.safetensors", "two.safetensors"}

    assert hashed() == {"one.safetensors", "two.safetensors"}
    assert hashed() == set()
    (here / "one.safetensors").write_bytes(weights(100, b"n"))
    assert hashed() == {"one.safetensors"}
    assert (
        digest_checkpoint(here, cache=HashCache(tmp_path / "hashes.json")).fields
        == digest_checkpoint(here).fields
    )
    assert (tmp_path / "hashes.json").stat().st_mode & 0o777 == 0o600
    assert len(json.loads((tmp_path / "hashes.json").read_text())) == 2
    (tmp_path / "hashes.json").write_text("[")
    assert hashed() == {"one.safetensors", "two.safetensors"}
