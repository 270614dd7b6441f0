"""Speculation library: verification of draft tokens against their target model."""

from penny_spec import verify

__all__ = ["__version__", "verify"]

__version__ = "0.1.0"
