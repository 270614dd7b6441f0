"""Start-up events."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penny_server.events import emit


def test_one_line_per_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENNY_RUN_DIR", str(tmp_path))
    emit("weights", "begin")
    emit("weights", "progress", fraction=0.5, note="a\nb")
    first, second = (json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines())
    assert (first["phase"], first["state"], first["detail"]) == ("weights", "begin", {})
    assert first["pid"] == os.getpid()
    assert second["detail"] == {"fraction": 0.5, "note": "a\nb"}
    assert stat.S_IMODE((tmp_path / "events.jsonl").stat().st_mode) == 0o600


def test_nothing_happens_without_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENNY_RUN_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    emit("weights", "begin")
    assert list(tmp_path.iterdir()) == []


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    call = "emit('pools', 'progress', i=i, fill='x' * 500)"
    script = f"from penny_server.events import emit\nfor i in range(200): {call}"
    env = {**os.environ, "PENNY_RUN_DIR": str(tmp_path)}
    processes = [subprocess.Popen([sys.executable, "-c", script], env=env) for _ in range(4)]
    assert [p.wait() for p in processes] == [0] * 4
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert len(events) == 800
    for process in processes:
        assert [e["detail"]["i"] for e in events if e["pid"] == process.pid] == list(range(200))
