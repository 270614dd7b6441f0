"""What a server tells of itself beside its answers, and what it can be asked to do."""

from penny_bench.server.metrics import MetricsPage, MetricsReader, parse_metrics

__all__ = ["MetricsPage", "MetricsReader", "parse_metrics"]
