"""Add up the test counts that nox sessions left: `python tools/totals.py` reads .nox/results/*.xml (JUnit).

Prints one line per session and, last, `N passed, N failed, N skipped`. Exits with 1 if a test failed or none
ran.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Counts:
    """Test counts of one report; errors (in collection or a fixture) count as failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def counts(xml: str) -> Counts:
    """Return the counts of one JUnit report."""
    total = Counts()
    for suite in ET.fromstring(xml).iter("testsuite"):
        failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
        skipped = int(suite.attrib["skipped"])
        total += Counts(int(suite.attrib["tests"]) - failed - skipped, failed, skipped)
    return total


def main(argv: Sequence[str]) -> int:
    """Print the counts of every report in the folder (default `.nox/results`); return the exit status."""
    folder = Path(argv[0] if argv else ".nox/results")
    total = Counts()
    for path in sorted(folder.glob("*.xml")):
        found = counts(path.read_text())
        print(f"{path.stem}: {found}")
        total += found
    print(total)
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
