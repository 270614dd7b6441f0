"""Which engine is taken, and what is said of it."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penny_cache.engine import ThreadEngine, agent, choose
from penny_cache.engine.agent import NixlMissing
from penny_cache.engine.nixl import NixlEngine

REFUSING = """
import ctypes, sys, logging
from pathlib import Path

class Step(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("value", ctypes.c_uint)]

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.POINTER(Step))]

# Load the number of the system call; 425, io_uring_setup, fails with EPERM; all others are allowed.
load, same = Step(0x20, 0, 0, 0), Step(0x15, 0, 1, 425)
steps = (Step * 4)(load, same, Step(0x06, 0, 0, 0x00050001), Step(0x06, 0, 0, 0x7FFF0000))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
if libc.prctl(22, 2, ctypes.byref(Program(4, steps))):  # a seccomp filter
    sys.exit(77)
logging.basicConfig(format="%(message)s", stream=sys.stdout)
from penny_cache.engine import choose
for _ in range(3):
    engine = choose.default_engine(directory=Path("."))
    print(engine.name)
    engine.shutdown()
print([name for name in sys.modules if name.startswith("nixl")])
"""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    choose._refusal.cache_clear()
    choose._said.clear()
    yield
    choose._refusal.cache_clear()
    choose._said.clear()


def test_nixl_is_taken_where_it_works(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    try:
        NixlEngine(1).shutdown()
    except NixlMissing as reason:
        pytest.skip(f"NIXL does not work here: {reason}")
    if not choose.has_direct(tmp_path):
        pytest.skip("no O_DIRECT here")
    with caplog.at_level(logging.DEBUG, "penny_cache"):
        engine = choose.default_engine(depth=3, directory=tmp_path)
    engine.shutdown()
    assert engine.name == "nixl"
    assert choose.explain(directory=tmp_path) == ("nixl", "NIXL's io_uring works in this process")
    assert caplog.records == []
    assert list(tmp_path.iterdir()) == []


def test_where_io_uring_is_refused_threads_are_taken_and_it_is_said_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REFUSING], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    if done.returncode == 77:
        pytest.skip("this system takes no seccomp filter")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "penny-cache moves blocks with threads and not with NIXL: the kernel refuses io_uring"
    )
    assert "(Operation not permitted)" in lines[0]
    assert lines[1:] == ["threads", "threads", "threads", "[]"]
    assert done.stderr == ""


def test_without_nixl_threads_are_taken_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choose, "_io_uring_error", lambda: 0)
    monkeypatch.setattr(agent, "BUILDS", ("nixl_of_no_package",))
    monkeypatch.delenv(agent.CHOICE, raising=False)
    for _ in range(3):
        engine = choose.default_engine()
        assert isinstance(engine, ThreadEngine)
        engine.shutdown()
    assert [record.getMessage() for record in caplog.records] == [
        "penny-cache moves blocks with threads and not with NIXL: NIXL cannot be used "
        "(nixl_of_no_package is not installed)."
    ]
    assert choose.explain()[0] == "threads"


def test_a_first_transfer_that_fails_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(ThreadEngine):
        def read(self, transfer):  # type: ignore[no-untyped-def]
            return self.write(transfer)

    monkeypatch.setattr(choose, "_io_uring_error", lambda: 0)
    monkeypatch.setattr(choose, "NixlEngine", lambda depth, direct: Wrong(depth, direct))
    name, reason = choose.explain()
    assert (name, "other bytes were read" in reason) == ("threads", True)


def test_a_first_transfer_that_hangs_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(engine: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(choose, "_io_uring_error", lambda: 0)
    monkeypatch.setattr(choose, "NixlEngine", lambda depth, direct: object())
    monkeypatch.setattr(choose, "_try", hang)
    assert choose.explain() == ("threads", "a first transfer of NIXL did not end within ten seconds")


def test_without_direct_io_threads_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = os.open

    def refuse(path: str, flags: int, *rest: int, **more: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    engine = choose.default_engine(directory=tmp_path)
    engine.shutdown()
    assert engine.name == "threads"
    assert [f"the file system of {tmp_path} has no O_DIRECT" in r.getMessage() for r in caplog.records] == [
        True
    ]
    assert choose.explain(direct=False)[0] == "threads"


def test_a_directory_that_takes_no_file_says_nothing_about_direct_io(tmp_path: Path) -> None:
    assert choose.has_direct(tmp_path / "none")
