"""Crash-consistent, checksummed store for hybrid prefix state: its namespaces."""

from penny_cache import namespace

__all__ = ["__version__", "namespace"]

__version__ = "0.1.0"
