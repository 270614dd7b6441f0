"""What only the NIXL engine does: a bounded queue, errors that NIXL does not explain, and its absence."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penny_cache.engine import Transfer
from penny_cache.engine import agent as agent_module
from penny_cache.engine.agent import Agent, NixlMissing, Piece
from penny_cache.engine.base import Transferred
from penny_cache.engine.pump import Pump

BLOCK = 4096
SOON = 60.0


def nixl_engine(depth: int = 16) -> Any:
    from penny_cache.engine.nixl import NixlEngine

    try:
        return NixlEngine(depth)
    except NixlMissing as reason:
        pytest.skip(f"NIXL does not work here: {reason}")


def memory(size: int) -> memoryview:
    return memoryview(mmap.mmap(-1, size))


class Played:
    """Stands in for an agent: its transfers end when the test says so."""

    def __init__(self) -> None:
        self.guard = threading.Condition()
        self.posted: list[list[Piece]] = []
        self.ended: set[int] = set()
        self.broken: set[int] = set()
        self.refuse = False
        self.most = 0

    def post(self, write: bool, number: int, pieces: list[Piece]) -> int:
        with self.guard:
            if self.refuse:
                raise OSError("refused")
            self.posted.append(pieces)
            under_way = sum(len(p) for i, p in enumerate(self.posted) if i not in self.ended)
            self.most = max(self.most, under_way)
            self.guard.notify_all()
            return len(self.posted) - 1

    def done(self, handle: int) -> bool:
        with self.guard:
            if handle in self.broken:
                self.ended.add(handle)
                self.guard.notify_all()
                raise OSError("broken")
            return handle in self.ended

    def wait(self, count: int) -> None:
        with self.guard:
            assert self.guard.wait_for(lambda: len(self.posted) >= count, SOON)

    def end(self, *handles: int) -> None:
        with self.guard:
            self.ended.update(handles)


def raised(error: OSError) -> None:
    raise error


def submit(pump: Pump, first: int, count: int, failed: Any = raised) -> Transferred:
    return pump.submit(False, 1, [(0, BLOCK, BLOCK * (first + i)) for i in range(count)], [], failed)


def test_no_more_pieces_are_under_way_than_the_depth_and_all_go_in_order() -> None:
    agent = Played()
    pump = Pump(agent, 4, "test")  # type: ignore[arg-type]
    futures = [submit(pump, 0, 3), submit(pump, 3, 6), submit(pump, 9, 1)]
    handle = 0
    while sum(len(pieces) for pieces in agent.posted) < 10:
        agent.wait(handle + 1)
        agent.end(handle)
        handle += 1
    agent.end(*range(20))
    assert [future.result(SOON) for future in futures] == [None] * 3
    assert pump.close(SOON)
    assert agent.most <= 4
    assert [at // BLOCK for pieces in agent.posted for _, _, at in pieces] == list(range(10))


def test_a_job_that_fails_ends_after_all_that_it_has_under_way_and_starts_no_more() -> None:
    agent = Played()
    pump = Pump(agent, 4, "test")  # type: ignore[arg-type]
    reasons: list[OSError] = []
    small, large = submit(pump, 0, 1), submit(pump, 1, 9, reasons.append)
    agent.wait(2)  # 1 and 3 pieces
    agent.end(0)
    small.result(SOON)
    agent.wait(3)  # one more of the large one
    agent.broken.add(1)
    with agent.guard:
        assert agent.guard.wait_for(lambda: 1 in agent.ended, SOON)
    assert not large.done()
    other = submit(pump, 20, 1)
    agent.wait(4)
    agent.end(2, 3)
    assert large.result(SOON) is None  # `failed` did its work
    assert [str(reason) for reason in reasons] == ["broken"]
    assert other.result(SOON) is None
    assert sum(len(pieces) for pieces in agent.posted) == 6
    agent.refuse = True
    with pytest.raises(OSError, match="refused"):
        submit(pump, 0, 5).result(SOON)
    assert pump.close(SOON)


def test_memory_is_let_go_before_the_future_is_done() -> None:
    class Memory:
        def failed(self, error: OSError) -> None:
            raise error

    agent = Played()
    pump = Pump(agent, 4, "test")  # type: ignore[arg-type]
    held = Memory()
    seen = weakref.ref(held)
    done = pump.submit(False, 1, [(0, BLOCK, 0)], [held], held.failed)
    del held
    agent.wait(1)
    gone: list[bool] = []
    said = threading.Event()
    done.add_done_callback(lambda _: (gone.append(seen() is None), said.set()))
    assert seen() is not None
    agent.end(0)
    assert said.wait(SOON)
    assert gone == [True]
    assert pump.close(SOON)


def test_an_engine_that_is_given_far_more_than_its_depth_moves_it_all(tmp_path: Path) -> None:
    """NIXL's own queue would lose places for good here: https://github.com/ai-dynamo/nixl/pull/2204."""
    engine = nixl_engine(depth=8)
    try:
        size = 300 * BLOCK
        whole, back = memory(size), memory(size)
        whole[:] = os.urandom(size)
        file = engine.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        writes = [engine.write(Transfer(file, at, [whole[at : at + BLOCK]])) for at in range(0, size, BLOCK)]
        assert [done.result(SOON) for done in writes] == [None] * 300
        for _ in range(3):
            back[:] = bytes(size)
            engine.read(Transfer(file, 0, [back[at : at + BLOCK] for at in range(0, size, BLOCK)])).result(
                SOON
            )
            assert back == whole
        engine.close(file)
    finally:
        engine.shutdown()


def wait_for(engine: Any, handle: Any) -> None:
    while not engine._agent.done(handle):
        pass


