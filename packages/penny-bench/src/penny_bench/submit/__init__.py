"""Results packed into one file for others to publish, and the check of such a file."""

from penny_bench.submit.check import Checked, check
from penny_bench.submit.manifest import LICENSES, SCHEMA, Manifest
from penny_bench.submit.pack import About, pack
from penny_bench.submit.private import Finding, cleaned, findings

__all__ = [
    "LICENSES",
    "SCHEMA",
    "About",
    "Checked",
    "Finding",
    "Manifest",
    "check",
    "cleaned",
    "findings",
    "pack",
]
