"""The numbers of the results page are those of the JSON files, and the JSON files agree with themselves."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
UNITS = {"GB": 1e9, "ms": 1e-3, "%": 1e-2}
FILE = re.compile(r"^File: [\[`]([\w./-]+\.json)", re.MULTILINE)
ROW = re.compile(r"^\| [^|]+ \|(.+)\| `([\w.]+)` \|$", re.MULTILINE)
NUMBER = re.compile(r"(-?\d+(?:\.(\d+))?)(?: (GB|ms|%))?(?= |,|$)")


def rows() -> list[tuple[str, str, str]]:
    """Return (file, place in it, cells with numbers) for every row of the page that names a place."""
    sections = (RESULTS / "index.md").read_text().split("\n## ")
    files = [(match.group(1), text) for text in sections if (match := FILE.search(text))]
    return [(file, place, cells) for file, text in files for cells, place in ROW.findall(text)]


def load(file: str) -> Any:
    return json.loads((RESULTS / file if (RESULTS / file).exists() else ROOT / file).read_text())


def numbers_at(file: str, place: str) -> list[float]:
    """Return the numbers at a place such as `tokens.rows.5`: itself, or all in it, in their order."""
    found = load(file)
    for part in place.split("."):
        found = found[int(part)] if isinstance(found, list) else found[part]
    values = found.values() if isinstance(found, dict) else found if isinstance(found, list) else [found]
    return [value for value in values if not isinstance(value, bool)]


@pytest.mark.parametrize(("file", "place", "cells"), [pytest.param(*r, id=f"{r[0]}:{r[1]}") for r in rows()])
def test_row_shows_what_the_file_says(file: str, place: str, cells: str) -> None:
    shown = NUMBER.findall(cells)
    expected = [
        f"{value / UNITS.get(unit, 1):.{len(decimals)}f}"
        for value, (_, decimals, unit) in zip(numbers_at(file, place), shown, strict=True)
    ]
    assert [number for number, _, _ in shown] == expected


def test_every_result_is_on_the_page_with_its_command() -> None:
    assert {file for file, _, _ in rows() if "/" not in file} == {
        path.name for path in RESULTS.glob("*.json")
    }
    page = (RESULTS / "index.md").read_text()
    assert load("tiny-27b-gpu.json")["command"] in page
    script = load("tiny-27b-cpu.json")["command"].removeprefix("python ")
    assert script in page


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_start_time_is_the_measured_one_elsewhere_too(page: str) -> None:
    assert f"took {load('tiny-27b-cpu.json')['start_s']} s on 2 cores" in " ".join(
        (ROOT / page).read_text().split()
    )


def test_the_ratios_follow_from_the_runs() -> None:
    cpu = load("tiny-27b-cpu.json")
    peer = max(statistics.median(runs) for runs in cpu["transformers_tokens_per_s_by_threads"].values())
    one = statistics.median(cpu["c1_runs"])
    assert cpu["c1_over_transformers"] == pytest.approx(one / peer)
    eight, streamed = (cpu["summary"][i]["aggregate"]["median"] for i in (1, 0))
    assert cpu["c8_over_c1"] == pytest.approx(eight / max(one, streamed))


def test_every_prompt_that_parts_does_so_at_a_tie_and_is_on_the_page() -> None:
    tokens = load("tiny-27b-gpu.json")["tokens"]
    parted = {i: row for i, row in enumerate(tokens["rows"]) if not row["same"]}
    assert len(parted) == tokens["prompts"] - tokens["same"] == tokens["explained_by_rounding"]
    assert all(row["gap"] < 2 * row["rounding"] for row in parted.values())
    assert {f"tokens.rows.{i}" for i in parted} <= {place for _, place, _ in rows()}