def test_nixl_reports_a_short_read_and_leaves_its_other_pieces_alone_afterwards(tmp_path: Path) -> None:
    """What the engine relies on of NIXL itself. One piece of 20 is behind the end of the file."""
    engine = nixl_engine(depth=32)
    try:
        file = engine.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        engine.truncate(tmp_path / "file", 19 << 20)
        block = memory(20 << 20)
        address = np.frombuffer(block, np.uint8).ctypes.data
        handle = engine._agent.post(False, file, [(address + (i << 20), 1 << 20, i << 20) for i in range(20)])
        with pytest.raises(OSError, match="failed"):
            wait_for(engine, handle)
        block[:] = b"\xaa" * (20 << 20)
        # What was still under way would change it while as much is read again.
        again = memory(19 << 20)
        engine.read(Transfer(file, 0, [again])).result(SOON)
        assert block.tobytes().count(b"\xaa") == 20 << 20
        engine.close(file)
    finally:
        engine.shutdown()


def test_an_error_that_is_gone_when_the_transfer_is_repeated_costs_nothing(tmp_path: Path) -> None:
    """A descriptor that NIXL does not know is refused by it; the operating system takes it."""
    engine = nixl_engine()
    (tmp_path / "file").write_bytes(b"x" * BLOCK)
    file = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        view = memory(BLOCK)
        engine.read(Transfer(file, 0, [view])).result(SOON)
        assert view == b"x" * BLOCK
    finally:
        os.close(file)
        engine.shutdown()


def test_what_is_not_aligned_is_refused_with_its_numbers(tmp_path: Path) -> None:
    engine = nixl_engine()
    try:
        file = engine.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        with pytest.raises(OSError, match=r"^\[Errno 22\] 100 bytes at 0x\w+ to or from byte 8192 of a file"):
            engine.write(Transfer(file, 8192, [memory(BLOCK)[:100]])).result(SOON)
        engine.close(file)
    finally:
        engine.shutdown()


def test_what_is_closed_is_forgotten(tmp_path: Path) -> None:
    engine = nixl_engine()
    try:
        files = [engine.open(tmp_path / "file", os.O_RDWR | os.O_CREAT) for _ in range(20)]
        assert set(engine._agent._registered) == set(files)
        for file in files:
            engine.close(file)
        assert engine._agent._registered == {}
    finally:
        engine.shutdown()


def test_nixl_is_imported_only_when_an_engine_is_made() -> None:
    code = (
        "import sys, penny_cache.engine.nixl, penny_cache.engine.choose, penny_cache.store\n"
        "print([name for name in sys.modules if name.split('.')[0].startswith('nixl')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_process_may_end_with_transfers_under_way(tmp_path: Path) -> None:
    """C++ ends the process with SIGABRT when Python ends a thread within a call of NIXL."""
    nixl_engine().shutdown()
    code = (
        "import mmap, os, sys\n"
        "from pathlib import Path\n"
        "from penny_cache.engine import NixlEngine, Transfer\n"
        "for number in range(3):\n"
        "    engine = NixlEngine(4)\n"
        "    file = engine.open(Path(sys.argv[1]), os.O_RDWR | os.O_CREAT)\n"
        "    for block in range(200):\n"
        "        engine.write(Transfer(file, block << 18, [memoryview(mmap.mmap(-1, 1 << 18))]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_nixl_the_reason_names_each_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENNY_CACHE_NIXL", raising=False)
    monkeypatch.setattr(agent_module, "BUILDS", ("nixl_of_no_package", "xxhash"))
    with pytest.raises(
        NixlMissing, match=r"^nixl_of_no_package is not installed; xxhash has no backend OBJ$"
    ):
        Agent("OBJ", "OBJ", {})


def test_a_backend_that_no_build_has_is_named() -> None:
    nixl_engine().shutdown()
    with pytest.raises(NixlMissing, match=r"^the backend NONE of nixl_cu1[23] does not start"):
        Agent("NONE", "FILE", {})


def test_files_take_the_usual_build_and_objects_one_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nixl-cu13 1.5.1 OBJ does not load. Builds exclude each other, so the choice cannot be made again later."""
    monkeypatch.delenv("PENNY_CACHE_NIXL", raising=False)
    monkeypatch.setattr(agent_module, "BUILDS", ("cu_a", "cu_b", "cu_c"))
    monkeypatch.setattr(agent_module, "_usual", lambda: "cu_b")
    monkeypatch.setattr(agent_module, "_absence", lambda build: "")
    monkeypatch.setattr(
        agent_module, "_plugin_error", lambda build, backend: "" if build == "cu_c" else "lacks it"
    )
    assert agent_module._build("POSIX") == "cu_b"
    assert agent_module._build("OBJ") == "cu_c"
    monkeypatch.setattr(agent_module, "_usual", lambda: "")  # without the package that chooses
    assert agent_module._build("POSIX") == "cu_a"
    monkeypatch.setattr(agent_module, "_absence", lambda build: "is not installed" if build == "cu_a" else "")
    assert agent_module._build("POSIX") == "cu_b"
    monkeypatch.setenv("PENNY_CACHE_NIXL", "cu_b")
    assert agent_module._build("OBJ") == "cu_b"
    monkeypatch.setitem(sys.modules, "cu_a._bindings", None)
    assert agent_module._build("OBJ") == "cu_a"


def test_whoever_imports_nixl_later_gets_the_same_build(tmp_path: Path) -> None:
    """SGLang does, for a backend of its own; a process cannot import two builds."""
    pytest.importorskip("nixl_meta_utils")
    code = (
        "from penny_cache.engine import NixlEngine; NixlEngine(1).shutdown(); import sys, nixl; "
        "print(sorted(name for name in sys.modules if name.endswith('._bindings') and name.startswith('nixl_')))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PENNY_CACHE_NIXL"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split(",")) == 1
