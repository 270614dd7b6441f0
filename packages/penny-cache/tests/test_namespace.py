"""Identity, differences and directories of namespaces."""

import hashlib
import json
import multiprocessing
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penny_cache import namespace
from penny_cache.namespace import (
    MANIFEST_NAME,
    Difference,
    Identity,
    IdentityError,
    ManifestDamaged,
    NamespaceError,
    NamespaceExists,
    NamespaceMismatch,
    NamespaceMissing,
    canonical_json,
    diff,
)

FIELDS: dict[str, object] = {
    "weights_digest": "aaaa",
    "page_size": 64,
    "layout": "page_first",
    "ple": {"backend": "nvme", "offload": False},
    "sections": [11, 11, 10],
}
IDENTITY = Identity.of("org/my-model", FIELDS)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text.filter(bool), inner, max_size=3),
    max_leaves=8,
)
fields = st.dictionaries(text.filter(bool), values, max_size=5)


def changed(**new: object) -> Identity:
    return Identity.of(IDENTITY.name, {**FIELDS, **new})


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


# ---- canonical JSON and digest


def test_canonical_json_by_hand() -> None:
    value = {"b": [1, True, None, "é\n"], "a": {"z": -1, "Z": ""}}
    assert canonical_json(value) == '{"a":{"Z":"","z":-1},"b":[1,true,null,"é\\n"]}'.encode()


def test_digest_is_sha256_of_the_canonical_json() -> None:
    identity = Identity.of("m", {"page_size": 64})
    assert identity.canonical == b'{"fields":{"page_size":64},"name":"m"}'
    assert identity.digest == hashlib.sha256(b'{"fields":{"page_size":64},"name":"m"}').hexdigest()
    assert identity.directory_name == f"m-{identity.digest[:12]}"


@given(fields)
def test_canonical_json_round_trips(value: dict[str, Any]) -> None:
    data = canonical_json(value)
    assert json.loads(data) == value
    assert canonical_json(json.loads(data)) == data
    assert Identity.of("n", value).fields == value
    assert Identity.parse(Identity.of("n", value).canonical) == Identity.of("n", value)


@given(fields)
def test_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    assert Identity.of("n", reordered(value)) == Identity.of("n", value)


@given(fields, fields)
def test_equal_digests_mean_equal_identities(a: dict[str, Any], b: dict[str, Any]) -> None:
    left, right = Identity.of("n", a), Identity.of("n", b)
    same = json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    assert (left.digest == right.digest) == same
    assert (diff(left, right) == ()) == same
    assert diff(left, left) == ()


@given(fields, fields)
def test_differences_mirror(a: dict[str, Any], b: dict[str, Any]) -> None:
    left, right = Identity.of("n", a), Identity.of("n", b)
    mirrored = tuple(Difference(d.path, d.right, d.left) for d in diff(left, right))
    assert diff(right, left) == mirrored


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"mem": 0.85}, r'Field mem is the float 0\.85; write it as a string, for example "0\.85"'),
        ({"a": {"b": [1, float("nan")]}}, r"Field a\.b\[1\] is the float nan"),
        ({"a": {1: "x"}}, r"Field a has the key 1; keys must be text"),
        ({"": 1}, "has the key ''"),
        ({"a": 2**63}, "Field a is an integer beyond 64 bits; write it as a string"),
        ({"a": "\ud800"}, "not valid Unicode"),
        ({"a": b"x"}, "Field a is of type bytes"),
        ({"a": {"org/name": {1, 2}}}, r'Field a\["org/name"\] is of type set'),
        ({"a": "x" * (1 << 20)}, "at most 1048576 are allowed"),
    ],
)
def test_refused_values_are_named(value: dict[str, object], words: str) -> None:
    with pytest.raises(IdentityError, match=words):
        Identity.of("n", value)


def test_refused_nesting() -> None:
    deep: object = 1
    for _ in range(17):
        deep = [deep]
    with pytest.raises(IdentityError, match="nested more than 16 levels deep"):
        canonical_json(deep)


