"""Looking at a whole store: how its bundles hang together, what they take, and whether each is what was stored.

| Module | Has |
|---|---|
| `shape` | starts, ends, branch points, depth and holes of the chains, as a pure function of a survey |
| `report` | all figures of one store |
| `verify` | reading every bundle |
"""

from penny_cache.inspect.report import PartTotal, Report, report
from penny_cache.inspect.shape import Shape, shape
from penny_cache.inspect.verify import Damage, Verified, verify

__all__ = ["Damage", "PartTotal", "Report", "Shape", "Verified", "report", "shape", "verify"]
