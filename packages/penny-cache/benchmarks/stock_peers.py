"""Key/value pages of a prefix through stock SGLang's `file` and NIXL backends and through penny-cache, in turns.

    python packages/penny-cache/benchmarks/stock_peers.py --directory DIR --out stock-peers.json

The pages are Flash-Next's (851,968 bytes, half keys, half values); the stock backends get pages only, for stock NIXL
cannot store this model's state. Every turn writes the same chain through each, has the page cache forget it, reads it
into the same host memory and compares the bytes; the drive's own figure (fio, sequential, O_DIRECT, the best depth) is
taken in every turn. Needs the packages of a penny-server environment.
"""

from __future__ import annotations

import argparse
import json
import logging
import mmap
import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from penny_cache.bench import raw
from penny_cache.bench.bandwidth import bench_namespace, forget_cached, keys_of
from penny_cache.bench.geometry import FLASH_NEXT, PAGE_TOKENS
from penny_cache.engine import ThreadEngine
from penny_cache.engine.choose import default_engine
from penny_cache.store import Settings, open_store

PAGE = FLASH_NEXT.page["kv"]
BATCH = 128
"""Pages of one call to a stock backend: its own limit."""


class Host:
    """Page-aligned host memory: pages of half keys and half values, as stock's page-first pools lay them out."""

    layout = "page_first"
    page_size = PAGE_TOKENS

    def __init__(self, pages: int) -> None:
        self.memory = mmap.mmap(-1, pages * PAGE)
        self.kv_buffer = torch.frombuffer(self.memory, dtype=torch.uint8)
        self.pages = self.kv_buffer.view(pages, PAGE)
        self.kv_buffer.zero_()

    def fill(self, seed: int) -> None:
        """Other bytes for each seed."""
        generator = torch.Generator().manual_seed(seed)
        for page in self.pages:
            page.copy_(torch.randint(0, 256, (PAGE,), dtype=torch.uint8, generator=generator))

    def is_stride_page_aligned(self, size: int) -> bool:
        """Whether pages start at multiples of `size`."""
        return self.kv_buffer.data_ptr() % size == 0 and (PAGE // 2) % size == 0

    def get_page_buffer_meta(self, indices: torch.Tensor) -> tuple[list[int], list[int]]:
        """Address and bytes of the keys and of the values of each page."""
        firsts = [int(token) // PAGE_TOKENS for token in indices[::PAGE_TOKENS]]
        base = self.kv_buffer.data_ptr()
        found = [base + page * PAGE + half * (PAGE // 2) for page in firsts for half in (0, 1)]
        return found, [PAGE // 2] * len(found)


def config(extra: dict[str, Any]) -> Any:
    """Stock's settings of one rank."""
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig

    return HiCacheStorageConfig(
        tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1, is_mla_model=False,
        enable_storage_metrics=False, is_page_first_layout=True, model_name="bench", extra_config=extra,
    )  # fmt: skip


def timed(work: Callable[[], None]) -> float:
    """Seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def stock_file(directory: Path, host: Host, keys: list[str]) -> tuple[float, float]:
    """Seconds to write and to read all pages through `HiCacheFile`."""
    from sglang.srt.mem_cache.hicache_storage import HiCacheFile

    store = HiCacheFile(config({"file_storage_path": str(directory)}))
    pages = list(host.pages)

    def write() -> None:
        for first in range(0, len(keys), BATCH):
            if not store.batch_set(keys[first : first + BATCH], pages[first : first + BATCH]):
                raise RuntimeError("stock's file backend did not write")
        os.sync()

    wrote = timed(write)
    host.kv_buffer.zero_()
    forget_cached(sorted(directory.rglob("*.bin")))

    def read() -> None:
        for first in range(0, len(keys), BATCH):
            if any(
                got is None
                for got in store.batch_get(keys[first : first + BATCH], pages[first : first + BATCH])
            ):
                raise RuntimeError("stock's file backend did not read")

    return wrote, timed(read)


def stock_nixl(directory: Path, host: Host, keys: list[str]) -> tuple[float, float]:
    """Seconds to write and to read all pages through `HiCacheNixl`: io_uring and O_DIRECT, without copies."""
    from sglang.srt.mem_cache.storage.nixl.hicache_nixl import HiCacheNixl

    extra = {
        "use_direct_io": True,
        "l3_cleaner_enabled": False,
        "plugin": {"posix": {"active": True, "use_uring": "true"}},
    }
    store = HiCacheNixl(config(extra), str(directory))
    store.register_mem_pool_host(host)
    if not store.is_zero_copy:
        raise RuntimeError("stock NIXL copies, which would not be its best figure")
    indices = torch.arange(len(keys) * PAGE_TOKENS)

    def all_batches(call: Callable[[list[str], torch.Tensor], list[bool]]) -> None:
        for first in range(0, len(keys), BATCH // 2):
            some = keys[first : first + BATCH // 2]
            if not all(call(some, indices[first * PAGE_TOKENS : (first + len(some)) * PAGE_TOKENS])):
                raise RuntimeError("a stock NIXL transfer failed")

    def write() -> None:
        all_batches(store.batch_set_v1)
        os.sync()

    wrote = timed(write)
    host.kv_buffer.zero_()
    forget_cached([path for path in directory.rglob("*") if path.is_file()])
    read = timed(lambda: all_batches(store.batch_get_v1))
    store.close()
    return wrote, read


def ours(directory: Path, host: Host, engine: Callable[[], Any]) -> tuple[float, float]:
    """Seconds to write (durably) and to read and verify all pages through penny-cache."""
    pages = len(host.pages)
    keys = keys_of(pages)
    views = [memoryview(host.memory)[page * PAGE : (page + 1) * PAGE] for page in range(pages)]
    with bench_namespace(directory, FLASH_NEXT) as here:

        def write() -> None:
            # Closed, all of it is durable, as the stock backends' pages are after the sync.
            with open_store(here, settings=Settings(), engine=made) as store:
                for i, key in enumerate(keys):
                    store.put(key, {"kv": views[i]}, keys[i - 1] if i else None, wait=60)

        made = engine()
        wrote = timed(write)
        host.kv_buffer.zero_()
        forget_cached(sorted(here.path.glob("*.segment")))
        with open_store(here, writable=False, engine=engine()) as store:

            def read() -> None:
                if sum(1 for _ in store.restore(keys, lambda position, name, size: views[position])) != pages:
                    raise RuntimeError("a page did not come")

            return wrote, timed(read)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", type=Path, required=True, help="a directory on the drive to measure")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file")
    parser.add_argument("--pages", type=int, default=1260, help="pages of the chain (1,260 are 1 GiB)")
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    logging.disable(logging.INFO)
    host = Host(given.pages)
    names = [f"{page:064x}" for page in range(given.pages)]
    size = given.pages * PAGE
    peers: dict[str, Callable[[Path], tuple[float, float]]] = {
        "stock file": lambda path: stock_file(path, host, names),
        "stock NIXL": lambda path: stock_nixl(path, host, names),
        "penny-cache, threads": lambda path: ours(path, host, ThreadEngine),
        "penny-cache, default engine": lambda path: ours(path, host, default_engine),
    }
    root = given.directory / ".stock-peers"
    sample = root / "raw"
    rates: dict[str, dict[str, list[float]]] = {name: {"write": [], "read": []} for name in ("raw", *peers)}
    depth = 0
    try:
        for turn in range(given.turns):
            host.fill(turn)
            digest = [int(page.sum(dtype=torch.int64)) for page in host.pages]
            root.mkdir(exist_ok=True)
            sample.write_bytes(host.kv_buffer.numpy().tobytes())
            forget_cached([sample])
            if not depth:
                depth = raw.best_read([sample])[0].depth
            rates["raw"]["read"].append(raw.read([sample], depth).rate)
            sample.unlink()
            rates["raw"]["write"].append(raw.write(sample, size, depth).rate)
            for name in list(peers)[turn % len(peers) :] + list(peers)[: turn % len(peers)]:
                host.fill(turn)
                place = root / name.replace(" ", "-").replace(",", "")
                place.mkdir()
                wrote, read = peers[name](place)
                if [int(page.sum(dtype=torch.int64)) for page in host.pages] != digest:
                    raise RuntimeError(f"{name} gave other bytes back")
                shutil.rmtree(place)
                rates[name]["write"].append(size / wrote)
                rates[name]["read"].append(size / read)
                print(
                    f"turn {turn + 1} {name}: write {size / wrote / 1e6:,.0f} MB/s, read {size / read / 1e6:,.0f} MB/s"
                )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    median = {name: {what: statistics.median(r) for what, r in each.items()} for name, each in rates.items()}
    given.out.write_text(
        json.dumps(
            {
                "page_bytes": PAGE, "pages": given.pages, "turns": given.turns, "raw_depth": depth,
                "command": "python packages/penny-cache/benchmarks/stock_peers.py --directory DIR --out FILE "
                f"--pages {given.pages} --turns {given.turns}",
                "bytes_per_second": rates, "median": median,
            },
            indent=1,
        )
        + "\n"
    )  # fmt: skip
    print(json.dumps(median, indent=1))


if __name__ == "__main__":
    main()