@pytest.mark.parametrize("name", ["", None, 3])
def test_refused_names(name: Any) -> None:
    with pytest.raises(IdentityError, match="The name of an identity"):
        Identity.of(name, {})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"fields":{},"name":"n"} ',
        b'{"name":"n","fields":{}}',
        b'{"fields":{"a":1.5},"name":"n"}',
        b'{"fields":{"a":1,"a":2},"name":"n"}',
        b'{"fields":{},"name":"n","more":1}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_parse_takes_only_canonical_json(data: bytes) -> None:
    with pytest.raises(IdentityError):
        Identity.parse(data)


def test_the_fields_of_an_identity_cannot_be_changed() -> None:
    source: dict[str, Any] = {"a": [1]}
    identity = Identity.of("n", source)
    source["a"].append(2)
    identity.fields["b"] = 1
    assert identity.fields == {"a": [1]}


# ---- differences


def test_diff_by_hand() -> None:
    right = Identity.of(
        "other",
        {
            **FIELDS,
            "page_size": 32,
            "ple": {"backend": "nvme", "offload": 0},
            "sections": [11, 12, 10],
            "x": 1,
        },
    )
    assert diff(IDENTITY, right) == (
        Difference("identity name", '"org/my-model"', '"other"'),
        Difference("page_size", "64", "32"),
        Difference("ple.offload", "false", "0"),  # False == 0 in Python; the bytes differ
        Difference("sections[1]", "11", "12"),
        Difference("x", None, "1"),
    )


def test_diff_paths_are_unambiguous() -> None:
    left = Identity.of("n", {"a.b": 1, "a": {"b": 1}, "l": [1]})
    right = Identity.of("n", {"a.b": 2, "a": {"b": 2}, "l": [1, 2]})
    assert [d.path for d in diff(left, right)] == ['["a.b"]', "a.b", "l"]


# ---- directories


