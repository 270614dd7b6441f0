"""Torture: what a store promises, put to the test. `ledger` says what is promised and judged.

| Module | Campaign |
|---|---|
| `kills`, `child`, `bystander` | processes that work on a store, beside a reader, are killed at random |
| `cuts` | power cuts are drawn from recorded work (`engine.recording`, `engine.powercut`) |
| `flips` | bits flip, files are cut short, missing, swapped, or of another store |
| `faults`, `scene` | drives that are full, broken, read-only, slow, lying |
| `neighbours`, `neighbour` | other writers, clocks, identities and users |
| `mounts` | small file systems that are filled and remounted |

| Module | Has |
|---|---|
| `pages`, `workload` | what is put into a store, and what is done to it |
| `ledger`, `watch` | the contract and who keeps to it; what a store gives up, seen from outside |
| `drawn`, `inline` | directories and an engine for thousands of small states |
| `result`, `command` | what a campaign found; `penny-cache torture` |
"""

from penny_cache.torture.cuts import cuts
from penny_cache.torture.faults import faults
from penny_cache.torture.flips import flips
from penny_cache.torture.kills import kills
from penny_cache.torture.result import Result

__all__ = ["Result", "cuts", "faults", "flips", "kills"]
