"""The shared tier: bundles that many machines put and get, as objects of an S3 bucket, behind the local store.

| Module | Has |
|---|---|
| `objects` | `Objects`: what is asked of object storage; `S3Objects`: NIXL's OBJ backend |
| `image` | the bytes of an object, and their verification |
| `shared` | `SharedTier`: bundles of one namespace; a tier that does not answer is empty for a while |
| `patience` | requests that end in time |
| `health` | whether the storage answers; counters |
| `tiered` | `TieredStore`: a local store in front of the tier |
"""

from penny_cache.tier.health import TierCounters
from penny_cache.tier.objects import S3, Objects, S3Objects
from penny_cache.tier.shared import Fetched, SharedTier
from penny_cache.tier.tiered import TieredStore

__all__ = ["S3", "Fetched", "Objects", "S3Objects", "SharedTier", "TierCounters", "TieredStore"]
