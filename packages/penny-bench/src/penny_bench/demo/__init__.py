"""A report without a server: a short run against a make-believe one."""

from penny_bench.demo.engine import Engine, prefill_seconds
from penny_bench.demo.load import demo_load

__all__ = ["Engine", "demo_load", "prefill_seconds"]