def test_create_then_open(tmp_path: Path) -> None:
    made = namespace.create(tmp_path / "store", IDENTITY)
    assert made.path == tmp_path / "store" / f"org-my-model-{IDENTITY.digest[:12]}"
    assert namespace.open(tmp_path / "store", IDENTITY) == made
    assert namespace.ensure(tmp_path / "store", IDENTITY) == made
    assert [p.name for p in (tmp_path / "store").iterdir()] == [made.path.name]
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((made.path / MANIFEST_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    with pytest.raises(NamespaceExists, match="exists already"):
        namespace.create(tmp_path / "store", IDENTITY)


def test_manifest_by_hand(tmp_path: Path) -> None:
    path = namespace.create(tmp_path, Identity.of("m", {"page_size": 64})).path
    head = b'penny-cache namespace 1\n{"fields":{"page_size":64},"name":"m"}\n'
    expected = head + b"sha256 " + hashlib.sha256(head).hexdigest().encode() + b"\n"
    assert (path / MANIFEST_NAME).read_bytes() == expected


def test_other_weights_behind_the_same_name_are_another_namespace(tmp_path: Path) -> None:
    first = namespace.create(tmp_path, IDENTITY)
    with pytest.raises(
        NamespaceMissing, match=r'nearest one.* weights_digest is "aaaa" \(there\) and "bbbb" \(here\)'
    ):
        namespace.open(tmp_path, changed(weights_digest="bbbb"))
    second = namespace.create(tmp_path, changed(weights_digest="bbbb"))
    assert first.path != second.path
    assert namespace.find(tmp_path) == (sorted([first, second], key=lambda n: n.path.name), [])


def test_names_that_are_paths_stay_inside_and_stay_distinct(tmp_path: Path) -> None:
    names = [
        "org/my-model",
        "org-my/model",
        "../evil",
        "/abs/name",
        "a\\b",
        "x" * 10_000,
        "nul\0",
        "..",
        "模型",
        "-rf",
    ]
    made = [namespace.create(tmp_path, Identity.of(name, {})) for name in names]
    assert len({n.path for n in made}) == len(names)
    for n, name in zip(made, names, strict=True):
        assert n.path.parent == tmp_path
        assert n.path.is_dir()
        assert len(n.path.name) <= 53
        assert not n.path.name.startswith((".", "-"))
        assert namespace.open(tmp_path, Identity.of(name, {})) == n


def test_mismatch_names_fields_and_values(tmp_path: Path) -> None:
    other = changed(page_size=32, layout=None)
    made = namespace.create(tmp_path, other)
    made.path.rename(tmp_path / IDENTITY.directory_name)
    with pytest.raises(NamespaceMismatch) as caught:
        namespace.open(tmp_path, IDENTITY)
    assert caught.value.differences == (
        Difference("layout", "null", '"page_first"'),
        Difference("page_size", "32", "64"),
    )
    assert "page_size is 32 (found) and 64 (expected)" in str(caught.value)


def test_every_changed_byte_and_every_truncation_is_noticed(tmp_path: Path) -> None:
    file = namespace.create(tmp_path, IDENTITY).path / MANIFEST_NAME
    whole = file.read_bytes()
    damaged = [whole[:n] for n in range(len(whole))] + [whole + b"\n", b"\n" + whole]
    damaged += [whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :] for i in range(len(whole))]
    for data in damaged:
        file.write_bytes(data)
        with pytest.raises(ManifestDamaged):
            namespace.open(tmp_path, IDENTITY)
    file.write_bytes(whole)
    assert namespace.open(tmp_path, IDENTITY).identity == IDENTITY


def test_newer_format_is_named(tmp_path: Path) -> None:
    file = namespace.create(tmp_path, IDENTITY).path / MANIFEST_NAME
    file.write_bytes(file.read_bytes().replace(b"namespace 1", b"namespace 2", 1))
    with pytest.raises(ManifestDamaged, match="format version 2, this penny-cache reads version 1"):
        namespace.open(tmp_path, IDENTITY)


def test_a_forged_checksum_over_a_wrong_identity_is_noticed(tmp_path: Path) -> None:
    file = namespace.create(tmp_path, IDENTITY).path / MANIFEST_NAME
    head = b"penny-cache namespace 1\n" + b'{"name":"n","fields":{}}' + b"\n"
    file.write_bytes(head + b"sha256 " + hashlib.sha256(head).hexdigest().encode() + b"\n")
    with pytest.raises(ManifestDamaged, match="not in canonical JSON"):
        namespace.open(tmp_path, IDENTITY)


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    real = namespace.create(tmp_path / "elsewhere", IDENTITY).path
    store = tmp_path / "store"
    store.mkdir()
    (store / real.name).symlink_to(real)
    with pytest.raises(NamespaceError, match="Not a directory"):
        namespace.open(store, IDENTITY)
    (store / real.name).unlink()
    (store / real.name).mkdir()
    (store / real.name / MANIFEST_NAME).symlink_to(real / MANIFEST_NAME)
    with pytest.raises(NamespaceError, match="Could not read the namespace"):
        namespace.open(store, IDENTITY)


def test_places_that_cannot_hold_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NamespaceError, match="Not a directory"):
        namespace.create(tmp_path / "file", IDENTITY)
    with pytest.raises(NamespaceError, match=r"Could not make the store .*No such file or directory"):
        namespace.create(tmp_path / "no" / "such", IDENTITY)
    with pytest.raises(NamespaceMissing, match="There is no namespace"):
        namespace.open(tmp_path / "nowhere", IDENTITY)
    with pytest.raises(NamespaceMissing, match="pass the root of a store"):
        namespace.find(tmp_path / "file")
    (tmp_path / IDENTITY.directory_name).mkdir()
    with pytest.raises(ManifestDamaged, match="it is not a namespace"):
        namespace.open(tmp_path, IDENTITY)


def test_find_reports_what_is_wrong(tmp_path: Path) -> None:
    good = namespace.create(tmp_path, IDENTITY)
    (tmp_path / "stranger").mkdir()
    found, wrong = namespace.find(tmp_path)
    assert found == [good]
    assert len(wrong) == 1
    assert "stranger has no namespace.manifest" in str(wrong[0])


# ---- faults and crashes


