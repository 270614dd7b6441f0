"""The GPU scripts' files become one document: medians, paired ratios, bars, and rows that the results page can hold."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="benchmarks do not travel with the tests")
ROW = re.compile(r"^\| [^|]+ \|(.+)\| `([\w.]+)` \|$")
NUMBER = re.compile(r"-?\d+(?:\.(\d+))?")


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def results() -> ModuleType:
    return module("speculation_results")


@pytest.fixture(scope="module")
def cases() -> ModuleType:
    return module("speculation_cases")


def case(
    name: str, c1: list[float], c4: list[float], beside: list[str], verified: float = 0.0
) -> dict[str, Any]:
    def reading(rate: float) -> dict[str, float]:
        spec = {"tokens_per_verify": verified, "server_accept_length": verified} if verified else {}
        return {"tokens_per_s": rate} | spec

    readings = {"c1": [reading(r) for r in c1], "c4": [reading(r) for r in c4]}
    rest = {"gpu": "a card", "versions": {"sglang": "0"}, "tokens": 256, "prompt_tokens": 512}
    return {"case": name, "ours": "@" not in name, "readings": readings, "on_the_same_gpu": beside} | rest


def write(folder: Path, *found: dict[str, Any]) -> None:
    for row in found:
        (folder / f"{row['case']}.json").write_text(json.dumps(row))


def test_a_ratio_is_that_of_readings_taken_beside_each_other(results: ModuleType, tmp_path: Path) -> None:
    beside = ["27b", "27b-nextn", "27b-nextn@stock"]
    write(
        tmp_path,
        case("27b", [100, 50], [400, 400], beside),
        case("27b-nextn", [200, 200], [800, 600], beside, verified=3.0),
        case("27b-nextn@stock", [160, 250], [800, 600], beside, verified=3.0),
        case("27b@stock", [1, 1], [1, 1], ["27b@stock", "27b-dflash@stock"]),
    )
    document = results.merge([tmp_path])
    assert document["ratios"]["nextn_27b"] == {
        "c1": pytest.approx(8**0.5),  # of 2 and 4
        "c1_range": [2, 4],
        "c4": pytest.approx(3**0.5),  # of 2 and 1.5
        "c4_range": [1.5, 2],
        "pairs": 2,
    }
    assert document["ratios"]["ours_27b_nextn"]["c1"] == pytest.approx(1.0)  # 1.25 and 0.8
    assert set(document["ratios"]) == {"nextn_27b", "ours_27b_nextn"}
    assert document["cases"]["27b"]["c1_tokens_per_s"] == 75
    assert document["cases"]["27b_nextn_stock"]["tokens_per_verify"] == 3.0
    assert document["gpu"] == "a card"
    assert [bar["met"] for bar in document["bars"]] == [True, None, True, None]


def test_every_row_names_a_place_that_holds_its_numbers(results: ModuleType, tmp_path: Path) -> None:
    beside = ["next-nextn", "next-frspec"]
    write(
        tmp_path,
        case("next-nextn", [1000.26], [2000], beside, verified=3.01),
        case("next-frspec", [1100.5], [2100], beside, verified=2.99),
    )
    checks = [
        {"run": "eager", "mask": "chain", "error": 0.002, "worst_row": 0.003, "nan": 0},
        {"run": "replay", "mask": "chain", "error": 0.0025, "worst_row": 0.003, "nan": 0},
        {"run": "replay", "mask": "other", "error": 0.9, "worst_row": 1.0, "nan": 0},
    ]
    shape = {"width": 4, "batch": 1, "page": 64, "kv": "bf16", "context": 1024}
    timed = {"xqa_us": 10.0, "triton_us": 25.0, "sdpa_us": 30.0, "floor_us": 4.0, "share_of_floor": 0.4}
    kernels = {"command": "x", "gpu": "a card", "versions": {}, "copy_gb_per_s": 4.0, "left_out": 0}
    kernels["cases"] = [
        shape | timed | {"passes": True, "checks": checks},
        shape | {"passes": False, "failed": "no"},
    ]
    (tmp_path / "xqa.json").write_text(json.dumps(kernels))
    rows = [{"same": True}, {"same": False, "gap": 0.1, "rounding": 0.2}]
    tokens = {"prompts": 2, "same": 1, "explained_by_rounding": 1, "same_when_cached": 2, "rows": rows}
    (tmp_path / "tokens-27b-dflash.json").write_text(json.dumps(tokens))
    (tmp_path / "said-27b-dflash.json").write_text(json.dumps({"selector folded": True}))
    document = results.merge([tmp_path])
    assert document["xqa"]["passed"] == 1
    assert document["xqa"]["bf16_worst_error"] == 0.0025
    assert document["xqa"]["bf16_1024"]["times_faster_than_triton"] == [2.5, 2.5, 2.5]
    assert document["tiny"]["27b_dflash"]["said"] == {"selector folded": True}
    assert document["tiny"]["27b_dflash"]["worst"] == 0.5
    matched = [found for line in results.lines(document) if (found := ROW.match(line))]
    for found in matched:
        at: Any = document
        for part in found.group(2).split("."):
            at = at[part]
        wanted = [
            f"{n:.{len(d)}f}"
            for n, d in zip(at if isinstance(at, list) else [at], NUMBER.findall(found.group(1)), strict=True)
        ]
        assert re.findall(r"-?[\d.]+", found.group(1)) == wanted
    assert {"xqa.bf16_1024.share_of_floor", "tiny.27b_dflash.same", "ratios.frspec_next.c1"} <= {
        found.group(2) for found in matched
    }


def test_stock_gets_the_same_arguments_and_no_features(cases: ModuleType) -> None:
    for name in cases.names():
        if "@" not in name:
            ours, stock = cases.case(name), cases.case(f"{name}@stock")
            assert (ours.settings, ours.env) == (stock.settings, stock.env)
            assert stock.features == ()
            assert "penalties" in ours.features
    assert cases.case("27b").env == {}
    assert cases.case("27b-dflash").env["SGLANG_SIMULATE_ACC_LEN"] == "3.8"
    with pytest.raises(ValueError, match="There is no case next-dflash"):
        cases.case("next-dflash")


def test_the_shapes_are_those_of_the_names(cases: ModuleType, tmp_path: Path) -> None:
    from penny_spec.frspec import load_map

    places = cases.write_shapes(tmp_path)
    text = json.loads((places["next"] / "config.json").read_text())["text_config"]
    assert (text["num_hidden_layers"], len(text["layer_types"]), text["num_experts"]) == (12, 12, 128)
    assert text["layer_types"].count("full_attention") == 3
    dense = json.loads((places["27b"] / "config.json").read_text())
    assert dense["text_config"]["num_hidden_layers"] == 64
    assert "vision_config" not in dense
    assert load_map(places["map"], 248_320).shape == (65_536,)
