"""An engine that fails where it is told to: a full disk, a broken one, one that is read-only, slow or torn."""

from __future__ import annotations

import fnmatch
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penny_cache.engine.base import Engine, Range, Transfer, Transferred
from penny_cache.engine.wrapped import WrappedEngine

Operation = Literal[
    "open",
    "reserve",
    "read",
    "write",
    "sync",
    "write_file",
    "rename",
    "unlink",
    "truncate",
    "punch",
    "sync_directory",
]
CHANGES: tuple[Operation, ...] = (
    "reserve", "write", "sync", "write_file", "rename", "unlink", "truncate", "punch", "sync_directory"
)  # fmt: skip
"""What a file system that is read-only refuses, besides opening for writing."""
SECTOR = 512


@dataclass(frozen=True)
class Rule:
    """When an operation fails, and how.

    Attributes:
        operation: which. A `reserve` that is to fail is refused, as on a full drive, whatever the error.
        error: number of `errno`; 0 lets the call end as if it had gone well.
        path: pattern of `fnmatch` for the file's name (for a rename, of the target).
        nth: first of the calls that fit which is hit, from 1.
        every: hit again at each so-manieth call after that; 0 for once only.
        after_bytes: of writes: not before more than so many bytes were written in all, this one's included.
        kept: what of a failing write reaches the file: nothing; its `start`, up to a random block; or `torn`, any of
            its 512-byte sectors.
        delay: seconds that the operation takes longer.
        writing: of `open`: only with flags that allow a change.
    """

    operation: Operation
    error: int = 0
    path: str = "*"
    nth: int = 1
    every: int = 0
    after_bytes: int = 0
    kept: Literal["nothing", "start", "torn"] = "nothing"
    delay: float = 0.0
    writing: bool = False


def read_only(error: int) -> list[Rule]:
    """Rules of a file system on which nothing may be changed any more; `error` is EROFS, EPERM or EACCES."""
    return [
        Rule("open", error, writing=True, every=1),
        *(Rule(operation, error, every=1) for operation in CHANGES if operation != "sync"),
    ]


class FaultEngine(WrappedEngine):
    """Applies rules to the calls of another engine. The same calls in the same order fail in the same way.

    Args:
        inner: does what does not fail.
        rules: the first one that hits decides.
        seed: of what survives a failing write.
    """

    def __init__(self, inner: Engine, rules: Iterable[Rule] = (), seed: int = 0) -> None:
        super().__init__(inner)
        self._rules = list(rules)
        self._calls = [0] * len(self._rules)
        self._written = 0
        self._random = random.Random(seed)
        self._turn = threading.Lock()
        self._slow = ThreadPoolExecutor(4, "penny-cache-slow")
        self.hits = 0

    def set(self, rules: Iterable[Rule] = ()) -> None:
        """Have these rules from now on, their counts at zero; none for a drive that is well again."""
        with self._turn:
            self._rules = list(rules)
            self._calls = [0] * len(self._rules)
            self._written = 0

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """See `Engine.open`."""
        writing = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        self._check("open", path, writing=writing)
        return super().open(path, flags, mode)

    def reserve(self, file: int, size: int) -> bool:
        """See `Engine.reserve`."""
        rule = self._hit("reserve", self.path(file))
        if rule is not None:
            time.sleep(rule.delay)
        return (rule is None or not rule.error) and super().reserve(file, size)

    def read(self, transfer: Transfer) -> Transferred:
        """See `Engine.read`."""
        rule = self._hit("read", self.path(transfer.file))
        if rule is None:
            return super().read(transfer)
        return self._slow.submit(_later, rule, self.path(transfer.file), super().read, transfer)

    def write(self, transfer: Transfer) -> Transferred:
        """See `Engine.write`."""
        path = self.path(transfer.file)
        rule = self._hit("write", path, transfer.size)
        if rule is None:
            return super().write(transfer)
        if rule.kept == "nothing":
            return self._slow.submit(_later, rule, path, super().write, transfer)
        return self._slow.submit(self._partly, rule, path, transfer)

    def sync(self, file: int) -> None:
        """See `Engine.sync`."""
        self._check("sync", self.path(file))
        super().sync(file)

    def write_file(self, path: Path, data: bytes) -> None:
        """See `Engine.write_file`."""
        rule = self._hit("write_file", path, len(data))
        if rule is not None:
            if rule.kept != "nothing":
                super().write_file(path, data[: self._random.randrange(len(data) + 1)])
            _raise(rule, path)
            if rule.kept != "nothing":
                return
        super().write_file(path, data)

    def rename(self, source: Path, target: Path) -> None:
        """See `Engine.rename`."""
        self._check("rename", target)
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        """See `Engine.unlink`."""
        self._check("unlink", path)
        super().unlink(path)

    def truncate(self, path: Path, size: int) -> None:
        """See `Engine.truncate`."""
        self._check("truncate", path)
        super().truncate(path, size)

    def punch(self, path: Path, ranges: Sequence[Range]) -> bool:
        """See `Engine.punch`."""
        self._check("punch", path)
        return super().punch(path, ranges)

    def sync_directory(self, path: Path) -> None:
        """See `Engine.sync_directory`."""
        self._check("sync_directory", path)
        super().sync_directory(path)

    def shutdown(self) -> None:
        """See `Engine.shutdown`."""
        self._slow.shutdown()
        super().shutdown()

    def _check(self, operation: Operation, path: Path, writing: bool = False) -> None:
        rule = self._hit(operation, path, writing=writing)
        if rule is not None:
            _raise(rule, path)

    def _hit(self, operation: Operation, path: Path, size: int = 0, writing: bool = False) -> Rule | None:
        with self._turn:
            self._written += size if operation in ("write", "write_file") else 0
            for number, rule in enumerate(self._rules):
                if rule.operation != operation or not fnmatch.fnmatch(path.name, rule.path):
                    continue
                if rule.after_bytes >= max(self._written, 1) or (rule.writing and not writing):
                    continue
                self._calls[number] += 1
                over = self._calls[number] - rule.nth
                if over == 0 or (over > 0 and rule.every and over % rule.every == 0):
                    self.hits += 1
                    return rule
        return None

    def _partly(self, rule: Rule, path: Path, transfer: Transfer) -> None:
        with self._turn:
            draw = random.Random(self._random.random())
        data = b"".join(transfer.views)
        sectors = range(0, len(data), SECTOR)
        if rule.kept == "torn":
            kept = [at for at in sectors if draw.random() < 0.5]
        else:
            kept = list(sectors[: draw.randrange(len(sectors)) // 8 * 8])
        # Not through the inner engine: half a block is nothing that it writes.
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            for at in kept:
                os.pwrite(file, data[at : at + SECTOR], transfer.offset + at)
        finally:
            os.close(file)
        _raise(rule, path)


def _later(rule: Rule, path: Path, call: Callable[[Transfer], Transferred], transfer: Transfer) -> None:
    _raise(rule, path)
    call(transfer).result()


def _raise(rule: Rule, path: Path) -> None:
    time.sleep(rule.delay)
    if rule.error:
        raise OSError(rule.error, os.strerror(rule.error), str(path))
