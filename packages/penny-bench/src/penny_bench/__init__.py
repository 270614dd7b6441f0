"""Benchmark and qualification harness for any OpenAI-compatible server."""

__version__ = "0.1.0"
