"""I/O engines: how a store's blocks get to a drive and back, behind one interface.

| Module | Engine |
|---|---|
| `base` | `Engine`, the interface, and `Transfer`, one piece of work |
| `threads` | `ThreadEngine`: `preadv` and `pwritev` in threads, with O_DIRECT where the file system has it |
"""

from penny_cache.engine.base import Engine, Transfer, Transferred
from penny_cache.engine.threads import ThreadEngine

__all__ = ["Engine", "ThreadEngine", "Transfer", "Transferred"]
