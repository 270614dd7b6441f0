"""Old namespaces: what may go, and that nothing else does."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penny_cache import namespace
from penny_cache.namespace import (
    MANIFEST_NAME,
    Identity,
    NamespaceError,
    NamespaceMissing,
    Policy,
    Usage,
    choose,
    collect,
    usage,
)
from penny_cache.namespace.usage import Kind

DAY = 86400.0
NOW = 1000 * DAY


def at(days_ago: float, name: str = "", size: int = 10, kind: Kind = "namespace", **more: str) -> Usage:
    return Usage(name or f"n{days_ago:g}", kind, "m", NOW - days_ago * DAY, size, **more)


def chosen(found: Sequence[Usage], policy: Policy) -> list[str]:
    return [choice.usage.directory for choice in choose(found, policy, NOW)]


FOUR = [at(1), at(3), at(2), at(40)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(keep=2), ["n40", "n3"]),
        (Policy(keep=0), ["n40", "n3", "n2", "n1"]),
        (Policy(keep=9), []),
        (Policy(unused_for=30 * DAY), ["n40"]),
        (Policy(unused_for=2.5 * DAY), ["n40", "n3"]),
        (Policy(keep=3, unused_for=0.0), ["n40"]),
        (Policy(unused_for=0.0), ["n40", "n3", "n2"]),  # the newest stays
        (Policy(budget=40), []),
        (Policy(budget=39), ["n40"]),
        (Policy(budget=20), ["n40", "n3"]),
        (Policy(budget=0), ["n40", "n3", "n2"]),
        (Policy(keep=3, budget=0), ["n40"]),
        (Policy(unused_for=30 * DAY, budget=25), ["n40", "n3"]),
    ],
)
def test_what_a_policy_chooses_and_in_which_order(policy: Policy, expected: list[str]) -> None:
    assert chosen(FOUR, policy) == expected


def test_what_is_used_or_holds_something_else_stays_and_counts() -> None:
    found = [at(1), at(50, user="the process 7 writes to it"), at(60, foreign="notes.txt"), at(40)]
    assert chosen(found, Policy(keep=0)) == ["n40", "n1"]
    assert chosen(found, Policy(keep=0, budget=30)) == ["n40"]  # 40 bytes with those that stay
    assert chosen(found, Policy(keep=1, budget=0)) == ["n40"]


def test_clocks_that_jump_remove_nothing_in_use_last() -> None:
    ahead = [at(-400, "future"), at(1)]  # written while the clock was a year ahead
    assert chosen(ahead, Policy(unused_for=0.5 * DAY, keep=0)) == ["n1"]
    later = NOW + 20000 * DAY  # the clock jumps ahead now: all look old, and the newest stays
    assert [c.usage.directory for c in choose(FOUR, Policy(unused_for=30 * DAY), later)] == [
        "n40",
        "n3",
        "n2",
    ]


def test_left_overs_go_with_any_policy_once_they_are_old() -> None:
    found = [
        at(0, "fresh", kind="unfinished"), at(1, "old", kind="unfinished"), at(0, "half", kind="removed"),
        at(1, "torn", kind="damaged"), at(0, "torn now", kind="damaged"), at(1, "odd", kind="removed", foreign="x"),
    ]  # fmt: skip
    assert chosen(found, Policy(keep=9)) == ["half", "old", "torn"]


@given(
    st.lists(
        st.builds(
            Usage,
            st.uuids().map(str),
            st.sampled_from(["namespace", "damaged", "unfinished", "removed"]),
            st.just("m"),
            st.floats(0, 2 * NOW),
            st.integers(0, 100),
            st.sampled_from(["", "someone"]),
            st.sampled_from(["", "", "a file"]),
        ),
        max_size=12,
    ),
    st.builds(Policy, st.integers(0, 5), st.none() | st.floats(0, NOW), st.none() | st.integers(0, 500)),
)
def test_rules_that_hold_for_every_root(found: list[Usage], policy: Policy) -> None:
    going = [choice.usage for choice in choose(found, policy, NOW)]
    assert len({one.directory for one in going}) == len(going)
    assert not any(one.user or one.foreign for one in going)
    left = [one for one in found if one not in going]
    newest = sorted((min(one.used, NOW) for one in found if one.kind == "namespace"), reverse=True)
    assert [min(one.used, NOW) for one in sorted(left, key=lambda one: -one.used) if one.kind == "namespace"][
        : policy.keep
    ] == newest[: policy.keep]
    if policy.budget is not None:
        could = [one for one in left if one.kind == "namespace" and not one.user and not one.foreign]
        assert sum(one.size for one in left) <= policy.budget or len(could) <= policy.keep


def make(root: Path, page: int, days_ago: float = 0.0, size: int = 8192) -> Path:
    """A namespace with a segment, an index file and a lock, last used so long before NOW."""
    path = namespace.create(root, Identity.of("m", {"page": page})).path
    (path / "00000001.segment").write_bytes(b"s" * size)
    (path / "00000001.index").write_bytes(b"i")
    (path / "writer.lock").write_bytes(b"1")
    times(path, NOW - days_ago * DAY)
    return path


def times(path: Path, time: float) -> None:
    for one in (*path.iterdir(), path):
        os.utime(one, (time, time))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside.segment").write_bytes(b"not ours")
    path = tmp_path / "root"
    path.mkdir(mode=0o700)
    return path


def test_usage_says_what_there_is(root: Path) -> None:
    first, second = make(root, 1, 5), make(root, 2, 9)
    os.utime(second / "00000001.index", (NOW, NOW))
    found = {one.directory: one for one in usage(root)}
    assert set(found) == {first.name, second.name}
    one = found[first.name]
    assert (one.kind, one.name, one.used, one.user, one.foreign) == ("namespace", "m", NOW - 5 * DAY, "", "")
    assert one.size == sum(p.stat().st_blocks * 512 for p in first.iterdir())
    assert found[second.name].used == NOW  # the newest file counts


def test_a_removed_namespace_is_gone_and_the_rest_untouched(root: Path) -> None:
    old, new = make(root, 1, 50), make(root, 2, 1)
    size = usage(root)[[one.directory for one in usage(root)].index(old.name)].size
    before = {p: p.read_bytes() for p in new.iterdir()}
    done = collect(root, choose(usage(root), Policy(unused_for=30 * DAY), NOW))
    assert (done.gone, done.freed, done.kept) == ([old.name], size, [])
    assert [p.name for p in root.iterdir()] == [new.name]
    assert {p: p.read_bytes() for p in new.iterdir()} == before
    assert (root.parent / "outside.segment").read_bytes() == b"not ours"


def everything(root: Path) -> list[str]:
    """Collect all that may go."""
    later = NOW + 50000 * DAY
    return collect(root, choose(usage(root), Policy(keep=0), later)).gone


def test_what_penny_cache_did_not_make_stays(root: Path) -> None:
    outside = root.parent / "elsewhere"
    outside.mkdir()
    other = make(outside, 9)
    (root / "link").symlink_to(other)
    (root / "mine").mkdir()
    (root / "mine" / "00000001.segment").write_bytes(b"no manifest")
    (root / "file").write_bytes(b"")
    later_version = make(root, 1)
    manifest = (later_version / MANIFEST_NAME).read_bytes()
    (later_version / MANIFEST_NAME).write_bytes(manifest.replace(b"namespace 1\n", b"namespace 2\n"))
    for page, name in enumerate(("notes.txt", "00000002.segment", "0001.segment")):
        strange = make(root, 10 + page)
        (strange / name).mkdir() if name == "00000002.segment" else (strange / name).write_bytes(b"")
    linked = make(root, 20)
    (linked / "00000002.segment").symlink_to(root.parent / "outside.segment")
    (root / ".unfinished-0").mkdir()
    (root / ".unfinished-0" / "thesis.txt").write_bytes(b"")
    before = sorted(root.rglob("*"))
    assert everything(root) == []
    assert sorted(root.rglob("*")) == before
    assert other.exists()
    assert {one.directory: one.foreign for one in usage(root)}[linked.name] == "00000002.segment"


def test_the_root_itself_is_checked(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    with pytest.raises(NamespaceError, match="is a symbolic link"):
        usage(root.parent / "link")
    with pytest.raises(NamespaceMissing, match="There is no directory"):
        usage(root / "none")
    with pytest.raises(NamespaceMissing, match="is not a directory"):
        usage(root.parent / "outside.segment")


def test_a_damaged_manifest_of_ours_goes(root: Path) -> None:
    torn = make(root, 1, 2)
    (torn / MANIFEST_NAME).write_bytes((torn / MANIFEST_NAME).read_bytes()[:-1])
    times(torn, NOW - DAY)
    assert [one.kind for one in usage(root)] == ["damaged"]
    assert chosen(usage(root), Policy(keep=5)) == [torn.name]
    assert everything(root) == [torn.name]


HOLDER = """
import fcntl, os, sys
path, kind = sys.argv[1:]
if kind == "writer":
    from pathlib import Path
    from penny_cache.store import files
    keep = files.lock(Path(path))
