"""The benchmark of what a map costs: shares, losses and predictions by hand."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from penny_models import tiny

FILE = Path(__file__).parents[1] / "benchmarks" / "frspec_acceptance.py"
pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="benchmarks do not travel with the tests")


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("frspec_acceptance", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(histogram: list[int], tokens: list[int], group: str = "temperature_0/code") -> dict[str, object]:
    meta = {"spec_correct_drafts_histogram": histogram}
    return {"group": group, "prompt": [1, 2], "output_ids": tokens, "meta_info": meta}


def test_a_loss_and_its_prediction_by_hand(bench: ModuleType) -> None:
    # Without the map 10 verifies: 9 accept one token or more, 8 both. With it 12, of which 6 and 5.
    without, with_map = [answer([1, 1, 8], [3, 4, 5, 6])], [answer([6, 1, 5], [3, 4, 5, 7])]
    found = bench.compared(without, with_map, {3, 4, 5}, 0.9)
    assert found["reached"] == [0.9, 0.8]
    assert found["reached_with_map"] == [0.5, 5 / 12]
    assert found["lost"] == pytest.approx(1.7 - 11 / 12)
    # A token is missed one time in ten, two tokens at most two times in ten: 0.1 + 0.2.
    assert found["by_documents"]["bound"] == pytest.approx(0.3)
    assert found["by_documents"]["within"] is False
    # Of four tokens that the answer holds the map lacks one: 0.25 + 0.5, less than the 1.7 that there were to lose.
    assert found["by_answers"]["coverage"] == 0.75
    assert found["by_answers"]["bound"] == pytest.approx(0.75)
    assert found["by_answers"]["within"] is False
    assert found["same_output"] == 0
    assert bench.compared(without, without, {3}, 0.9)["by_documents"]["within"] is True


def test_pairs_are_compared_by_domain(bench: ModuleType, tmp_path: Path) -> None:
    prose = "temperature_0/prose"
    for name, rows in {
        "some": [answer([0, 4], [3]), answer([2, 2], [3], prose)],
        "some-map": [answer([1, 3], [3]), answer([2, 2], [3], prose)],
    }.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = bench.compare(tmp_path, tiny.token_map("tiny-next-2k"))["models"]["some"]
    assert {domain: row["lost"] for domain, row in found.items()} == {
        "all": 0.125,
        "code": 0.25,
        "prose": 0.0,
    }
    shares = json.loads(tiny.token_map("tiny-next-2k").with_suffix(".manifest.json").read_text())["held_out"]
    assert found["code"]["by_documents"]["coverage"] == next(
        r["share"] for r in shares if r["name"] == "code"
    )