def fail_call(monkeypatch: pytest.MonkeyPatch, function: str, number: int) -> None:
    """Let call `number` (from 1) of `os.<function>` fail with EIO."""
    real, calls = getattr(os, function), iter(range(1, 100))

    def failing(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            raise OSError(5, "Input/output error")
        return real(*args, **kwargs)

    monkeypatch.setattr(os, function, failing)


@pytest.mark.parametrize(("function", "number"), [("fsync", 1), ("fsync", 2), ("rename", 1)])
def test_a_failing_call_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    with monkeypatch.context() as patch:
        fail_call(patch, function, number)
        with pytest.raises(NamespaceError, match=r"Could not make the namespace .*Input/output error"):
            namespace.create(tmp_path, IDENTITY)
    assert list(tmp_path.iterdir()) == []
    namespace.create(tmp_path, IDENTITY)


def test_a_failing_last_sync_is_reported_and_leaves_a_whole_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail_call(patch, "fsync", 3)
        with pytest.raises(NamespaceError, match="Input/output error"):
            namespace.create(tmp_path, IDENTITY)
    with (
        monkeypatch.context() as patch
    ):  # ensure syncs the store again: creation syncs twice, then the loser's own
        fail_call(patch, "fsync", 3)
        with pytest.raises(NamespaceError, match="Could not sync the store"):
            namespace.ensure(tmp_path, IDENTITY)
    assert namespace.ensure(tmp_path, IDENTITY).identity == IDENTITY


def test_order_of_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifest, then its directory, then the rename, then the store."""
    log: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(file: int) -> None:
        log.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{file}')).name}")
        real_fsync(file)

    def rename(source: Path, target: Path) -> None:
        log.append(f"rename {source.name}")
        real_rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    namespace.create(tmp_path, IDENTITY)
    temporary = log[2].removeprefix("rename ")
    assert temporary.startswith(".unfinished-")
    assert log == [
        f"fsync {MANIFEST_NAME}",
        f"fsync {temporary}",
        f"rename {temporary}",
        f"fsync {tmp_path.name}",
    ]


def _die_in(function: str, number: int, root: Path) -> None:
    calls, real = iter(range(1, 100)), getattr(os, function)

    def dying(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            os._exit(77)
        return real(*args, **kwargs)

    setattr(os, function, dying)
    namespace.create(root, IDENTITY)


@pytest.mark.parametrize(("function", "number"), [("open", 1), ("fsync", 1), ("fsync", 2), ("rename", 1)])
def test_a_creator_that_dies_leaves_nothing_that_opens(tmp_path: Path, function: str, number: int) -> None:
    child = multiprocessing.get_context("fork").Process(target=_die_in, args=(function, number, tmp_path))
    child.start()
    child.join()
    assert child.exitcode == 77
    assert [p.name[:12] for p in tmp_path.iterdir()] == [".unfinished-"]
    with pytest.raises(NamespaceMissing):
        namespace.open(tmp_path, IDENTITY)
    assert namespace.find(tmp_path) == ([], [])
    assert namespace.create(tmp_path, IDENTITY) == namespace.open(tmp_path, IDENTITY)


def test_unfinished_directories_are_never_opened_by_path(tmp_path: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=_die_in, args=("fsync", 1, tmp_path))
    child.start()
    child.join()
    (unfinished,) = tmp_path.iterdir()
    with pytest.raises(NamespaceError, match="was never finished"):
        namespace.read(unfinished)


def _race(root: Path, barrier: Any, results: Any) -> None:
    barrier.wait()
    try:
        namespace.create(root, IDENTITY)
        results.put("created")
    except NamespaceExists:
        results.put("opened" if namespace.open(root, IDENTITY).identity == IDENTITY else "wrong")


def test_of_several_creators_one_wins_and_the_others_open(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(10):
        root = tmp_path / str(attempt)
        barrier, results = context.Barrier(4), context.Queue()
        children = [context.Process(target=_race, args=(root, barrier, results)) for _ in range(4)]
        for child in children:
            child.start()
        outcomes = sorted(results.get(timeout=60) for _ in children)
        for child in children:
            child.join()
        assert outcomes == ["created", "opened", "opened", "opened"]
        assert [p.name for p in root.iterdir()] == [IDENTITY.directory_name]