else:
    from penny_cache.namespace import hold
    keep = hold(path)
    keep.__enter__()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("kind", "said"), [("writer", "the process {} writes to it"), ("reader", "it is being read")]
)
def test_what_another_process_uses_stays_until_it_ends(root: Path, kind: str, said: str) -> None:
    path = make(root, 1, 50)
    before = usage(root)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert usage(root)[0].user == said.format(other.pid)
        assert everything(root) == []
        # Chosen before it came into use.
        done = collect(root, choose(before, Policy(keep=0), NOW))
        assert (done.gone, done.kept) == ([], [(path.name, said.format(other.pid))])
        assert (path / "00000001.segment").exists()
    finally:
        other.communicate("")
    assert usage(root)[0].user == ""
    assert everything(root) == [path.name]


def test_a_reader_learns_that_its_namespace_was_removed(root: Path) -> None:
    path = make(root, 1, 50)
    with namespace.hold(path):
        pass
    everything(root)
    with pytest.raises(NamespaceError, match="cannot be opened: No such file"), namespace.hold(path):
        pass


def test_a_reader_that_waits_through_a_removal_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(root, 1)

    def removed_meanwhile(file: int, kind: int) -> None:
        path.rename(root / "gone")

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    with pytest.raises(NamespaceError, match="was removed just now"), namespace.hold(path):
        pass


