"""The benchmark: real sizes, bytes that differ from page to page, figures that follow from what was measured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penny_cache.bench import bandwidth, millions, raw
from penny_cache.bench.bandwidth import Paired, bench_namespace
from penny_cache.bench.command import app
from penny_cache.bench.figures import Figures, file_system
from penny_cache.bench.geometry import FLASH_NEXT, QWEN_27B, Geometry, filled
from penny_cache.bench.millions import Millions
from penny_cache.engine import ThreadEngine
from penny_cache.store import open_store

TINY = Geometry("tiny", {"kv": 300_000, "qsa": 5_000}, {"state": 700_001})


@pytest.fixture
def no_fio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(raw, "DEPTHS", (1, 2))


def test_sizes_are_those_of_the_models() -> None:
    """64 tokens of 13 layers at 1,024 + 64 bytes; the states as `penny plan` counts them."""
    assert FLASH_NEXT.page == {"kv": 851_968, "qsa": 53_248}
    assert FLASH_NEXT.snapshot == {
        "gdn_temporal": 56_623_104,
        "gdn_conv": 2_211_840,
        "ple_conv": 184_320,
        "ple_context": 16,
    }
    assert FLASH_NEXT.page_bytes == 905_216
    assert FLASH_NEXT.snapshot_bytes == 59_019_280
    assert QWEN_27B.page["kv"] == 64 * 32_768


def test_pages_have_no_block_in_common() -> None:
    first, second = bytes(filled(20_000, 3)), bytes(filled(20_000, 4))
    blocks = {first[at : at + 4096] for at in range(0, 16_384, 4096)}
    assert len(blocks) == 4
    assert not blocks & {second[at : at + 4096] for at in range(0, 16_384, 4096)}


@pytest.mark.usefixtures("no_fio")
def test_restore_and_write_through_on_a_small_chain(tmp_path: Path) -> None:
    size = 8 << 20
    pages = (size - 700_001) // 305_000
    said: list[str] = []
    with bench_namespace(tmp_path, TINY) as here:
        found = bandwidth.restore(here, TINY, size, 2, lambda: ThreadEngine(2), said.append)
        assert found.payload == pages * 305_000 + 700_001
        assert (len(found.ours), len(found.drives), found.by) == (2, 2, "threads")
        assert min(found.ours + found.drives) > 0
        assert found.notes["pages"] == pages
    with bench_namespace(tmp_path, TINY) as here:
        found = bandwidth.write_through(here, TINY, size, 2, lambda: ThreadEngine(2), said.append)
        assert found.payload == pages * 305_000 + 700_001
        with open_store(here) as store:
            assert len(store) == 0  # each turn's chain was given up
    assert list(tmp_path.iterdir()) == []
    assert len(said) == 6


def test_shares_follow_from_the_turns() -> None:
    pair = Paired(10, (90.0, 50.0, 120.0), (100.0, 100.0, 100.0), 4, "fio", {})
    assert pair.shares == [0.9, 0.5, 1.2]
    assert (pair.share, pair.median, pair.drive_median) == (0.9, 90.0, 100.0)


def test_a_store_of_many_is_found_and_measured(tmp_path: Path) -> None:
    """Without the writer that is killed, which fills a whole segment."""
    with bench_namespace(tmp_path, FLASH_NEXT) as here:
        millions._build(here, FLASH_NEXT, 9_000, 7_654)
        for turn in range(2):
            found = millions._child(here.path, "open", 7_654)
            assert 0 < found["lookup_s"] < 60
            assert found["bytes_a_bundle"] > 0
            assert (here.path / "snapshot").exists(), turn


def test_figures_are_shown_and_kept(tmp_path: Path) -> None:
    figures = Figures(FLASH_NEXT, tmp_path)
    figures.paired["restore", "threads"] = Paired(1 << 30, (9e8,), (1e9,), 8, "fio", {})
    figures.millions = Millions(1_000_000, 7_654, 0.005, 0.015, 133.0, 0.4, 3.7, 268 << 20)
    data = json.loads(json.dumps(figures.data("penny-cache bench DIRECTORY")))
    assert data["paired"][0]["share"] == 0.9
    assert data["millions"]["lookup_s"] == 0.005
    assert data["file_system"] == file_system(tmp_path) != ""
    assert str(tmp_path) not in json.dumps(data)
    assert [table.row_count for table in figures.tables()] == [1, 5]


def test_what_cannot_be_measured_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = CliRunner().invoke(app, [str(tmp_path / "none")])
    assert missing.exit_code == 2
    assert "is not a directory" in missing.output
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2 << 30, 1 << 30, 1 << 30)
    )
    full = CliRunner().invoke(app, [str(tmp_path), "--size", "1G"])
    assert full.exit_code == 2
    assert "give a smaller" in full.output
    assert list(tmp_path.iterdir()) == []
