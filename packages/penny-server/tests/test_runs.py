"""The list of this machine's servers: run folders, which of them live, how they are named, and what they say."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import psutil
import pytest

from penny_server.errors import PennyError
from penny_server.serving.live import gauges, live_state
from penny_server.serving.runs import choose_run, list_runs, prune


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_folder(base: Path, name: str, **changes: object) -> Path:
    """A run folder as an ended server leaves it."""
    folder = base / name
    folder.mkdir(parents=True)
    state = {"folder": str(folder), "profile": "tiny-27b", "device": "cpu", "url": "http://127.0.0.1:1"}
    state |= {"model": "m", "state": "stopped", "pid": os.getpid(), "born": psutil.Process().create_time()}
    state |= {"started": 1.0, "ready": 2.0, "ended": 3.0, "notes": [], **changes}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def test_old_run_folders_are_removed_and_nothing_else(tmp_path: Path) -> None:
    made = [run_folder(tmp_path, f"run-{i}", started=float(i)) for i in range(4)]
    living = run_folder(tmp_path, "living", state="ready", started=0.0)
    strange = tmp_path / "notes"
    strange.mkdir()
    (strange / "state.json").write_text("{}")
    assert prune(tmp_path, keep=2) == made[:2]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["living", "notes", "run-2", "run-3"]
    assert [run.folder for run in list_runs(tmp_path)] == [living, *made[2:]]


def test_a_run_is_named_by_profile_port_or_folder(tmp_path: Path) -> None:
    run_folder(tmp_path, "a", state="ready", url="http://127.0.0.1:8001")
    run_folder(tmp_path, "b", state="ready", url="http://127.0.0.1:8002")
    run_folder(tmp_path, "c", url="http://127.0.0.1:8003")
    run_folder(tmp_path, "reused-pid", state="ready", url="http://127.0.0.1:8004", born=1.0)
    runs = list_runs(tmp_path)
    assert choose_run(runs, "8002").folder.name == "b"
    assert choose_run(runs, "a").url == "http://127.0.0.1:8001"
    with pytest.raises(PennyError, match="2 servers run"):
        choose_run(runs, "tiny-27b")
    with pytest.raises(PennyError, match="2 servers run"):
        choose_run(runs, None)
    for ended in ("8003", "8004"):
        with pytest.raises(PennyError, match=f"No running server is called '{ended}'"):
            choose_run(runs, ended)


def test_gauges_of_several_processes() -> None:
    page = (
        "# HELP sglang:num_running_reqs x\n# TYPE sglang:num_running_reqs gauge\n"
        'sglang:num_running_reqs{tp_rank="0"} 3.0\nsglang:num_running_reqs{tp_rank="1"} 2.0\n'
        "sglang:token_usage 0.25\nother 9\n"
    )
    assert gauges(page) == {"sglang:num_running_reqs": 3.0, "sglang:token_usage": 0.25}
    assert not live_state(f"http://127.0.0.1:{free_port()}").healthy
