"""Evidence on its way to the disk: nothing that was measured may be lost there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from penny_bench.errors import BenchError
from penny_bench.report import write_json


def check_target(path: Path | None) -> None:
    """Refuse a file that cannot be written, before anything is measured.

    Raises:
        BenchError: there is no such folder, or no right to write there.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise BenchError(f"There is no folder {path.parent}; make it, or correct --json.")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BenchError(f"{path} cannot be written; choose another file for --json.")


def save(path: Path, document: dict[str, Any]) -> None:
    """Write the document; if that fails, such as on a full disk, write it to the folder for temporary files.

    Raises:
        BenchError: always if `path` could not be written; the message says where the document is now.
    """
    try:
        write_json(path, document, indent=None)
    except BenchError as error:
        handle, name = tempfile.mkstemp(prefix="penny-bench-", suffix=".json")
        os.close(handle)
        try:
            write_json(Path(name), document, indent=None)
        except BenchError as second:
            os.unlink(name)
            raise BenchError(f"{error} {second} The evidence of this run is lost.") from error
        raise BenchError(
            f"{error} The evidence is in {name} instead; move it before it is cleared."
        ) from error
