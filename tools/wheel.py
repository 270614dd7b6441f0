"""Check what a built wheel contains: `python tools/wheel.py dist/penny_cache-0.1.0-py3-none-any.whl`.

One import package with `py.typed`, the licence texts, and nothing else: no tests, no stray top-level module.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path


def complaints(module: str, names: Sequence[str]) -> Iterator[str]:
    """Yield one sentence for each thing wrong with `names`, the files in the wheel of package `module`."""
    for needed in (f"{module}/__init__.py", f"{module}/py.typed"):
        if needed not in names:
            yield f"{needed} is missing."
    for licence in ("LICENSE", "NOTICE"):
        if not any(name.endswith(f".dist-info/licenses/{licence}") for name in names):
            yield f"The licence file {licence} is missing."
    for name in names:
        parts = name.split("/")
        if parts[0] != module and not parts[0].endswith(".dist-info"):
            yield f"{name} lies outside {module}."
        if "tests" in parts[:-1] or parts[-1].startswith(("test_", "conftest")):
            yield f"{name} is a test; tests are not shipped."


def main(argv: Sequence[str]) -> int:
    """Check the wheels named on the command line; return the exit status."""
    status = 0
    for path in map(Path, argv):
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
        found = list(complaints(path.name.split("-")[0], names))
        size = path.stat().st_size / 2**20
        print(f"{path.name}: {len(names)} files, {size:.2f} MiB, {'WRONG' if found else 'right'}")
        for sentence in found:
            print(f"  {sentence}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
