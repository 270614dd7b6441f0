"""Check that what is installed was built here: `python tools/installed.py .nox/wheels`.

An installer may take a wheel of the same name, version and path from its cache, built from an older commit.
Each installed package of the folder's wheels must have the files, digest by digest, of the wheel in the folder.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path


def differing(wheel: Path) -> list[str]:
    """Return the names of the files of `wheel` that are not installed as they are in it; [] if it is not installed."""
    name, version = wheel.name.split("-")[:2]
    try:
        installed = metadata.distribution(name).read_text("RECORD") or ""
    except metadata.PackageNotFoundError:
        return []
    with zipfile.ZipFile(wheel) as archive:
        built = archive.read(f"{name}-{version}.dist-info/RECORD").decode()
    lines = set(built.split()) - set(installed.split())
    return sorted(line.split(",")[0] for line in lines)


def main(argv: Sequence[str]) -> int:
    """Check the packages of the wheels in the one folder named on the command line; return the exit status."""
    status = 0
    for wheel in sorted(Path(argv[0]).glob("*.whl")):
        if files := differing(wheel):
            print(
                f"{wheel.name}: what is installed is another build of it; {len(files)} files differ, as {files[0]}. "
                "Remove the environment and install again."
            )
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
