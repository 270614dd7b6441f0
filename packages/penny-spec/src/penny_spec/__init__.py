"""Speculation library: token maps, drafts and their verification, adaptive width, and a guard over acceptance."""

from penny_spec import adaptive, dflash, frspec, guard, verify

__all__ = ["__version__", "adaptive", "dflash", "frspec", "guard", "verify"]

__version__ = "0.1.0"
