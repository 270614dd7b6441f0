"""I/O engines: how a store's blocks get to a drive and back, behind one interface.

| Module | Engine |
|---|---|
| `base` | `Engine`, the interface, and `Transfer`, one piece of work |
| `files` | `LocalFiles`: names, lengths and holes of local files, the same for every local engine |
| `threads` | `ThreadEngine`: `preadv` and `pwritev` in threads, with O_DIRECT where the file system has it |
| `nixl` | `NixlEngine`: io_uring by NIXL's POSIX backend |
| `choose` | `default_engine`: NIXL where it works, else threads |
| `wrapped`, `faults` | `FaultEngine`: another engine that fails as told |
| `recording`, `powercut` | `RecordingEngine`: a log of every change, and what a power cut leaves of it |
| `agent`, `pump` | what is used of NIXL; its transfers as futures |
"""

from penny_cache.engine.base import Engine, Range, Transfer, Transferred
from penny_cache.engine.choose import default_engine, explain
from penny_cache.engine.files import LocalFiles
from penny_cache.engine.nixl import NixlEngine
from penny_cache.engine.threads import ThreadEngine

__all__ = [
    "Engine",
    "LocalFiles",
    "NixlEngine",
    "Range",
    "ThreadEngine",
    "Transfer",
    "Transferred",
    "default_engine",
    "explain",
]
