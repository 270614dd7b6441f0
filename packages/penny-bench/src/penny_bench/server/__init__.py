"""What a server tells of itself beside its answers, and what it can be asked to do."""

from penny_bench.server.metrics import MetricsPage, MetricsReader, parse_metrics
from penny_bench.server.samples import ServerSample, ServerSampler

__all__ = ["MetricsPage", "MetricsReader", "ServerSample", "ServerSampler", "parse_metrics"]
