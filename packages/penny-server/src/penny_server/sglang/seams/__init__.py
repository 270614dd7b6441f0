"""One file per feature; each declares its ``SEAMS``."""
