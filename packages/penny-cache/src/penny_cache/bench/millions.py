"""A million bundles: finding a long prefix among them, the memory of the index, and opening the store.

The segments are made of holes with true index files beside them, for no drive here has room for a million real pages;
one segment more is real, of a writer that was killed.
"""

from __future__ import annotations

import gc
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penny_cache.bench.bandwidth import keys_of
from penny_cache.bench.geometry import PAGE_TOKENS, Geometry
from penny_cache.namespace import Namespace, read
from penny_cache.store import Settings, Store, open_store
from penny_cache.store.files import index_path, segment_path
from penny_cache.store.image import image_blocks
from penny_cache.store.index import ROW
from penny_cache.store.keys import DIGEST_BYTES
from penny_cache.store.records import BLOCK, Header, Kind
from penny_cache.store.sidecar import Sidecar, encode

PREFIX_TOKENS = 489_856
"""Tokens of the prefix that is looked up: the published restore of the reference."""
LOOKUPS = 21


@dataclass(frozen=True)
class Millions:
    """Figures of a store of very many bundles.

    Attributes:
        bundles, pages: in the store, and of the prefix that is looked up.
        lookup_s: median time of `match` for all of the prefix, its keys being links of a hash chain.
        lookup_hashed_s: the same for keys that the store hashes first.
        bytes_a_bundle: resident memory that opening the store takes, per bundle.
        clean_open_s, killed_open_s: opening after `close`, and after a kill with a full segment that is not sealed.
        killed_bytes: of that segment.
    """

    bundles: int
    pages: int
    lookup_s: float
    lookup_hashed_s: float
    bytes_a_bundle: float
    clean_open_s: float
    killed_open_s: float
    killed_bytes: int


def measure(here: Namespace, geometry: Geometry, bundles: int, say: Callable[[str], None]) -> Millions:
    """Build the store in an empty namespace and measure it.

    Raises:
        RuntimeError: the prefix was not found.
    """
    pages = PREFIX_TOKENS // PAGE_TOKENS
    _build(here, geometry, bundles, pages)
    say(f"a store of {bundles:,} bundles in {len(list(here.path.glob('*.segment'))):,} segments")
    _child(here.path, "reopen")  # which leaves a snapshot, as every close does
    child = _child(here.path, "open", pages)
    say(
        f"opened clean in {child['open_s']:.2f} s, {child['bytes_a_bundle']:.0f} bytes of memory a bundle, "
        f"{pages:,} pages found in {child['lookup_s'] * 1000:.1f} ms"
    )
    _kill_a_writer(here.path, geometry)
    left = max(here.path.glob("*.segment"))
    size = left.stat().st_size
    killed = _child(here.path, "reopen", pages)
    say(f"opened after a kill in {killed['open_s']:.2f} s, {size / 1e6:,.0f} MB of them not sealed")
    return Millions(
        bundles, pages, child["lookup_s"], child["lookup_hashed_s"], child["bytes_a_bundle"], child["open_s"],
        killed["open_s"], size,
    )  # fmt: skip


def _build(here: Namespace, geometry: Geometry, bundles: int, pages: int) -> None:
    owner = bytes.fromhex(here.identity.digest)
    layout = tuple(geometry.page.items())
    size = image_blocks(layout)
    each = (Settings().segment_size // BLOCK - 1) // size
    rows = np.zeros(bundles, ROW)
    rows["key"] = np.frombuffer(secrets.token_bytes(bundles * DIGEST_BYTES), ROW["key"])
    rows["key"][:pages] = np.frombuffer(b"".join(keys_of(pages)), ROW["key"])
    rows["parent"][1:] = rows["key"][:-1]
    rows["parent"][::pages] = np.zeros(1, ROW["parent"])
    rows["sequence"] = np.arange(1, bundles + 1)
    rows["blocks"] = size
    rows["segment"] = np.arange(bundles) // each + 1
    rows["offset"] = np.arange(bundles) % each * size + 1
    for first in range(0, bundles, each):
        part, number = rows[first : first + each], first // each + 1
        end = int(part["offset"][-1]) + size
        path = segment_path(here.path, number)
        path.write_bytes(Header(Kind.START, owner, number).packed())
        os.truncate(path, end * BLOCK)
        index_path(here.path, number).write_bytes(encode(Sidecar(number, end, [layout], part), owner))


def _child(path: Path, what: str, *settings: object) -> dict[str, float]:
    command = [sys.executable, "-m", "penny_cache.bench.millions", what, str(path), *map(str, settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Measuring {path} failed: {done.stderr.strip()[-800:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _kill_a_writer(path: Path, geometry: Geometry) -> None:
    command = [sys.executable, "-m", "penny_cache.bench.millions", "write", str(path), geometry.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        if child.stdout.readline().strip() != "full":
            raise RuntimeError("The writer that was to be killed did not come to fill a segment.")
        child.send_signal(signal.SIGKILL)


def _opened(path: Path, writable: bool) -> tuple[Store, float, int]:
    here = read(path)
    gc.collect()
    before = _resident()
    start = time.perf_counter()
    store = open_store(here, writable=writable)
    return store, time.perf_counter() - start, _resident() - before


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _look(store: Store, pages: int) -> dict[str, float]:
    keys = keys_of(pages)
    taken = []
    for _ in range(LOOKUPS):
        start = time.perf_counter()
        found = store.match(keys)
        taken.append(time.perf_counter() - start)
        if found != pages:
            raise RuntimeError(f"{found} of {pages} pages were found.")
    texts = [key.hex() for key in keys]
    hashed = []
    for _ in range(LOOKUPS):
        start = time.perf_counter()
        store.match(texts)  # which finds none: the time is that of hashing and searching for all
        hashed.append(time.perf_counter() - start)
    return {"lookup_s": statistics.median(taken), "lookup_hashed_s": statistics.median(hashed)}


def main() -> None:
    """What runs in processes of its own: `open`, `reopen` and `write`."""
    what, path = sys.argv[1], Path(sys.argv[2])
    if what == "write":
        from penny_cache.bench.geometry import GEOMETRIES, filled

        geometry = GEOMETRIES[sys.argv[3]]
        store, _, _ = _opened(path, writable=True)
        layout = tuple(geometry.page.items())
        each = (store.settings.segment_size // BLOCK - 1) // image_blocks(layout)
        parts = {name: filled(size, 0) for name, size in layout}
        for i in range(each):
            ticket = store.put(f"killed {i}", parts, wait=60)
            ticket.wait()
        print("full", flush=True)
        time.sleep(600)
    store, seconds, resident = _opened(path, writable=True)
    found = {"open_s": seconds, "bytes_a_bundle": resident / len(store)}
    if what == "open":
        found |= _look(store, int(sys.argv[3]))
    print(json.dumps(found))
    store.close()


if __name__ == "__main__":
    main()
