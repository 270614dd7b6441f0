"""The store: bundles of named parts on a drive, one per boundary of a prefix, that are found whole or not at all.

| Module | Has |
|---|---|
| `store`, `given` | `Store`, and what it gives its callers |
| `opening` | `open_store`, which makes a store of a namespace; what a child process must let go of |
| `settings`, `counters`, `complaints` | memory and disk; what a store did; log lines that do not flood |
| `ticket`, `errors` | how far a bundle has come; what can go wrong |
| `keys` | keys as digests, and a hash chain for callers without one |
| `records`, `image`, `sidecar`, `snapshot` | the format: records, a bundle's, a segment's index, the whole index |
| `segment`, `writer` | the segment that is written to, and the write path |
| `reading`, `landing`, `handles` | the read path; parts in memory of the caller; open segments, few at a time |
| `walk`, `recover` | finding bundles without an index file; opening a store |
| `index`, `memory`, `files` | where bundles are; bounded aligned memory; names, locks and checks of files |
| `eviction`, `collector`, `pins` | what to give up for space, as a pure function; giving it up; what must stay |
"""

from penny_cache.store.counters import Counters
from penny_cache.store.errors import BundleRefused, StoreBusy, StoreError, StoreLocked, StoreVersion
from penny_cache.store.given import Loaded, Survey
from penny_cache.store.keys import Digest, chain
from penny_cache.store.opening import open_store
from penny_cache.store.settings import Settings
from penny_cache.store.store import Store
from penny_cache.store.ticket import Stage, Ticket

__all__ = [
    "BundleRefused",
    "Counters",
    "Digest",
    "Loaded",
    "Settings",
    "Stage",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoreLocked",
    "StoreVersion",
    "Survey",
    "Ticket",
    "chain",
    "open_store",
]
