"""An engine that remembers what was done to a directory, so that power cuts can be drawn from it (`powercut`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from penny_cache.engine.base import Engine, Range, Transfer, Transferred
from penny_cache.engine.wrapped import WrappedEngine

Change = Literal["link", "rename", "unlink", "reserve", "write", "truncate", "punch", "sync", "sync_names"]


@dataclass
class Step:
    """One change, from the moment it was asked for to the one at which it was done.

    Attributes:
        change: what; `link` gives a new file its name, `sync_names` is `sync_directory`.
        start, end: moments; `end` is None until it is done, and for ever if it failed: it may be there in part.
        file: number of the file that it is about; names may come to stand for other files, numbers do not.
        name, target: of `link`, `unlink` and `rename`.
        offset: first byte of a write; bytes that a truncation leaves, or that a file has at least (`reserve`).
        data: of a write.
        ranges: of a punch.
    """

    change: Change
    start: int
    end: int | None = None
    file: int = -1
    name: str = ""
    target: str = ""
    offset: int = 0
    data: bytes = b""
    ranges: Sequence[Range] = ()


@dataclass
class Recording:
    """What happened to one directory, by several engines one after another if need be.

    Attributes:
        before: its files at the start, which are durable, by name.
        steps: every change since, in the order of their starts.
        notes: what the caller wants to know of a moment, with the moment: promises, for the most part.
        now: the next moment. Moments are whole numbers; something starts, ends or is noted at each.
    """

    before: dict[str, bytes]
    steps: list[Step] = field(default_factory=list)
    notes: list[tuple[int, Any]] = field(default_factory=list)
    now: int = 0

    def __post_init__(self) -> None:
        self.turn = threading.RLock()
        self.names = {name: number for number, name in enumerate(self.before)}
        self._files = len(self.names)

    @classmethod
    def of(cls, directory: Path) -> Recording:
        """A recording that starts with the files that a directory has."""
        return cls({path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()})

    def note(self, what: Any) -> None:
        """Remember that this is so, from now on."""
        with self.turn:
            self.notes.append((self._tick(), what))

    def begin(self, change: Change, **what: Any) -> Step:
        """Note that a change was asked for."""
        with self.turn:
            step = Step(change, self._tick(), **what)
            self.steps.append(step)
            return step

    def end(self, step: Step) -> None:
        """Note that a change was done."""
        with self.turn:
            step.end = self._tick()

    def new_file(self, name: str) -> int:
        """The number of a file that gets this name now."""
        with self.turn:
            self.names[name] = self._files
            self._files += 1
            return self.names[name]

    def _tick(self) -> int:
        self.now += 1
        return self.now - 1


class RecordingEngine(WrappedEngine):
    """Records the changes that another engine makes to the files of one directory."""

    def __init__(self, inner: Engine, recording: Recording) -> None:
        super().__init__(inner)
        self.recording = recording
        self._numbers: dict[int, int] = {}

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """See `Engine.open`."""
        if not flags & os.O_CREAT or path.name in self.recording.names:
            file = super().open(path, flags, mode)
        else:
            # The number first, for a name that is not durable may be there all the same.
            number = self.recording.new_file(path.name)
            with self._step("link", file=number, name=path.name):
                file = super().open(path, flags, mode)
        self._numbers[file] = self.recording.names[path.name]
        return file

    def close(self, file: int) -> None:
        """See `Engine.close`."""
        self._numbers.pop(file, None)
        super().close(file)

    def reserve(self, file: int, size: int) -> bool:
        """See `Engine.reserve`."""
        with self._step("reserve", file=self._numbers[file], offset=size):
            return super().reserve(file, size)

    def write(self, transfer: Transfer) -> Transferred:
        """See `Engine.write`."""
        step = self.recording.begin(
            "write", file=self._numbers[transfer.file], offset=transfer.offset, data=b"".join(transfer.views)
        )
        done: Transferred = Future()

        def ended(written: Transferred) -> None:
            error = written.exception()
            if error is not None:
                done.set_exception(error)
            else:
                # Before anybody learns of it, for what they promise then counts from a later moment.
                self.recording.end(step)
                done.set_result(None)

        super().write(transfer).add_done_callback(ended)
        return done

    def sync(self, file: int) -> None:
        """See `Engine.sync`."""
        with self._step("sync", file=self._numbers[file]):
            super().sync(file)

    def write_file(self, path: Path, data: bytes) -> None:
        """See `Engine.write_file`: a name, a truncation, a write and a sync of the file."""
        names, number = self.recording.names, self.recording.names.get(path.name, -1)
        steps = [] if path.name in names else [self.recording.begin("link", file=-1, name=path.name)]
        if number < 0:
            number = self.recording.new_file(path.name)
            steps[0].file = number
        steps.append(self.recording.begin("truncate", file=number))
        steps.append(self.recording.begin("write", file=number, data=bytes(data)))
        super().write_file(path, data)
        for step in steps:
            self.recording.end(step)
        self.recording.end(self.recording.begin("sync", file=number))

    def rename(self, source: Path, target: Path) -> None:
        """See `Engine.rename`."""
        names = self.recording.names
        with self._step("rename", file=names[source.name], name=source.name, target=target.name):
            super().rename(source, target)
        names[target.name] = names.pop(source.name)

    def unlink(self, path: Path) -> None:
        """See `Engine.unlink`."""
        with self._step("unlink", name=path.name):
            super().unlink(path)
        self.recording.names.pop(path.name, None)

    def truncate(self, path: Path, size: int) -> None:
        """See `Engine.truncate`."""
        with self._step("truncate", file=self.recording.names[path.name], offset=size):
            super().truncate(path, size)

    def punch(self, path: Path, ranges: Sequence[Range]) -> bool:
        """See `Engine.punch`."""
        with self._step("punch", file=self.recording.names[path.name], ranges=list(ranges)):
            return super().punch(path, ranges)

    def sync_directory(self, path: Path) -> None:
        """See `Engine.sync_directory`."""
        with self._step("sync_names"):
            super().sync_directory(path)

    @contextmanager
    def _step(self, change: Change, **what: Any) -> Iterator[None]:
        step = self.recording.begin(change, **what)
        yield
        self.recording.end(step)
