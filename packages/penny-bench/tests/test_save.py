"""Evidence that meets a full disk: it is kept elsewhere, or the message says that it is lost."""

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from penny_bench.errors import BenchError
from penny_bench.report import files
from penny_bench.save import check_target, save

DOCUMENT = {"status": "complete", "seconds": 1.5}


def fill(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Let every new file in these folders take no byte: its descriptor is that of /dev/full."""
    real = tempfile.mkstemp

    def mkstemp(*arguments: Any, **named: Any) -> tuple[int, str]:
        handle, name = real(*arguments, **named)
        if Path(name).parent in folders:
            os.close(handle)
            handle = os.open("/dev/full", os.O_WRONLY)
        return handle, name

    monkeypatch.setattr(files.tempfile, "mkstemp", mkstemp)


def test_a_document_is_kept_elsewhere_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, spare = tmp_path / "full", tmp_path / "spare"
    full.mkdir()
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    fill(monkeypatch, full)
    with pytest.raises(BenchError, match=r"Could not write .*run\.json: No space left on device") as caught:
        save(full / "run.json", DOCUMENT)
    found = re.search(r"The evidence is in (\S+) instead", str(caught.value))
    assert found
    assert json.loads(Path(found[1]).read_text()) == DOCUMENT
    assert Path(found[1]).parent == spare
    assert list(full.iterdir()) == []  # no half of a file


def test_an_older_document_outlives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, spare = tmp_path / "run.json", tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    save(old, {"status": "old"})
    fill(monkeypatch, tmp_path)
    with pytest.raises(BenchError, match="instead"):
        save(old, DOCUMENT)
    assert json.loads(old.read_text()) == {"status": "old"}


def test_where_nothing_takes_it_the_message_says_that_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fill(monkeypatch, tmp_path)
    with pytest.raises(BenchError, match=r"No space left on device.* The evidence of this run is lost\."):
        save(tmp_path / "run.json", DOCUMENT)
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    check_target(None)
    check_target(tmp_path / "run.json")
    with pytest.raises(BenchError, match="There is no folder"):
        check_target(tmp_path / "none" / "run.json")
    with pytest.raises(BenchError, match="cannot be written"):
        check_target(tmp_path)


def test_a_pipe_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "run.json"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        save(pipe, DOCUMENT)
        assert json.loads(os.read(reader, 1 << 16)) == DOCUMENT
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_is_followed_and_never_replaced(tmp_path: Path) -> None:
    there, link = tmp_path / "there.json", tmp_path / "run.json"
    link.symlink_to(there)
    save(link, DOCUMENT)
    assert link.is_symlink()
    assert json.loads(there.read_text()) == DOCUMENT
