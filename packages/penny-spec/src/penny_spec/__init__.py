"""Speculation library: FR-Spec token maps, DFlash2 and NEXTN maths, verification."""

__version__ = "0.1.0"
