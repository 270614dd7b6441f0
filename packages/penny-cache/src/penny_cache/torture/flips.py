"""The campaign of damage: bits that flip, files that are cut short, missing, swapped or of another store."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penny_cache import namespace
from penny_cache.namespace import MANIFEST_NAME, Identity, Namespace, NamespaceError
from penny_cache.store import Settings, Stage, StoreVersion, open_store
from penny_cache.torture.drawn import become, contents, scratch
from penny_cache.torture.inline import InlineEngine
from penny_cache.torture.ledger import Ledger, reads_again
from penny_cache.torture.pages import MARK, SNAPSHOTS, STATE, Forest
from penny_cache.torture.result import Progress, Result, silent

MIB = 1 << 20
SETTINGS = Settings(segment_bytes=60 * 4096, write_memory=MIB, read_memory=MIB, snapshots=SNAPSHOTS)
PAGES = 30
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Damage:
    """What was done to a store's files.

    Attributes:
        what: for tables.
        files: those that are there afterwards.
        touched: segment number, first and last byte of what cannot be relied on any more.
        walked: numbers of segments that may have to be walked.
    """

    what: str
    files: Files
    touched: tuple[tuple[int, int, int], ...] = ()
    walked: frozenset[int] = frozenset()


def flips(path: Path, count: int, truncations: int, seed: int, progress: Progress = silent) -> Result:
    """Flip so many bits, and cut so many files short, one at a time, of a store that is closed.

    For every twenty truncations a file is removed, two are swapped and one of another store is put in place. Readers
    and writers open the store in turn. What was not touched must load; what was may be missing; a damaged manifest is
    an error that says so. A reader without a segment's index file may miss bundles whose snapshots were given up, which
    a writer finds.

    Args:
        path: a directory for the case that there is no file system in memory.
        count: of flips.
        truncations: of files.
        seed: of all of it.
        progress: told of each.
    """
    result = Result("flips", seed)
    started = time.monotonic()
    draw = random.Random(f"{seed} flips")
    with scratch(path) as memory:
        made = _made(memory / "store", Forest(seed))
        other = _made(memory / "other", Forest(seed + 1))
        others = [_removed, _swapped, _foreign] * max(1, truncations // 20)
        kinds = [_flip] * count + [_short] * truncations + others
        for number, kind in enumerate(kinds):
            damage = kind(draw, made.files, other.files)
            become(made.here.path, damage.files)
            _judge(made, damage, number % 2 == 0, result, f"round {number}, {damage.what}")
            result.notes[damage.what] += 1
            result.rounds += 1
            progress(result.rounds, len(kinds))
    result.seconds = time.monotonic() - started
    return result


@dataclass(frozen=True)
class _Made:
    """A closed store, its files, and where its pages are: segment, first byte and bytes."""

    here: Namespace
    files: Files
    ledger: Ledger
    places: Mapping[int, tuple[int, int, int]]


def _made(root: Path, forest: Forest) -> _Made:
    """A store with replaced keys, and with snapshots and bundles that were given up."""
    here = namespace.ensure(root, Identity.of("torture", {"campaign": "flips", "seed": forest.seed}))
    ledger = Ledger(forest)
    versions = dict.fromkeys(range(PAGES), 1) | dict.fromkeys(range(0, PAGES, 7), 2)
    for version in (1, 2):
        with open_store(here, settings=SETTINGS, engine=InlineEngine()) as store:
            for page in [page for page, newest in versions.items() if newest >= version]:
                before = forest.parent(page)
                parent = None if before is None else forest.key(before)
                store.put(
                    forest.key(page), forest.parts(page, version), parent, Stage.WRITTEN, wait=60
                ).wait()
                ledger.apply([("put", page, version)])
    with open_store(here, settings=SETTINGS, engine=InlineEngine()) as store:
        store.collect(24 * 4096)
    with open_store(here, settings=SETTINGS, engine=InlineEngine()) as store:
        survey = store.survey()
    pages = {bytes(forest.key(page)): page for page in versions}
    places: dict[int, tuple[int, int, int]] = {}
    for row in survey.rows:
        page, layout = pages[row["key"].tobytes()], dict(survey.layouts[int(row["layout"])])
        places[page] = (int(row["segment"]), int(row["offset"]) * 4096, int(row["blocks"]) * 4096)
        ledger.apply([("kept", page, layout[MARK])])
        if STATE not in layout:
            ledger.apply([("stripped", page, layout[MARK])])
    return _Made(here, contents(here.path), ledger, places)


def _judge(made: _Made, damage: Damage, writable: bool, result: Result, where: str) -> None:
    ledger = made.ledger.copy()
    for page, (segment, start, size) in made.places.items():
        version = ledger.kept[page]
        hit = any(
            segment == s and first < start + size and last >= start for s, first, last in damage.touched
        )
        if hit or (not writable and segment in damage.walked and (page, version) in ledger.stripped):
            ledger.apply([("gone", page, version)])
    with result.judging(where):
        try:
            here = namespace.read(made.here.path)
            with open_store(here, writable=writable, settings=SETTINGS, engine=InlineEngine()) as store:
                outcomes, faults, _ = ledger.judge(store)
                result.found(where, outcomes, faults)
                result.notes["a miss" if outcomes["given up"] else "harmless"] += 1
                if writable and not reads_again(store, ledger.forest, PAGES):
                    result.fault(where, "error", "a bundle that was put afterwards is not found")
        except (NamespaceError, StoreVersion) as error:
            # The version is the one thing of a segment that is believed without its checksum, for another version may
            # have another one.
            version = isinstance(error, StoreVersion) and any(first < 10 for _, first, _ in damage.touched)
            if not version and MANIFEST_NAME not in damage.what:
                raise
            result.outcomes["refused"] += 1


def _flip(draw: random.Random, files: Files, other: Files) -> Damage:
    name = _any(draw, files)
    # Half of them in what is at the start of a block, where headers are.
    at = draw.randrange(len(files[name]))
    if draw.random() < 0.5:
        at = min(at // 4096 * 4096 + at % 224, len(files[name]) - 1)
    data = bytearray(files[name])
    data[at] ^= 1 << draw.randrange(8)
    if name.endswith(".segment") and draw.random() < 0.3:
        changed = {name: bytes(data), f"{Path(name).stem}.index": None}
        return _damage("a bit of a .segment without its index file", files, changed, at, at)
    return _damage(f"a bit of {_kind(name)}", files, {name: bytes(data)}, at, at)


def _short(draw: random.Random, files: Files, other: Files) -> Damage:
    name = _any(draw, files)
    size = draw.randrange(len(files[name]))
    return _damage(f"the end of {_kind(name)}", files, {name: files[name][:size]}, size)


def _removed(draw: random.Random, files: Files, other: Files) -> Damage:
    name = _any(draw, files)
    return _damage(f"all of {_kind(name)}", files, {name: None})


def _swapped(draw: random.Random, files: Files, other: Files) -> Damage:
    suffix = draw.choice([".segment", ".index"])
    one, two = draw.sample([name for name in files if name.endswith(suffix)], 2)
    return _damage(f"two {suffix} swapped", files, {one: files[two], two: files[one]})


def _foreign(draw: random.Random, files: Files, other: Files) -> Damage:
    name = draw.choice([one for one in files if one in other and one.endswith((".segment", ".index"))])
    return _damage(f"{_kind(name)} of another store", files, {name: other[name]})


def _any(draw: random.Random, files: Files) -> str:
    kinds = sorted({_kind(name) for name, data in files.items() if data})
    kind = draw.choices(kinds, [8 if "segment" in one else 3 if "index" in one else 1 for one in kinds])[0]
    return draw.choice([name for name, data in files.items() if data and _kind(name) == kind])


def _kind(name: str) -> str:
    return f"a {Path(name).suffix}" if name[0].isdigit() else name


def _damage(
    what: str, files: Files, changed: Mapping[str, bytes | None], first: int = 0, last: int = 1 << 60
) -> Damage:
    left = {name: data for name, data in {**files, **changed}.items() if data is not None}
    numbers = frozenset(int(name[:8]) for name in changed if name[0].isdigit())
    touched = tuple((int(name[:8]), first, last) for name in changed if name.endswith(".segment"))
    return Damage(what, left, touched, numbers)
