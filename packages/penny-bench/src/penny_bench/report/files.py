"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from penny_bench.errors import BenchError


def check_folder(path: Path | None, option: str) -> None:
    """Refuse, before any work is done, a file in a folder that is not there.

    Raises:
        BenchError: names the folder and the option.
    """
    if path and not path.parent.is_dir():
        raise BenchError(f"There is no folder {path.parent}; make it, or correct {option}.")


def write_bytes(path: Path, data: bytes) -> None:
    """Write the file whole or not at all. A device or a pipe is written to and a link is followed: neither is replaced.

    Raises:
        BenchError: the file system refused; the message names path and reason.
    """
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as stream:
                stream.write(data)
            return
        file, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise BenchError(f"Could not write {path}: {error.strerror}.") from error


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, whole or not at all.

    Raises:
        BenchError: the file system refused.
    """
    write_bytes(path, text.encode("utf-8"))
