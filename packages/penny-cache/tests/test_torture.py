"""Torture, in short; and that each campaign notices a store or an engine that is broken.

The long form is `penny-cache torture`; its result is published with the others.
"""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
import xxhash
from typer.testing import CliRunner

from penny_cache.engine import ThreadEngine, Transfer, Transferred
from penny_cache.engine import faults as faulty
from penny_cache.engine.recording import RecordingEngine
from penny_cache.store.counters import Tally
from penny_cache.torture import Result, cuts, faults, flips, kills
from penny_cache.torture.command import app
from penny_cache.torture.faults import FAULTS

SEED = 7


class Forgetful(ThreadEngine):
    """Says of every third write that it is done, and does nothing."""

    count = 0

    def write(self, transfer: Transfer) -> Transferred:
        self.count += 1
        if self.count % 3:
            return super().write(transfer)
        done: Transferred = Future()
        done.set_result(None)
        return done


class Hasty(ThreadEngine):
    """Says at once that a write is done, and writes half a second later."""

    def write(self, transfer: Transfer) -> Transferred:
        data, file = b"".join(transfer.views), os.dup(transfer.file)
        timer = threading.Timer(0.5, lambda: (os.pwrite(file, data, transfer.offset), os.close(file)))
        timer.daemon = True
        timer.start()
        done: Transferred = Future()
        done.set_result(None)
        return done


class NoSync(RecordingEngine):
    """Makes no file durable."""

    def sync(self, file: int) -> None:
        self.inner.sync(file)


class NoNames(RecordingEngine):
    """Makes no name durable."""

    def sync_directory(self, path: object) -> None:
        pass


def kept(result: Result, rounds: int) -> None:
    assert result.faults == []
    assert result.good
    assert result.rounds == rounds
    assert result.outcomes["right"] > 2 * rounds  # so that it was about something
    assert json.loads(json.dumps(result.as_dict()))["outcomes"] == dict(result.outcomes)


def broken(result: Result, *outcomes: str) -> None:
    assert not result.good
    assert {name for name in outcomes if result.outcomes[name]} == set(outcomes), result.outcomes
    assert result.faults


def test_kills(tmp_path: Path) -> None:
    result = kills(tmp_path / "store", 4, SEED, steps=60)
    kept(result, 4)
    assert result.notes["kept"] > 20
    assert sum(count for note, count in result.notes.items() if note.startswith("killed")) >= 2


@pytest.mark.parametrize("engine", ["Forgetful", "Hasty"])
def test_kills_find_an_engine_that_acknowledges_what_it_did_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    broken(kills(tmp_path / "store", 2, SEED, engine=f"test_torture:{engine}", steps=60), "lost")


def test_power_cuts(tmp_path: Path) -> None:
    result = cuts(tmp_path, 120, SEED)
    kept(result, 120)
    assert result.notes["promised"] > 120
    assert result.notes["walked"] > 60


@pytest.mark.parametrize("engine", [NoSync, NoNames])
def test_power_cuts_find_an_engine_that_does_not_sync(tmp_path: Path, engine: type[NoSync | NoNames]) -> None:
    broken(cuts(tmp_path, 60, SEED, wrap=engine), "lost")
    assert list(tmp_path.glob("cut-*/*.manifest"))  # what was judged is kept


def test_what_goes_without_being_counted_as_given_up_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a store that loses bundles could call it eviction."""
    add = Tally.add
    monkeypatch.setattr(
        Tally, "add", lambda self, **counts: add(self, **{k: n for k, n in counts.items() if k != "evicted"})
    )
    broken(cuts(tmp_path, 1, SEED), "broken")


def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """All bytes have the same checksum from now on."""
    monkeypatch.setattr(xxhash, "xxh3_128_digest", lambda data: bytes(16))


def test_power_cuts_find_a_store_that_checks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commits come to the drive before its parts do."""
    blind(monkeypatch)
    broken(cuts(tmp_path, 60, SEED), "wrong")


def test_damage(tmp_path: Path) -> None:
    result = flips(tmp_path, 80, 20, SEED)
    kept(result, 103)
    assert result.outcomes["refused"] > 0  # a manifest
    assert min(result.notes["a miss"], result.notes["harmless"]) > 10


def test_damage_finds_a_store_that_checks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blind(monkeypatch)
    broken(flips(tmp_path, 60, 0, SEED), "wrong")


def test_faults(tmp_path: Path) -> None:
    result = faults(tmp_path, SEED, real=False)
    kept(result, len(result.table))
    said = {row["fault"]: row["said"] for row in result.table}
    assert "No space left on device" in said["disk full, comes and goes"]
    assert "Read-only file system" in said["read-only from now on, comes and goes"]
    assert "page is 64 (there) and 128 (here)" in said["page size changes"]
    assert "Permission denied" in said["directory not writable"]  # case CP-11
    assert "a store has one writer" in said["two writers"]


def test_faults_find_errors_that_are_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faulty, "_raise", lambda rule, path: None)
    rules = {"EIO": FAULTS["EIO at every write"]}
    broken(faults(tmp_path, SEED, rules=rules, around=False, real=False), "lost")


def test_the_command_says_what_broke_and_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ["--kills=0", "--cuts=0", "--flips=12", "--truncations=3", "--no-faults", f"--seed={SEED}"]
    good = CliRunner().invoke(app, [str(tmp_path / "here"), *few, "--json"])
    assert good.exit_code == 0, good.output
    found = json.loads(good.stdout)
    assert (found["seed"], found["good"], found["campaigns"][0]["rounds"]) == (SEED, True, 18)
    blind(monkeypatch)
    bad = CliRunner().invoke(app, [str(tmp_path / "here"), *few])
    assert bad.exit_code == 1
    assert "wrong: page" in bad.stdout
    assert f"Seed {SEED}." in bad.stdout


def test_the_command_leaves_what_it_finds_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    assert CliRunner().invoke(app, [str(tmp_path)]).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
