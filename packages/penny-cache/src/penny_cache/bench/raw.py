"""What a drive gives without any of ours: sequential O_DIRECT transfers at several queue depths."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from pathlib import Path

from penny_cache.engine import Engine, ThreadEngine, Transfer, Transferred
from penny_cache.store.memory import Buffer

DEPTHS = (1, 4, 8, 16, 32)
CHUNK = 1 << 20
"""Bytes of one request."""


@dataclass(frozen=True)
class Raw:
    """One raw transfer.

    Attributes:
        by: program that moved the bytes.
        depth: requests under way.
        rate: bytes/s.
    """

    by: str
    depth: int
    rate: float


def read(paths: Sequence[Path], depth: int) -> Raw:
    """Read files from end to end, once.

    Raises:
        RuntimeError: fio failed.
        OSError: a file cannot be read.
    """
    if shutil.which("fio"):
        names = ":".join(str(path).replace(":", "\\:") for path in paths)
        result = _fio(
            f"--filename={names}", "--rw=read", "--readonly", "--file_service_type=sequential", depth=depth
        )
        return Raw("fio", depth, result["read"]["io_bytes"] * 1000 / result["read"]["runtime"])
    engine = ThreadEngine(depth)
    spans = [(path, path.stat().st_size // CHUNK * CHUNK) for path in paths]
    start = time.perf_counter()
    for path, size in spans:
        _stream(engine, engine.open(path, os.O_RDONLY), size, depth, engine.read)
    engine.shutdown()
    return Raw("threads", depth, sum(size for _, size in spans) / (time.perf_counter() - start))


def write(path: Path, size: int, depth: int) -> Raw:
    """Write a file of `size` bytes and sync it; the file is removed.

    Raises:
        RuntimeError: fio failed.
        OSError: the file cannot be written.
    """
    try:
        if shutil.which("fio"):
            options = ("--rw=write", f"--size={size}", "--end_fsync=1", "--refill_buffers")
            result = _fio(f"--filename={path}", *options, depth=depth)
            return Raw("fio", depth, result["write"]["io_bytes"] * 1000 / result["write"]["runtime"])
        engine = ThreadEngine(depth)
        start = time.perf_counter()
        file = engine.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        _stream(engine, file, size // CHUNK * CHUNK, depth, engine.write, sync=True)
        engine.shutdown()
        return Raw("threads", depth, size // CHUNK * CHUNK / (time.perf_counter() - start))
    finally:
        path.unlink(missing_ok=True)


def best_read(paths: Sequence[Path]) -> list[Raw]:
    """Reads at every depth, each the median of three, the best first."""
    return _best(lambda depth: read(paths, depth))


def best_write(directory: Path, size: int) -> list[Raw]:
    """Writes at every depth, each the median of three, the best first."""
    return _best(lambda depth: write(directory / ".raw-write", size, depth))


def _best(measure: Callable[[int], Raw]) -> list[Raw]:
    # Depth by depth within each round, so that what changes meanwhile meets all of them.
    rounds = [[measure(depth) for depth in DEPTHS] for _ in range(3)]
    medians = [sorted(column, key=lambda one: one.rate)[1] for column in zip(*rounds, strict=True)]
    return sorted(medians, key=lambda one: -one.rate)


def _fio(*options: str, depth: int) -> dict[str, dict[str, int]]:
    command = [
        "fio", "--name=raw", f"--bs={CHUNK}", "--direct=1", "--ioengine=io_uring", f"--iodepth={depth}",
        "--output-format=json", *options,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"fio ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    (job,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    found: dict[str, dict[str, int]] = job
    return found


def _stream(
    engine: Engine,
    file: int,
    size: int,
    depth: int,
    move: Callable[[Transfer], Transferred],
    sync: bool = False,
) -> None:
    free = [Buffer(CHUNK) for _ in range(depth)]
    flying: dict[Transferred, Buffer] = {}
    for offset in range(0, size, CHUNK):
        if not free:
            for done in wait(flying, return_when=FIRST_COMPLETED).done:
                done.result()
                free.append(flying.pop(done))
        buffer = free.pop()
        flying[move(Transfer(file, offset, [buffer.view]))] = buffer
    for done in flying:
        done.result()
    if sync:
        engine.sync(file)
    engine.close(file)
