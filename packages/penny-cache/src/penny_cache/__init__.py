"""Crash-consistent, checksummed store for hybrid prefix state."""

__version__ = "0.1.0"