def test_a_removal_that_died_is_finished_later(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(root, 1, 50)
    real, calls = os.unlink, iter(range(9))

    def dies(name: str, **where: int) -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt
        real(name, **where)

    choices = choose(usage(root), Policy(keep=0), NOW)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            collect(root, choices)
    [left] = root.iterdir()
    assert left.name.startswith(f".removed-{path.name}-")
    assert namespace.find(root) == ([], [])
    with pytest.raises(NamespaceError, match="is being removed"):
        namespace.read(left)
    # A server of that identity may start again meanwhile.
    again = namespace.ensure(root, Identity.of("m", {"page": 1})).path
    assert everything(root) == [left.name, again.name]
    assert list(root.iterdir()) == []


def test_what_cannot_be_removed_is_named_and_the_rest_goes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make(root, 1, 50), make(root, 2, 40)
    real = os.unlink

    def refuses(name: str, **where: int) -> None:
        if name == "00000001.index" and os.path.samestat(os.fstat(where["dir_fd"]), kept):
            raise PermissionError(1, "Operation not permitted", name)
        real(name, **where)

    kept = first.stat()
    choices = choose(usage(root), Policy(keep=0), NOW)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuses)
        done = collect(root, choices)
    [left] = root.iterdir()
    assert done.gone == [second.name]
    assert done.kept == [(f"{left.name}/00000001.index", "Operation not permitted")]
    assert [p.name for p in left.iterdir()] == ["00000001.index"]
    assert everything(root) == [left.name]


def test_what_changed_since_it_was_chosen_stays(root: Path) -> None:
    path = make(root, 1, 50)
    choices = choose(usage(root), Policy(keep=0), NOW)
    (path / "notes.txt").write_bytes(b"")
    assert collect(root, choices).kept == [(path.name, "it changed meanwhile")]
    (path / "notes.txt").unlink()
    path.rename(root / "gone")
    assert collect(root, choices).kept == [(path.name, "it is gone already")]


def test_directories_are_synced_before_files_go(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a power cut could leave a namespace with its name and without some of its files."""
    make(root, 1, 50)
    done: list[str] = []
    for name in ("rename", "fsync", "unlink"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, _n=name, _r=real, **k: (done.append(_n), _r(*a, **k))[1])
    everything(root)
    assert done[:3] == ["rename", "fsync", "unlink"]
    assert done[-1] == "fsync"
