"""Statistics of repeated measurements."""

from penny_bench.stats.summary import Summary, summarise

__all__ = ["Summary", "summarise"]
