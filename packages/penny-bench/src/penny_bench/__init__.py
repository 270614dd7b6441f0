"""Benchmark and qualification harness for any OpenAI-compatible server."""

from penny_bench import client, compare, evidence, load, measure, mock, report, stats, text
from penny_bench.errors import BenchError

__all__ = [
    "BenchError",
    "__version__",
    "client",
    "compare",
    "evidence",
    "load",
    "measure",
    "mock",
    "report",
    "stats",
    "text",
]

__version__ = "0.1.0"
